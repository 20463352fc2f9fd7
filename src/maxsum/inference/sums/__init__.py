"""Sums over all labellings: log-partition functions and marginals, exact or bracketed."""
