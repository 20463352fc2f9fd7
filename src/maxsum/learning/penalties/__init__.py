"""Penalties that make weights exactly zero: the objective with its certificate, and its learner."""
