# Made by tools/build/stubs.py from the extension; do not edit.
import numpy


fields_of_Planes: tuple = ...

fields_of_Weights: tuple = ...

fields_of_Scratch: tuple = ...

def values(design: tuple, examples: numpy.ndarray, ptr: numpy.ndarray, labels: numpy.ndarray, w: numpy.ndarray, scratch: tuple, out: numpy.ndarray) -> None:
    """
    b - <w, z> of one labelling for each of ``examples``; those of the i-th are ``labels[ptr[i]:ptr[i + 1]]``.
    """

def insert_all(design: tuple, planes: tuple, examples: numpy.ndarray, ptr: numpy.ndarray, labels: numpy.ndarray, oldest: int, scratch: tuple, full: numpy.ndarray) -> None:
    """
    Store one labelling for each of ``examples``; ``full[i]`` is set where there was no room.
    """

def insert_vector(planes: tuple, j: int, n_nodes: int, vector: numpy.ndarray, offset: float, mark: int) -> int:
    """
    Store a plane by its vector, its labels marked: its slot, or -2 if there is no room.
    """

def entries(design: tuple, planes: tuple, scratch: tuple) -> tuple[numpy.ndarray, numpy.ndarray, numpy.ndarray]:
    """
    Vectors of all planes that are labellings, the first of each example left out, as (ptr, column, value) of their entries.
    """

def drop(design: tuple, planes: tuple, j: int, oldest: int) -> int:
    """
    Forget the planes of example ``j`` that had no weight in ``oldest`` visits; slot 0 stays. Returns how many.
    """

def drop_all(design: tuple, planes: tuple, oldest: numpy.ndarray) -> None:
    """
    `drop` the planes of every example ``j`` that had no weight in ``oldest[j]`` visits.
    """

def copy_planes(sizes: numpy.ndarray, old: tuple, old_capacity: numpy.ndarray, new: tuple, new_capacity: numpy.ndarray) -> None:
    """Move all planes to arrays with more room."""

def largest_difference(design: tuple) -> int:
    """
    Most entries that `difference` can write for any labelling of any example.
    """
