"""Replacing the norms of other people's models, and putting them back."""

from __future__ import annotations

import pytest
import torch

from scalefit.errors import OptionError
from toy_models.transformer import (
    NORMS,
    ApproximateBoundedTanh,
    ModelConfig,
    NormConfig,
    PeriNorm,
    RMSNorm,
    Transformer,
)
from toy_models.transformer.convert import convert_norms

transformers = pytest.importorskip("transformers")

SIZES = {
    "vocab_size": 50,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 32,
}
TOKENS = torch.arange(20).reshape(2, 10)


def make(family: str, **changes: object) -> torch.nn.Module:
    torch.manual_seed(0)
    sizes = SIZES | ({} if family == "GPTNeoX" else {"num_key_value_heads": 2}) | changes
    if family in ("Gemma", "Gemma2", "Gemma3Text", "Qwen3"):
        sizes["head_dim"] = 8
    config = getattr(transformers, f"{family}Config")(**sizes)
    names = (f"{family}ForCausalLM", f"{family.removesuffix('Text')}ForCausalLM")
    model = next(getattr(transformers, name) for name in names if hasattr(transformers, name))(config)
    # Gains other than 1, so that one that is lost shows.
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.ndim == 1 and "norm" in name and name.endswith("weight"):
                weight.add_(0.3 * torch.randn(weight.shape))
    return model.eval()


@torch.no_grad()
def logits(model: torch.nn.Module) -> torch.Tensor:
    return model(TOKENS).logits


@pytest.mark.parametrize("family", ["Llama", "Mistral", "Qwen2", "Qwen3", "Gemma", "Gemma2", "Gemma3Text"])
def test_our_rmsnorm_gives_the_same_logits(family: str) -> None:
    """Also where the gain is 1 + weight (Gemma) and where q, k and outputs have norms of their own."""
    model = make(family)
    before = logits(model)
    others = {name: weight for name, weight in model.named_parameters() if "layernorm" not in name}
    conversion = convert_norms(model, NormConfig("rmsnorm"))
    assert len(conversion.replaced) == 4
    assert not conversion.warnings
    torch.testing.assert_close(logits(model), before, rtol=0, atol=1e-6)
    after = dict(model.named_parameters())
    assert all(after[name] is weight for name, weight in others.items())


@pytest.mark.parametrize("name", NORMS)
def test_undo_restores_the_model(name: str) -> None:
    model = make("Llama")
    before, modules = logits(model), dict(model.named_modules())
    conversion = convert_norms(model, NormConfig(name), sequence_length=10)
    if name != "rmsnorm":
        assert not torch.allclose(logits(model), before)
        assert [warning.code for warning in conversion.warnings] == ["needs-training"]
    conversion.undo()
    assert dict(model.named_modules()) == modules
    torch.testing.assert_close(logits(model), before, rtol=0, atol=0)


def test_final_and_query_key_norms_are_kept() -> None:
    model = make("Qwen3")
    conversion = convert_norms(model, NormConfig("lns"))
    kept = {f"model.layers.{block}.self_attn.{which}_norm" for block in (0, 1) for which in "qk"}
    assert set(conversion.kept) == kept | {"model.norm"}


def test_peri_normalises_what_each_sublayer_adds() -> None:
    model = make("Llama")
    block = model.model.layers[0]
    results = []

    def keep(_module: object, _inputs: object, result: tuple[torch.Tensor, ...]) -> None:
        results.append(result[0])

    block.self_attn.register_forward_hook(keep)
    convert_norms(model, NormConfig("peri"))
    block.self_attn.register_forward_hook(keep)
    logits(model)
    assert isinstance(block.input_layernorm, PeriNorm)
    plain, added = results
    torch.testing.assert_close(added, plain / (plain.square().mean(-1, keepdim=True) + 1e-6).sqrt())


@pytest.mark.parametrize("name", ["peri", "lns", "bhyt"])
def test_our_model_converted_is_our_model_built(name: str) -> None:
    sizes = {"width": 32, "depth": 2, "hidden": 48, "sequence_length": 20}
    built = Transformer(ModelConfig(**sizes, norm=NormConfig(name)), seed=0).eval()
    model = Transformer(ModelConfig(**sizes), seed=0).eval()
    convert_norms(model, NormConfig(name), sequence_length=20)
    with torch.no_grad():
        torch.testing.assert_close(model(TOKENS), built(TOKENS), rtol=0, atol=0)


