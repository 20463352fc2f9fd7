"""Numba functions: arrays and scalars in, arrays out. They know nothing of problems, solvers or files."""
