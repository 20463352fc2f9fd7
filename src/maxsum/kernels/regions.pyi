# Made by tools/build/stubs.py from the extension; do not edit.
import numpy


fields_of_Regions: tuple = ...

def extend(design: tuple, old: tuple, labels: numpy.ndarray, memory: int) -> tuple[numpy.ndarray, numpy.ndarray, numpy.ndarray, numpy.ndarray, numpy.ndarray, numpy.ndarray, numpy.ndarray, numpy.ndarray, numpy.ndarray, numpy.ndarray]:
    """Regions with a new labelling of all nodes; the fields of `Regions`."""

def marginals(regions: tuple, node: numpy.ndarray, edges: numpy.ndarray, edge: numpy.ndarray) -> None:
    """
    Marginals of the nodes of regions, a row a node as in ``regions.node``, and of edges inside one region.
    """
