"""Files of columns, a token a line."""

from __future__ import annotations

from pathlib import Path
from typing import Any, BinaryIO

from ...core.errors import ParseError
from ...core.files.store import atomic
from ...datasets.conll import Sentence, read_conll
from ...datasets.tables import compression_of
from ...datasets.templates import as_template, column_features, default_templates
from .base import Content, Form, counted


class SequenceForm(Form):
    """Sentences of columns; the last column has the labels. Out goes the same file with one column more."""

    task, estimator = "sequence", "SequenceLabeler"

    def read(self, path: Path, training: bool) -> Content:
        sentences = read_conll(path)
        if not sentences:
            raise ParseError("there are no tokens, wanted a line for each.", str(path))
        width = len(sentences[0][0])
        if training:
            self._learn(path, width)
        own = int(self.settings["n_columns"])
        if width not in (own - 1, own):
            raise ParseError(
                f"there are {width} columns, but the model was trained with {own}, the last one the label; wanted {own - 1} or {own}.",
                str(path),
            )
        templates, affixes = self.settings["templates"], self.settings["affixes"]
        X = [column_features([token[: own - 1] for token in sentence], templates, affixes) for sentence in sentences]
        y = [[token[own - 1] for token in sentence] for sentence in sentences] if width == own else None
        names = [f"sentence {i + 1}" for i in range(len(sentences))]
        n_tokens = sum(map(len, sentences))
        words = f"{counted(len(sentences), 'sentence')}, {counted(n_tokens, 'token')}"
        if y is not None:
            n_words = len({token[0] for sentence in sentences for token in sentence})
            words += f", {counted(len({tag for own in y for tag in own}), 'tag')}, {counted(n_words, 'distinct word')}"
        return Content(X, y, names, (path, sentences), words)

    def _learn(self, path: Path, width: int) -> None:
        if width < 2:
            raise ParseError("there is one column, wanted at least two: features, and the label last.", str(path))
        known = self.settings
        known["n_columns"] = width
        known["affixes"] = known.get("affixes", 3)
        window = known.pop("window", 2)
        templates = known.get("templates")
        known["templates"] = default_templates(range(width - 1), window) if templates is None else [str(t) for t in templates]
        for text in known["templates"]:
            as_template(text, width - 1)

    def write(self, out: Path, content: Content, labels: Any) -> None:
        path, sentences = content.source
        text = with_column(sentences, labels, _separator(path))

        def fill(file: BinaryIO) -> None:
            file.write(text.encode("utf-8"))

        atomic(out, compression_of(out), fill)


def with_column(sentences: list[Sentence], labels: Any, separator: str) -> str:
    """Sentences with one more column."""
    blocks = [
        "".join(separator.join([*token, str(label)]) + "\n" for token, label in zip(sentence, own, strict=True))
        for sentence, own in zip(sentences, labels, strict=True)
    ]
    return "\n".join(blocks) + "\n"


def _separator(path: Path) -> str:
    """A tab if the first token has one, else a blank."""
    from ...core.files.text import Limits
    from ...datasets.source import lines

    first = next((line for _, line in lines(path, Limits()) if line.strip()), "")
    return "\t" if "\t" in first else " "
