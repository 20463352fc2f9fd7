"""Tables with a name for each column: comma-separated text and Parquet, read with care and written whole or not at all."""

from __future__ import annotations

import contextlib
import csv
import io
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

import numpy as np

from ..core.errors import InvalidSampleError, MaxsumError, ParseError
from ..core.files.store import atomic
from ..core.files.text import COMPRESSIONS, Limits, shown
from ..core.validation import LARGEST
from .source import lines

_LIMITS = Limits(bytes=1 << 30, cells=50_000_000)
_DELIMITERS = (",", ";", "\t")
TABLES = (".csv", ".tsv", ".parquet")
MISSING = ("", "?", "NA", "NaN", "nan", "null", "None")


@dataclass(frozen=True, eq=False)
class Table:
    """Columns of equal length with a name each.

    Attributes
    ----------
    path : str
        The file, for messages.
    columns : dict of str to list
        Cells by name of the column: text in CSV files; numbers, text or None in Parquet files.
    lines : list of int
        Line of each row in the file; empty where there are no lines.
    delimiter : str
        What separates the cells of a CSV file.
    source : object
        The `pyarrow.Table` that was read, so that the types of columns are kept when it is written.
    """

    path: str
    columns: dict[str, list[Any]]
    lines: list[int] = field(default_factory=list)
    delimiter: str = ","
    source: Any = None

    @property
    def names(self) -> list[str]:
        """Names of the columns, in their order."""
        return list(self.columns)

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(next(iter(self.columns.values()), []))

    def fail(self, row: int, message: str) -> NoReturn:
        """Raise a `ParseError` about a row."""
        if self.lines:
            raise ParseError(message, self.path, self.lines[row])
        raise ParseError(f"row {row + 1}: {message}", self.path)

    def column(self, name: str) -> list[Any]:
        """The cells of a column."""
        if name not in self.columns:
            raise ParseError(f"there is no column {shown(name)}; the columns are {_some(self.names)}.", self.path)
        return self.columns[name]

    def texts(self, name: str) -> list[str | None]:
        """The cells of a column as text; None where nothing is known."""
        return [None if _is_missing(cell) else _as_text(cell) for cell in self.column(name)]

    def is_numeric(self, name: str) -> bool:
        """Whether all cells that hold something hold numbers, and some do."""
        found = [cell for cell in self.column(name) if not _is_missing(cell)]
        return bool(found) and all(_as_number(cell) is not None for cell in found)

    def numbers(self, name: str) -> np.ndarray:
        """The cells of a column as finite numbers.

        Raises
        ------
        ParseError
            At the first cell that is none, with its line.
        """
        values = [_as_number(cell) for cell in self.column(name)]
        for row, value in enumerate(values):
            if value is None:
                cell = self.columns[name][row]
                hint = " Fill in missing values first, or leave the column out." if _is_missing(cell) else ""
                self.fail(row, f"column {shown(name)} holds {shown(str(cell))}, wanted a finite number.{hint}")
        return np.array(values, dtype=np.float64)

    def take(self, rows: Sequence[int]) -> Table:
        """Some rows, in this order."""
        columns = {name: [cells[i] for i in rows] for name, cells in self.columns.items()}
        source = None if self.source is None else self.source.take(list(rows))
        return Table(self.path, columns, [self.lines[i] for i in rows] if self.lines else [], self.delimiter, source)

    def replaced(self, columns: Mapping[str, Sequence[Any]]) -> Table:
        """With these columns in the place of those of the same names; new names come last."""
        own = {name: list(cells) for name, cells in columns.items()}
        for name, cells in own.items():
            if len(cells) != self.n_rows and self.columns:
                raise InvalidSampleError(f"column {name!r} has {len(cells)} cells, wanted {self.n_rows}.")
        source = self.source
        if source is not None:
            source = _arrow_replaced(source, own)
        return Table(self.path, {**self.columns, **own}, self.lines, self.delimiter, source)


def read_table(path: str | os.PathLike[str]) -> Table:
    """Read a table whose first line has the names of the columns.

    Parameters
    ----------
    path : path-like
        ``.parquet`` (by pyarrow), or text with commas, semicolons or tabs, UTF-8, perhaps compressed (``.gz``, ``.xz``, ``.bz2``).

    Returns
    -------
    Table

    Raises
    ------
    ParseError
        A row has another number of cells than there are names, a name is empty or stands twice, or the file is broken or too large.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from maxsum.datasets import read_table
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = pathlib.Path(folder, "a.csv").write_text("x,colour\\n1.5,red\\n2,blue\\n")
    ...     read_table(pathlib.Path(folder, "a.csv")).numbers("x").tolist()
    [1.5, 2.0]
    """
    own = Path(path)
    return _read_parquet(own) if suffix_of(own) == ".parquet" else _read_csv(own, _LIMITS)


def write_table(path: str | os.PathLike[str], table: Table) -> None:
    """Write a table, whole or not at all, as text or (``.parquet``) as Parquet.

    Parameters
    ----------
    path : path-like
        ``.tsv`` has tabs; ``.gz``, ``.xz`` or ``.bz2`` after ``.csv`` or ``.tsv`` compresses.
    table : Table
    """
    own = Path(path)
    write = _parquet_writer(own, table) if suffix_of(own) == ".parquet" else _csv_writer(own, table)
    atomic(own, compression_of(own), write)


def _parquet_writer(path: Path, table: Table) -> Callable[[BinaryIO], None]:
    arrow = _arrow(path)
    source = arrow.table({n: _typed(c) for n, c in table.columns.items()}) if table.source is None else table.source
    return lambda file: arrow.parquet.write_table(source, file)