@pytest.mark.parametrize("old", NORMS)
def test_our_model_can_be_converted_from_any_norm(old: str) -> None:
    sizes = {"width": 32, "depth": 2, "hidden": 48, "sequence_length": 20}
    built = Transformer(ModelConfig(**sizes, norm=NormConfig("lns")), seed=0).eval()
    model = Transformer(ModelConfig(**sizes, norm=NormConfig(old)), seed=0).eval()
    with torch.no_grad():
        before = model(TOKENS)
        conversion = convert_norms(model, NormConfig("lns"))
        torch.testing.assert_close(model(TOKENS), built(TOKENS), rtol=0, atol=0)
        conversion.undo()
        torch.testing.assert_close(model(TOKENS), before, rtol=0, atol=0)


def test_a_converted_model_is_not_converted_again() -> None:
    """The hooks of Peri-LN would go on normalising what the sublayers add."""
    model = make("Llama")
    before = logits(model)
    conversion = convert_norms(model, NormConfig("peri"))
    with pytest.raises(OptionError, match=r"block model\.layers\.0 is converted already; call undo\(\)"):
        convert_norms(model, NormConfig("rmsnorm"))
    conversion.undo()
    torch.testing.assert_close(logits(model), before, rtol=0, atol=0)


def test_second_site_reads_the_heads_of_its_model() -> None:
    model = make("Llama")
    convert_norms(model, NormConfig("bhyt"), sequence_length=10)
    block = model.model.layers[1]
    site, attention = block.post_attention_layernorm, block.self_attn
    assert isinstance(site, ApproximateBoundedTanh)
    value = attention.v_proj.weight.reshape(2, 8, 32).repeat_interleave(2, dim=0).reshape(32, 32)
    expected = (attention.o_proj.weight @ value).square().sum() / (10 * 32)
    torch.testing.assert_close(site.attention_variance, expected.detach(), rtol=1e-5, atol=0)


def test_training_a_converted_model_reaches_every_gain() -> None:
    model = make("Llama").train()
    convert_norms(model, NormConfig("bhyt"), sequence_length=10)
    model(TOKENS, labels=TOKENS).loss.backward()
    assert all(weight.grad is not None for weight in model.parameters())


def test_neox_has_layer_norms_and_no_second_site() -> None:
    model = make("GPTNeoX")
    with pytest.raises(OptionError, match="use 'bhyt-exact'"):
        convert_norms(model, NormConfig("bhyt"), sequence_length=10)
    assert isinstance(model.gpt_neox.layers[0].input_layernorm, torch.nn.LayerNorm)
    conversion = convert_norms(model, NormConfig("rmsnorm"))
    assert isinstance(model.gpt_neox.layers[0].input_layernorm, RMSNorm)
    assert [warning.code for warning in conversion.warnings] == ["bias-dropped"]
    assert torch.isfinite(logits(model)).all()


def test_half_precision_model_stays_in_half_precision() -> None:
    model = make("Llama").to(torch.bfloat16)
    before = logits(model)
    convert_norms(model, NormConfig("rmsnorm"))
    assert {weight.dtype for weight in model.parameters()} == {torch.bfloat16}
    # The order of the casts differs: one rounding of bfloat16, 2**-8, on logits of size about 1.
    torch.testing.assert_close(logits(model).float(), before.float(), rtol=0, atol=0.03)


def test_what_cannot_be_converted_gets_a_sentence_and_stays_as_it_was() -> None:
    with pytest.raises(OptionError, match="no blocks were found in Linear"):
        convert_norms(torch.nn.Linear(2, 2), NormConfig("rmsnorm"))
    model = make("Llama")
    with pytest.raises(OptionError, match="needs sequence_length"):
        convert_norms(model, NormConfig("bhyt"))
    model.model.layers[1].input_layernorm.forward = lambda x: x.square()
    modules = dict(model.named_modules())
    with pytest.raises(OptionError, match="multiplies neither by its weight nor by 1"):
        convert_norms(model, NormConfig("lns"))
    model.model.layers[1].input_layernorm = torch.nn.Identity()
    with pytest.raises(OptionError, match="Identity has no gain"):
        convert_norms(model, NormConfig("lns"))
    assert dict(model.named_modules()).keys() == modules.keys()
