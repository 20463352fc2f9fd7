"""Models: how samples and weights become max-sum problems."""

from __future__ import annotations

from .bound import BoundModel
from .cone import Cone
from .convex import Convex, ConvexBound
from .features import Codes, Dense, Dicts, Hashed, Kernel, NodeFeatures, Sparse
from .graph_model import GraphModel
from .joint_model import JointModel
from .matting import MattingLaplacian, RestrictedOperator
from .sample import GraphSample
from .trees import TreeFeatures

__all__ = [
    "BoundModel",
    "Codes",
    "Cone",
    "Convex",
    "ConvexBound",
    "Dense",
    "Dicts",
    "GraphModel",
    "GraphSample",
    "Hashed",
    "JointModel",
    "Kernel",
    "MattingLaplacian",
    "NodeFeatures",
    "RestrictedOperator",
    "Sparse",
    "TreeFeatures",
]
