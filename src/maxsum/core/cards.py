"""Results as cards of HTML, for notebooks and pages: compact, self-contained, all text escaped."""

from __future__ import annotations

import math
from collections.abc import Iterable
from html import escape

_STYLE = """<style>
.maxsum-card{--good:#116329;--fair:#0a53a8;--poor:#8a4600;--line:rgba(128,134,142,.45);--soft:rgba(128,134,142,.12);
display:inline-block;max-width:46em;margin:.3em 0;padding:.6em .9em;border:1px solid var(--line);border-radius:8px;
font:13px/1.45 system-ui,-apple-system,"Segoe UI",sans-serif;color:inherit}
.maxsum-card header{display:flex;flex-wrap:wrap;gap:.6em;align-items:baseline;margin:0 0 .35em}
.maxsum-card b{font-size:1.08em}
.maxsum-card .badge{padding:0 .6em;border:1px solid currentColor;border-radius:1em;white-space:nowrap}
.maxsum-card .good{color:var(--good)}.maxsum-card .fair{color:var(--fair)}.maxsum-card .poor{color:var(--poor)}
.maxsum-card dl{display:grid;grid-template-columns:max-content 1fr;gap:.05em 1.1em;margin:0}
.maxsum-card dt{opacity:.72;margin:0;font-weight:normal}
.maxsum-card dd{margin:0;font-variant-numeric:tabular-nums;overflow-wrap:anywhere}
.maxsum-card p{margin:.45em 0 0;padding:.35em .6em;background:var(--soft);border-radius:5px;overflow-wrap:anywhere}
@media (prefers-color-scheme:dark){.maxsum-card{--good:#5bd87d;--fair:#7fb8ff;--poor:#f0a94c}}
[data-jp-theme-light="false"] .maxsum-card,.vscode-dark .maxsum-card{--good:#5bd87d;--fair:#7fb8ff;--poor:#f0a94c}
[data-jp-theme-light="true"] .maxsum-card,.vscode-light .maxsum-card{--good:#116329;--fair:#0a53a8;--poor:#8a4600}
</style>"""
_PROVEN = {
    "optimal": ("good", "proven optimal"),
    "infeasible": ("good", "proven infeasible"),
    "upper_bound": ("fair", "a bound, but no labelling"),
    "feasible": ("poor", "no bound is proven"),
    "none": ("poor", "nothing is proven"),
}


def card(title: str, badge: tuple[str, str], rows: Iterable[tuple[str, str]], message: str = "") -> str:
    """A card: title, badge (``good``, ``fair`` or ``poor``, and words), rows of name and value, and a sentence; any text is escaped."""
    mood, words = badge
    lines = "".join(f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in rows)
    note = f"<p>{escape(message)}</p>" if message else ""
    head = f'<header><b>{escape(title)}</b><span class="badge {escape(mood)}">{escape(words)}</span></header>'
    return f'<div class="maxsum-card">{_STYLE}{head}<dl>{lines}</dl>{note}</div>'


def proven(guarantee: str, relative_gap: float) -> tuple[str, str]:
    """The badge of a guarantee."""
    known = _PROVEN.get(str(guarantee))
    return known if known is not None else ("fair", f"proven gap {percent(relative_gap)}")


def percent(value: float) -> str:
    """A relative gap in per cent with two digits, rounded up, so that it stays true."""
    if not math.isfinite(value):
        return "unknown"
    if value <= 0:
        return "0 %"
    if value >= 1:
        return f"{math.ceil(100 * value)} %"
    step = 10.0 ** (math.floor(math.log10(100 * value)) - 1)
    return f"{math.ceil(100 * value / step - 1e-9) * step:.2g} %"


def number(value: float) -> str:
    """A number with ten digits; words where there is none."""
    return f"{value:.10g}" if math.isfinite(value) else "none"


def duration(seconds: float) -> str:
    """A time for people."""
    if seconds < 1:
        return f"{1000 * seconds:.3g} ms"
    if seconds < 120:
        return f"{seconds:.3g} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 120 else f"{minutes // 60} h {minutes % 60} min"


def gap_words(gap: float, relative: float) -> str:
    """A gap, also in per cent."""
    if not math.isfinite(gap):
        return "none"
    return f"{gap:.3g} ({percent(relative)})" if math.isfinite(relative) else f"{gap:.3g}"


def times(whole: float, *parts: tuple[float, str]) -> str:
    """A time, and what it was spent on, without parts of 0."""
    inside = ", ".join(f"{duration(seconds)} {words}" for seconds, words in parts if seconds > 0)
    return duration(whole) + (f"; {inside}" if inside else "")
