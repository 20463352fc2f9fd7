# Made by tools/build/stubs.py from the extension; do not edit.
from typing import overload

import numpy

import maxsum.kernels.records


NO_SHARE: float = -1.0

fields_of_Move: tuple[str, ...]

def link(net: maxsum.kernels.records.Net, flow: maxsum.kernels.records.Flow, slot: numpy.ndarray) -> None:
    """Heads and sisters of all arcs. ``flow.ptr`` is filled in here as well."""

@overload
def shares_of_messages(net: maxsum.kernels.records.Net, messages: numpy.ndarray, labels: numpy.ndarray, alpha: int, shares: numpy.ndarray) -> None: ...

@overload
def shares_of_messages(net: maxsum.kernels.records.Net, messages: numpy.ndarray, labels: numpy.ndarray, alpha: int, shares: numpy.ndarray) -> None:
    """Shares with which the move starts from the reparametrised scores."""

@overload
def choose_active(net: maxsum.kernels.records.Net, labels: numpy.ndarray, alpha: int, hard: bool, active: numpy.ndarray) -> int: ...

@overload
def choose_active(net: maxsum.kernels.records.Net, labels: numpy.ndarray, alpha: int, hard: bool, active: numpy.ndarray) -> int:
    """
    Nodes that may take ``alpha``: it is not theirs yet, not forbidden, and no neighbour that must stay forbids it.
    """

@overload
def fill(net: maxsum.kernels.records.Net, flow: maxsum.kernels.records.Flow, move: maxsum.kernels.records.Move, labels: numpy.ndarray, alpha: int) -> int: ...

@overload
def fill(net: maxsum.kernels.records.Net, flow: maxsum.kernels.records.Flow, move: maxsum.kernels.records.Move, labels: numpy.ndarray, alpha: int) -> int:
    """
    Capacities and excesses of the move to ``alpha``; returns how many variables have positive excess.
    """

@overload
def gain(net: maxsum.kernels.records.Net, flow: maxsum.kernels.records.Flow, move: maxsum.kernels.records.Move, labels: numpy.ndarray, alpha: int) -> tuple[float, int, float]: ...

@overload
def gain(net: maxsum.kernels.records.Net, flow: maxsum.kernels.records.Flow, move: maxsum.kernels.records.Move, labels: numpy.ndarray, alpha: int) -> tuple[float, int, float]:
    """
    What the labelling gains if the nodes of the source tree take ``alpha``, their number, and the rounding error of the gain.
    """

@overload
def take(labels: numpy.ndarray, active: numpy.ndarray, alpha: int) -> None: ...

@overload
def take(labels: numpy.ndarray, active: numpy.ndarray, alpha: int) -> None:
    """Make the move that `gain` has measured."""

def start_from_sources(flow: maxsum.kernels.records.Flow) -> None:
    """As `maxflow.start`, but only sources are active."""

def keep(net: maxsum.kernels.records.Net, flow: maxsum.kernels.records.Flow, move: maxsum.kernels.records.Move, alpha: int) -> None:
    """Remember the flow of the move for the next move to the same label."""

def first_conflict(tables: numpy.ndarray, number: numpy.ndarray, sign: numpy.ndarray, rows: numpy.ndarray, cols: numpy.ndarray, noise: float) -> tuple[int, int, int, int]:
    """
    The first edge that an expansion move makes not supermodular, the label of the move and the labels of the ends; -1 if there is none.
    """
