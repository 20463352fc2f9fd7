"""Kernels that return wrong numbers: each compiled function that the solvers call is wrapped, one at a time."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import maxsum.inference as inference
import maxsum.kernels as kernels
from maxsum.core.errors import MaxsumError

# What a run with wrong numbers may end with.
EXPECTED = (MaxsumError, ArithmeticError, ValueError, AssertionError)

FACTORS = (-1.0, 0.0, 0.5, 2.0, 1e3)


Place = tuple[ModuleType, str]


def compiled_functions(*packages: ModuleType) -> list[Place]:
    """Module and name of every compiled function of some packages, where their code looks it up."""
    found = []
    for package in packages:
        for module in _modules(package):
            found += [(module, name) for name, value in vars(module).items() if type(value).__name__ == "nb_func"]
    return sorted(found, key=lambda place: (place[0].__name__, place[1]))


def _modules(package: ModuleType) -> list[ModuleType]:
    """Modules of a package; those of the compiled extension are attributes of it."""
    files = [importlib.import_module(f"{package.__name__}.{own.name}") for own in pkgutil.iter_modules(package.__path__)]
    return files + [own for own in vars(package).values() if isinstance(own, ModuleType) and own not in files]


def functions_called(run: Callable[[], Any], monkeypatch: pytest.MonkeyPatch, *packages: ModuleType) -> list[Place]:
    """Those of the compiled functions that ``run`` calls."""
    called: set[Place] = set()

    def counting(function: Callable[..., Any], place: Place) -> Callable[..., Any]:
        def count(*arguments: Any) -> Any:
            called.add(place)
            return function(*arguments)

        return count

    everything = compiled_functions(*packages)
    with monkeypatch.context() as patch:
        for module, name in everything:
            patch.setattr(module, name, counting(getattr(module, name), (module, name)))
        run()
    return [place for place in everything if place in called]


def _constants() -> set[int]:
    """Identities of the arrays that modules keep: made wrong, they would stay so for every test that follows."""
    found = set()
    for package in (inference, kernels):
        for module in pkgutil.iter_modules(package.__path__):
            values = vars(importlib.import_module(f"{package.__name__}.{module.name}")).values()
            found |= {id(value) for value in values if isinstance(value, np.ndarray)}
    return found


def sabotaged(function: Callable[..., Any], rng: np.random.Generator) -> Callable[..., Any]:
    """The function, with one number that it returns, or the messages that it writes, made wrong. Whole numbers stay: a wrong index
    would be a fault of memory, not of a claim."""

    kept = _constants()

    def wrong(*arguments: Any) -> Any:
        answer = function(*arguments)
        if rng.random() < 0.5:
            for array in arguments:
                writes = isinstance(array, np.ndarray) and array.dtype == np.float64 and array.flags.writeable and array.size
                if writes and id(array) not in kept and rng.random() < 0.5:
                    finite = np.isfinite(array)
                    array[finite] += rng.normal(size=int(finite.sum())) * 10.0 ** float(rng.integers(-6, 3))
        return _wrong(answer, rng)

    return wrong


def _wrong(answer: Any, rng: np.random.Generator) -> Any:
    if isinstance(answer, float) and not np.isnan(answer):
        return answer * float(rng.choice(FACTORS)) + float(rng.normal()) if np.isfinite(answer) else answer
    if isinstance(answer, tuple) and type(answer) is tuple and answer:
        at = int(rng.integers(len(answer)))
        return tuple(_wrong(own, rng) if i == at else own for i, own in enumerate(answer))
    return answer
