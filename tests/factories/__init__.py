"""Random problems, training data and files of datasets that more than one test draws from."""
