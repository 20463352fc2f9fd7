"""Quadratic programs over simplices: the block form with its solver, and the reduced dual problem of learners; used by inference and learning."""
