"""The modules against an independent NumPy reference, in every precision and at the edges."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from scalefit.errors import OptionError
from toy_models.transformer import (
    NORMS,
    AttentionMaps,
    BoundedTanh,
    DynamicTanh,
    LayerNormScaling,
    NormConfig,
    NormModule,
    RMSNorm,
    ScaledRMSNorm,
    block_norms,
)

WIDTH, BLOCK, LAM, KAPPA, EPS = 24, 7, 2.0, 10.0, 1e-6


def reference(name: str, x: np.ndarray, gain: np.ndarray) -> np.ndarray:
    """The definitions, in float64, without the modules' code."""
    rms = np.sqrt((x**2).mean(-1, keepdims=True) + EPS)
    mean, std = x.mean(-1, keepdims=True), np.sqrt(x.var(-1, keepdims=True) + EPS)
    plain = {
        "rmsnorm": x / rms,
        "lns": x / rms / math.sqrt(BLOCK),
        "peri": x / rms,
        "dyt": np.tanh(0.5 * x),
        "bhyt": np.tanh(LAM * x / (KAPPA * rms)),
        "bhyt-exact": np.tanh(LAM * x / (KAPPA * rms)),
        "bhyt-ideal": np.tanh(LAM * x / (KAPPA * std + np.abs(mean))),
        "control": LAM / KAPPA * x / rms,
    }
    return gain * plain[name]


