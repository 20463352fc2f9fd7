"""Max-sum problems on Markov networks, solved with a proof of how good every answer is."""

from __future__ import annotations

from typing import Any

from .core.certificates.base import Certificate, Verification
from .core.cliques import Cliques
from .core.errors import (
    CertificateError,
    CheckpointError,
    CheckTimeout,
    ExecutorError,
    InfeasibleError,
    InvalidGraphError,
    InvalidParameterError,
    InvalidProblemError,
    InvalidSampleError,
    MaxsumError,
    ModelFileError,
    NotAssociativeError,
    OracleError,
    ParseError,
    UnsupportedProblemError,
)
from .core.graph import Graph
from .core.problem import Messages, Problem
from .core.result import Guarantee, Result, Termination

__version__ = "0.1.0"

__all__ = [
    "Certificate",
    "CertificateError",
    "CheckTimeout",
    "CheckpointError",
    "Cliques",
    "ExecutorError",
    "Graph",
    "GraphLabeler",
    "GraphLabelerCV",
    "GraphSample",
    "GridLabeler",
    "GridLabelerCV",
    "Guarantee",
    "InfeasibleError",
    "InvalidGraphError",
    "InvalidParameterError",
    "InvalidProblemError",
    "InvalidSampleError",
    "MaxsumError",
    "Messages",
    "ModelFileError",
    "MultiLabelClassifier",
    "MultiLabelClassifierCV",
    "NotAssociativeError",
    "OracleError",
    "ParseError",
    "Problem",
    "Result",
    "SequenceLabeler",
    "SequenceLabelerCV",
    "Termination",
    "UnsupportedProblemError",
    "Verification",
    "calibration",
    "datasets",
    "estimators",
    "factors",
    "graphs",
    "inference",
    "k_best",
    "learning",
    "load_model",
    "log_partition",
    "losses",
    "marginals",
    "max_marginals",
    "metrics",
    "models",
    "parts",
    "plotting",
    "read_problem",
    "refine",
    "report",
    "sample",
    "save_model",
    "solve",
    "storage",
]


_MODULES = (
    "calibration",
    "datasets",
    "estimators",
    "factors",
    "graphs",
    "inference",
    "learning",
    "losses",
    "metrics",
    "models",
    "parts",
    "plotting",
    "report",
    "storage",
)
_HOME = {
    "GraphLabeler": ".estimators",
    "GraphLabelerCV": ".estimators",
    "GraphSample": ".models",
    "GridLabeler": ".estimators",
    "GridLabelerCV": ".estimators",
    "MultiLabelClassifier": ".estimators",
    "MultiLabelClassifierCV": ".estimators",
    "SequenceLabeler": ".estimators",
    "SequenceLabelerCV": ".estimators",
    "k_best": ".inference.questions",
    "load_model": ".storage",
    "log_partition": ".inference.questions",
    "marginals": ".inference.questions",
    "max_marginals": ".inference.questions",
    "read_problem": ".core.files",
    "refine": ".estimators.images.refine",
    "sample": ".inference.questions",
    "save_model": ".storage",
    "solve": ".inference",
}


def __getattr__(name: str) -> Any:
    import importlib

    if name in _MODULES:
        return importlib.import_module(f".{name}", __name__)
    if name in _HOME:
        return getattr(importlib.import_module(_HOME[name], __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
