"""Notes in the header of a model file."""

from __future__ import annotations

import numpy as np
import pytest

import maxsum as ms
from maxsum.core.errors import ModelFileError
from maxsum.storage import read_header


def test_notes_come_back_or_are_refused(tmp_path):
    net = ms.SequenceLabeler().fit([[0, 1], [1, 0]], [["a", "b"], ["b", "a"]])
    notes = {"task": "sequence", "numbers": [1, 0.1, None, True], "deep": {"ä": ["b"]}}
    ms.save_model(net, tmp_path / "m", notes=notes)
    assert read_header(tmp_path / "m")["notes"] == notes
    ms.save_model(net, tmp_path / "m")
    assert read_header(tmp_path / "m")["notes"] is None
    for wrong in ({"x": np.zeros(2)}, {"x": float("nan")}, {1: "x"}, {"x": (1, 2)}, ["x"]):
        with pytest.raises(ModelFileError, match="notes cannot be kept"):
            ms.save_model(net, tmp_path / "n", notes=wrong)
    assert not (tmp_path / "n").exists()