class Maps(torch.nn.Module):
    """The two maps of an attention with four query heads on two key-value heads."""

    def __init__(self) -> None:
        super().__init__()
        rng = torch.Generator().manual_seed(5)
        self.v_proj = torch.nn.Linear(WIDTH, WIDTH // 2, bias=False)
        self.o_proj = torch.nn.Linear(WIDTH, WIDTH, bias=False)
        with torch.no_grad():
            for linear in (self.v_proj, self.o_proj):
                linear.weight.copy_(torch.randn(linear.weight.shape, generator=rng))


def pair(name: str) -> tuple[NormModule, NormModule]:
    maps = AttentionMaps(Maps(), n_heads=4, n_kv_heads=2)
    return block_norms(NormConfig(name), WIDTH, block=BLOCK, maps=maps, sequence_length=32)


def first(name: str, **changes: object) -> NormModule:
    return block_norms(
        NormConfig(name, **changes),
        WIDTH,
        block=BLOCK,
        maps=AttentionMaps(Maps(), 4, 2),
        sequence_length=32,
    )[0]


def tokens(seed: int = 0, *, mean: float = 0.4) -> torch.Tensor:
    rng = np.random.default_rng(seed)
    return torch.from_numpy(rng.standard_t(4, size=(5, 3, WIDTH)) + mean)


def randomise(norm: NormModule) -> None:
    with torch.no_grad():
        norm.weight.copy_(torch.linspace(0.5, 1.5, WIDTH))


@pytest.mark.parametrize("name", NORMS)
def test_agrees_with_the_reference(name: str, device: str) -> None:
    norm = first(name).to(device)
    randomise(norm)
    x = tokens().float()
    expected = reference(name, x.double().numpy(), norm.weight.detach().double().cpu().numpy())
    result = norm(x.to(device)).detach().double().cpu().numpy()
    np.testing.assert_allclose(result, expected, rtol=1e-6, atol=1e-6)


def test_second_site_agrees_with_the_reference(device: str) -> None:
    """v2 = v1 + a² c with heads expanded by an explicit loop; nothing of the second input but its entries."""
    one, two = pair("bhyt")
    attention = two.maps.attention.to(device)
    value, output = (linear.weight.detach().double().cpu().numpy() for linear in attention.children())
    head, product = WIDTH // 4, np.zeros((WIDTH, WIDTH))
    for query_head in range(4):
        kv = query_head // 2
        rows = value[kv * head : (kv + 1) * head]
        product += output[:, query_head * head : (query_head + 1) * head] @ rows
    c = (product**2).sum() / (32 * WIDTH)
    one, two = one.to(device), two.to(device)
    x, h = tokens().float(), 3 * tokens(1).float()
    one(x.to(device))
    result = two(h.to(device)).detach().double().cpu().numpy()
    v2 = (x.double().numpy() ** 2).mean(-1, keepdims=True) + (LAM / KAPPA) ** 2 * c
    np.testing.assert_allclose(result, np.tanh(LAM * h.double().numpy() / (KAPPA * np.sqrt(v2 + EPS))), rtol=1e-6)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("name", NORMS)
def test_half_precision_input_has_wide_statistics(name: str, dtype: torch.dtype, device: str) -> None:
    """Squares of 300 overflow float16; the result differs from the wide one by one rounding alone."""
    norm = first(name).to(device)
    x = torch.full((1, WIDTH), 300.0, device=device, dtype=dtype)
    x[0, ::2] *= -1
    result = norm(x)
    assert result.dtype == dtype
    assert torch.isfinite(result).all()
    torch.testing.assert_close(result.float(), norm(x.float()), rtol=torch.finfo(dtype).eps, atol=0)


@pytest.mark.parametrize("value", [0.0, 3.0, -1e-20])
@pytest.mark.parametrize("name", NORMS)
def test_zero_and_constant_vectors(name: str, value: float, device: str) -> None:
    norm = first(name).to(device)
    x = torch.full((2, WIDTH), value, device=device, requires_grad=True)
    result = norm(x)
    result.sum().backward()
    assert torch.isfinite(result).all()
    assert torch.isfinite(x.grad).all()
    if value == 0:
        assert not result.any()


@pytest.mark.parametrize("name", NORMS)
def test_gradient_against_finite_differences(name: str) -> None:
    norm = first(name).double()
    randomise(norm)
    x = tokens()[0].requires_grad_(True)
    parameters = [weight for key, weight in norm.named_parameters() if not key.startswith("output")]

    def function(x: torch.Tensor, *_parameters: torch.Tensor) -> torch.Tensor:
        return norm(x)

    assert torch.autograd.gradcheck(function, (x, *parameters))


def test_gradient_of_the_second_site_against_finite_differences() -> None:
    one, two = (norm.double() for norm in pair("bhyt"))

    def function(x: torch.Tensor, h: torch.Tensor) -> torch.Tensor:
        one(x)
        return two(h)

    assert torch.autograd.gradcheck(function, (tokens()[0].requires_grad_(True), tokens(1)[0].requires_grad_(True)))


@pytest.mark.parametrize("name", NORMS)
def test_state_dict_round_trip_through_to_empty(name: str, device: str) -> None:
    """Nothing that forward needs is lost: neither the factor of LNS nor the constant of the second site."""
    trained = torch.nn.ModuleList(pair(name)).to(device)
    for norm in trained:
        randomise(norm)
        if isinstance(norm, BoundedTanh):
            norm.lam.data.fill_(1.7)
    with torch.device("meta"):
        empty = torch.nn.ModuleList(pair(name))
    empty.to_empty(device=device)
    empty.load_state_dict(trained.state_dict())
    x = tokens().float().to(device)
    # Straight after loading, in evaluation mode without the switch that would refresh the constant.
    for norm in (*trained, *empty):
        norm.training = False
    for ours, theirs in zip(trained, empty, strict=True):
        torch.testing.assert_close(theirs(x), ours(x), rtol=0, atol=0)


@pytest.mark.parametrize("name", NORMS)
def test_reset_parameters_after_to_empty(name: str) -> None:
    with torch.device("meta"):
        norm = first(name)
    norm.to_empty(device="cpu").reset_parameters()
    x = tokens().float()
    torch.testing.assert_close(norm(x), first(name)(x), rtol=0, atol=0)


@pytest.mark.parametrize("name", NORMS)
def test_compiles_as_one_graph(name: str, device: str) -> None:
    norms = torch.nn.ModuleList(pair(name)).to(device)
    x = tokens().float().to(device)

    def block(x: torch.Tensor) -> torch.Tensor:
        one, two = norms
        return two(x + one.after(one(x)))

    compiled = torch.compile(block, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(x), block(x), rtol=1e-6, atol=1e-6)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*torch.jit.script_method:DeprecationWarning")  # inside torch itself
def test_compiles_to_machine_code(device: str) -> None:
    norms = torch.nn.ModuleList(pair("bhyt")).to(device)
    x = tokens().float().to(device)

    def block(x: torch.Tensor) -> torch.Tensor:
        return norms[1](x + norms[0](x))

    torch.testing.assert_close(torch.compile(block, fullgraph=True)(x), block(x), rtol=1e-5, atol=1e-6)


def test_second_moments_are_those_of_the_theory() -> None:
    """At gain 1, to sampling error of 2**20 numbers: 1, 1/l, a² and Gaussian E tanh²(aZ) = .037117587."""
    x = torch.randn(64, 16384, generator=torch.Generator().manual_seed(0))
    moments = {
        "rmsnorm": 1.0,
        "lns": 1 / BLOCK,
        "control": 0.04,
        "bhyt-exact": 0.037117587,
        "bhyt-ideal": 0.037117587,
    }
    builders = {
        "rmsnorm": RMSNorm(16384),
        "lns": LayerNormScaling(16384, block=BLOCK),
        "control": ScaledRMSNorm(16384, scale=LAM / KAPPA),
        "bhyt-exact": BoundedTanh(16384),
        "bhyt-ideal": BoundedTanh(16384, centered=True),
    }
    with torch.no_grad():
        for name, expected in moments.items():
            assert float(builders[name](x).square().mean()) == pytest.approx(expected, rel=2e-3), name


@pytest.mark.parametrize("tail", [0.0, 50.0])
def test_exact_form_is_bounded_by_a_squared_for_any_mean_and_tail(tail: float) -> None:
    x = tokens(mean=2.0)
    x[..., 0] += tail * x.abs().amax()
    moment = BoundedTanh(WIDTH)(x).square().mean(-1)
    assert (moment < (LAM / KAPPA) ** 2).all()


def test_peri_normalises_the_update() -> None:
    norm = first("peri")
    update = norm.after(100 * tokens().float())
    torch.testing.assert_close(update.square().mean(-1), torch.ones(5, 3), rtol=1e-5, atol=0)


def test_untrained_lam_is_no_parameter() -> None:
    assert [key for key, _ in BoundedTanh(WIDTH).named_parameters()] == ["weight", "lam"]
    fixed = BoundedTanh(WIDTH, train_lam=False)
    assert [key for key, _ in fixed.named_parameters()] == ["weight"]
    x = tokens().float()
    torch.testing.assert_close(fixed(x), BoundedTanh(WIDTH)(x), rtol=0, atol=0)


@pytest.mark.parametrize(
    ("build", "text"),
    [
        (lambda: NormConfig("layernorm"), "norm 'layernorm' is unknown; the norms are rmsnorm, lns"),
        (lambda: NormConfig("bhyt", kappa=0), "kappa is 0 and must be a finite number above 0"),
        (lambda: NormConfig("bhyt", kappa=-1), "kappa is -1"),
        (lambda: NormConfig("bhyt", lam=math.nan), "lam is nan"),
        (lambda: BoundedTanh(WIDTH, lam=math.inf), "lam is inf"),
        (lambda: BoundedTanh(WIDTH, kappa=0), "kappa is 0"),
        (lambda: DynamicTanh(WIDTH, alpha=0), "alpha is 0"),
        (lambda: RMSNorm(WIDTH, eps=0), "eps is 0"),
        (lambda: RMSNorm(0), "width is 0 and must be at least 1"),
        (lambda: LayerNormScaling(WIDTH, block=0), "block is 0 and blocks are numbered from 1"),
        (lambda: block_norms(NormConfig("bhyt"), WIDTH, block=1), "needs a block whose MLP"),
        (
            lambda: block_norms(NormConfig("bhyt"), WIDTH, block=1, maps=AttentionMaps(Maps(), 4, 2)),
            "sequence_length is 0 and must be at least 1",
        ),
    ],
)
def test_bad_options_get_a_sentence(build: object, text: str) -> None:
    with pytest.raises(OptionError, match=text):
        build()
