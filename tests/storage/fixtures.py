"""Models of each version of the file format, kept to be read by every later one; ``python tests/storage/fixtures.py`` writes them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

import maxsum as ms

FOLDER = Path(__file__).parent / "fixtures"
NEW_TEXT = [[{"word": "a"}, {"word": "dog"}, {"word": "barks", "length": 5}], [{"word": "nothing"}]]
NEW_IMAGE = [np.sin(np.arange(24.0)).reshape(3, 4, 2)]
NEW_ROWS = np.cos(np.arange(12.0)).reshape(4, 3)


def trained():
    """Estimators by name, and what they are asked to predict."""
    X = [[{"word": "the"}, {"word": "dog"}], [{"word": "a"}, {"word": "cat"}, {"word": "barks", "length": 5}]]
    yield "tagger", ms.SequenceLabeler(C=10.0).fit(X, [["D", "N"], ["D", ("N", 1), "V"]]), NEW_TEXT
    image = np.cos(np.arange(24.0)).reshape(3, 4, 2)
    labels = (np.arange(4) > 1)[None].repeat(3, 0).astype(int)
    yield "grid", ms.GridLabeler(C=2.0, edge_features="contrast", bias=True).fit([image], [labels]), NEW_IMAGE
    rows = np.sin(np.arange(30.0)).reshape(10, 3)
    yield "table", ms.MultiLabelClassifier(C=3.0).fit(rows, (rows[:, :2] > 0.1).astype(int)), NEW_ROWS


def answers(net, new):
    """Predictions and scores, as plain values."""
    labels = [np.asarray(own).tolist() for own in net.predict(new)]
    return {"labels": labels, "scores": [result.score for result in net.predict_result(new)]}


if __name__ == "__main__":
    from maxsum.storage.format import VERSION

    FOLDER.mkdir(exist_ok=True)
    for name, net, new in trained():
        ms.save_model(net, FOLDER / f"{name}_v{VERSION}.maxsum", certificate=True)
        (FOLDER / f"{name}_v{VERSION}.json").write_text(json.dumps(answers(net, new)) + "\n")
