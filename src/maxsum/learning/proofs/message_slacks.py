"""Slacks under given messages, in plain numpy: the upper side of proofs with the linear relaxation inside. Any messages are valid."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...models.bound import Tables

_CHUNK = 2**20  # entries of edge tables in memory at once: 8 MB, which fits the caches of most machines


def message_slacks(
    objective: Any, w: np.ndarray, messages: np.ndarray, heat: float = 0.0, clique_messages: np.ndarray | None = None
) -> np.ndarray:
    r"""Slack of each example under messages (2, E, K), and (M, K) of members of cliques, in plain numpy: the sum over all terms of

    .. math:: \max_k \theta(k) - \theta(y),

    with :math:`\theta` the loss-augmented and reparametrised scores and :math:`y` the truth. With ``heat`` > 0 every maximum is a
    soft one, :math:`\epsilon\log\sum_k e^{\theta(k)/\epsilon}`.
    """
    model = objective.model
    data, size = model.data, model.n_labels
    labels, (u, v) = objective.design.truth, data.edges.T
    unary = model.unary(w) + objective.loss_table
    np.subtract.at(unary, u, messages[0])
    np.subtract.at(unary, v, messages[1])
    psi = np.zeros((len(objective.design.member), size)) if clique_messages is None else clique_messages
    np.subtract.at(unary, objective.design.member, psi)
    example = np.repeat(np.arange(data.n_examples), np.diff(data.node_ptr))
    total = np.bincount(example, _height(unary, heat) - unary[np.arange(len(unary)), labels], data.n_examples)
    tables, k, step = model.tables(w), np.arange(size), max(1, _CHUNK // size**2)
    for start in range(0, len(u), step):
        own = slice(start, min(start + step, len(u)))
        one, two = u[own], v[own]
        table = edge_tables(tables, own) + messages[0, own, :, None] + messages[1, own, None, :]
        at_truth = table[np.arange(len(table)), labels[one], labels[two]]
        if (data.n_states < size).any():
            inside = (k < data.n_states[one][:, None])[:, :, None] & (k < data.n_states[two][:, None])[:, None, :]
            table = np.where(inside, table, -np.inf)
        total += np.bincount(example[one], _height(table.reshape(len(table), -1), heat) - at_truth, data.n_examples)
    if data.cliques is not None:
        total += _clique_slacks(objective, w, psi, example)
    return total


def _clique_slacks(objective: Any, w: np.ndarray, psi: np.ndarray, example: np.ndarray) -> np.ndarray:
    """The same of the cliques: without the reward every member takes its best, with it all take one label."""
    model, (_, ptr, member, _) = objective.model, objective.model.data.cliques
    states, labels = model.data.n_states[member], objective.design.truth[member]
    own = np.where(np.arange(model.n_labels) < states[:, None], psi, -np.inf)
    apart = np.add.reduceat(own.max(axis=1), ptr[:-1])
    reward = model.clique_weights(w)
    top = np.maximum(apart, (np.add.reduceat(own, ptr[:-1], axis=0) + reward).max(axis=1))
    low = np.minimum.reduceat(labels, ptr[:-1])
    agree = low == np.maximum.reduceat(labels, ptr[:-1])
    at_truth = np.add.reduceat(psi[np.arange(len(psi)), labels], ptr[:-1])
    at_truth += np.where(agree, reward[np.arange(len(low)), low], 0.0)
    return np.bincount(example[member[ptr[:-1]]], top - at_truth, model.data.n_examples)


def _height(scores: np.ndarray, heat: float) -> np.ndarray:
    top = scores.max(axis=1, initial=-np.inf)
    if not heat:
        return top
    return np.asarray(top + heat * np.log(np.exp((scores - top[:, None]) / heat).sum(axis=1)))


def edge_tables(tables: Tables, edges: slice) -> np.ndarray:
    """Tables of some edges of the union, one an edge."""
    if not len(tables.edge_table):
        return np.zeros((0, *tables.bank.shape[1:]))
    return np.asarray(tables.bank[tables.edge_table[edges]] * tables.edge_weight[edges, None, None])
