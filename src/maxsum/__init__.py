"""Max-sum problems on Markov networks, solved with a proof of how good every answer is."""

from __future__ import annotations

from typing import Any

from .core.certificate import Certificate, Verification
from .core.cliques import Cliques
from .core.errors import (
    CertificateError,
    InfeasibleError,
    InvalidGraphError,
    InvalidProblemError,
    MaxsumError,
    NotAssociativeError,
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
    "Cliques",
    "Graph",
    "Guarantee",
    "InfeasibleError",
    "InvalidGraphError",
    "InvalidProblemError",
    "MaxsumError",
    "Messages",
    "NotAssociativeError",
    "ParseError",
    "Problem",
    "Result",
    "Termination",
    "UnsupportedProblemError",
    "Verification",
    "inference",
    "read_problem",
    "solve",
]


def __getattr__(name: str) -> Any:
    import importlib

    if name == "inference":
        return importlib.import_module(".inference", __name__)
    if name == "solve":
        return importlib.import_module(".inference", __name__).solve
    if name == "read_problem":
        return importlib.import_module(".core.files", __name__).read_problem
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
