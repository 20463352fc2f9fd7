"""Data sets that are drawn at random."""
