"""Questions other than the best labelling: the k best, sums over all labellings, probabilities, samples, max-marginals."""

from .k_best import KBest, k_best
from .log_partition import LogPartitionBracket, log_partition
from .marginals import Marginals, marginals
from .max_marginals import MaxMarginals, max_marginals
from .sample import Samples, sample

__all__ = [
    "KBest",
    "LogPartitionBracket",
    "Marginals",
    "MaxMarginals",
    "Samples",
    "k_best",
    "log_partition",
    "marginals",
    "max_marginals",
    "sample",
]
