"""Measured arrays: against states computed by hand, and as input of the bound's checker."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from scalefit.theory.bounds import check_measured
from scalefit.theory.streams import BlockStatistics
from toy_models.transformer import NORMS, ModelConfig, NormConfig, Transformer
from toy_models.transformer.monitor import ResidualMonitor, ResidualStatistics

DEPTH = 24


def model_of(name: str, *, seed: int = 0, depth: int = 2) -> Transformer:
    config = ModelConfig(width=64, depth=depth, hidden=176, sequence_length=64, norm=NormConfig(name))
    return Transformer(config, seed=seed).eval()


def tokens(seed: int = 0) -> torch.Tensor:
    return torch.randint(256, (4, 64), generator=torch.Generator().manual_seed(seed))


@torch.no_grad()
def measure(model: torch.nn.Module, *batches: torch.Tensor) -> ResidualStatistics:
    with ResidualMonitor(model) as monitor:
        for batch in batches or (tokens(),):
            model(batch)
    return monitor.statistics()


@torch.no_grad()
def test_numbers_are_those_of_states_computed_by_hand(device: str) -> None:
    model = model_of("bhyt").to(device)
    batch = tokens().to(device)
    measured = measure(model, batch)
    block, rotary = model.layers[0], model.rotary(0, 64, torch.device(device))
    x = model.embed_tokens(batch)
    u1 = block.input_layernorm(x)
    f1 = block.self_attn(u1, rotary, None)
    h = x + f1
    v2 = x.square().mean(-1) + 0.2**2 * block.post_attention_layernorm.attention_variance
    u2 = torch.tanh(2 * h / (10 * (v2 + 1e-6).sqrt())[..., None])
    f2 = block.mlp(u2)
    x, f1, h, f2, u1, u2, v2 = (array.double().cpu().numpy() for array in (x, f1, h, f2, u1, u2, v2))
    expected = {
        "variance": [np.mean(x**2), np.mean(h**2), np.mean((h + f2) ** 2)],
        "variance_median": [np.median(np.mean(state**2, axis=-1)) for state in (x, h, h + f2)],
        "second_moment": [np.mean(u1**2), np.mean(u2**2)],
        "increment_variance": [np.mean(f1**2), np.mean(f2**2)],
        "gain": [np.mean(f1**2) / np.mean(u1**2), np.mean(f2**2) / np.mean(u2**2)],
        "alignment": [
            np.sum(state * update) / np.sqrt(np.sum(state**2) * np.sum(update**2))
            for state, update in ((x, f1), (h, f2))
        ],
        "variance_ratio": [1.0, np.mean(np.mean(h**2, axis=-1) / v2)],
        "saturation": [0.0, 0.0],
        "largest": [np.abs(h).max(), np.abs(h + f2).max()],
    }
    for name, values in expected.items():
        got = getattr(measured, name)[: len(values)]
        np.testing.assert_allclose(got, values, rtol=2e-4, atol=1e-6, err_msg=name)
    angle = np.degrees(np.arccos(np.sum(x * h, -1) / np.linalg.norm(x, axis=-1) / np.linalg.norm(h, axis=-1)))
    assert measured.angle[0] == pytest.approx(angle.mean(), rel=1e-4)
    assert list(measured.site) == ["attention", "mlp"] * 2
    assert list(measured.block) == [1, 1, 2, 2]


@pytest.mark.parametrize("name", NORMS)
def test_arrays_obey_the_identity_of_the_recursion(name: str) -> None:
    statistics = BlockStatistics.from_mapping(measure(model_of(name)).as_dict())
    assert statistics.identity_error < 1e-9


def test_second_moments_and_increments_follow_the_norms() -> None:
    lns = measure(model_of("lns", depth=4))
    np.testing.assert_allclose(lns.second_moment, 1 / lns.block, rtol=1e-3)
    exact = measure(model_of("bhyt-exact", depth=4))
    assert (exact.second_moment < 0.04).all()
    np.testing.assert_allclose(measure(model_of("control")).second_moment, 0.04, rtol=1e-3)
    np.testing.assert_allclose(measure(model_of("peri")).increment_variance, 1.0, rtol=1e-3)


def test_saturation_is_seen() -> None:
    model = model_of("bhyt-exact")
    with torch.no_grad():
        model.layers[1].input_layernorm.lam.fill_(1e3)
        model.layers[1].input_layernorm.weight.fill_(0.2)
    saturation = measure(model).saturation
    assert saturation[0] == 0
    assert saturation[2] > 0.95
    assert np.isnan(measure(model_of("rmsnorm")).saturation).all()


def test_passes_are_pooled_and_hooks_removed() -> None:
    model = model_of("rmsnorm")
    one, two = measure(model, tokens(1)), measure(model, tokens(2))
    both = measure(model, tokens(1), tokens(2))
    np.testing.assert_allclose(both.variance, (one.variance + two.variance) / 2, rtol=1e-12)
    assert not any(module._forward_hooks for module in model.modules())
    with pytest.raises(RuntimeError, match="no forward pass was recorded"), ResidualMonitor(model) as monitor:
        monitor.statistics()


def test_bound_holds_at_the_start() -> None:
    """.2 < 1/sqrt(24): increments and residual variance of BHyT-exact stay below, for every seed."""
    streams = {
        name: [measure(model_of(name, seed=seed, depth=DEPTH)).as_dict() for seed in range(3)]
        for name in ("bhyt-exact", "lns")
    }
    for exact, lns in zip(*streams.values(), strict=True):
        comparison = check_measured(exact, lns, ratio=0.2)
        assert comparison.condition
        assert (comparison.increment_margins > 0).all()
        assert comparison.verdict == "HOLDS"


def test_models_of_the_transformers_package() -> None:
    """A sequential one, and one whose attention and MLP read the same state."""
    transformers = pytest.importorskip("transformers")
    sizes = {"vocab_size": 256, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
    sizes |= {"intermediate_size": 48}
    llama = transformers.LlamaForCausalLM(transformers.LlamaConfig(**sizes)).eval()
    with torch.no_grad(), ResidualMonitor(llama) as monitor:
        states = llama(tokens(), output_hidden_states=True).hidden_states
    after_block_1 = float(states[1].double().square().mean())
    assert monitor.statistics().variance[2] == pytest.approx(after_block_1, rel=1e-6)
    neox = transformers.GPTNeoXForCausalLM(transformers.GPTNeoXConfig(**sizes)).eval()
    measured = measure(neox)
    assert list(measured.site) == ["block", "block"]
    assert BlockStatistics.from_mapping(measured.as_dict()).identity_error < 1e-9
