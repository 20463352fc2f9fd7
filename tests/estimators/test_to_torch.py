"""Without PyTorch: what asks for it says how to install it, and all else works."""

from __future__ import annotations

import sys

import pytest

import maxsum as ms


def test_layers_without_pytorch_say_how_to_install_it(monkeypatch):
    for name in [name for name in sys.modules if name.startswith("maxsum.torch")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "torch", None)
    fitted = ms.SequenceLabeler(scale=False).fit([[[0.0, 1.0], [1.0, 0.0]]], [["a", "b"]])
    with pytest.raises(ImportError, match=r'pip install "maxsum\[torch\]"'):
        fitted.to_torch()
    assert fitted.predict([[[1.0, 0.0]]])[0][0] == "b"
