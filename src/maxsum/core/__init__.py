"""Graphs, problems, structure facts, certificates, results and file formats: numpy only."""
