"""Attacks on every claim of the library: hostile problems, forged proofs, sabotaged kernels. A lie that is accepted is a failure."""
