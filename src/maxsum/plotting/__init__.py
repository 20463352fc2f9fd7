"""Pictures of results, weights and labellings, by matplotlib (``pip install maxsum[plot]``), which is imported on first use.

==================== ================================================================
`plot_convergence`   objective, bound and gap against time and oracle calls
`plot_pairwise`      tables label × label of what was learned
`plot_labelling`     an image, its labelling, and the pixels that are not proven
`plot_graph`         a graph with its labels, and the nodes that are not proven
`theme`              light or dark, for the pictures made inside
==================== ================================================================

Each draws into ``ax`` if that is given, into a new figure of pyplot otherwise, and returns the axes. Colours of classes can be told
apart with normal and with colour-blind eyes, up to 30 of them.
"""

from __future__ import annotations

from .canvas import theme
from .convergence import plot_convergence
from .graph import plot_graph
from .labelling import plot_labelling
from .pairwise import plot_pairwise

__all__ = ["plot_convergence", "plot_graph", "plot_labelling", "plot_pairwise", "theme"]
