"""
Papers that cite each other
===========================

One graph, and the subject of every second paper is known. An associative Markov network learns how far a link speaks for the same subject: a weight of
at least zero for each subject. The same words without links are the model beside it.

Run: ``python examples/linked_pages.py``
"""

import matplotlib.pyplot as plt
import numpy as np

import maxsum as ms

SUBJECTS = 4


def main() -> None:
    papers = ms.datasets.make_citations(
        300, 700, 200, SUBJECTS, n_hidden=150, random_state=3, words_a_node=6.0
    )
    sample, truth, known, asked = papers.sample, papers.y, papers.known, papers.hidden

    alone = ms.GraphSample(sample.X, ms.Graph.from_edges([], len(truth)))
    words = ms.GraphLabeler(C=1.0, bias=True).fit([alone], [known]).predict([alone])[0]
    net = ms.GraphLabeler(potentials="associative", C=1.0, bias=True).fit([sample], [known])
    result = net.predict_result([sample], observed=[known])[0]
    labels = net.predict([sample], observed=[known])[0]
    print("training:", net.result_.verify(net.objective_))
    print(result.certificate.verify(net.problems([sample], observed=[known])[0], result.labels))

    panels = {
        "true subjects": truth,
        "known": known,
        "words alone": words,
        "words and links": labels,
    }
    place = layout(sample.graph, truth)
    _, axes = plt.subplots(1, 4, figsize=(14, 3.6), layout="constrained")
    u, v = sample.graph.edges.T
    for ax, (title, own) in zip(axes, panels.items(), strict=True):
        if title.startswith("words"):
            title += f": {100 * (own != truth)[asked].mean():.1f} % wrong"
            print(title)
        ax.plot(place[[u, v], 0], place[[u, v], 1], color="0.85", linewidth=0.4, zorder=0)
        seen = own >= 0
        ax.scatter(*place[seen].T, c=own[seen], cmap="tab10", vmin=0, vmax=9, s=9)
        ax.set_title(title, fontsize="medium")
        ax.set_axis_off()
    plt.savefig("linked_pages.png", dpi=80)


def layout(graph, groups):
    """A place for each paper: around the middle of its subject."""
    rng = np.random.default_rng(1)
    angle = 2 * np.pi * groups / SUBJECTS
    return np.stack([np.cos(angle), np.sin(angle)], axis=1) + 0.33 * rng.normal(
        size=(graph.n_nodes, 2)
    )


if __name__ == "__main__":
    main()
