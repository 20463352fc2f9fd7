"""ForestOracle: the best labellings of forests, by dynamic programming."""

from __future__ import annotations

import numpy as np

from ...executors.threads import n_threads, thread_map
from ...kernels import tree
from ...kernels.design import augmented_scores
from ...kernels.net import adjacency, memberships
from ...kernels.records import Design, Net
from ...models.bound import BoundModel
from .base import Effort, Key, worthwhile


class ForestOracle:
    """Dynamic programming over the forests of many examples in one kernel call a thread."""

    exact = True

    def __init__(self, model: BoundModel, design: Design):
        data = model.data
        if data.excluded is not None:  # kernels know nothing of labels that are excluded, but read their loss
            design = design._replace(loss=np.where(data.excluded, -np.inf, design.loss))
        self.model, self.design = model, design
        n_nodes, size = len(data.n_states), model.n_labels
        ptr, adj_edge, adj_side = adjacency(n_nodes, data.edges)
        member_ptr, member = memberships(n_nodes, np.zeros(0, dtype=np.int32))
        tables = model.tables(np.zeros(model.n_weights))
        empty = np.zeros(0, dtype=np.int32)
        self.unary = np.zeros((n_nodes, size))
        self.net = Net(
            data.n_states, self.unary, data.edges, tables.edge_table, np.ascontiguousarray(tables.edge_weight), tables.bank, ptr,
            adj_edge, adj_side, np.zeros(1, dtype=np.int64), empty, np.zeros((0, size)), member_ptr, member, empty, tables.bank,
        )  # fmt: skip
        self.order = tree.forest_order(n_nodes, data.edges, ptr, adj_edge, adj_side)
        self.hard = bool((data.n_states < size).any()) or model.has_forbidden
        roots = np.concatenate([self.order[0][self.order[3][:-1]], [n_nodes]]) if n_nodes else np.zeros(1, dtype=np.int64)
        self.first = np.searchsorted(roots, data.node_ptr)
        self.messages = np.zeros((2, len(data.edges), size))
        self.labels = np.zeros(n_nodes, dtype=np.int32)

    def answer(self, w: np.ndarray, examples: np.ndarray, effort: Effort, n_jobs: int) -> tuple[list[Key], np.ndarray]:
        """Best labellings by dynamic programming; gaps are 0."""
        node_ptr = self.model.data.node_ptr
        tables = self.model.tables(w)
        bank = tables.bank if len(tables.bank) else np.zeros((1, self.model.n_labels, self.model.n_labels))
        turned = np.ascontiguousarray(bank.transpose(0, 2, 1))
        net = self.net._replace(tables=np.ascontiguousarray(bank), turned=turned)
        order, parent_edge, parent_side, starts = self.order

        def run(part: np.ndarray) -> None:
            augmented_scores(self.design, part, w, self.unary)
            ranges = np.stack([self.first[part], self.first[part + 1]], axis=1)
            tree.solve_forests(net, order, parent_edge, parent_side, starts, ranges, self.hard, self.messages, self.labels)

        work = len(examples) * len(self.design.truth) * self.model.n_labels**2 / max(1, self.model.n_examples)
        n_jobs = worthwhile(n_jobs, work)
        pieces = [piece for piece in np.array_split(examples, n_threads(n_jobs)) if len(piece)]
        thread_map(run, pieces, n_jobs)
        labels, ends = self.labels.copy(), node_ptr.tolist()
        return [labels[ends[j] : ends[j + 1]] for j in examples.tolist()], np.zeros(len(examples))
