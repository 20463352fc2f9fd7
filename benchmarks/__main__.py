"""Run all benchmarks, or those named, and write their sections of docs/results.md: ``python -m benchmarks [NAME ...]``."""

from __future__ import annotations

import argparse
import inspect
import os
import sys
import time
from pathlib import Path
from typing import Any

from . import MODULES, chosen, load, report

RESULTS = Path(__file__).parents[1] / "docs" / "results.md"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "names",
        nargs="*",
        metavar="NAME",
        help=f"one or more of {', '.join(MODULES)}, or asked or reproduce for all of theirs; all by default",
    )
    parser.add_argument("--quick", action="store_true", help="tiny settings: does it run? Writes nothing.")
    parser.add_argument("--long", action="store_true", help="the larger setting of those that have one (torch)")
    parser.add_argument(
        "--time-limit", type=float, metavar="SECONDS", help="of each solve, for benchmarks that have one limit (uai)"
    )
    options = parser.parse_args(arguments)
    names = chosen(options.names)
    unknown = [name for name in names if name not in MODULES]
    if unknown:
        parser.error(f"there is no benchmark {unknown[0]!r}; known are {', '.join(MODULES)}")
    for name in names or MODULES:
        module = load(name)
        sys.stderr.write(f"{name} ...\n")
        before, start = os.getloadavg(), time.perf_counter()
        more = {"long": True} if options.long and "long" in inspect.signature(module.rows).parameters else {}
        rows = module.rows(quick=options.quick, **_limit(module, name, options.time_limit), **more)
        run = report.Run(name, before, os.getloadavg(), time.perf_counter() - start)
        section = report.section(run, module.TITLE, module.DESCRIPTION, rows)
        sys.stdout.write(section + "\n")
        sys.stdout.flush()
        if not options.quick:
            report.write(RESULTS, name, section, list(MODULES))
    return 0


def _limit(module: Any, name: str, seconds: float | None) -> dict[str, float]:
    """The time limit for a benchmark that takes one."""
    if seconds is None:
        return {}
    if "time_limit" not in inspect.signature(module.rows).parameters:
        raise SystemExit(f"benchmark {name!r} has no single time limit; leave --time-limit out.")
    return {"time_limit": seconds}


if __name__ == "__main__":
    sys.exit(main())
