"""toulbar2 on files, each in a process of its own (it may end the process that calls it): optimum, or infinity if there is none."""

from __future__ import annotations

import json
import math
import subprocess
import sys

import pytest

_SCRIPT = """
import json, os, sys
for path in sys.stdin.read().split():
    r, w = os.pipe()
    if os.fork() == 0:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        os.dup2(null, 2)
        import pytoulbar2
        try:
            network = pytoulbar2.CFN(verbose=-1)
            network.Read(path)
            found = network.Solve(timeLimit=20)
            found = None if found is None else [list(found[0]), found[1]]
        except Exception as error:
            found = None if "ontradiction" in repr(error) else repr(error)
        os.write(w, json.dumps(found).encode())
        os._exit(0)
    os.close(w)
    with os.fdopen(r, "rb") as pipe:
        print(pipe.read().decode() or '"crash"', flush=True)
    os.wait()
"""


def optima(paths):
    """Labels and cost that toulbar2 finds for each file; ``(None, inf)`` where it says that there is no solution."""
    pytest.importorskip("pytoulbar2", reason="pytoulbar2 is not installed")
    if sys.platform == "win32":
        pytest.skip("processes are forked here")
    run = subprocess.run(
        [sys.executable, "-c", _SCRIPT], input="\n".join(map(str, paths)), capture_output=True, text=True, check=True
    )
    found = [json.loads(line) for line in run.stdout.splitlines()]
    assert len(found) == len(paths)
    assert not [one for one in found if isinstance(one, str)], found
    return [(None, math.inf) if one is None else (one[0], one[1]) for one in found]
