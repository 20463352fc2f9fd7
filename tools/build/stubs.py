"""Write the signatures of the compiled kernels for editors and type checkers: ``python tools/build/stubs.py [FOLDER]``, one ``.pyi`` a source file."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import ModuleType

from nanobind.stubgen import StubGen

from maxsum import kernels

HOME = Path(__file__).resolve().parents[2] / "src" / "maxsum" / "kernels"


def stubs() -> dict[str, str]:
    """Name of each compiled module, and its stub."""
    found = {}
    for name, module in vars(kernels).items():
        if isinstance(module, ModuleType) and name not in ("os", "sys", "records") and not name.startswith("_"):
            made = StubGen(module=module)
            made.put(module)
            text = re.sub(r"(fields_of_\w+): tuple = .*", r"\1: tuple[str, ...]", made.get().rstrip())
            text = re.sub(r"^(\w+): tuple = .*", r"\1: tuple[int, ...]", text, flags=re.M)
            found[name] = f"# Made by tools/build/stubs.py from the extension; do not edit.\n{text}\n"
    listed = "\n".join(f"from . import {name} as {name}" for name in sorted([*found, "records"]))
    head = "# Made by tools/build/stubs.py; one stub for each source file.\nfrom types import ModuleType\n\n"
    found["__init__"] = f"{head}{listed}\n\nvariant: str\n_library: ModuleType\n\ndef is_new_processor() -> bool: ...\n"
    return found


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else HOME
    for old in folder.glob("*.pyi"):
        old.unlink()
    for name, text in stubs().items():
        (folder / f"{name}.pyi").write_text(text)


if __name__ == "__main__":
    main()
