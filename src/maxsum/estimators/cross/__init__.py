"""Estimators that choose ``C`` by cross-validation: each fold is trained for all values on a warm path."""
