# Made by tools/build/stubs.py from the extension; do not edit.
import numpy

import maxsum.kernels.records


fields_of_Regions: tuple[str, ...]

def extend(design: maxsum.kernels.records.Design, old: maxsum.kernels.records.Regions, labels: numpy.ndarray, memory: int) -> tuple[numpy.ndarray, numpy.ndarray, numpy.ndarray, numpy.ndarray, numpy.ndarray, numpy.ndarray, numpy.ndarray, numpy.ndarray, numpy.ndarray, numpy.ndarray]:
    """Regions with a new labelling of all nodes; the fields of `Regions`."""

def marginals(regions: maxsum.kernels.records.Regions, node: numpy.ndarray, edges: numpy.ndarray, edge: numpy.ndarray) -> None:
    """
    Marginals of the nodes of regions, a row a node as in ``regions.node``, and of edges inside one region.
    """
