# Made by tools/build/stubs.py from the extension; do not edit.
import numpy

import maxsum.kernels.records


def trivial_sweeps(design: maxsum.kernels.records.Design, ptr: numpy.ndarray, adj_edge: numpy.ndarray, adj_side: numpy.ndarray, n_states: numpy.ndarray, examples: numpy.ndarray, max_sweeps: int, shared: int, gram: numpy.ndarray, w: numpy.ndarray, phi: numpy.ndarray, sums: numpy.ndarray, bank: numpy.ndarray, total: numpy.ndarray) -> tuple[int, int, int]:
    """
    Algorithm 3 of Franc and Savchynskyy 2008: sweeps over all inequalities (20) of some examples, until one makes no update: (sweeps, updates, updates of the last sweep).
    """

def trivial_check(design: maxsum.kernels.records.Design, ptr: numpy.ndarray, adj_edge: numpy.ndarray, adj_side: numpy.ndarray, n_states: numpy.ndarray, examples: numpy.ndarray, w: numpy.ndarray, phi: numpy.ndarray, row: numpy.ndarray, least: numpy.ndarray, keys: numpy.ndarray, violated: numpy.ndarray) -> None:
    """
    Exhaustive search over the inequalities <z, w> > 0 of (20) for some examples.
    """

def enter_cone(nonneg: numpy.ndarray, quads: numpy.ndarray, step: float, count: float, w: numpy.ndarray, drift: numpy.ndarray) -> int:
    """
    Steps 2 and 3 of Algorithm 2 of Franc and Savchynskyy (2008) until every table is strictly supermodular; returns the number of updates.
    """

def margin_pass(design: maxsum.kernels.records.Design, examples: numpy.ndarray, key_ptr: numpy.ndarray, labels: numpy.ndarray, margin: float, nonneg: numpy.ndarray, quads: numpy.ndarray, step: float, count: int, index: numpy.ndarray, value: numpy.ndarray, w: numpy.ndarray, drift: numpy.ndarray) -> tuple[int, int]:
    """
    Step 3 of Algorithm 1 of Franc and Savchynskyy (2008); returns (updates, updates of the cone).
    """

def products(design: maxsum.kernels.records.Design, examples: numpy.ndarray, key_ptr: numpy.ndarray, labels: numpy.ndarray, index: numpy.ndarray, value: numpy.ndarray, w: numpy.ndarray, product: numpy.ndarray, wrong: numpy.ndarray) -> None:
    """For a labelling of each example: <w, z> and the number of wrong nodes."""
