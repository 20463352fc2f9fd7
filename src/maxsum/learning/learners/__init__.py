"""How it is minimised: one learner a file."""
