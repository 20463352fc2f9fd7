"""The one decorator of all kernels.

Compiled code is cached on disk. ``MAXSUM_CACHE=0`` in the environment turns the cache off; where no cache can be written
(a read-only install without a home) numba would fail at the first kernel, so one warning is given and the cache is off.
"""

from __future__ import annotations

import os
import secrets
import warnings
from collections.abc import Callable
from typing import Any, TypeVar

import numba
from numba.core import event

from .clock import compile_time

F = TypeVar("F", bound=Callable[..., Any])

COMPILED = not numba.config.DISABLE_JIT  # type: ignore[attr-defined]
"""False where ``NUMBA_DISABLE_JIT=1`` lets kernels run as plain Python, to look for faults in them."""

_cache = os.environ.get("MAXSUM_CACHE", "1") != "0"


def kernel(function: F) -> F:
    """Compile without the GIL; NaN never enters a kernel, so maxima may be vectorised (``-inf`` keeps its meaning)."""
    global _cache
    options: dict[str, Any] = dict(nogil=True, error_model="numpy", fastmath={"nnan", "nsz"})
    if _cache:
        try:
            compiled = numba.njit(cache=True, **options)(function)
            _name_apart(compiled)
            return compiled
        except RuntimeError as error:
            _cache = False
            warnings.warn(
                f"no place for compiled kernels can be written ({error}); every process compiles them anew. "
                "Set NUMBA_CACHE_DIR to a folder that can be written.",
                RuntimeWarning,
                stacklevel=2,
            )
    return numba.njit(**options)(function)


_files: list[tuple[Any, str]] = []


def _name_apart(compiled: Any) -> None:
    """Give the files of compiled code names of this process.

    numba counts them, 1, 2, ...: two processes that compile different signatures of a kernel at a time would both take the next number,
    and one would find the other's code under its own signature.
    """
    file = getattr(getattr(compiled, "_cache", None), "_cache_file", None)
    pattern = getattr(file, "_data_name_pattern", None)
    if isinstance(pattern, str):
        _files.append((file, pattern.removesuffix(".nbc")))
        _rename(_files[-1:], secrets.token_hex(4))


def _rename(files: list[tuple[Any, str]], token: str) -> None:
    for file, pattern in files:
        file._data_name_pattern = f"{pattern}.{token}.nbc"


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=lambda: _rename(_files, secrets.token_hex(4)))


class _Listener(event.Listener):
    """Tells the clock of the thread when it enters the compiler and leaves it."""

    def on_start(self, event: Any) -> None:
        compile_time().enter()

    def on_end(self, event: Any) -> None:
        compile_time().leave()


event.register("numba:compiler_lock", _Listener())  # held while compiling and while loading from the cache on disk
