"""Solvers that end with the best labelling, each for the problems where it can: one a file."""
