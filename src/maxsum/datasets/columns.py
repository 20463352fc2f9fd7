"""Features of the columns of tables: numbers to zero mean and unit spread, text to indicators; the same for new tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ..core.errors import InvalidSampleError, ParseError
from .tables import Table

_MOST_VALUES = 1000  # different words of a column up to which it is a category and not a text


class ColumnCoder(NamedTuple):
    r"""What becomes of each column: :math:`(x - \mu) / \sigma` of numbers, an indicator for each value of text.

    Attributes
    ----------
    columns : list of dict
        ``name``, ``kind`` (number or text), and ``mean`` and ``spread``, or ``values``; fit for JSON.
    """

    columns: list[dict[str, Any]]

    @classmethod
    def learn(cls, table: Table, names: Sequence[str], scale: bool = True) -> ColumnCoder:
        """Read means, spreads and values off a table.

        Parameters
        ----------
        table : Table
        names : sequence of str
            Columns to take.
        scale : bool
            Whether numbers are moved and scaled.
        """
        columns: list[dict[str, Any]] = []
        for name in names:
            if table.is_numeric(name):
                own = table.numbers(name)
                spread = float(own.std()) if scale else 1.0
                mean = float(own.mean()) if scale else 0.0
                columns.append({"name": name, "kind": "number", "mean": mean, "spread": spread if spread > 0 else 1.0})
                continue
            values = sorted({cell for cell in table.texts(name) if cell is not None})
            if len(values) > _MOST_VALUES or len(values) == table.n_rows > 20:
                raise ParseError(
                    f"column {name!r} holds {len(values)} different texts, too many for indicators (names or identities?). "
                    f"Leave it out: --set ignore={name}.",
                    table.path,
                )
            columns.append({"name": name, "kind": "text", "values": values})
        return cls(columns)

    @property
    def names(self) -> list[str]:
        """Names of the features."""
        found: list[str] = []
        for own in self.columns:
            found += [own["name"]] if own["kind"] == "number" else [f"{own['name']}={value}" for value in own["values"]]
        return found

    def matrix(self, table: Table) -> np.ndarray:
        """Features of the rows of a table, (n_rows, n_features); texts that were not seen have no indicator.

        Parameters
        ----------
        table : Table
        """
        parts = [np.zeros((table.n_rows, 0))]
        for own in self.columns:
            name = own["name"]
            if name not in table.columns:
                raise InvalidSampleError(
                    f"{table.path} has no column {name!r}, which the model was trained with; its columns are {', '.join(table.names[:12])}."
                )
            if own["kind"] == "number":
                parts.append(((table.numbers(name) - own["mean"]) / own["spread"])[:, None])
                continue
            place = {value: i for i, value in enumerate(own["values"])}
            block = np.zeros((table.n_rows, len(place)))
            for row, cell in enumerate(table.texts(name)):
                if cell in place:
                    block[row, place[cell]] = 1.0
            parts.append(block)
        return np.concatenate(parts, axis=1)
