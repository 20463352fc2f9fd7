"""Models: how samples and weights become max-sum problems."""

from __future__ import annotations

from .bound import BoundModel
from .cone import Cone
from .convex import Convex, ConvexBound
from .features import Codes, Dense, Dicts, Hashed, Kernel, KernelMap, NodeFeatures, Sparse
from .graph_model import GraphModel
from .joint_model import JointModel
from .matting import Matting, MattingLaplacian, RestrictedOperator
from .sample import GraphSample
from .trees import FeatureTests, TreeFeatures, Trees

__all__ = [
    "BoundModel",
    "Codes",
    "Cone",
    "Convex",
    "ConvexBound",
    "Dense",
    "Dicts",
    "FeatureTests",
    "GraphModel",
    "GraphSample",
    "Hashed",
    "JointModel",
    "Kernel",
    "KernelMap",
    "Matting",
    "MattingLaplacian",
    "NodeFeatures",
    "RestrictedOperator",
    "Sparse",
    "TreeFeatures",
    "Trees",
]
