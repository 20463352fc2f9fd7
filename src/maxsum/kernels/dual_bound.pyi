# Made by tools/build/stubs.py from the extension; do not edit.
from typing import overload

import numpy

import maxsum.kernels.records


fields_of_Copies: tuple[str, ...]

@overload
def best_labellings(starts: numpy.ndarray, n_states: numpy.ndarray, edges: numpy.ndarray, parent_edge: numpy.ndarray, parent_side: numpy.ndarray, edge_table: numpy.ndarray, edge_weight: numpy.ndarray, tables: numpy.ndarray, turned: numpy.ndarray, n_labels: int, first: int, last: int, theta: numpy.ndarray, labels: numpy.ndarray, value: numpy.ndarray) -> None: ...

@overload
def best_labellings(starts: numpy.ndarray, n_states: numpy.ndarray, edges: numpy.ndarray, parent_edge: numpy.ndarray, parent_side: numpy.ndarray, edge_table: numpy.ndarray, edge_weight: numpy.ndarray, tables: numpy.ndarray, turned: numpy.ndarray, n_labels: int, first: int, last: int, theta: numpy.ndarray, labels: numpy.ndarray, value: numpy.ndarray) -> None:
    """
    Best labellings of the trees ``first .. last - 1`` and their scores, by dynamic programming; arrays are flat.
    """

@overload
def shared_difference(design: maxsum.kernels.records.Design, copies: maxsum.kernels.records.Copies, j: int, labels: numpy.ndarray, dense: numpy.ndarray) -> float: ...

@overload
def shared_difference(design: maxsum.kernels.records.Design, copies: maxsum.kernels.records.Copies, j: int, labels: numpy.ndarray, dense: numpy.ndarray) -> float:
    """
    Add the difference of features of the truth and of ``labels`` to ``dense``, every copy with its share; returns the loss, shared alike.
    """

@overload
def disagreements(copies: maxsum.kernels.records.Copies, j: int, labels: numpy.ndarray, row: numpy.ndarray, plus: numpy.ndarray, minus: numpy.ndarray) -> int: ...

@overload
def disagreements(copies: maxsum.kernels.records.Copies, j: int, labels: numpy.ndarray, row: numpy.ndarray, plus: numpy.ndarray, minus: numpy.ndarray) -> int:
    """
    The part of a subgradient in the messages of example ``j``: +1 at (``row``, ``plus``), -1 at (``row``, ``minus``); returns their number.
    """

@overload
def add_labelling(copies: maxsum.kernels.records.Copies, design: maxsum.kernels.records.Design, weight: float, j: int, labels: numpy.ndarray, node: numpy.ndarray, edge: numpy.ndarray) -> None: ...

@overload
def add_labelling(copies: maxsum.kernels.records.Copies, design: maxsum.kernels.records.Design, weight: float, j: int, labels: numpy.ndarray, node: numpy.ndarray, edge: numpy.ndarray) -> None:
    """
    Add ``weight`` times a labelling of the trees of example ``j`` to its tables; a node is the mean of its copies.
    """

@overload
def message_products(row: numpy.ndarray, plus: numpy.ndarray, minus: numpy.ndarray, ptr: numpy.ndarray, blocks: numpy.ndarray, block: int, phi: numpy.ndarray, weight: numpy.ndarray, out: numpy.ndarray) -> None: ...

@overload
def message_products(row: numpy.ndarray, plus: numpy.ndarray, minus: numpy.ndarray, ptr: numpy.ndarray, blocks: numpy.ndarray, block: int, phi: numpy.ndarray, weight: numpy.ndarray, out: numpy.ndarray) -> None:
    """
    Products of messages and the stored subgradients of one block (of all if it is -1), 0 for the others.
    """

@overload
def combine_messages(row: numpy.ndarray, plus: numpy.ndarray, minus: numpy.ndarray, ptr: numpy.ndarray, alpha: numpy.ndarray, weight: numpy.ndarray, out: numpy.ndarray) -> None: ...

@overload
def combine_messages(row: numpy.ndarray, plus: numpy.ndarray, minus: numpy.ndarray, ptr: numpy.ndarray, alpha: numpy.ndarray, weight: numpy.ndarray, out: numpy.ndarray) -> None:
    """Add the stored subgradients, each ``alpha[i]`` times, to ``out``."""

def share_scores(copies: maxsum.kernels.records.Copies, scores: numpy.ndarray, phi: numpy.ndarray, first: int, last: int, theta: numpy.ndarray) -> None:
    """
    Scores of the copies of the examples ``first .. last - 1``: a share of their node's, and the messages.
    """

def truth_scores(design: maxsum.kernels.records.Design, scores: numpy.ndarray, edge_table: numpy.ndarray, edge_weight: numpy.ndarray, tables: numpy.ndarray, first: int, last: int, out: numpy.ndarray) -> None:
    """
    Score of the true labelling of each of the examples ``first .. last - 1``; its loss is 0.
    """

def add_tree_labellings(copies: maxsum.kernels.records.Copies, planes: tuple[numpy.ndarray, numpy.ndarray, numpy.ndarray, numpy.ndarray, numpy.ndarray, numpy.ndarray, numpy.ndarray, numpy.ndarray, numpy.ndarray, numpy.ndarray], c: numpy.ndarray, node: numpy.ndarray, edge: numpy.ndarray) -> None:
    """
    Add the mixture of labellings that each tree has to the tables; a node is the mean of its copies.
    """
