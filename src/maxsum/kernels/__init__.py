"""Kernels in C++: arrays and numbers in, arrays out, without the GIL. Python sees ``maxsum.kernels.tree`` and so on, one module a source file.

There is one build for every processor of the platform and, on x86-64, one for those with AVX2 (x86-64-v3), which is taken where it runs;
``MAXSUM_CPU=baseline`` in the environment keeps to the first. Both give the same bits. ``MAXSUM_KERNELS`` names a folder with another build, such as one
that checks memory (``python -m benchmarks sanitize``). `records` has the tuples of arrays that kernels take.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from importlib import import_module
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from types import ModuleType


def _load(name: str) -> ModuleType:
    """The extension of that name: the installed one, or that of the folder in ``MAXSUM_KERNELS`` and no other.

    It is not left to ``__path__``, since an editable installation has a finder of its own that does not look there.
    """
    folder = os.environ.get("MAXSUM_KERNELS")
    if folder is None:
        return import_module(f".{name}", __name__)
    spec = PathFinder.find_spec(f"{__name__}.{name}", [folder])
    if spec is None or spec.loader is None:
        raise ImportError(f"MAXSUM_KERNELS names {folder!r}, where there is no {name}")
    sys.modules[spec.name] = module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


try:
    _library: ModuleType = _load("_compiled")
except ImportError as error:
    raise ImportError(
        f"the compiled kernels of maxsum cannot be loaded ({error}). They are built when maxsum is installed: run `pip install .` (or `pip install -e .`) "
        "in its folder, with the Python that is to use it."
    ) from error

is_new_processor = _library.is_new_processor
variant = "baseline"
if os.environ.get("MAXSUM_CPU") != "baseline" and is_new_processor():
    with suppress(ImportError):  # a build for one kind of processors alone
        _library, variant = _load("_compiled_v3"), "x86-64-v3"

for _name, _module in vars(_library).items():
    if isinstance(_module, ModuleType):
        sys.modules[f"{__name__}.{_name}"] = globals()[_name] = _module
