"""A small transformer with a choice of norms, and the tools to put those norms into other models."""

from toy_models._torch import require_torch

require_torch("the transformer with a choice of norms")

from toy_models.transformer.build import NORMS, NormConfig, block_norms  # noqa: E402
from toy_models.transformer.convert import Conversion, convert_norms  # noqa: E402
from toy_models.transformer.fold import fold_gain, fold_gains  # noqa: E402
from toy_models.transformer.model import ModelConfig, Transformer  # noqa: E402
from toy_models.transformer.monitor import ResidualMonitor, ResidualStatistics  # noqa: E402
from toy_models.transformer.norms import (  # noqa: E402
    BoundedTanh,
    DynamicTanh,
    LayerNormScaling,
    NormModule,
    PeriNorm,
    RMSNorm,
    ScaledRMSNorm,
)
from toy_models.transformer.second_site import ApproximateBoundedTanh, AttentionMaps  # noqa: E402

__all__ = [
    "NORMS",
    "ApproximateBoundedTanh",
    "AttentionMaps",
    "BoundedTanh",
    "Conversion",
    "DynamicTanh",
    "LayerNormScaling",
    "ModelConfig",
    "NormConfig",
    "NormModule",
    "PeriNorm",
    "RMSNorm",
    "ResidualMonitor",
    "ResidualStatistics",
    "ScaledRMSNorm",
    "Transformer",
    "block_norms",
    "convert_norms",
    "fold_gain",
    "fold_gains",
]
