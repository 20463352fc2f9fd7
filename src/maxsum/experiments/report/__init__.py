"""Reports of experiments: what they say, and the page of all of them."""

from .claims import Claim, Plot, Report

__all__ = ["Claim", "Plot", "Report"]
