"""Cards of HTML: the numbers of the result, well formed, and no text that could become code."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import sklearn
from plotting.page_checks import parse
from plotting.plot_samples import learning_result, result, tagger

import maxsum as ms
from maxsum.core.cards import duration, percent
from maxsum.core.result import Guarantee

HOSTILE = "<script>alert('x')</script> & \"quotes\""


def rows(html):
    """Names and values of a card."""
    page = parse(html)
    return dict(zip(page.texts("dt"), page.texts("dd"), strict=True)), page


def test_card_of_a_solver():
    values, page = rows(result(fixed=np.array([True] * 4 + [False] * 2))._repr_html_())
    assert values["score"] == "10" and values["upper bound"] == "10.5" and values["gap"] == "0.5 (4.8 %)"
    assert values["solver"] == "TRWS: iteration limit after 7 iterations"
    assert values["fixed"].startswith("4 of 6 nodes") and values["time"] == "250 ms"
    assert page.texts("b") == ["Result"] and page.texts("span") == ["proven gap 4.8 %"]
    assert page.texts("p") == ["half of it"]


def test_card_of_a_training():
    values, page = rows(learning_result(oracle_guarantee=Guarantee.within_gap)._repr_html_())
    assert values["objective"] == "8 or less" and values["lower bound"] == "7.5" and values["oracle calls"] == "16"
    assert values["time"] == "2.1 s; 1.2 s in oracles"
    assert page.texts("span") == ["proven gap 6.3 %"]


@pytest.mark.parametrize(
    ("guarantee", "words"),
    [
        ("optimal", "proven optimal"),
        ("infeasible", "proven infeasible"),
        ("upper_bound", "a bound, but no labelling"),
        ("feasible", "no bound is proven"),
        ("none", "nothing is proven"),
    ],
)
def test_badges(guarantee, words):
    bare = result(guarantee=Guarantee(guarantee), labels=None, score=-np.inf, bound=np.inf, gap=np.inf)
    values, page = rows(bare._repr_html_())
    assert page.texts("span") == [words]
    assert values["score"] == values["upper bound"] == values["gap"] == values["labelling"] == "none"


def test_a_training_without_a_bound_claims_none():
    values, page = rows(learning_result(lower_bound=-np.inf)._repr_html_())
    assert page.texts("span") == ["no bound is proven"]
    assert values["gap"] == values["lower bound"] == "none"


@pytest.mark.parametrize("make", [result, learning_result])
def test_text_is_escaped(make):
    name = "solver" if make is result else "learner"
    html = make(message=HOSTILE, **{name: HOSTILE})._repr_html_()
    page = parse(html)
    assert "script" not in page.tags and page.texts("p") == [HOSTILE]
    assert "http" not in html and "url(" not in html


def test_cards_are_for_light_and_dark():
    assert "prefers-color-scheme:dark" in result()._repr_html_()


def test_fitted_estimators_show_diagram_and_card():
    tag, _, _ = tagger()
    fresh = ms.SequenceLabeler()
    assert "maxsum-card" not in fresh._repr_html_() and "sk-" in fresh._repr_html_()
    tag.result_ = replace(tag.result_, message=HOSTILE)
    for html in (tag._repr_html_(), tag._repr_mimebundle_()["text/html"]):
        assert "sk-" in html and html.count('class="maxsum-card"') == 1
        values, page = rows(html[html.index('<div class="maxsum-card">') :])
        assert page.texts("b") == ["SequenceLabeler"] and page.texts("p") == [HOSTILE]
        assert values["problem"] == (
            f"surrogate margin, potentials general, C = 1.6; 12 samples, 60 nodes, {len(tag.weights_)} weights"
        )
        assert values["objective"] == f"{tag.result_.objective:.10g}"
    with sklearn.config_context(display="text"):
        assert not hasattr(tag, "_repr_html_") and "text/html" not in tag._repr_mimebundle_()


@pytest.mark.parametrize(
    ("value", "words"),
    [(0.0, "0 %"), (0.0075, "0.75 %"), (0.00751, "0.76 %"), (1.234, "124 %"), (3.01e-12, "3.1e-10 %"), (np.inf, "unknown")],
)
def test_gaps_are_rounded_up(value, words):
    assert percent(value) == words


@pytest.mark.parametrize(
    ("seconds", "words"), [(0.0123, "12.3 ms"), (1.5, "1.5 s"), (119, "119 s"), (125, "2 min 5 s"), (7300, "2 h 1 min")]
)
def test_times(seconds, words):
    assert duration(seconds) == words
