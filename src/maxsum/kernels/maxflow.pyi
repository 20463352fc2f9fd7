# Made by tools/build/stubs.py from the extension; do not edit.
fields_of_Flow: tuple = ...

def sweep(flow: tuple, backward: bool) -> None:
    """
    Every node shares its excess among the arcs to later nodes (earlier ones if ``backward``).
    """

def start(flow: tuple) -> None:
    """Trees of roots only: every node with excess, all of them active."""

def advance(flow: tuple, budget: int) -> bool:
    """
    Work on the flow for about ``budget`` node visits; True if it is maximal.
    """
