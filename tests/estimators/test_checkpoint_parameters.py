"""Checkpoints of estimators: how often they are written, and that a multi-label training goes on from one."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from factories.samples import label_table

import maxsum as ms
from maxsum.core.result import Termination
from maxsum.learning import BlockFrankWolfe, paths


@pytest.mark.parametrize("learner", [None, "CuttingPlane"])
def test_a_multilabel_training_goes_on_from_its_checkpoint(tmp_path, learner):
    X, Y = label_table(40, 3, 4, noise=0.5)
    options = {"C": 100.0, "tol": 1e-9, "learner": learner}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        whole = ms.MultiLabelClassifier(max_iter=30, **options).fit(X, Y)
        path = tmp_path / "state"
        ms.MultiLabelClassifier(max_iter=10, checkpoint=path, **options).fit(X, Y)
        assert path.exists()
        again = ms.MultiLabelClassifier(max_iter=30, checkpoint=path, **options).fit(X, Y)
    np.testing.assert_array_equal(again.weights_, whole.weights_)
    assert len(again.result_.trace) < len(whole.result_.trace)


def test_checkpoint_seconds_say_how_often(tmp_path, monkeypatch):
    from maxsum.learning.driver import Training

    written = []
    monkeypatch.setattr(Training, "save", lambda self: written.append(self.n_iter))
    X = [[{"w": f"{i % 3}"} for i in range(j, j + 4)] for j in range(6)]
    y = [[["a", "b", "c"][i % 3] for i in range(j, j + 4)] for j in range(6)]
    for seconds, wanted in ((0.0, 4), (1000.0, 1)):
        written.clear()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            options = {"checkpoint": tmp_path / "s", "checkpoint_seconds": seconds, "max_iter": 4, "tol": 0.0}
            ms.SequenceLabeler(C=10.0, **options).fit(X, y)
        assert len(written) == wanted


def test_ctrl_c_ends_a_whole_path():
    X, Y = label_table(40, 3, 4, noise=0.5)
    net = ms.MultiLabelClassifier(C=1.0).fit(X, Y)
    calls = []

    class Interrupted(BlockFrankWolfe):
        def fit(self, objective, callback=None, init=None):
            from dataclasses import replace

            calls.append(objective.C)
            result = BlockFrankWolfe(max_iter=2).fit(objective, callback, init)
            return replace(result, termination=Termination.interrupted)

    with pytest.raises(KeyboardInterrupt):
        paths.path(Interrupted(), net.objective_, [1.0, 2.0])
    assert calls == [1.0] and net.objective_.C == 1.0
