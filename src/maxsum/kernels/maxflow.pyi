# Made by tools/build/stubs.py from the extension; do not edit.
import maxsum.kernels.records


fields_of_Flow: tuple[str, ...]

def sweep(flow: maxsum.kernels.records.Flow, backward: bool) -> None:
    """
    Every node shares its excess among the arcs to later nodes (earlier ones if ``backward``).
    """

def start(flow: maxsum.kernels.records.Flow) -> None:
    """Trees of roots only: every node with excess, all of them active."""

def advance(flow: maxsum.kernels.records.Flow, budget: int) -> bool:
    """
    Work on the flow for about ``budget`` node visits; True if it is maximal.
    """
