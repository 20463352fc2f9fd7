# Made by tools/build/stubs.py from the extension; do not edit.
import numpy

import maxsum.kernels.records


fields_of_TermArrays: tuple[str, ...]

fields_of_Separators: tuple[str, ...]

def holdings(terms: maxsum.kernels.records.TermArrays, order: maxsum.kernels.records.Separators) -> tuple[numpy.ndarray, numpy.ndarray, numpy.ndarray, numpy.ndarray]:
    """
    Which terms (edges, cliques, factors) and which messages each bag holds: ``(term_ptr, term, child_ptr, child)``.
    """

def eliminate(terms: maxsum.kernels.records.TermArrays, order: maxsum.kernels.records.Separators, term_ptr: numpy.ndarray, term: numpy.ndarray, child_ptr: numpy.ndarray, child: numpy.ndarray, messages: numpy.ndarray, first: int, last: int) -> int:
    """
    Messages of the bags ``first .. last - 1``, each with its maximum at 0. Returns the first bag in which nothing is possible, or -1.
    """

def trace_back(terms: maxsum.kernels.records.TermArrays, order: maxsum.kernels.records.Separators, term_ptr: numpy.ndarray, term: numpy.ndarray, child_ptr: numpy.ndarray, child: numpy.ndarray, messages: numpy.ndarray, labels: numpy.ndarray) -> None:
    """Labels of the nodes, from the last eliminated one to the first."""
