"""The small transformer against the Llama of the transformers package, and against itself."""

from __future__ import annotations

import pytest
import torch

from scalefit.errors import OptionError
from toy_models.transformer import NORMS, ModelConfig, NormConfig, Transformer
from toy_models.transformer.model import KeyValueCache

SMALL = ModelConfig(width=32, depth=3, hidden=48, vocabulary=64, sequence_length=24)


def model_of(name: str) -> Transformer:
    return Transformer(
        ModelConfig(width=32, depth=3, hidden=48, vocabulary=64, sequence_length=24, norm=NormConfig(name)),
        seed=1,
    )


def test_same_logits_as_llama() -> None:
    transformers = pytest.importorskip("transformers")
    ours = Transformer(SMALL, seed=0).eval()
    llama = transformers.LlamaForCausalLM(
        transformers.LlamaConfig(
            vocab_size=64,
            hidden_size=32,
            intermediate_size=48,
            num_hidden_layers=3,
            num_attention_heads=4,
            num_key_value_heads=2,
            max_position_embeddings=24,
            rms_norm_eps=1e-6,
        )
    ).eval()
    weights = {
        name if name.startswith("lm_head") else f"model.{name}": weight for name, weight in ours.state_dict().items()
    }
    llama.load_state_dict(weights)
    tokens = torch.randint(64, (2, 24), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        torch.testing.assert_close(ours(tokens), llama(tokens).logits, rtol=0, atol=1e-5)


@pytest.mark.parametrize("name", NORMS)
def test_generation_with_a_cache_is_generation_without(name: str, device: str) -> None:
    model = model_of(name).eval().to(device)
    prompt = torch.randint(64, (2, 5), generator=torch.Generator().manual_seed(0)).to(device)
    slow = prompt
    with torch.no_grad():
        for _ in range(10):
            slow = torch.cat([slow, model(slow)[:, -1:].argmax(dim=-1)], dim=1)
    assert torch.equal(model.generate(prompt, 10), slow)


@pytest.mark.parametrize("name", NORMS)
def test_weights_drawn_after_to_empty_are_those_of_a_new_model(name: str) -> None:
    built = model_of(name).eval()
    with torch.device("meta"):
        model = model_of(name)
    model.to_empty(device="cpu")
    with torch.no_grad():
        for tensor in (*model.parameters(), *model.buffers()):
            tensor.fill_(torch.nan)  # whatever memory held
    model.init_weights(1)
    for module in model.modules():
        module.training = False  # without the switch, which would refresh the second site's constant
    tokens = torch.arange(20)[None]
    with torch.no_grad():
        torch.testing.assert_close(model(tokens), built(tokens), rtol=0, atol=0)


def test_a_second_prompt_into_the_cache_gets_a_sentence() -> None:
    model, cache = Transformer(SMALL, seed=0).eval(), KeyValueCache(SMALL)
    tokens = torch.arange(12)[None]
    with torch.no_grad():
        whole = model(tokens)
        model(tokens[:, :5], cache)
        torch.testing.assert_close(model(tokens[:, 5:6], cache), whole[:, 5:6], rtol=0, atol=1e-5)
        with pytest.raises(OptionError, match="3 tokens follow 6 in the cache"):
            model(tokens[:, 6:9], cache)


def test_no_token_sees_a_later_one() -> None:
    model = Transformer(SMALL, seed=0).eval()
    tokens = torch.zeros(1, 10, dtype=torch.long)
    changed = tokens.clone()
    changed[0, 6:] = 9
    with torch.no_grad():
        torch.testing.assert_close(model(tokens)[:, :6], model(changed)[:, :6], rtol=0, atol=1e-6)


def test_norms_start_from_the_same_weights() -> None:
    matrices = [
        {key: weight for key, weight in model_of(name).state_dict().items() if weight.ndim == 2} for name in NORMS
    ]
    for other in matrices[1:]:
        assert other.keys() == matrices[0].keys()
        assert all(torch.equal(other[key], matrices[0][key]) for key in other)


def test_initial_std_keeps_the_gain_of_every_width() -> None:
    assert ModelConfig(width=2048, n_heads=16).initial_std == pytest.approx(0.02)
    model = Transformer(ModelConfig(width=128, depth=1), seed=0)
    assert float(model.layers[0].mlp.gate_proj.weight.detach().std()) == pytest.approx(0.08, rel=0.05)


def test_tied_head_shares_the_embedding() -> None:
    model = Transformer(ModelConfig(width=32, depth=1, hidden=48, tied=True), seed=0)
    assert model.lm_head.weight is model.embed_tokens.weight


@pytest.mark.parametrize(
    ("sizes", "text"),
    [
        ({"depth": 0}, "depth is 0 and must be at least 1"),
        ({"width": 36}, "width is 36 and must be a multiple of 2"),
        ({"n_kv_heads": 3}, "n_heads is 4 and must be a multiple of n_kv_heads = 3"),
    ],
)
def test_bad_sizes_get_a_sentence(sizes: dict[str, int], text: str) -> None:
    with pytest.raises(OptionError, match=text):
        ModelConfig(**sizes)


def test_too_long_a_sequence_gets_a_sentence() -> None:
    with pytest.raises(OptionError, match="the sequence has 25 tokens and the model takes at most 24"):
        Transformer(SMALL, seed=0)(torch.zeros(1, 25, dtype=torch.long))
