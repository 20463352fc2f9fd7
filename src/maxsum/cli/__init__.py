"""The command line ``maxsum``: the only layer that prints and sets exit codes."""

from __future__ import annotations


def main() -> None:
    """Entry point of the ``maxsum`` command."""
    from .app import app

    app(prog_name="maxsum")
