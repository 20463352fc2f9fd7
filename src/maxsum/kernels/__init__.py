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
from types import ModuleType

if "MAXSUM_KERNELS" in os.environ:
    __path__.insert(0, os.environ["MAXSUM_KERNELS"])
try:
    _library: ModuleType = import_module("._compiled", __name__)
except ImportError as error:
    raise ImportError(
        f"the compiled kernels of maxsum cannot be loaded ({error}). They are built when maxsum is installed: run `pip install .` (or `pip install -e .`) "
        "in its folder, with the Python that is to use it."
    ) from error

is_new_processor = _library.is_new_processor
variant = "baseline"
if os.environ.get("MAXSUM_CPU") != "baseline" and is_new_processor():
    with suppress(ImportError):  # a build for one kind of processors alone
        _library, variant = import_module("._compiled_v3", __name__), "x86-64-v3"

for _name, _module in vars(_library).items():
    if isinstance(_module, ModuleType):
        sys.modules[f"{__name__}.{_name}"] = globals()[_name] = _module
