"""Layers for PyTorch with drawn parameters. Imported by tests that need PyTorch alone."""

from __future__ import annotations

import torch


def shuffled(layer, seed=1, scale=1.0):
    """The layer in float64, its parameters drawn anew."""
    own = torch.Generator().manual_seed(seed)
    layer = layer.double()
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.copy_(scale * torch.randn(parameter.shape, generator=own, dtype=torch.float64))
    return layer
