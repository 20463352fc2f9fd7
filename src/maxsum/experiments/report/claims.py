"""What an experiment says: claims beside published numbers, tables, notes, curves; and the rules that keep them honest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...core.errors import InvalidParameterError

NOTHING = ("", "-")  # what stands where nothing is published


@dataclass(frozen=True)
class Claim:
    """One published number or statement, ours beside it, and whether ours holds.

    Attributes
    ----------
    what : str
    published : str
        As in the paper, on its data; "" or "-" where it has nothing, or where ours are other data.
    ours : str
    holds : bool, optional
        The verdict: against ``published``, or against ``aim`` if there is one. None for what is only shown.
    aim : str
        A threshold of our own, in words. It is called so on every page.
    """

    what: str
    published: str
    ours: str
    holds: bool | None = None
    aim: str = ""

    def __post_init__(self) -> None:
        if self.holds is not None and self.published in NOTHING and not self.aim:
            raise InvalidParameterError(
                f"claim {self.what!r} has a verdict but nothing that it compares with, wanted a published number or an aim of our own."
            )

    @property
    def verdict(self) -> str:
        """The verdict in words, "" if there is none."""
        if self.holds is None:
            return ""
        return ("aim " if self.aim else "") + ("met" if self.holds else "missed")


@dataclass(frozen=True)
class Plot:
    """Curves, one a name: places and values."""

    title: str
    x: str
    y: str
    curves: Mapping[str, tuple[Sequence[float], Sequence[float]]]
    log_x: bool = True
    log_y: bool = False


@dataclass(frozen=True)
class Report:
    """What an experiment found.

    Attributes
    ----------
    name, source, title : str
    claims : tuple of Claim
    columns, rows : tuple
        Details, one row a run.
    notes : tuple of str
        What was chosen how, by which splits and seeds, and what cannot be compared.
    substitute : str
        Which data stand in the place of those of the paper, and what the paper has on its own; then no claim may have a published number.
    plots : tuple of Plot
    """

    name: str
    source: str
    title: str
    claims: tuple[Claim, ...]
    columns: tuple[str, ...] = ()
    rows: tuple[tuple[Any, ...], ...] = ()
    notes: tuple[str, ...] = field(default=())
    substitute: str = ""
    plots: tuple[Plot, ...] = field(default=())

    def __post_init__(self) -> None:
        for claim in self.claims:
            if self.substitute and claim.published not in NOTHING:
                raise InvalidParameterError(
                    f"claim {claim.what!r} has a published number beside one on other data, wanted the published one in `substitute` alone."
                )
        for row in self.rows:
            if len(row) != len(self.columns):
                raise InvalidParameterError(f"a row of {self.name} has {len(row)} cells, wanted {len(self.columns)}.")

    @property
    def failed(self) -> list[Claim]:
        """Claims that do not hold."""
        return [claim for claim in self.claims if claim.holds is False]

    @property
    def every_note(self) -> tuple[str, ...]:
        """The notes, with the one on substituted data first."""
        return ((f"Other data than the paper's: {self.substitute}",) if self.substitute else ()) + self.notes
