"""Objective and lower bound of given weights and proofs in plain numpy and in rational numbers: what certificates are checked with."""
