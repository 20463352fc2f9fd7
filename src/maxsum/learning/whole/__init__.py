"""Objectives whose slacks bound the 0/1 loss of an example: a labelling is right or wrong as a whole."""
