"""Measure what the residual stream of a model does, block by block, as plain NumPy arrays."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, fields
from types import TracebackType
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from toy_models.transformer.layout import BlockLayout, find_blocks
from toy_models.transformer.norms import BoundedTanh, DynamicTanh, mean_square
from toy_models.transformer.second_site import ApproximateBoundedTanh

__all__ = ["ResidualMonitor", "ResidualStatistics"]

SATURATED = 0.9
"""A tanh output beyond this counts as saturated: its slope is below 1 - .9² = .19."""


@dataclass(frozen=True)
class ResidualStatistics:
    """What was measured at every site, (n_sites,) arrays in the order of the forward pass.

    A site is a norm, its sublayer and the update that is added. Means run over tokens; x is the state
    before, f the update, u the norm's output; products and squares are averaged over features. The names
    are those of ``scalefit.theory.streams.BlockStatistics``, whose checks take `as_dict`.

    Attributes
    ----------
    block : int array
        Number of the block, from 1.
    site : str array
        ``"attention"``, ``"mlp"``, or ``"block"`` where both read the same state.
    variance, variance_median : (n_sites + 1,) float array
        v, mean and median over tokens of the mean square of x, before each site and after the last.
    second_moment : float array
        m, mean square of u.
    increment_variance : float array
        V, mean square of f.
    alignment : float array
        rho = E x·f / sqrt(E|x|² E|f|²), 0 where nothing is added: v' = v + V + 2 rho sqrt(v V).
    gain : float array
        g = V / m of the sublayer.
    variance_ratio : float array
        q, true over approximated mean square, token by token; 1 where the statistic is exact.
    saturation : float array
        Share of tanh outputs beyond .9; NaN for norms without tanh.
    update_ratio : float array
        Mean over tokens of |f| / |x|.
    angle : float array
        Mean angle between x and x + f, degrees.
    largest : float array
        Largest absolute entry of x + f.
    """

    block: NDArray[np.int64]
    site: NDArray[np.str_]
    variance: NDArray[np.float64]
    variance_median: NDArray[np.float64]
    second_moment: NDArray[np.float64]
    increment_variance: NDArray[np.float64]
    alignment: NDArray[np.float64]
    gain: NDArray[np.float64]
    variance_ratio: NDArray[np.float64]
    saturation: NDArray[np.float64]
    update_ratio: NDArray[np.float64]
    angle: NDArray[np.float64]
    largest: NDArray[np.float64]

    def as_dict(self) -> dict[str, NDArray[Any]]:
        """Return the arrays by name."""
        return {item.name: getattr(self, item.name) for item in fields(self)}


class ResidualMonitor:
    """Record every forward pass of a model inside a ``with`` block.

    Updates are differences of states, so that they are what the model adds, whatever it multiplies or
    normalises its sublayers' results by. Several passes are pooled.

    Parameters
    ----------
    model : Module
        Llama-like or GPT-NeoX-like, with its own norms or with this package's.

    Examples
    --------
    >>> import torch
    >>> from toy_models.transformer import ModelConfig, Transformer
    >>> model = Transformer(ModelConfig(width=16, depth=2, hidden=32), seed=0)
    >>> with ResidualMonitor(model) as monitor, torch.no_grad():
    ...     _ = model(torch.arange(100)[None])
    >>> monitor.statistics().block
    array([1, 1, 2, 2])
    """

    def __init__(self, model: nn.Module) -> None:
        self.blocks = find_blocks(model)
        self._hooks: list[RemovableHandle] = []
        self._seen: dict[str, Tensor] = {}
        self._tokens: defaultdict[tuple[int, str], list[dict[str, Tensor]]] = defaultdict(list)

    def __enter__(self) -> ResidualMonitor:
        for block in self.blocks:
            self._watch(block)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for hook in self._hooks:
            hook.remove()
        self._hooks.clear()
        self._seen.clear()

    def _watch(self, block: BlockLayout) -> None:
        def keep(place: str) -> Any:
            def hook(_module: nn.Module, inputs: tuple[Any, ...], output: Tensor) -> None:
                self._seen[f"{place} x"], self._seen[f"{place} u"] = inputs[0].detach(), output.detach()

            return hook

        def finish(_module: nn.Module, _inputs: Any, output: Any) -> None:
            self._finish(block, (output[0] if isinstance(output, tuple) else output).detach())

        first, second = block.norms()
        self._hooks += [
            first.register_forward_hook(keep("first")),
            second.register_forward_hook(keep("second")),
            block.block.register_forward_hook(finish),
        ]

    def _finish(self, block: BlockLayout, output: Tensor) -> None:
        """Turn the states that one block passed through into numbers for each token."""
        first, second = block.norms()
        seen = self._seen
        if block.parallel:
            steps = [("block", first, seen["first x"], seen["first u"], output)]
        else:
            steps = [
                ("attention", first, seen["first x"], seen["first u"], seen["second x"]),
                ("mlp", second, seen["second x"], seen["second u"], output),
            ]
        for site, norm, x, u, x_next in steps:
            numbers = _token_numbers(x, u, x_next)
            numbers["saturation"] = _saturation(norm, u)
            numbers["variance_ratio"] = torch.ones_like(numbers["variance"])
            if isinstance(norm, ApproximateBoundedTanh):
                assert isinstance(first, BoundedTanh)
                approximate = norm.approximate(mean_square(seen["first x"]), first.amplitude())
                numbers["variance_ratio"] = numbers["variance"] / (approximate.double().flatten() + norm.eps)
            self._tokens[block.index, site].append(numbers)

    def statistics(self) -> ResidualStatistics:
        """Return the means over every token recorded so far.

        Raises
        ------
        RuntimeError
            If no forward pass was recorded.
        """
        if not self._tokens:
            raise RuntimeError("no forward pass was recorded inside the 'with' block")
        rows = [_pool(passes) for passes in self._tokens.values()]
        columns = {name: np.array([row[name] for row in rows]) for name in rows[0]}
        for name in ("variance", "variance_median"):
            columns[name] = np.append(columns[name], columns.pop(f"{name}_next")[-1])
        blocks, sites = zip(*self._tokens, strict=True)
        return ResidualStatistics(block=np.array(blocks), site=np.array(sites), **columns)


def _token_numbers(x: Tensor, u: Tensor, x_next: Tensor) -> dict[str, Tensor]:
    """Return (n_tokens,) float64 numbers of one site; averages over features."""
    x, u, x_next = (tensor.double().flatten(0, -2) for tensor in (x, u, x_next))
    f = x_next - x
    v, v_next, dot = x.square().mean(-1), x_next.square().mean(-1), (x * f).mean(-1)
    V = f.square().mean(-1)
    cosine = (v + dot) / (v * v_next).sqrt()
    return {
        "second_moment": u.square().mean(-1),
        "variance": v,
        "variance_next": v_next,
        "increment_variance": V,
        "dot": dot,
        "update_ratio": (V / v).sqrt(),
        "angle": torch.rad2deg(torch.arccos(cosine.clamp(-1, 1))),
        "largest": x_next.abs().amax(-1),
    }


def _saturation(norm: nn.Module, u: Tensor) -> Tensor:
    """Return each token's share of tanh outputs beyond the limit, (n_tokens,); NaN without a tanh."""
    u = u.double().flatten(0, -2)
    if not isinstance(norm, BoundedTanh | DynamicTanh):
        return torch.full_like(u[:, 0], torch.nan)
    if norm.bias is not None:
        u = u - norm.bias.double()
    limit = SATURATED if norm.weight is None else SATURATED * norm.weight.double().abs()
    return (u.abs() > limit).double().mean(-1)


def _pool(passes: list[dict[str, Tensor]]) -> dict[str, float]:
    """Reduce the tokens of one site to its numbers."""
    tokens = {name: torch.cat([each[name] for each in passes]).cpu().numpy() for name in passes[0]}
    mean = {name: float(values.mean()) for name, values in tokens.items()}
    v, V, m = mean["variance"], mean["increment_variance"], mean["second_moment"]
    dot = mean.pop("dot")
    return mean | {
        "variance_median": float(np.median(tokens["variance"])),
        "variance_median_next": float(np.median(tokens["variance_next"])),
        "alignment": dot / (v * V) ** 0.5 if v * V > 0 else 0.0,
        "gain": V / m if m > 0 else float("nan"),
        "largest": float(tokens["largest"].max()),
    }
