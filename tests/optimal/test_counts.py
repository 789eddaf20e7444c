"""Counts against published models, their derivatives against differences, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scalefit.datasets import read_table
from scalefit.errors import OptionError
from scalefit.optimal import Serving, Transformer, count_blocks, parse_count, parse_serving
from scalefit.optimal.sizes import Posynomial, SmoothSize, add_sizes, read_size

# parameter counts as the models' own checkpoints have them
PUBLISHED = {
    "gpt2 small": ("gpt2", 768, 12, 124_439_808),
    "gpt2 xl": ("gpt2", 1600, 48, 1_557_611_200),
    "llama 2 7b": ("llama:mlp_ratio=2.6875", 4096, 32, 6_738_415_616),
    "mistral 7b": ("llama:mlp_ratio=3.5,heads_per_kv=4", 4096, 32, 7_241_732_096),
    "gemma 7b": (f"llama:vocabulary=256000,tied=true,mlp_ratio=8,attention_ratio={4 / 3}", 3072, 28, 8_537_680_896),
    "llama 3 70b": ("llama:vocabulary=128256,mlp_ratio=3.5,heads_per_kv=8", 8192, 80, 70_553_706_496),
    "llama 3 8b": ("llama:vocabulary=128256,mlp_ratio=3.5,heads_per_kv=4", 4096, 32, 8_030_261_248),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_models_are_counted_to_the_parameter(name):
    text, width, depth, params = PUBLISHED[name]
    assert parse_count(text).params(width, depth) == params


def test_chinchilla_count_reproduces_table_a9_to_one_percent():
    table = read_table("chinchilla_table_a9")
    assert len(table) == 50
    for row in table.itertuples():
        shaped = Transformer(
            vocabulary=32000,
            norms=0,
            relative=True,
            mlp_ratio=row.ffw_width / row.width,
            attention_ratio=row.n_heads * row.kv_size / row.width,
        )
        counted = float(shaped.count().params(row.width, row.depth))
        # the table rounds to whole millions
        assert counted == pytest.approx(row.params, rel=0.01, abs=0.5e6)


def test_plain_blocks_and_their_costs():
    count = count_blocks(12)
    assert count.params(1024, 16) == 12 * 1024**2 * 16
    assert count.train(1024, 16, 1e9) == pytest.approx(6 * 12 * 1024**2 * 16 * 1e9, rel=1e-15)
    assert count.inference_flops(1024, 16) == 2 * 12 * 1024**2 * 16
    assert count.cache(1024, 16) == 2 * 1024 * 16


def test_grouped_queries_and_gates_change_what_they_should():
    plain, grouped = Transformer(norms=0), Transformer(norms=0, heads_per_kv=8)
    assert plain.layer_matrices == 12
    assert grouped.layer_matrices == pytest.approx(12 - 2 * 7 / 8)
    assert Transformer(gated=True, norms=0, mlp_ratio=8 / 3).layer_matrices == pytest.approx(12)
    assert grouped.count().cache(1024, 16) == plain.count().cache(1024, 16) / 8


def test_attention_over_a_context_costs_as_counted_by_hand():
    # 12 l m T operations a token in training (Chowdhery et al. 2022, appendix B)
    without, with_context = (Transformer(context=t).count() for t in (0, 2048))
    extra = with_context.training_flops(1024, 16) - without.training_flops(1024, 16)
    assert extra == 12 * 16 * 1024 * 2048


@pytest.mark.parametrize(("name", "context"), [("gpt2", 1024), ("llama", 4096), ("chinchilla", 2048)])
def test_presets_attend_to_their_models_contexts(name, context):
    preset, without = parse_count(name), parse_count(f"{name}:context=0")
    extra = preset.training_flops(1024, 16) - without.training_flops(1024, 16)
    assert extra == pytest.approx(12 * 16 * 1024 * context, rel=1e-9)


def test_the_gated_mlp_of_llama_has_8_thirds_of_the_width():
    # 4 m^2 of attention and three matrices of 8/3 m^2, the embedding of 32,000 twice, gains of norms
    assert parse_count("llama").params(3072, 10) == pytest.approx(
        10 * (12 * 3072**2 + 2 * 3072) + 64001 * 3072, rel=1e-9
    )


@pytest.mark.parametrize(("width", "depth"), [(768, 12), (1600, 48)])
def test_the_operations_of_gpt2_are_those_counted_by_hand(width, depth):
    """A token: two for each weight of matrices and output layer, 4 l m T of attention; thrice that in training."""
    count = parse_count("gpt2")
    forward = 2 * 12 * width**2 * depth + 4 * 1024 * width * depth + 2 * 50257 * width
    assert count.inference_flops(width, depth) == pytest.approx(forward, rel=1e-12)
    assert count.training_flops(width, depth) == pytest.approx(3 * forward, rel=1e-12)
    assert count.train(width, depth, 1e9) == pytest.approx(3e9 * forward, rel=1e-12)


def test_one_sequence_of_16_bit_numbers_is_served_unless_said_otherwise():
    count = count_blocks(12)
    assert Serving(context=1000).memory(count)(4096, 32) == 2 * 12 * 4096**2 * 32 + 2 * 2 * 4096 * 32 * 1000
    assert Serving().memory(count)(4096, 32) == 2 * 12 * 4096**2 * 32
    # 2e12 bytes a second, 10 microseconds a layer
    assert Serving().latency(count)(4096, 32) == pytest.approx(2 * 12 * 4096**2 * 32 / 2e12 + 32e-5, rel=1e-12)


def test_memory_and_latency_of_a_served_model():
    serving = Serving(context=1000, batch=2, bandwidth=1e12, layer_seconds=1e-5)
    count = count_blocks(12)
    size = 2 * 12 * 4096**2 * 32 + 2 * 2 * 4096 * 32 * 1000 * 2
    assert serving.memory(count)(4096, 32) == pytest.approx(size, rel=1e-14)
    assert serving.latency(count)(4096, 32) == pytest.approx(size / 1e12 + 32e-5, rel=1e-14)
    assert Serving(layer_seconds=0).latency(count)(4096, 32) == pytest.approx(2 * 12 * 4096**2 * 32 / 2e12)


positive = st.floats(1e-3, 1e6)
logs = st.floats(0, 12)


@given(
    st.lists(st.tuples(positive, st.sampled_from([0, 1, 2, 0.5]), st.sampled_from([0, 1, 2])), min_size=1), logs, logs
)
def test_derivatives_of_posynomials_are_those_of_their_values(terms, v, u):
    size = Posynomial(tuple(terms))
    exact = size.log_derivatives(np.array([v]), np.array([u]))
    # a smooth size differentiates the same values numerically: 1e-12 in the first, 1e-9 in the second derivatives,
    # and 1e-6 in the mixed one, whose difference is of second order
    numeric = SmoothSize(size).log_derivatives(np.array([v]), np.array([u]))
    for name, tolerance in (("log", 1e-12), ("v", 1e-9), ("u", 1e-9), ("vv", 1e-6), ("uu", 1e-6), ("vu", 1e-5)):
        assert getattr(exact, name) == pytest.approx(getattr(numeric, name), abs=tolerance)


@pytest.mark.parametrize(
    "expression",
    [
        "12*width**2*depth + 64000*width",
        "width*(12*width*depth + 2*32000)",
        "(width + 3)**2*depth",
        "12*width**2*depth/1.5",
    ],
)
def test_polynomial_expressions_are_expanded(expression):
    size = read_size(expression)
    assert isinstance(size, Posynomial)
    assert float(size(768, 12)) == pytest.approx(eval(expression, {}, {"width": 768, "depth": 12}), rel=1e-14)


@pytest.mark.parametrize("expression", ["12*width**2*depth + 1000*sqrt(width)", "width**2*depth*log(width + 2)"])
def test_other_expressions_are_taken_numerically(expression):
    size = read_size(expression)
    assert isinstance(size, SmoothSize)
    assert not size.convex


def test_expression_with_its_own_operations():
    count = parse_count("12*width**2*depth; 72*width**2*depth + 600*width*depth")
    assert count.params(10, 10) == 12000
    assert count.training_flops(10, 10) == 132000


def test_sums_with_a_smooth_size_stay_smooth():
    total = add_sizes([Posynomial(((1, 1, 1),)), SmoothSize(lambda width, depth: width + depth)])
    assert isinstance(total, SmoothSize)
    assert total.scaled(2.0)(3, 4) == 2 * (12 + 7)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("13m", "unknown count"),
        ("xm2l", "not a number"),
        ("-3m2l", "must be positive"),
        ("lama", "did you mean llama"),
        ("llama:vocab=3", "did you mean vocabulary"),
        ("llama:vocabulary=3.5", "whole number"),
        ("llama:vocabulary=many", "must be a number"),
        ("llama:vocabulary=inf", "whole number"),
        ("llama:mlp_ratio=inf", "must be positive"),
        ("llama:heads_per_kv=0.5", "at least 1"),
        ("llama:gated=yes", "true or false"),
        ("llama:mlp_ratio=0", "must be positive"),
        ("llama:context=-1", "must not be negative"),
        ("12*width**2*heads", "names 'heads'"),
        ("12*width**2", "does not grow with depth"),
        ("width*depth - 100*width", "not positive"),
        ("width*depth*(", "cannot be read"),
        ("__import__('os').width", "not allowed"),
    ],
)
def test_bad_counts_are_refused_with_the_way_out(text, complaint):
    with pytest.raises(OptionError, match=complaint):
        parse_count(text)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [("contxt=1", "did you mean context"), ("batch=two", "must be a number"), ("bandwidth=0", "must be positive")],
)
def test_bad_serving_settings_are_refused(text, complaint):
    with pytest.raises(OptionError, match=complaint):
        parse_serving(text)


def test_posynomials_need_positive_terms():
    with pytest.raises(OptionError, match="negative"):
        Posynomial(((-1, 1, 1),))
    with pytest.raises(OptionError, match="at least one term"):
        Posynomial(((0, 1, 1),))
