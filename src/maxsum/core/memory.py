"""Is there room? Bytes that something needs are compared with what is left, before anything large is allocated."""

from __future__ import annotations

import os
from pathlib import Path

_FLOOR = 2**22  # bytes up to which nobody asks what is left: asking takes 40 microseconds, more than most small problems
_SAMPLES = "Take fewer or smaller samples or features, or sparse ones"


def check_room(need: int, what: str, way_out: str = _SAMPLES) -> None:
    """Refuse what needs more memory than is left.

    Raises
    ------
    MemoryError
        With both figures, and what they come from.
    """
    if need <= _FLOOR:
        return
    left, why = available()
    if need > left:
        raise MemoryError(
            f"{what} needs about {_human(need)} of memory, but {_human(max(0, left))} are left ({why}). Nothing was allocated. {way_out}, "
            "or raise the limit."
        )


def available() -> tuple[int, str]:
    """Bytes that are left to this process, and by which limit: of its address space, of its container, of the machine."""
    found = [(_physical(), "physical memory")]
    space = _address_space()
    if space is not None:
        found.append((space, "RLIMIT_AS"))
    container = _container()
    if container is not None:
        found.append((container, "limit of the container"))
    return min(found)


def _physical() -> int:
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return 1024 * int(line.split()[1])
    except (OSError, ValueError, IndexError):
        pass
    try:
        return int(os.sysconf("SC_PHYS_PAGES")) * int(os.sysconf("SC_PAGE_SIZE"))
    except (AttributeError, ValueError, OSError):
        return 2**63


def _address_space() -> int | None:
    try:
        import resource

        limit = resource.getrlimit(resource.RLIMIT_AS)[0]
        if limit == resource.RLIM_INFINITY:
            return None
        return limit - int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    except (ImportError, OSError, ValueError, IndexError):
        return None


def _container() -> int | None:
    """What the control group leaves; pages of files that can be dropped do not count."""
    folder = Path("/sys/fs/cgroup")
    try:
        limit = (folder / "memory.max").read_text().strip()
        if limit == "max":
            return None
        used = int((folder / "memory.current").read_text())
        stat = dict(line.split() for line in (folder / "memory.stat").read_text().splitlines())
        return int(limit) - used + int(stat.get("inactive_file", 0))
    except (OSError, ValueError):
        return None


def _human(n_bytes: float) -> str:
    for unit in ("bytes", "kB", "MB", "GB"):
        if n_bytes < 1000:
            return f"{n_bytes:.3g} {unit}"
        n_bytes /= 1000
    return f"{n_bytes:.3g} TB"
