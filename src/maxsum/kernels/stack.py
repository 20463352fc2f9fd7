"""Small arrays on the stack of a kernel.

The compiler knows that nothing else points to them, so loops over them need no check for overlap, and short ones live in
registers: a pass with few labels takes half the time that it takes with arrays of the heap.
"""

from __future__ import annotations

from typing import Any

from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

ROOM = 192


@intrinsic
def stack(typingctx: Any) -> Any:
    """Pointer to `ROOM` uninitialised doubles, for ``numba.carray``; they live as long as the call of the kernel."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return cgutils.alloca_once(builder, context.get_data_type(types.float64), size=ROOM)

    return types.CPointer(types.float64)(), codegen
