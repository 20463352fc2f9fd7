"""Proofs: what a certificate is, its four forms, and the arithmetic that judges them."""
