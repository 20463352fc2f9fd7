"""Models: how samples and weights become max-sum problems."""

from __future__ import annotations

from .bound import BoundModel
from .cone import Cone
from .convex import Convex
from .features import Codes, Dense, Dicts, Hashed, Kernel, KernelMap, Sparse
from .graph_model import GraphModel
from .images.tests import PixelTests
from .matting import Matting
from .sample import GraphSample
from .trees import Trees

__all__ = [
    "BoundModel",
    "Codes",
    "Cone",
    "Convex",
    "Dense",
    "Dicts",
    "GraphModel",
    "GraphSample",
    "Hashed",
    "Kernel",
    "KernelMap",
    "Matting",
    "PixelTests",
    "Sparse",
    "Trees",
]
