# Made by tools/build/stubs.py from the extension; do not edit.
import numpy

import maxsum.kernels.records


def sparse_vectors(design: maxsum.kernels.records.Design, regions: maxsum.kernels.records.Regions, ptr: numpy.ndarray, adj_edge: numpy.ndarray, member_ptr: numpy.ndarray, member_clique: numpy.ndarray, dense: numpy.ndarray, touched: numpy.ndarray, offset: numpy.ndarray) -> tuple[numpy.ndarray, numpy.ndarray, numpy.ndarray]:
    """
    z and loss of each labelling of each region, less those of the region's first labelling, as (ptr, column, value) of their entries.
    """

def base_plane(design: maxsum.kernels.records.Design, regions: maxsum.kernels.records.Regions, c: numpy.ndarray, index: numpy.ndarray, value: numpy.ndarray, u: numpy.ndarray) -> float:
    """
    Add sum_j c_j z_j of the labelling where every region has its first one; returns sum_j c_j b_j.
    """

def sparse_ascend(z_ptr: numpy.ndarray, column: numpy.ndarray, value: numpy.ndarray, offset: numpy.ndarray, alpha: numpy.ndarray, atom_ptr: numpy.ndarray, c: numpy.ndarray, u: numpy.ndarray, nonneg: numpy.ndarray, heaviness: float, centre: numpy.ndarray, n_passes: int, n_steps: int, enough: float) -> numpy.ndarray:
    """
    Pairwise steps in every region, in passes over them; returns the weights.
    """

def region_passes(z_ptr: numpy.ndarray, column: numpy.ndarray, value: numpy.ndarray, offset: numpy.ndarray, alpha: numpy.ndarray, atom_ptr: numpy.ndarray, c: numpy.ndarray, plain: numpy.ndarray, w: numpy.ndarray, nonneg: numpy.ndarray, n_passes: int, n_steps: int, least: float, gain: float, work: float, dense: numpy.ndarray, gaps: numpy.ndarray) -> tuple[float, float]:
    """
    Passes without a proximal term while they pay. Returns gain and work in all.
    """
