"""Layers and losses for PyTorch: between the network that scores and the answer that must be consistent. ``pip install "maxsum[torch]"``.

Losses are modules with pairwise weights of their own; they take scores of a network, for chains, grids and graphs, and `decode` gives the best
labellings with their proofs. Kernels run on the CPU in float64; tensors of a GPU are moved there and back.
"""

from __future__ import annotations

try:
    import torch as _torch  # noqa: F401
except ImportError as _error:
    raise ImportError(
        'maxsum.torch needs PyTorch, which is not installed here. Install it with pip install "maxsum[torch]"; all else of maxsum works without it.'
    ) from _error

from .bridge import from_estimator
from .decoding import Decoded, decode
from .layer import MaxSumLayer
from .losses import CRFLoss, PerturbedFenchelYoung, PseudoLikelihood, SmoothedHinge, StructuredHinge

__all__ = [
    "CRFLoss",
    "Decoded",
    "MaxSumLayer",
    "PerturbedFenchelYoung",
    "PseudoLikelihood",
    "SmoothedHinge",
    "StructuredHinge",
    "decode",
    "from_estimator",
]
