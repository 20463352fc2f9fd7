"""What is minimised: one file a surrogate (margin, lp, trivial, qp, logistic, likelihood), and what they share."""
