"""Commands for questions other than the best labelling: the k best, probabilities, samples."""
