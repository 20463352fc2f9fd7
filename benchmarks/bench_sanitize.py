"""The kernels built with checks of every index and every use of memory, under the tests that use them most."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from .measure import verdict

TITLE = "Kernels under sanitizers"
DESCRIPTION = """
The kernels are built with AddressSanitizer, UndefinedBehaviorSanitizer and a check of every index of every array (`MAXSUM_BOUNDS`), with warnings as errors, and
the tests of kernels, contracts of solvers and learners, hostile files and damaged problems run with them. A fault ends the process, so what passed had none.
"""
ROOT = Path(__file__).resolve().parents[1]
SUITES = {
    "kernels": ["tests/test_kernels.py", "tests/test_factor_kernels.py"],
    "contracts of solvers and learners": ["tests/contracts"],
    "hostile files and faults": ["tests/faults", "tests/storage", "tests/adversary/test_hostile_problems.py"],
}


def rows(quick: bool = False) -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        build(Path(folder))
        confirm(Path(folder))
        table: list[dict[str, Any]] = [{"what": "build", "s": time.perf_counter() - start}]
        suites = {"kernels": [*SUITES["kernels"], "-k", "border or records or (solvers and TreeDP)"]} if quick else SUITES
        for name, arguments in suites.items():
            start = time.perf_counter()
            done = run(["-m", "pytest", "-n", "0", "-rf", *arguments], Path(folder))
            sys.stderr.write(done.stdout[-3000:] + done.stderr[-3000:] if done.returncode else "")
            counts = {kind: int(n) for n, kind in re.findall(r"(\d+) (passed|failed|error|skipped)", done.stdout)}
            bad = counts.get("failed", 0) + counts.get("error", 0)
            table.append(
                {
                    "what": name,
                    "s": time.perf_counter() - start,
                    "passed": counts.get("passed", 0),
                    "failed": bad,
                    "exit code": done.returncode,
                    "target": f"no fault: {verdict(done.returncode == 0)}",
                }
            )
    return table


def build(folder: Path) -> None:
    """One extension, for all processors, with all checks."""
    where = subprocess.run(
        [sys.executable, "-m", "nanobind", "--cmake_dir"], capture_output=True, text=True, check=True
    ).stdout.strip()
    options = ["-DMAXSUM_SANITIZE=address,undefined", "-DMAXSUM_BOUNDS=ON", "-DMAXSUM_WERROR=ON", f"-Dnanobind_DIR={where}"]
    commands = (
        ["cmake", "-S", str(ROOT), "-B", str(folder), "-G", "Ninja", f"-DPython_EXECUTABLE={sys.executable}", *options],
        ["cmake", "--build", str(folder), "--target", "_compiled"],
    )
    for command in commands:
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"{' '.join(command)} failed: {(done.stdout + done.stderr)[-2000:]}")


def confirm(folder: Path) -> None:
    """Tests of other kernels than those just built would pass and show nothing."""
    done = run(["-c", "from maxsum import kernels; print(kernels._library.__file__)"], folder)
    if done.returncode or Path(done.stdout.strip()).parent != folder:
        raise RuntimeError(f"the kernels with checks were not loaded: {(done.stdout + done.stderr)[-2000:]}")


def run(arguments: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """Python in a process whose first library is that of the sanitizer, as Python itself is built without it."""
    compiler = os.environ.get("CXX", "c++")
    names = ("libasan.so", "libstdc++.so")  # the second, as the first looks for what throws exceptions when it is loaded
    found = [
        subprocess.run([compiler, f"-print-file-name={name}"], capture_output=True, text=True, check=True) for name in names
    ]
    environment = {
        **os.environ,
        "LD_PRELOAD": " ".join(own.stdout.strip() for own in found),
        "ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1",  # Python keeps memory until its end
        "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1",
        "MAXSUM_KERNELS": str(folder),
        "MAXSUM_CPU": "baseline",
    }
    return subprocess.run([sys.executable, *arguments], cwd=ROOT, capture_output=True, text=True, env=environment)
