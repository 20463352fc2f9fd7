"""What the site needs beside Sphinx: formulas, and the order of the gallery.

Formulas become MathML, which browsers draw by themselves: nothing is fetched from elsewhere, so the site reads the same without a network. The
translation is that of docutils; what it does not know is a warning, at which ``sphinx-build -W`` stops.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.util.math import get_node_equation_number

ORDER = [  # by trade; what is not named comes last
    "chain_tagging",
    "tag_names",
    "forbidden_tags",
    "one_verb",
    "words_half_known",
    "hidden_states",
    "how_sure",
    "learn_images",
    "denoise",
    "refine_masks",
    "lp_photographs",
    "qp_matting",
    "qp_trees",
    "label_superpixels",
    "label_volume",
    "table_of_topics",
    "linked_pages",
    "problem_file",
    "five_best",
    "sudoku",
    "learn_sudoku",
    "train_on_shards",
    "neural_images",
    "neural_sudoku",
]
_FRACTION = re.compile(r"\\([td]?frac)(\d)(\d)")  # \tfrac12
_SIZES = re.compile(
    r"\\(?:big|Big|bigg|Bigg)[lrm]?(?![A-Za-z])"
)  # browsers stretch brackets themselves


def translated(text: str, place: Any, block: bool) -> str:
    try:
        return str(tex2mathml(_FRACTION.sub(r"\\\1{\2}{\3}", _SIZES.sub("", text)), as_block=block))
    except (MathError, SyntaxError, ValueError) as error:
        logging.getLogger(__name__).warning("formula %r: %s", text, error, location=place)
        return "<code>" + text.replace("&", "&amp;").replace("<", "&lt;") + "</code>"


def inline(writer: Any, node: Any) -> None:
    writer.body.append(translated(node.astext(), node, block=False))
    raise nodes.SkipNode


def display(writer: Any, node: Any) -> None:
    writer.body.append(writer.starttag(node, "div", CLASS="formula"))
    if node["number"]:
        number = get_node_equation_number(writer, node)
        writer.body.append(f'<span class="eqno">({number})')
        writer.add_permalink_ref(node, "Link to this equation")
        writer.body.append("</span>")
    writer.body.append(
        f'<div class="lines">{translated(node.astext(), node, block=True)}</div></div>'
    )
    raise nodes.SkipNode


class ByTrade:
    """Sorts the gallery as `ORDER` says."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def __call__(self, file: str) -> tuple[int, str]:
        name = Path(file).stem
        return (ORDER.index(name) if name in ORDER else len(ORDER)), name


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_html_math_renderer("mathml", (inline, None), (display, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
