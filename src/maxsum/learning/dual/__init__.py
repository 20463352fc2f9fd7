"""What a lower bound is made of: planes with multipliers, by example or by region, and pseudo-marginals."""
