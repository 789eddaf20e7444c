"""Fold the gains of norms into the linear maps that read them: W (gain * u) = (W gain) u."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

from scalefit.errors import OptionError
from toy_models.transformer.layout import BlockLayout, find_blocks
from toy_models.transformer.norms import NormModule
from toy_models.transformer.second_site import ApproximateBoundedTanh

__all__ = ["fold_gain", "fold_gains"]

OUTPUT_MAPS = ("o_proj", "dense", "down_proj", "dense_4h_to_h")
"""Maps of a sublayer that read what the sublayer made of the norm's output, not that output itself."""


@torch.no_grad()
def fold_gain(norm: NormModule, readers: Sequence[nn.Linear]) -> None:
    """Move a norm's gain, and its bias if it has one, into every linear map that reads its output.

    Afterwards the norm has neither; the composition is the same function, and cheaper.

    Parameters
    ----------
    norm : NormModule
        One of this package's norms.
    readers : sequence of Linear
        *All* maps that read the output: one left out would lose the gain.

    Raises
    ------
    OptionError
        If there is no reader, or a reader's width is another.
    """
    _require_readers(norm, readers)
    for reader in readers:
        if norm.bias is not None:
            shift = reader.weight @ norm.bias.to(reader.weight.dtype)
            if reader.bias is None:
                reader.bias = nn.Parameter(shift)
            else:
                reader.bias.add_(shift)
        if norm.weight is not None:
            reader.weight.mul_(norm.weight.to(reader.weight.dtype))
    norm.weight = None
    norm.bias = None


def fold_gains(model: nn.Module) -> int:
    """Fold the gains of all blocks of a model whose norms are this package's, in place.

    The final norm keeps its gain, for its reader, the head, may be tied to the embedding. The second sites
    of BHyT keep the constant they have at the moment, since folded weights no longer tell it.

    Returns
    -------
    int
        The number of norms folded.

    Raises
    ------
    OptionError
        If a norm of a block is not this package's, a reader's weight is shared with another module, or a
        sublayer holds a map that may read the norm and is not known to.
    """
    blocks = find_blocks(model)
    for block in blocks:
        _require_known_maps(block)
    pairs = [(norm, readers) for block in blocks for norm, readers in zip(block.norms(), block.readers(), strict=True)]
    for norm, readers in pairs:
        if not isinstance(norm, NormModule):
            raise OptionError(f"{type(norm).__name__} is not one of this package's norms; convert the model first")
        _require_readers(norm, readers)
        for reader in readers:
            _require_own_weight(model, reader)
    for norm, _ in pairs:
        if isinstance(norm, ApproximateBoundedTanh):
            norm.freeze()
    for norm, readers in pairs:
        assert isinstance(norm, NormModule)
        fold_gain(norm, readers)
    return len(pairs)


def _require_readers(norm: NormModule, readers: Sequence[nn.Linear]) -> None:
    if not readers:
        raise OptionError("a gain needs at least one linear map to be folded into")
    for reader in readers:
        if reader.in_features != norm.width:
            raise OptionError(f"the norm has width {norm.width} and its reader reads {reader.in_features}")


def _require_known_maps(block: BlockLayout) -> None:
    """Refuse a map that may read a norm too: it would lose the gain (compressed keys, adapters, gates)."""
    for sublayer, readers in zip((block.attention, block.mlp), block.readers(), strict=True):
        known = {id(reader) for reader in readers}
        for name, module in sublayer.named_modules():
            if isinstance(module, nn.Linear) and id(module) not in known and name not in OUTPUT_MAPS:
                raise OptionError(
                    f"{block.name} has the map {name!r}, which may read the norm as well; fold that model by "
                    "fold_gain, with all readers of each norm"
                )


def _require_own_weight(model: nn.Module, reader: nn.Linear) -> None:
    owners = sum(parameter is reader.weight for _, parameter in model.named_parameters(remove_duplicate=False))
    if owners != 1:
        raise OptionError(
            f"a weight of shape {tuple(reader.weight.shape)} is shared by {owners} modules, and folding a "
            "gain into it would change the others too"
        )
