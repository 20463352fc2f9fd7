"""Models: how samples and weights become max-sum problems."""

from __future__ import annotations

from .bound import BoundModel
from .cone import Cone
from .features import Codes, Dense, Dicts, Hashed, Kernel, NodeFeatures, Sparse
from .graph_model import GraphModel
from .joint_model import JointModel
from .sample import GraphSample

__all__ = [
    "BoundModel",
    "Codes",
    "Cone",
    "Dense",
    "Dicts",
    "GraphModel",
    "GraphSample",
    "Hashed",
    "JointModel",
    "Kernel",
    "NodeFeatures",
    "Sparse",
]
