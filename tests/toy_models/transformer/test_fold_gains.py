"""Folding gains changes no function, and nothing that is shared."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from scalefit.errors import OptionError
from toy_models.transformer import NORMS, DynamicTanh, ModelConfig, NormConfig, RMSNorm, Transformer
from toy_models.transformer.convert import convert_norms
from toy_models.transformer.fold import fold_gain, fold_gains
from toy_models.transformer.layout import find_blocks

TOKENS = torch.arange(20).reshape(2, 10)


def trained(name: str, *, tied: bool = False) -> Transformer:
    """Build a model in float64 whose gains, biases and lams are not at their starting values."""
    config = ModelConfig(width=32, depth=2, hidden=48, sequence_length=10, tied=tied, norm=NormConfig(name))
    model = Transformer(config, seed=0).double()
    rng = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for key, weight in model.named_parameters():
            if "norm" in key:
                weight.add_(0.3 * torch.randn(weight.shape, generator=rng, dtype=torch.float64))
    return model.eval()


@torch.no_grad()
@pytest.mark.parametrize("name", NORMS)
def test_folding_is_exact(name: str) -> None:
    model = trained(name)
    before = model(TOKENS)
    assert fold_gains(model) == 4
    torch.testing.assert_close(model(TOKENS), before, rtol=1e-12, atol=1e-12)
    assert model.layers[0].input_layernorm.weight is None


@torch.no_grad()
def test_folded_model_survives_a_round_trip_and_mode_switches() -> None:
    """The second site's constant is kept: folded weights no longer tell it."""
    model = trained("bhyt")
    fold_gains(model)
    expected = model(TOKENS)
    twin = trained("bhyt")
    fold_gains(twin)
    twin.load_state_dict(model.state_dict())
    torch.testing.assert_close(twin.train().eval()(TOKENS), expected, rtol=0, atol=0)


@torch.no_grad()
def test_every_reader_and_no_tied_head_gets_the_gain() -> None:
    model = trained("rmsnorm", tied=True)
    embedding, final = model.embed_tokens.weight.clone(), model.norm.weight.clone()
    before = model(TOKENS)
    fold_gains(model)
    torch.testing.assert_close(model(TOKENS), before, rtol=1e-12, atol=1e-12)
    assert torch.equal(model.embed_tokens.weight, embedding)
    assert torch.equal(model.norm.weight, final)


@torch.no_grad()
def test_a_reader_that_shares_its_weight_is_refused() -> None:
    model = trained("rmsnorm")
    model.layers[1].mlp.up_proj.weight = model.layers[0].mlp.up_proj.weight
    with pytest.raises(OptionError, match="is shared by 2 modules"):
        fold_gains(model)


@torch.no_grad()
def test_a_map_that_may_read_the_norm_too_is_refused() -> None:
    model = trained("rmsnorm")
    model.layers[1].self_attn.kv_a_proj = nn.Linear(32, 8).double()
    with pytest.raises(OptionError, match=r"layers\.1 has the map 'kv_a_proj', which may read the norm"):
        fold_gains(model)
    assert model.layers[0].input_layernorm.weight is not None


@pytest.mark.parametrize("family", ["Llama", "Qwen3", "GPTNeoX"])
def test_folding_models_of_the_transformers_package(family: str) -> None:
    transformers = pytest.importorskip("transformers")
    sizes = {"vocab_size": 50, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2}
    heads = {"num_attention_heads": 4}
    if family != "GPTNeoX":
        heads |= {"num_key_value_heads": 2, "head_dim": 8}
    config = getattr(transformers, f"{family}Config")(**sizes, **heads)
    model = getattr(transformers, f"{family}ForCausalLM")(config).double().eval()
    convert_norms(model, NormConfig("bhyt-exact"))
    with torch.no_grad():
        for block in find_blocks(model):
            for norm in block.norms():
                norm.weight.uniform_(0.5, 1.5)
        before = model(TOKENS).logits
        assert fold_gains(model) == 4
        torch.testing.assert_close(model(TOKENS).logits, before, rtol=1e-12, atol=1e-12)


@torch.no_grad()
def test_a_refusal_leaves_the_model_as_it_was() -> None:
    model = trained("bhyt")
    model.layers[1].mlp = nn.Identity()
    with pytest.raises(OptionError, match="at least one linear map"):
        fold_gains(model)
    assert model.layers[0].input_layernorm.weight is not None
    assert model.layers[0].post_attention_layernorm.maps is not None


@torch.no_grad()
def test_a_bias_is_folded_into_readers_with_and_without_one() -> None:
    norm = DynamicTanh(8).double()
    norm.weight.uniform_(0.5, 1.5)
    norm.bias.uniform_(-1, 1)
    readers = [nn.Linear(8, 3, bias=bias).double() for bias in (False, True)]
    x = torch.randn(4, 8, dtype=torch.float64)
    before = [reader(norm(x)) for reader in readers]
    fold_gain(norm, readers)
    for reader, expected in zip(readers, before, strict=True):
        torch.testing.assert_close(reader(norm(x)), expected, rtol=1e-12, atol=1e-12)


def test_what_cannot_be_folded_gets_a_sentence() -> None:
    with pytest.raises(OptionError, match="at least one linear map"):
        fold_gain(RMSNorm(8), [])
    with pytest.raises(OptionError, match="the norm has width 8 and its reader reads 9"):
        fold_gain(RMSNorm(8), [nn.Linear(9, 2)])
    transformers = pytest.importorskip("transformers")
    sizes = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 1, "num_attention_heads": 4}
    llama = transformers.LlamaForCausalLM(transformers.LlamaConfig(vocab_size=50, **sizes))
    with pytest.raises(OptionError, match="LlamaRMSNorm is not one of this package's norms"):
        fold_gains(llama)
