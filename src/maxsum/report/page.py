"""The frame of a report: page, sections, tables, pictures; all text is escaped here."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable, Iterable, Sequence
from html import escape
from typing import Any

from ..plotting.canvas import matplotlib_module, theme

_STYLE = """
:root{color-scheme:light dark;--back:#ffffff;--ink:#1f2328;--soft:#5d6670;--line:#d0d7de;--panel:#f5f7f9;--accent:#0a53a8;
--good:#116329;--poor:#a33b00;--heat:10,83,168}
@media (prefers-color-scheme:dark){:root{--back:#14171c;--ink:#e6e9ee;--soft:#a3adb8;--line:#3a414b;--panel:#1b1f26;--accent:#7fb8ff;
--good:#5bd87d;--poor:#ff9b61;--heat:92,158,240}}
*{box-sizing:border-box}
body{margin:0;background:var(--back);color:var(--ink);font:15px/1.5 system-ui,-apple-system,"Segoe UI",sans-serif}
main{max-width:62rem;margin:0 auto;padding:1.6rem 1.2rem 4rem}
h1{font-size:1.7rem;margin:0 0 .2rem;overflow-wrap:anywhere}h2{font-size:1.2rem;margin:2.4rem 0 .5rem;padding-top:.6rem;border-top:1px solid var(--line)}
h3{font-size:1rem;margin:1.2rem 0 .3rem}
p{margin:.3rem 0;max-width:52rem;overflow-wrap:anywhere}.soft{color:var(--soft)}.lead{font-size:1.05rem;margin:.6rem 0}.good{color:var(--good)}.poor{color:var(--poor)}
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(8.2rem,1fr));gap:.8rem;margin:1.2rem 0 0}
.tile{background:var(--panel);border:1px solid var(--line);border-radius:8px;padding:.6rem .8rem}
.tile b{display:block;font-size:1.35rem;font-variant-numeric:tabular-nums}.tile span{color:var(--soft);font-size:.87rem}
.scroll{overflow-x:auto;margin:.6rem 0}
table{border-collapse:collapse;font-size:.9rem;font-variant-numeric:tabular-nums}
th,td{padding:.2rem .55rem;text-align:left;border-bottom:1px solid var(--line);vertical-align:top}
th{font-weight:600}td.n,th.n{text-align:right}tbody th{font-weight:500}
table.facts th{color:var(--soft);font-weight:400;white-space:nowrap}
table.facts td{overflow-wrap:anywhere}
table.items td{white-space:nowrap}
table.heat td{text-align:center;min-width:2.6rem;border:1px solid var(--line)}table.heat th.v{vertical-align:bottom;text-align:center}
table.heat th.v span{writing-mode:vertical-rl;transform:rotate(180deg);max-height:11rem;white-space:nowrap}
table.heat td,table.heat th{white-space:nowrap;vertical-align:middle}
table.dense{font-size:.75rem}table.dense td,table.dense th{padding:.1rem .2rem}table.dense td{min-width:1.45rem}
td.right{outline:2px solid var(--good);outline-offset:-3px}
td.bar{width:14rem;padding-right:0}td.bar i{display:block;height:.75rem;margin-top:.3rem;background:var(--accent);border-radius:2px}
td.bar i.minus{background:var(--poor)}
.wrong{background:rgba(213,94,0,.22)}
img{max-width:100%;height:auto;display:block;margin:.5rem 0}
@media print{main{max-width:none}h2{break-after:avoid}}
"""
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"


def page(title: str, sections: Iterable[str]) -> str:
    """A whole page."""
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head>\n"
        f"<body><main><h1>{escape(title)}</h1>\n" + "\n".join(sections) + "\n</main></body></html>\n"
    )


def section(name: str, *parts: str) -> str:
    """A section; its parts are HTML."""
    return f"<section><h2>{escape(name)}</h2>{''.join(parts)}</section>"


def text(words: str, kind: str = "") -> str:
    """A paragraph."""
    return f'<p class="{kind}">{escape(words)}</p>' if kind else f"<p>{escape(words)}</p>"


def facts(rows: Iterable[tuple[str, str]]) -> str:
    """A table of names and values."""
    lines = "".join(f"<tr><th>{escape(name)}</th><td>{escape(value)}</td></tr>" for name, value in rows)
    return f'<div class="scroll"><table class="facts"><tbody>{lines}</tbody></table></div>'


def table(head: Sequence[str], rows: Iterable[Sequence[str]], numbers: int = 0) -> str:
    """A table of text; columns from number ``numbers`` on are aligned to the right."""
    kind = [' class="n"' if numbers and c >= numbers else "" for c in range(len(head))]
    top = "".join(f"<th{k}>{escape(cell)}</th>" for k, cell in zip(kind, head, strict=True))
    lines = "".join(
        "<tr>" + "".join(f"<td{k}>{escape(cell)}</td>" for k, cell in zip(kind, row, strict=True)) + "</tr>" for row in rows
    )
    return f'<div class="scroll"><table><thead><tr>{top}</tr></thead><tbody>{lines}</tbody></table></div>'


def picture(draw: Callable[[Any], Any], alt: str) -> str:
    """What ``draw(ax)`` draws, for light and for dark screens; ``ax`` is the class of figures, and axes are returned."""
    light, dark = (_svg(draw, name) for name in ("light", "dark"))
    return (
        f'<picture><source srcset="{dark}" media="(prefers-color-scheme: dark)">'
        f'<img src="{light}" alt="{escape(alt, quote=True)}"></picture>'
    )


def _svg(draw: Callable[[Any], Any], name: str) -> str:
    """A picture as data, the same bytes in every run."""
    matplotlib = matplotlib_module("matplotlib")
    with theme(name), matplotlib.rc_context({"svg.hashsalt": "maxsum", "font.size": 9.5}):
        axes = draw(matplotlib_module("matplotlib.figure").Figure)
        first = axes.ravel()[0] if hasattr(axes, "ravel") else axes
        file = io.BytesIO()
        first.figure.savefig(file, format="svg", dpi=110, metadata={"Date": None, "Creator": None})
    return "data:image/svg+xml;base64," + base64.b64encode(file.getvalue()).decode("ascii")
