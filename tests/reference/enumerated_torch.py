"""All labellings of small structures, in plain torch: the slow references that losses are compared with, gradients included."""

from __future__ import annotations

from itertools import product

import torch


def labellings(n_nodes, n_labels):
    return torch.tensor(list(product(range(n_labels), repeat=n_nodes))).reshape(-1, n_nodes)


def scores(unary, edges, tables):
    """Scores of all labellings; ``tables`` (E, K, K)."""
    every = labellings(len(unary), unary.shape[1])
    total = unary[torch.arange(len(unary)), every].sum(dim=1)
    for e, (u, v) in enumerate(edges):
        total = total + tables[e][every[:, u], every[:, v]]
    return every, total


def truth_score(every, total, allowed, how):
    """``how`` (torch.logsumexp or torch.amax) of the labellings that agree with the sets ``allowed`` (n, K)."""
    agree = allowed[torch.arange(len(allowed)), every].all(dim=1)
    return how(total[agree], dim=0)


def costs(every, allowed, matrix):
    """Cost of each labelling: at each node the least over the allowed labels, 0 where all are."""
    per = torch.stack(
        [
            matrix[own].amin(dim=0) if not own.all() or len(own) == 1 else torch.zeros(len(own), dtype=torch.float64)
            for own in allowed
        ]
    )
    return per[torch.arange(len(allowed)), every].sum(dim=1)


def sets(labels, n_labels):
    """Labels with -100 for unknown as sets."""
    out = torch.zeros(len(labels), n_labels, dtype=torch.bool)
    for i, label in enumerate(labels.tolist()):
        out[i] = True if label == -100 else torch.arange(n_labels) == label
    return out


def hinge(unary, edges, tables, allowed, matrix):
    every, total = scores(unary, edges, tables)
    return (total + costs(every, allowed, matrix)).amax(dim=0) - truth_score(every, total, allowed, torch.amax)


def crf(unary, edges, tables, allowed):
    every, total = scores(unary, edges, tables)
    return torch.logsumexp(total, dim=0) - truth_score(every, total, allowed, torch.logsumexp)


def smoothed(unary, edges, tables, allowed, matrix, heat):
    every, total = scores(unary, edges, tables)
    known = truth_score(every, total / heat, allowed, torch.logsumexp)
    return heat * (torch.logsumexp((total + costs(every, allowed, matrix)) / heat, dim=0) - known)


def pseudo(unary, edges, tables, labels):
    total = 0.0
    for v in range(len(unary)):
        local = unary[v]
        for e, (a, b) in enumerate(edges):
            local = local + (tables[e][:, labels[b]] if a == v else tables[e][labels[a]] if b == v else 0.0)
        total = total + torch.logsumexp(local, dim=0) - local[labels[v]]
    return total
