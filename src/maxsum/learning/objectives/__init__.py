"""What is minimised: one file a surrogate (margin, lp, trivial, qp, logistic, likelihood, pseudolikelihood), and what they share."""
