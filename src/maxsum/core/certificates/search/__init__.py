"""Proofs by branching: the tree of boxes, the passes that close them, and the numbers in which they are evaluated."""
