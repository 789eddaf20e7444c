"""Students stacked by layer index: batched products forward and a hand-written backward.

States are (students, width, samples): the norm then reduces over the middle axis, which vectorises over
samples, and every product is a plain batched matrix product. Students are ordered by falling depth, so
those that have a layer i are the first ``n_i`` and every layer is a slice, never a gather. No operation
mixes students; on CPU a student's numbers are the same to the bit whatever stands beside it.

Notation of one perceptron, all per student: u = rms_norm(h) = h s with s = (mean h^2 + eps)^(-1/2),
r = relu(w1 u + b), a = r^2, f = w2 a. The backward pass carries e = 2 dL/df, which absorbs the 2 of
da/dr = 2 r:  dL/dw2 = e a^T / 2,  z = r * (w2^T e),  dL/dw1 = z u^T,  dL/db = z 1,  g = w1^T z,
and through the norm dL/dh = s (g - u mean(u g)).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from toy_models.teacher_student.networks import EPS
from toy_models.teacher_student.weights import Layers

__all__ = ["LayerViews", "Stack", "captured", "normalise"]

Observer = Callable[[int, torch.Tensor], None]


@dataclass(frozen=True)
class LayerViews:
    """Views of one perceptron of every student that has it; n of them."""

    w1: torch.Tensor  # (n, hidden, width)
    b: torch.Tensor  # (n, hidden, 1)
    w2: torch.Tensor  # (n, width, hidden)


@dataclass(frozen=True)
class _Saved:
    """What the backward pass of one perceptron needs."""

    u: torch.Tensor  # (n, width, samples)
    scale: torch.Tensor  # (n, 1, samples)
    r: torch.Tensor  # (n, hidden, samples)
    a: torch.Tensor  # (n, hidden, samples)


def normalise(h: torch.Tensor, u: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    """Write rms_norm(h) into u and its factor into scale; axis -2 is the width."""
    torch.mul(h, h, out=u)
    torch.mean(u, -2, keepdim=True, out=scale)
    scale.add_(EPS).rsqrt_()
    return torch.mul(h, scale, out=u)


class Stack:
    """Residual networks of several depths, `columns` of each, run and differentiated together.

    Parameters
    ----------
    depths : sequence of int
        Blocks of the students, descending.
    columns : int
        Students of each depth; student ``i * columns + j`` has depth ``depths[i]``.
    width, hidden, samples : int
        Size of the state, hidden units of a perceptron, samples of one step.
    integrator : str
        ``euler`` or ``rk2``, see `networks.ResidualNet`.
    vocabulary : int
        Rows of a learned head, 0 for none; the head stands behind the layers in `flat`.
    dtype, device : torch.dtype, str
    differentiable : bool
        Keep what the backward pass needs; without it all layers share one set of buffers, which is
        what a teacher wants.
    """

    def __init__(
        self,
        depths: Sequence[int],
        *,
        columns: int,
        width: int,
        hidden: int,
        samples: int,
        integrator: str = "euler",
        vocabulary: int = 0,
        dtype: torch.dtype = torch.float32,
        device: str = "cpu",
        differentiable: bool = True,
    ) -> None:
        self.depths, self.columns = tuple(depths), columns
        self.width, self.hidden, self.samples = width, hidden, samples
        self.per_block = 2 if integrator == "rk2" else 1
        self.count, self.vocabulary = len(self.depths) * columns, vocabulary
        perceptrons = max(self.depths) * self.per_block
        self.members = [columns * sum(depth * self.per_block > j for depth in self.depths) for j in range(perceptrons)]
        size = (2 * width + 1) * hidden * sum(self.members) + self.count * vocabulary * width
        self.flat = torch.zeros(size, dtype=dtype, device=device)
        self.grad = torch.zeros_like(self.flat) if differentiable else self.flat
        self.layers, self.head = self.views(self.flat)
        self.grads, self.head_grad = self.views(self.grad)
        self._allocate(differentiable)

    def views(self, flat: torch.Tensor) -> tuple[list[LayerViews], torch.Tensor]:
        """Cut a flat buffer into the layers' tensors and the heads (count, vocabulary, width)."""
        sizes = [
            (n, m) for n in self.members for m in (self.hidden * self.width, self.hidden, self.hidden * self.width)
        ]
        lengths = [n * m for n, m in sizes] + [self.count * self.vocabulary * self.width]
        *parts, head = torch.split(flat, lengths)
        layers = [
            LayerViews(
                w1.view(n, self.hidden, self.width),
                b.view(n, self.hidden, 1),
                w2.view(n, self.width, self.hidden),
            )
            for n, w1, b, w2 in zip(self.members, parts[::3], parts[1::3], parts[2::3], strict=True)
        ]
        return layers, head.view(self.count, self.vocabulary, self.width)

    def _allocate(self, differentiable: bool) -> None:
        # Buffers are kept: allocating them anew at every step costs page faults, and a CUDA graph
        # needs fixed addresses.
        def empty(n: int, rows: int) -> torch.Tensor:
            return torch.empty(n, rows, self.samples, dtype=self.flat.dtype, device=self.flat.device)

        def saved(n: int) -> _Saved:
            return _Saved(empty(n, self.width), empty(n, 1), empty(n, self.hidden), empty(n, self.hidden))

        if differentiable:
            self._saved = [saved(n) for n in self.members]
        else:
            if len(self.depths) > 1:
                raise ValueError("a stack that is not differentiable holds one depth")
            self._saved = [saved(self.count)] * len(self.members)
        self._h, self._mid, self._g, self._work, self.output = (empty(self.count, self.width) for _ in range(5))
        self._scale, self._mean = empty(self.count, 1), empty(self.count, 1)
        self._z, self._e = empty(self.count, self.hidden), empty(self.count, self.width)
        self._half = empty(self.count, self.width)

    def load(self, student: int, layers: Layers) -> None:
        """Set the weights of one student."""
        for j, view in enumerate(self.layers[: len(layers)]):
            view.w1[student] = layers.w1[j]
            view.b[student, :, 0] = layers.b[j]
            view.w2[student] = layers.w2[j]

    def student(self, student: int) -> Layers:
        """Copy the weights of one student out of the stack."""
        count = self.depths[student // self.columns] * self.per_block
        views = self.layers[:count]
        return Layers(
            torch.stack([view.w1[student] for view in views]),
            torch.stack([view.b[student, :, 0] for view in views]),
            torch.stack([view.w2[student] for view in views]),
        )

    def forward(self, h0: torch.Tensor, observe: Observer | None = None) -> torch.Tensor:
        """Run all students; h0 holds the normalised inputs of the columns, (columns, width, samples).

        `observe`, if given, sees the number of a block and the states of the students that have it,
        after every block.

        Returns
        -------
        (count, width, samples) tensor
            The final normalised states, in a buffer that the next call overwrites.
        """
        self._h.view(-1, *h0.shape).copy_(h0)
        for j in range(0, len(self.members), self.per_block):
            h = self._h[: self.members[j]]
            self._block(j, h)
            if observe is not None:
                observe(j // self.per_block, h)
        return normalise(self._h, self.output, self._scale)

    def _block(self, j: int, h: torch.Tensor) -> None:
        if self.per_block == 2:
            mid = self._mid[: len(h)]
            torch.baddbmm(h, self.layers[j].w2, self._branch(j, h), alpha=0.5, out=mid)
            h.baddbmm_(self.layers[j + 1].w2, self._branch(j + 1, mid))
        else:
            h.baddbmm_(self.layers[j].w2, self._branch(j, h))

    def _branch(self, j: int, h: torch.Tensor) -> torch.Tensor:
        layer, saved = self.layers[j], self._saved[j]
        normalise(h, saved.u, saved.scale)
        torch.baddbmm(layer.b, layer.w1, saved.u, out=saved.r).relu_()
        return torch.mul(saved.r, saved.r, out=saved.a)

    def backward(self, d_output: torch.Tensor) -> None:
        """Write the gradient of a loss into `grad`, given that with respect to the last output.

        `d_output`, (count, width, samples), is overwritten.
        """
        self._norm_backward(d_output, self.output, self._scale, self._e.zero_())
        for j in range(len(self.members) - self.per_block, -1, -self.per_block):
            e = self._e[: self.members[j]]
            if self.per_block == 2:
                half = self._half[: len(e)].zero_()
                self._branch_backward(j + 1, e, half)
                e.add_(half)
                half.mul_(0.5)
                self._branch_backward(j, half, e if j else None)
            else:
                self._branch_backward(j, e, e if j else None)

    def _branch_backward(self, j: int, e: torch.Tensor, into: torch.Tensor | None) -> None:
        """Gradients of one perceptron from e = 2 dL/df; 2 dL/dh is added to `into`."""
        n, layer, grad, saved = len(e), self.layers[j], self.grads[j], self._saved[j]
        torch.baddbmm(grad.w2, e, saved.a.mT, beta=0, alpha=0.5, out=grad.w2)
        z = torch.bmm(layer.w2.mT, e, out=self._z[:n]).mul_(saved.r)
        torch.bmm(z, saved.u.mT, out=grad.w1)
        torch.sum(z, 2, keepdim=True, out=grad.b)
        if into is not None:
            g = torch.bmm(layer.w1.mT, z, out=self._g[:n])
            self._norm_backward(g, saved.u, saved.scale, into)

    def _norm_backward(self, g: torch.Tensor, u: torch.Tensor, scale: torch.Tensor, into: torch.Tensor) -> None:
        """Add 2 s (g - u mean(u g)) to `into`; g is overwritten."""
        n = len(g)
        work = torch.mul(g, u, out=self._work[:n])
        mean = torch.mean(work, 1, keepdim=True, out=self._mean[:n])
        g.addcmul_(u, mean, value=-1)
        into.addcmul_(g, scale, value=2)


def captured(function: Callable[[], None], device: str) -> Callable[[], None]:
    """Return the function itself on a CPU; on CUDA one that replays its kernels as a graph.

    The first call runs as it stands, which lets libraries allocate; the second is recorded. Only a
    function of fixed buffers, without results and without synchronisation, may be captured.
    """
    if device != "cuda":
        return function
    graph = torch.cuda.CUDAGraph()
    calls = 0

    def replay() -> None:
        nonlocal calls
        calls += 1
        if calls == 1:
            function()
            return
        if calls == 2:
            with torch.cuda.graph(graph):
                function()
        graph.replay()

    return replay
