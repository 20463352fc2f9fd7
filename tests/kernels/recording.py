"""Record the arguments of numba kernels during real runs: with recording("maxsum.inference.x.y", "kernel_name", ...) as calls: run(); calls = list of (args copies)."""

import contextlib
import importlib

import numpy as np


def clone(a):
    if isinstance(a, np.ndarray):
        return a.copy()
    if isinstance(a, tuple):
        parts = [clone(x) for x in a]
        return type(a)(*parts) if hasattr(a, "_fields") else tuple(parts)
    return a


@contextlib.contextmanager
def recording(module, name, most=20):
    """module: dotted path of the CALLING module (or of the kernel module when it is called as kernels.name)."""
    mod = importlib.import_module(module)
    own, calls = getattr(mod, name), []

    def spy(*args):
        if len(calls) < most:
            calls.append(tuple(clone(a) for a in args))
        return own(*args)

    setattr(mod, name, spy)
    try:
        yield calls
    finally:
        setattr(mod, name, own)


def replay(calls, numba_kernel, ours):
    """Equal results and equal writes of both, for all recorded calls. NB arrays that alias each other in the call (value is plain) do not alias in the copies."""
    for args in calls:
        a, b = clone(args), clone(args)
        x, y = numba_kernel(*a), ours(*b)
        same(x, y)
        same(a, b)


def same(x, y):
    if isinstance(x, tuple) or isinstance(y, tuple):
        assert len(x) == len(y)
        for p, q in zip(x, y, strict=True):
            same(p, q)
    elif isinstance(x, np.ndarray):
        assert x.dtype == y.dtype and x.shape == y.shape, (x.dtype, y.dtype, x.shape, y.shape)
        np.testing.assert_array_equal(x, y)
    elif x is not None:
        assert x == y or (x != x and y != y), (x, y)
