"""What the commands share: exit codes, and what becomes of errors."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from ..core.errors import CertificateError, InfeasibleError, InvalidParameterError, MaxsumError

OK, CLAIM_FAILED, BAD_INPUT, INFEASIBLE, NO_LABELLING, UNFINISHED, NOT_CHECKED = range(7)

EXIT_CODES = (
    "Exit codes: 0 done; 1 a claim of the answer does not hold (verify); 2 wrong usage or input; "
    "3 the problem is infeasible; 4 stopped without a labelling or model; 5 training stopped before its tolerance, the best so far is saved; "
    "6 the model is saved, but the check of its proof was stopped (Ctrl-C, time limit)."
)

JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object; infinite numbers are the strings inf, -inf.")]


@contextlib.contextmanager
def exit_codes() -> Iterator[None]:
    """Turn what is expected to go wrong into one line on stderr and an exit code."""
    try:
        yield
    except CertificateError as error:
        _leave(CLAIM_FAILED, str(error))
    except MaxsumError as error:
        if isinstance(error, InfeasibleError) or isinstance(error.__cause__, InfeasibleError):
            _leave(INFEASIBLE, f"infeasible: {error}")
        _leave(BAD_INPUT, str(error))
    except BrokenPipeError:
        # No error: whoever read the output has seen enough. What Python still wants to flush goes nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(OK) from None
    except OSError as error:
        _leave(BAD_INPUT, f"{error.filename}: {error.strerror}" if error.filename and error.strerror else str(error))
    except MemoryError as error:
        _leave(BAD_INPUT, f"not enough memory. {error}")
    except KeyboardInterrupt:
        _leave(NO_LABELLING, "interrupted before there was an answer.")


@contextlib.contextmanager
def standard_input(path: Path, suffix: str) -> Iterator[Path]:
    """The path; for ``-`` a file with what stands on standard input, and this suffix, for as long as it is needed."""
    if str(path) != "-":
        yield path
        return
    with tempfile.TemporaryDirectory() as folder:
        own = Path(folder) / f"stdin{suffix}"
        with own.open("wb") as file:
            shutil.copyfileobj(sys.stdin.buffer, file)
        yield own


@contextlib.contextmanager
def standard_output(path: Path, suffix: str) -> Iterator[Path]:
    """The path; for ``-`` a file that goes to standard output when it is written."""
    if str(path) != "-":
        yield path
        return
    with tempfile.TemporaryDirectory() as folder:
        own = Path(folder) / f"stdout{suffix}"
        yield own
        with own.open("rb") as file:
            shutil.copyfileobj(file, sys.stdout.buffer)
        sys.stdout.buffer.flush()


def is_model(file: Path) -> bool:
    """Whether a file is a model, by its first bytes."""
    mark = b"maxsum model\0"
    if not file.is_file():
        return False
    with file.open("rb") as opened:
        return opened.read(len(mark)) == mark


def known_solver(name: str) -> str:
    """The exact name of a solver, whatever the case it was typed in."""
    from ..inference.registry import SOLVERS

    by_name = {known.lower(): known for known in SOLVERS}
    if name.lower() not in by_name:
        raise InvalidParameterError(f"there is no solver {name!r}; wanted one of {', '.join(SOLVERS)}.")
    return by_name[name.lower()]


def _leave(code: int, message: str) -> NoReturn:
    line = " ".join(message.split())
    typer.echo(f"maxsum: {line}", err=True)
    raise typer.Exit(code)