def _csv_writer(path: Path, table: Table) -> Callable[[BinaryIO], None]:
    text = io.StringIO(newline="")
    delimiter = "\t" if suffix_of(path) == ".tsv" else table.delimiter
    writer = csv.writer(text, delimiter=delimiter, lineterminator="\n")
    writer.writerow(table.names)
    writer.writerows(zip(*([_cell(cell) for cell in cells] for cells in table.columns.values()), strict=True))

    def write(file: BinaryIO) -> None:
        file.write(text.getvalue().encode("utf-8"))

    return write


def suffix_of(path: Path) -> str:
    """The suffix that says the format, without that of a compression, in small letters."""
    suffixes = [suffix.lower() for suffix in path.suffixes if suffix.lower()[1:] not in COMPRESSIONS]
    return suffixes[-1] if suffixes else ""


def compression_of(path: Path) -> str | None:
    """``gz``, ``xz`` or ``bz2``, if the name says so."""
    own = path.suffix.lower()[1:]
    return own if own in COMPRESSIONS else None


def _read_csv(path: Path, limits: Limits) -> Table:
    numbered = iter(lines(path, limits))
    number, head = next(((n, line) for n, line in numbered if line.strip()), (0, ""))
    if not number:
        raise ParseError("the file is empty, wanted a line with the names of the columns.", str(path))
    delimiter = max(_DELIMITERS, key=head.count)
    at = [number]

    def text() -> Any:
        yield head + "\n"
        for n, line in numbered:
            at[0] = n
            yield line + "\n"

    reader = csv.reader(text(), delimiter=delimiter, strict=True)
    places: list[int] = []
    try:
        names = [name.strip() for name in next(reader)]
        _check_names(names, str(path), number)
        columns: list[list[str]] = [[] for _ in names]
        cells = 0
        while True:
            start = at[0]
            row = next(reader, None)
            if row is None:
                break
            if not row or (len(row) == 1 and not row[0].strip() and len(names) > 1):
                continue
            if len(row) != len(names):
                raise ParseError(f"there are {len(row)} cells, but {len(names)} columns.", str(path), start + 1)
            cells += len(row)
            if cells > limits.cells:
                raise ParseError(f"there are more than {limits.cells} cells; refused. Split the file.", str(path), start + 1)
            places.append(start + 1)
            for own, cell in zip(columns, row, strict=True):
                own.append(cell.strip())
    except csv.Error as error:
        raise ParseError(f"{error}; a quote that is not closed?", str(path), at[0]) from None
    return Table(str(path), dict(zip(names, columns, strict=True)), places, delimiter)


def _check_names(names: list[str], path: str, line: int | None) -> None:
    seen: set[str] = set()
    for i, name in enumerate(names):
        if not name:
            raise ParseError(f"column {i + 1} has no name; the first line must name all columns.", path, line)
        if name in seen:
            raise ParseError(f"two columns are named {shown(name)}.", path, line)
        seen.add(name)


def _arrow(path: Path) -> Any:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise MaxsumError(
            f"{path} is a Parquet file, which needs pyarrow: pip install pyarrow, or convert the file to CSV."
        ) from error
    return pyarrow


def _read_parquet(path: Path) -> Table:
    arrow = _arrow(path)
    with path.open("rb") as file:
        try:
            facts = arrow.parquet.ParquetFile(file)
            n_cells = facts.metadata.num_rows * facts.metadata.num_columns
            if n_cells > _LIMITS.cells:
                raise ParseError(
                    f"there are {n_cells} cells, the limit is {_LIMITS.cells}; refused. Split the file.", str(path)
                )
            found = facts.read()
            columns = {name: found.column(i).to_pylist() for i, name in enumerate(found.column_names)}
        except (arrow.ArrowException, OSError, ValueError) as error:
            if isinstance(error, ParseError):
                raise
            raise ParseError(f"not a Parquet file that can be read ({error}).", str(path)) from error
    _check_names(list(found.column_names), str(path), None)
    for name, cells in columns.items():
        if any(not isinstance(cell, (str, int, float, bool, type(None))) for cell in cells):
            raise ParseError(f"column {shown(name)} holds {found.schema.field(name).type}, wanted numbers or text.", str(path))
    return Table(str(path), columns, source=found)


def _arrow_replaced(source: Any, columns: Mapping[str, list[Any]]) -> Any:
    import pyarrow

    for name, cells in columns.items():
        own = pyarrow.array(_typed(cells))
        at = source.schema.get_field_index(name)
        if at >= 0:
            with contextlib.suppress(pyarrow.ArrowException):
                own = own.cast(source.schema.field(at).type)
            source = source.set_column(at, name, own)
        else:
            source = source.append_column(name, own)
    return source


def _typed(cells: list[Any]) -> list[Any]:
    """Cells of one type for Parquet: as they are if they have one, else as text."""
    kinds = {type(cell) for cell in cells} - {type(None)}
    return cells if len(kinds) <= 1 or kinds <= {int, float} else [None if c is None else _as_text(c) for c in cells]


def _is_missing(cell: Any) -> bool:
    return cell is None or (isinstance(cell, str) and cell in MISSING) or (isinstance(cell, float) and cell != cell)


def _as_text(cell: Any) -> str:
    if isinstance(cell, float) and cell.is_integer() and abs(cell) < 1e15:
        return str(int(cell))
    return str(cell)


def _as_number(cell: Any) -> float | None:
    """A finite number of at most 1e100 in size, or None."""
    if cell is None or (isinstance(cell, str) and "_" in cell):
        return None
    try:
        value = float(cell)
    except ValueError:
        return None
    return value if abs(value) <= LARGEST else None


def _cell(cell: Any) -> str:
    return "" if cell is None else str(cell)


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:12]) + (f" and {len(names) - 12} more" if len(names) > 12 else "")
