# Made by tools/build/stubs.py from the extension; do not edit.
import numpy

import maxsum.kernels.records


fields_of_Planes: tuple[str, ...]

fields_of_Weights: tuple[str, ...]

fields_of_Scratch: tuple[str, ...]

def values(design: maxsum.kernels.records.Design, examples: numpy.ndarray, ptr: numpy.ndarray, labels: numpy.ndarray, w: numpy.ndarray, scratch: maxsum.kernels.records.Scratch, out: numpy.ndarray) -> None:
    """
    b - <w, z> of one labelling for each of ``examples``; those of the i-th are ``labels[ptr[i]:ptr[i + 1]]``.
    """

def insert_all(design: maxsum.kernels.records.Design, planes: maxsum.kernels.records.Planes, examples: numpy.ndarray, ptr: numpy.ndarray, labels: numpy.ndarray, oldest: int, scratch: maxsum.kernels.records.Scratch, full: numpy.ndarray) -> None:
    """
    Store one labelling for each of ``examples``; ``full[i]`` is set where there was no room.
    """

def insert_vector(planes: maxsum.kernels.records.Planes, j: int, n_nodes: int, vector: numpy.ndarray, offset: float, mark: int) -> int:
    """
    Store a plane by its vector, its labels marked: its slot, or -2 if there is no room.
    """

def entries(design: maxsum.kernels.records.Design, planes: maxsum.kernels.records.Planes, scratch: maxsum.kernels.records.Scratch) -> tuple[numpy.ndarray, numpy.ndarray, numpy.ndarray]:
    """
    Vectors of all planes that are labellings, the first of each example left out, as (ptr, column, value) of their entries.
    """

def drop(design: maxsum.kernels.records.Design, planes: maxsum.kernels.records.Planes, j: int, oldest: int) -> int:
    """
    Forget the planes of example ``j`` that had no weight in ``oldest`` visits; slot 0 stays. Returns how many.
    """

def drop_all(design: maxsum.kernels.records.Design, planes: maxsum.kernels.records.Planes, oldest: numpy.ndarray) -> None:
    """
    `drop` the planes of every example ``j`` that had no weight in ``oldest[j]`` visits.
    """

def copy_planes(sizes: numpy.ndarray, old: maxsum.kernels.records.Planes, old_capacity: numpy.ndarray, new: maxsum.kernels.records.Planes, new_capacity: numpy.ndarray) -> None:
    """Move all planes to arrays with more room."""

def largest_difference(design: maxsum.kernels.records.Design) -> int:
    """
    Most entries that `difference` can write for any labelling of any example.
    """
