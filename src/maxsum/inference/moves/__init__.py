"""Solvers that go from labelling to labelling, without a bound of their own: one a file."""
