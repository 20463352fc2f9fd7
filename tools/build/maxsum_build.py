"""The build backend: scikit-build-core, and a C++ compiler from PyPI where the machine has none.

A compiler is looked for by ``CXX``, then c++, g++, clang++ and (on Windows) cl. Only if there is none, ``ziglang`` joins the build requirements, and its
``zig c++`` builds the same sources; that takes a few minutes more, once. pip removes it after the build.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from scikit_build_core import build as _build

ZIG = "ziglang>=0.13"


def find_compiler() -> str | None:
    """The command of a C++ compiler of this machine, or None."""
    given = os.environ.get("CXX", "").split()
    if given and shutil.which(given[0]):
        return " ".join(given)
    names = ("c++", "g++", "clang++", *(("cl",) if sys.platform == "win32" else ()))
    if sys.platform == "win32" and _visual_studio():
        return "Visual Studio"
    return next((found for name in names if (found := shutil.which(name))), None)


def _visual_studio() -> bool:
    """CMake finds it without a command in the path."""
    places = (os.environ.get(name) for name in ("ProgramFiles", "ProgramFiles(x86)"))
    return any(place and Path(place, "Microsoft Visual Studio").is_dir() for place in places)


def _say(words: str) -> None:
    print(f"maxsum: {words}", file=sys.stderr, flush=True)


@contextmanager
def _compiler() -> Iterator[None]:
    """The environment of a build, with zig as its compiler where there is no other."""
    found = find_compiler()
    if found is not None:
        _say(f"compiling the kernels with {found} (about a minute)")
        yield
        return
    try:
        import ziglang  # type: ignore[import-not-found]
    except ImportError:
        raise SystemExit(
            "maxsum: no C++ compiler was found (CXX, c++, g++, clang++), and ziglang, which would stand in, is not there. Install a compiler, or "
            "`pip install ziglang`, or let pip isolate the build (without --no-build-isolation)."
        ) from None
    zig = Path(ziglang.__file__).parent / ("zig.exe" if sys.platform == "win32" else "zig")
    _say("no C++ compiler found: compiling the kernels with zig (some minutes)")
    with tempfile.TemporaryDirectory() as folder:
        tools = {name: _wrapper(Path(folder), zig, name) for name in ("cc", "c++", "ar", "ranlib")}
        arguments = f"-DCMAKE_AR={tools['ar']} -DCMAKE_RANLIB={tools['ranlib']}"
        before = dict(os.environ)
        os.environ |= {
            "CC": str(tools["cc"]),
            "CXX": str(tools["c++"]),
            "CMAKE_ARGS": f"{os.environ.get('CMAKE_ARGS', '')} {arguments}".strip(),
        }
        try:
            yield
        finally:
            os.environ.clear()
            os.environ.update(before)


def _wrapper(folder: Path, zig: Path, name: str) -> Path:
    """A command of one word, which is all that CMake takes for some of its tools."""
    if sys.platform == "win32":
        path = folder / f"zig-{name}.cmd"
        path.write_text(f'@"{zig}" {name} %*\n')
    else:
        path = folder / f"zig-{name}"
        path.write_text(f'#!/bin/sh\nexec "{zig}" {name} "$@"\n')
        path.chmod(0o755)
    return path


def _more(requires: list[str]) -> list[str]:
    return requires if find_compiler() is not None else [*requires, ZIG]


def get_requires_for_build_wheel(config_settings: Any = None) -> list[str]:
    return _more(_build.get_requires_for_build_wheel(config_settings))


def get_requires_for_build_editable(config_settings: Any = None) -> list[str]:
    return _more(_build.get_requires_for_build_editable(config_settings))


def get_requires_for_build_sdist(config_settings: Any = None) -> list[str]:
    return _build.get_requires_for_build_sdist(config_settings)


def build_wheel(wheel_directory: str, config_settings: Any = None, metadata_directory: Any = None) -> str:
    with _compiler():
        return _build.build_wheel(wheel_directory, config_settings, metadata_directory)


def build_editable(wheel_directory: str, config_settings: Any = None, metadata_directory: Any = None) -> str:
    with _compiler():
        return _build.build_editable(wheel_directory, config_settings, metadata_directory)


def build_sdist(sdist_directory: str, config_settings: Any = None) -> str:
    return _build.build_sdist(sdist_directory, config_settings)


def prepare_metadata_for_build_wheel(metadata_directory: str, config_settings: Any = None) -> str:
    return _build.prepare_metadata_for_build_wheel(metadata_directory, config_settings)


def prepare_metadata_for_build_editable(metadata_directory: str, config_settings: Any = None) -> str:
    return _build.prepare_metadata_for_build_editable(metadata_directory, config_settings)
