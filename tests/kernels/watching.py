"""Real runs in which every call of numba's kernels is answered by the compiled ones as well, on copies, and both have to agree."""

from __future__ import annotations

import contextlib
import importlib
from collections import Counter
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any
from unittest import mock

import numpy as np

from maxsum.kernels import _compiled_v3
from maxsum.kernels.maxflow import Flow


def clone(value: Any, known: dict[Any, np.ndarray] | None = None) -> Any:
    """A copy of arguments; arrays that share their memory share it in the copy."""
    known = {} if known is None else known
    if isinstance(value, np.ndarray):
        key = value.__array_interface__["data"][0], value.nbytes
        if value.size == 0 or key not in known:
            known[key] = value.copy()
        return known[key].view(value.dtype).reshape(value.shape)
    if isinstance(value, tuple):
        parts = [clone(part, known) for part in value]
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    return value


def same(x: Any, y: Any) -> None:
    """Equal results, bit by bit but for the sign of zeros."""
    if isinstance(x, Flow):  # of the circular queue only what is in it counts
        x, y = (flow._replace(queue=np.roll(flow.queue, -flow.state[0])[: flow.state[1]]) for flow in (x, y))
    if isinstance(x, tuple):
        assert len(x) == len(y)
        for p, q in zip(x, y, strict=True):
            same(p, q)
    elif isinstance(x, np.ndarray):
        assert x.dtype == y.dtype and x.shape == y.shape
        np.testing.assert_array_equal(x, y)
    else:
        assert x == y or x is y


def both(known: Callable[..., Any], ours: Callable[..., Any], *arguments: Any) -> Any:
    """Call both on copies, compare results and what was written; returns numba's result."""
    a, b = clone(arguments), clone(arguments)
    x, y = known(*a), ours(*b)
    same(x, y)
    same(a, b)
    return x


@contextlib.contextmanager
def watched(subject: str, *callers: str) -> Iterator[Counter[str]]:
    """While modules ``callers`` of maxsum call kernels of ``subject``, the compiled ones run on copies and have to agree; counts the calls."""
    theirs, ours, calls = importlib.import_module(f"maxsum.kernels.{subject}"), getattr(_compiled_v3, subject), Counter[str]()

    def spy(name: str) -> Callable[..., Any]:
        known, own = getattr(theirs, name), getattr(ours, name)

        def call(*arguments: Any) -> Any:
            copies = clone(arguments)
            result = known(*arguments)
            calls[name] += 1
            same(result, own(*copies))
            same(arguments, copies)
            return result

        return call

    spies = {name: spy(name) for name in dir(ours) if callable(getattr(ours, name)) and hasattr(theirs, name)}
    with contextlib.ExitStack() as stack:
        for caller in callers:
            module = importlib.import_module(f"maxsum.{caller}")
            for name, value in list(vars(module).items()):
                if value is theirs:
                    stack.enter_context(mock.patch.object(module, name, SimpleNamespace(**{**vars(theirs), **spies})))
                elif name in spies and value is getattr(theirs, name):
                    stack.enter_context(mock.patch.object(module, name, spies[name]))
        yield calls
