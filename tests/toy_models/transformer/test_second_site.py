"""When and from what the constant of BHyT's second site is taken."""

from __future__ import annotations

import copy

import pytest
import torch

from toy_models.transformer import ModelConfig, NormConfig, Transformer

CONFIG = ModelConfig(width=32, depth=2, hidden=64, sequence_length=16, norm=NormConfig("bhyt"))


def second_site(model: Transformer) -> torch.nn.Module:
    return model.layers[1].post_attention_layernorm


def test_constant_comes_after_the_weights_are_drawn() -> None:
    site = second_site(Transformer(CONFIG, seed=3))
    expected = site.maps.squared_norm() / (16 * 32)
    torch.testing.assert_close(site.attention_variance, expected, rtol=0, atol=0)


def test_constant_does_not_depend_on_the_batch() -> None:
    model = Transformer(CONFIG, seed=0).eval()
    before = second_site(model).attention_variance.clone()
    with torch.no_grad():
        model(torch.zeros(1, 3, dtype=torch.long))
        model.train()(torch.zeros(2, 9, dtype=torch.long))
    assert second_site(model).attention_variance == before


def test_training_follows_the_weights_and_evaluation_takes_their_last_value() -> None:
    model = Transformer(CONFIG, seed=0).train()
    site = second_site(model)
    ones = torch.ones(1, 1)
    with torch.no_grad():
        site.maps.attention.v_proj.weight.mul_(3)
        # approximate(1, 1) - 1 = c, ninefold once the values are threefold
        old = site.attention_variance.clone()
        torch.testing.assert_close(site.approximate(ones, 1.0) - 1, 9 * old.reshape(1, 1), rtol=1e-4, atol=0)
        model.eval()
    torch.testing.assert_close(site.attention_variance, 9 * old, rtol=1e-5, atol=0)


def test_second_site_before_the_first_is_an_error() -> None:
    with pytest.raises(RuntimeError, match="second norm was called before its first"):
        second_site(Transformer(CONFIG, seed=0))(torch.ones(1, 32))


def test_copy_of_a_model_is_independent() -> None:
    model = Transformer(CONFIG, seed=0).eval()
    tokens = torch.arange(16)[None]
    with torch.no_grad():
        expected = model(tokens)
        twin = copy.deepcopy(model)
        for weight in model.parameters():
            weight.zero_()
        assert second_site(twin).maps.attention is twin.layers[1].self_attn
        torch.testing.assert_close(twin.eval()(tokens), expected, rtol=0, atol=0)
