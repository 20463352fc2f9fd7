"""Penalties that make weights exactly zero: objectives with their certificates, and their learners."""
