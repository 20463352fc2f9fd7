"""Solvers of relaxations, which bound every score from above and round to a labelling: one a file, and what they share."""
