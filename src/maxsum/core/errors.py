"""Every error that maxsum raises on purpose. Messages name object, fault, what was found, what is wanted, and a way out."""

from __future__ import annotations


class MaxsumError(Exception):
    """Base class of all maxsum errors."""


class InvalidGraphError(MaxsumError, ValueError):
    """A graph description that is not a simple graph on the nodes 0 to ``n_nodes - 1``."""


class InvalidProblemError(MaxsumError, ValueError):
    """Scores, tables, cliques or labels that do not fit their graph or are not legal numbers."""


class NotAssociativeError(InvalidProblemError):
    """A clique weight is negative, so the term is not associative."""


class InfeasibleError(InvalidProblemError):
    """A node has every label forbidden, so no labelling exists."""


class UnsupportedProblemError(MaxsumError, ValueError):
    """The solver cannot handle this problem; the message names the witness and who can."""


class CertificateError(MaxsumError, RuntimeError):
    """A claimed score, bound or gap contradicts the certificate."""


class CheckTimeout(MaxsumError, TimeoutError):
    """A check of a proof that did not end in its time limit: nothing is known from it, for or against the claims."""


class ParseError(MaxsumError, ValueError):
    """A file is broken, truncated or hostile.

    Parameters
    ----------
    message : str
    path : str, optional
        The file, to stand before the message.
    line : int, optional
        One-based line of the fault, to stand there too.

    Attributes
    ----------
    line : int or None
        One-based line of the fault, where the format has lines.
    """

    def __init__(self, message: str, path: str | None = None, line: int | None = None):
        where = "" if path is None else f"{path}: "
        where += "" if line is None else f"line {line}: "
        super().__init__(where + message)
        self.line = line


class InvalidParameterError(MaxsumError, ValueError):
    """A setting that is not legal, or that does not go with another one: C, tol, the name of a solver, an option of the command line."""


class InvalidSampleError(MaxsumError, ValueError):
    """Observations, labels or weights of a model that do not fit each other or are not legal numbers."""


class NotFittedError(MaxsumError, ValueError, AttributeError):
    """Something is used before it was fitted."""


class OracleError(MaxsumError, RuntimeError):
    """An oracle raised, or returned something that is not an answer for its example."""


class CheckpointError(MaxsumError, ValueError):
    """A checkpoint that is broken, of another version, or of other data."""


class ModelFileError(MaxsumError, ValueError):
    """A model that cannot be written to a file, or a model file that is broken, hostile, or of another version."""


class ExecutorError(MaxsumError, RuntimeError):
    """Workers died again and again, or the scheduler of a cluster is gone."""
