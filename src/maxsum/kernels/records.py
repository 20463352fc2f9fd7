"""Records of arrays that kernels take, and room for some of them; `*.hpp` have the same fields in the same order."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class Net(NamedTuple):
    """A max-sum problem for kernels. All arrays are C-contiguous.

    Scores are centred: the best label of each node has unary 0. ``unary`` is ``-inf`` for labels that a node does not
    have, that are forbidden, or that arc consistency excludes; every other label has a partner at each of its edges.
    Messages are finite always, also at such labels.
    """

    n_states: np.ndarray  # int32 (N,)
    unary: np.ndarray  # float64 (N, K)
    edges: np.ndarray  # int32 (E, 2)
    edge_table: np.ndarray  # int32 (E,)
    edge_weight: np.ndarray  # float64 (E,)
    tables: np.ndarray  # float64 (T, K, K)
    ptr: np.ndarray  # int64 (N + 1,): the edges at node v are adj_edge[ptr[v]:ptr[v + 1]]
    adj_edge: np.ndarray  # int32 (2 E,)
    adj_side: np.ndarray  # int8 (2 E,): 0 if v is the first node of that edge
    clique_ptr: np.ndarray  # int64 (C + 1,)
    clique_nodes: np.ndarray  # int32 (M,)
    clique_weights: np.ndarray  # float64 (C, K)
    member_ptr: np.ndarray  # int64 (N + 1,): the memberships of node v are member[member_ptr[v]:member_ptr[v + 1]]
    member: np.ndarray  # int32 (M,): index into clique_nodes
    member_clique: np.ndarray  # int32 (M,): clique of entry i of clique_nodes
    turned: np.ndarray  # float64 (T, K, K): the tables transposed, or (0, 0, 0) where that would take too much memory


class FactorNet(NamedTuple):
    """A max-sum problem with factors, terms over any number of nodes, for kernels.

    The members of factor ``f`` are the slots ``ptr[f] .. ptr[f + 1] - 1``, all of different nodes. By its kind it pays, with
    ``t`` the labels of its members:

    0. table: ``scores[start + index of t]``, row by row over the members' own numbers of labels;
    1. agreement: ``scores[start + k] >= 0`` if all members have label ``k``, else 0;
    2. cardinality: ``scores[start + c]``, where ``c`` members have a label that counts;
    3. automaton: ``scores[start + state]`` after the last slot, or nothing is allowed where a step is -1. The state is 0 before
       the first slot, and label ``k`` at slot ``i`` leads from state ``s`` to ``step[level[i] + s * K + k]``;
    4. all different: 0 if no two members have the same label, else ``-inf``.

    ``-inf`` in ``scores`` forbids. ``unary`` is ``-inf`` for labels that a node does not have or that are forbidden. Messages
    are float64 (M, K), one row a slot, finite always; they are read as ``-inf`` at such labels.
    """

    n_states: np.ndarray  # int32 (N,)
    unary: np.ndarray  # float64 (N, K)
    ptr: np.ndarray  # int64 (F + 1,)
    nodes: np.ndarray  # int32 (M,): node of each slot
    kind: np.ndarray  # int32 (F,)
    start: np.ndarray  # int64 (F,)
    scores: np.ndarray  # float64 (S,): a bank, factors may share their part of it
    counted: np.ndarray  # uint8 (M, K): labels that count, read for kind 2 alone; (0, K) if there is none of it
    level: np.ndarray  # int64 (M,): read for kind 3 alone, as the next three; (0,) if there is none of it
    width: np.ndarray  # int32 (M,): number of states before each slot, at least 1
    final_width: np.ndarray  # int32 (F,): number of states after the last slot
    step: np.ndarray  # int32 (T,)
    member_ptr: np.ndarray  # int64 (N + 1,): the slots of node v are member[member_ptr[v]:member_ptr[v + 1]]
    member: np.ndarray  # int32 (M,): by increasing factor


class TermArrays(NamedTuple):
    """The terms of a problem as they are given, for eliminations: a score is what is stored less its centre, edges then times their weight.

    Factors are dense tables in one bank, row by row over their members' own numbers of labels.
    """

    n_states: np.ndarray  # int32 (N,)
    unary: np.ndarray  # float64 (N, K)
    unary_top: np.ndarray  # float64 (N,): the centre of each node
    edges: np.ndarray  # int32 (E, 2)
    edge_table: np.ndarray  # int32 (E,)
    edge_weight: np.ndarray  # float64 (E,)
    edge_centre: np.ndarray  # float64 (E,)
    tables: np.ndarray  # float64 (T, K, K)
    clique_ptr: np.ndarray  # int64 (C + 1,)
    clique_nodes: np.ndarray  # int32 (M,)
    clique_weights: np.ndarray  # float64 (C, K)
    factor_ptr: np.ndarray  # int64 (F + 1,)
    factor_nodes: np.ndarray  # int32
    factor_start: np.ndarray  # int64 (F,): where the table begins in the bank
    factor_centre: np.ndarray  # float64 (F,)
    bank: np.ndarray  # float64


class Separators(NamedTuple):
    """An order of elimination: the separator of ``nodes[i]`` is ``members[ptr[i]:ptr[i + 1]]``, its table has the numbers
    ``table_ptr[i] .. table_ptr[i + 1] - 1`` of all tables."""

    nodes: np.ndarray  # int32 (N,)
    ptr: np.ndarray  # int64 (N + 1,)
    members: np.ndarray  # int32
    table_ptr: np.ndarray  # int64 (N + 1,)


class Forms(NamedTuple):
    """What is known of each table of a bank; it holds where the weight of the edge is not negative."""

    kind: np.ndarray  # int8 (T,): one of the five above
    width: np.ndarray  # int64 (T,): the table is constant from this distance of labels on
    slope: np.ndarray  # float64 (T,): f(0) - f(d) = slope * d (linear) or slope * d * d (quadratic) for d < width


class Forest(NamedTuple):
    """A forest with scores of edges; components and orders as `kernels.tree.forest_order` gives them."""

    n_states: np.ndarray  # int32 (N,)
    edges: np.ndarray  # int32 (E, 2)
    order: np.ndarray  # int32 (N,): nodes, parents first
    parent_edge: np.ndarray  # int32 (N,)
    parent_side: np.ndarray  # int8 (N,): side of the node on that edge
    starts: np.ndarray  # int64 (n_components + 1,)
    table_of: np.ndarray  # int32 (E,)
    tables: np.ndarray  # float64 (T, K, K)
    peaks: np.ndarray  # float64 (T,): largest entry of each table
    bank: np.ndarray  # float64 (T, K, K): exp(tables - peaks)
    turned: np.ndarray  # float64 (T, K, K): the bank transposed
    safe: np.ndarray  # uint8 (T,): whether all entries of the bank exceed FAINT


class Box(NamedTuple):
    """Room for a packed box; all arrays are scratch."""

    label: np.ndarray  # int32 (N, K)
    size: np.ndarray  # int32 (N,)
    first: np.ndarray  # int64 (2, E)
    table: np.ndarray  # float64 (R, K), room for all tables, twice
    message: np.ndarray  # float64 (2, E, K)
    theta: np.ndarray  # float64 (K,)
    own: np.ndarray  # float64 (K,)
    out: np.ndarray  # float64 (K,)
    chosen: np.ndarray  # int32 (N,)


class Enumeration(NamedTuple):
    """Room for an enumeration; all arrays are scratch. ``M`` is the number of labels of the largest box."""

    offset: np.ndarray  # int64 (N + 1,)
    order: np.ndarray  # int32 (N,)
    rank: np.ndarray  # int32 (N,)
    inside: np.ndarray  # float64 (N,)
    outside: np.ndarray  # float64 (N,)
    mean: np.ndarray  # float64 (E,)
    loss: np.ndarray  # float64 (N + 1, M)
    least: np.ndarray  # float64 (N + 1, N)
    total: np.ndarray  # float64 (N + 1,)
    at: np.ndarray  # int32 (N + 1,)
    found: np.ndarray  # int32 (N,)
    best: np.ndarray  # int32 (N,)


def room_for(n_nodes: int, n_edges: int, n_labels: int) -> Enumeration:
    """Scratch for boxes of up to ``n_labels`` labels in all; 0 means that none is enumerated, and next to nothing is allocated."""
    n = n_nodes
    return Enumeration(
        offset=np.zeros(n + 1, dtype=np.int64),
        order=np.zeros(n, dtype=np.int32),
        rank=np.zeros(n, dtype=np.int32),
        inside=np.zeros(n),
        outside=np.zeros(n),
        mean=np.zeros(n_edges),
        loss=np.zeros((n + 1, n_labels)),
        least=np.zeros((n + 1, n if n_labels else 0)),
        total=np.zeros(n + 1),
        at=np.zeros(n + 1, dtype=np.int32),
        found=np.zeros(n, dtype=np.int32),
        best=np.zeros(n, dtype=np.int32),
    )


class Dag(NamedTuple):
    """Scratch and state of the descent; what `scratch` makes."""

    theta: np.ndarray  # float64 (N, K): reparametrised node scores
    node_top: np.ndarray  # float64 (N,)
    edge_top: np.ndarray  # float64 (E,)
    order: np.ndarray  # int32 (N, K): position of a deletion in ``queue``, -1 for labels that are left
    cause: np.ndarray  # int32 (N, K): the edge that deleted a label, -1 for slack labels
    queue: np.ndarray  # int64 (N * K,): deleted labels as v * K + k, in order
    left: np.ndarray  # int32 (N,): number of labels that are left
    support: np.ndarray  # int32 (2, E, K): the partner that was found last
    asked: np.ndarray  # float64 (N, K): units asked for
    direction: np.ndarray  # float64 (2, E, K)
    saved: np.ndarray  # float64 (2, E, K): messages before the step
    touched: np.ndarray  # int32 (E,): edges of the direction
    marked: np.ndarray  # uint8 (N + E,): nodes and edges of the direction


def scratch(n_nodes: int, n_edges: int, n_labels: int) -> Dag:
    """Arrays of the right sizes."""
    return Dag(
        np.zeros((n_nodes, n_labels)),
        np.zeros(n_nodes),
        np.zeros(n_edges),
        np.full((n_nodes, n_labels), -1, dtype=np.int32),
        np.full((n_nodes, n_labels), -1, dtype=np.int32),
        np.zeros(n_nodes * n_labels, dtype=np.int64),
        np.zeros(n_nodes, dtype=np.int32),
        np.zeros((2, n_edges, n_labels), dtype=np.int32),
        np.zeros((n_nodes, n_labels)),
        np.zeros((2, n_edges, n_labels)),
        np.zeros((2, n_edges, n_labels)),
        np.zeros(n_edges, dtype=np.int32),
        np.zeros(n_nodes + n_edges, dtype=np.uint8),
    )


class Flow(NamedTuple):
    """A flow network and the state of the search. Arcs come in sister pairs, the arcs of a node are neighbours.

    A cut pays for each arc from its source side to its sink side, and the excess of each node on the wrong side.
    Capacities may be infinite; excesses are finite.
    """

    ptr: np.ndarray  # (N + 1,): the arcs of node v are ptr[v] .. ptr[v + 1] - 1
    arc: np.ndarray  # int32 (4 A,): of arc a, [4 a + 2] is the head and [4 a + 3] the sister; shares memory with cap
    cap: np.ndarray  # float64 (2 A,): [2 a] is the residual capacity
    excess: np.ndarray  # float64 (N,): > 0 from the source, < 0 to the sink, after the flow so far
    node: np.ndarray  # int32 (4 N,): arc to the parent, parent, time stamp, distance (> 0 source tree, < 0 sink tree, 0 free)
    queue: np.ndarray  # int32 (N,): active nodes, circular
    queued: np.ndarray  # uint8 (N,)
    orphans: np.ndarray  # int32 (N,): circular
    state: np.ndarray  # int64 (4,): head and size of the queue, time, number of augmentations


def new_flow(ptr: np.ndarray, n_nodes: int, n_arcs: int) -> Flow:
    """A network without capacities, to be filled by a builder."""
    cap = np.empty(2 * n_arcs)
    node, queue, orphans = (np.zeros(size, dtype=np.int32) for size in (4 * n_nodes, n_nodes, n_nodes))
    queued, state = np.zeros(n_nodes, dtype=np.uint8), np.zeros(4, dtype=np.int64)
    return Flow(ptr, cap.view(np.int32), cap, np.zeros(n_nodes), node, queue, queued, orphans, state)


class Move(NamedTuple):
    """What a move keeps beside its network. ``shares`` and ``rewards`` hold, for each label, the flow of its last move."""

    slot: np.ndarray  # int32 (E, 2): the arc of each edge at its first and at its second node
    active: np.ndarray  # uint8 (N,): nodes that may take alpha
    full: np.ndarray  # float64 (E,): A + D - B - C where both ends may move, else 0
    shares: np.ndarray  # float64 (K, E): the share s, or NO_SHARE
    rewards: np.ndarray  # float64 (K, 2, M): flow between a clique member and the variable "stay" (0) or "take" (1)


class BlockRows(NamedTuple):
    r"""A symmetric matrix by rows of blocks from a shared bank, plus a diagonal:

    .. math:: (\Theta x)_v(k) = D_v(k) x_v(k) + \sum_{j = ptr_v}^{ptr_{v+1} - 1} w_j \sum_l bank_{b_j}(l, k) x_{c_j}(l).

    Blocks are stored with the label of the *other* node first, so that the inner loop is contiguous.
    """

    n_states: np.ndarray  # int32 (N,)
    ptr: np.ndarray  # int64 (N + 1,)
    col: np.ndarray  # int32 (nnz,): the other node, or v itself
    block: np.ndarray  # int32 (nnz,): which block of the bank
    weight: np.ndarray  # float64 (nnz,)
    bank: np.ndarray  # float64 (B, K, K)
    diagonal: np.ndarray  # float64 (N, K)


class Design(NamedTuple):
    """A training set for kernels: features of the union of all examples, and which weight each of them meets.

    Node ``v`` with label ``k`` has the features ``x_col[x_ptr[r]:x_ptr[r + 1]]`` of row ``r = v * node_step[0] + k *
    node_step[1]``, each with the weight ``node_index[f, k]`` (-1: none). With steps (1, 0) a row belongs to a node, as in most
    models; with (K, 1) to a node and a label, for general joint features. Edges alike, with ``r = e * edge_step[0] +
    (k * K + l) * edge_step[1]`` and ``edge_index[f, k, l]``. Clique ``c`` has the features ``h_col[h_ptr[c]:h_ptr[c + 1]]`` with
    the weights ``clique_index[f, k]``, when all its members have label ``k``; without cliques ``clique_ptr`` is empty.
    """

    node_ptr: np.ndarray  # int64 (n + 1,): nodes of example j
    edge_ptr: np.ndarray  # int64 (n + 1,)
    edges: np.ndarray  # int32 (E, 2), nodes of the union
    x_ptr: np.ndarray  # int64
    x_col: np.ndarray  # int32
    x_val: np.ndarray  # float64
    node_index: np.ndarray  # int32 (D, K)
    node_base: np.ndarray  # int32 (D,): node_index[f, 0] if node_index[f] is a run of consecutive weights, else -1
    node_step: np.ndarray  # int64 (2,)
    f_ptr: np.ndarray  # int64
    f_col: np.ndarray  # int32
    f_val: np.ndarray  # float64
    edge_index: np.ndarray  # int32 (F, K, K)
    edge_step: np.ndarray  # int64 (2,)
    truth: np.ndarray  # int32 (N,)
    loss: np.ndarray  # float64 (N, K)
    clique_ptr: np.ndarray = np.zeros(0, dtype=np.int64)  # int64 (n + 1,): cliques of example j
    member_ptr: np.ndarray = np.zeros(1, dtype=np.int64)  # int64 (C + 1,)
    member: np.ndarray = np.zeros(0, dtype=np.int32)  # int32 (M,), nodes of the union
    h_ptr: np.ndarray = np.zeros(1, dtype=np.int64)  # int64 (C + 1,)
    h_col: np.ndarray = np.zeros(0, dtype=np.int32)  # int32
    h_val: np.ndarray = np.zeros(0)  # float64
    clique_index: np.ndarray = np.zeros((0, 0), dtype=np.int32)  # int32 (F, K)


class Planes(NamedTuple):
    """Planes of all examples; example ``j`` owns the slots ``slot_ptr[j] .. slot_ptr[j] + used[j] - 1``."""

    slot_ptr: np.ndarray  # int64 (n + 1,)
    used: np.ndarray  # int64 (n,)
    alpha: np.ndarray  # float64 (slots,)
    offset: np.ndarray  # float64 (slots,): b
    age: np.ndarray  # int64 (slots,): visits without weight
    pool_ptr: np.ndarray  # int64 (n + 1,): labels of the i-th slot of j start at pool_ptr[j] + i * nodes of j
    pool: np.ndarray  # int32
    gram_ptr: np.ndarray  # int64 (n + 1,)
    gram: np.ndarray  # float64: products of the z of one example, capacity x capacity
    vector: np.ndarray  # float64 (slots, P): the z themselves, where there are few weights; else (0, 0)


class Weights(NamedTuple):
    """The weight vector and what keeps it in its cone. Without ``nonneg`` ``value`` is the array ``plain`` itself."""

    plain: np.ndarray  # float64 (P,): sum of alpha * z, plus A' mu for the rows of the cone
    value: np.ndarray  # float64 (P,): the same, negative entries of ``nonneg`` cut off
    nonneg: np.ndarray  # uint8 (P,), or (0,) if there are none
    row_ptr: np.ndarray  # int64 (R + 1,)
    row_col: np.ndarray  # int32
    row_val: np.ndarray  # float64
    row_norm: np.ndarray  # float64 (R,): squared norms
    mu: np.ndarray  # float64 (R,)
    sigma: float = 1.0  # steps count this much in ``plain``: above 1 where others move the weights at the same time


class Scratch(NamedTuple):
    """Work space of one thread."""

    index: np.ndarray  # type: ignore[assignment]  # int32
    value: np.ndarray  # float64
    dense: np.ndarray  # float64 (P,), zero between uses
    gradient: np.ndarray  # float64 (largest capacity,)
    change: np.ndarray  # float64 (largest capacity,)
    moving: np.ndarray  # int64 (largest capacity,)
    active: np.ndarray  # uint8 (most nodes of an example,)
    scores: np.ndarray  # float64 (most nodes of an example, K)
    share: np.ndarray  # float64 (K,)
    wanted: np.ndarray  # uint8 (K,), zero between uses
    chosen: np.ndarray  # int64 (K + 1,)


class Regions(NamedTuple):
    """Labellings of regions; that of node ``v`` outside of all is ``base[v]``."""

    base: np.ndarray  # int32 (N,)
    region: np.ndarray  # int64 (N,): region of each node, or -1
    place: np.ndarray  # int64 (N,): its number in the region
    node_ptr: np.ndarray  # int64 (R + 1,)
    node: np.ndarray  # int64: nodes of region r are node[node_ptr[r]:node_ptr[r + 1]]
    atom_ptr: np.ndarray  # int64 (R + 1,): labellings of region r
    label_ptr: np.ndarray  # int64 (R + 1,): labels of the i-th of them start at label_ptr[r] + i * nodes of r
    label: np.ndarray  # int32
    alpha: np.ndarray  # float64: multipliers, sum 1 in each region
    age: np.ndarray  # int64: for how long a labelling had no weight


class Copies(NamedTuple):
    """Trees that cover a graph; every edge is in one of them, and the shares of a node's copies sum to 1."""

    starts: np.ndarray  # int64 (n_trees + 1,)
    tree_ptr: np.ndarray  # int64 (n_examples + 1,): trees of each example
    owner: np.ndarray  # int32 (n_copies,): node of the union
    share: np.ndarray  # float64 (n_copies,): part of the node's scores and loss
    n_states: np.ndarray  # int32 (n_copies,)
    edges: np.ndarray  # int32 (E, 2): copies at both ends, in the order of the union's edges
    parent_edge: np.ndarray  # int32 (n_copies,): -1 for roots
    parent_side: np.ndarray  # int8 (n_copies,): side of the copy on that edge
    row_ptr: np.ndarray  # int64 (n_examples + 1,): messages of each example
    free: np.ndarray  # int32 (M,): copy that message r is added to
    last: np.ndarray  # int32 (M,): copy that message r is subtracted from


class Factors(NamedTuple):
    """The blocks, and what does not change of them."""

    node: np.ndarray  # float64 (N, K): masses
    edge: np.ndarray  # float64 (E, K * K): masses
    messages: np.ndarray  # float64 (2, E, K): m
    plain: np.ndarray  # float64 (P,): what the masses make
    value: np.ndarray  # float64 (P,): the same cut off at 0 where the cone says so
    nonneg: np.ndarray  # uint8 (P,)
    node_limit: np.ndarray  # float64 (N,): sum of the masses of a node
    edge_limit: np.ndarray  # float64 (E,)
    node_curve: np.ndarray  # float64 (N,): no less than the squared norm of the features of a node with any label
    edge_repeat: float  # how many features of an edge may meet one weight
    n_states: np.ndarray  # (N,)
    ptr: np.ndarray  # int64 (N + 1,): edges of node v are adj_edge[ptr[v]:ptr[v + 1]],
    adj_edge: np.ndarray  # int32
    adj_side: np.ndarray  # and v is this end of them


class Soft(NamedTuple):
    """Scores of all examples at one temperature; labels from ``n_states`` on do not exist."""

    node_ptr: np.ndarray  # int64 (n + 1,): nodes of example j
    edge_ptr: np.ndarray  # int64 (n + 1,)
    n_states: np.ndarray  # int32 (N,)
    edges: np.ndarray  # int32 (E, 2), nodes of the union
    ptr: np.ndarray  # int64 (N + 1,): the edges at node v are adj_edge[ptr[v]:ptr[v + 1]]
    adj_edge: np.ndarray  # int32 (2 E,)
    adj_side: np.ndarray  # int8 (2 E,)
    truth: np.ndarray  # int32 (N,)
    unary: np.ndarray  # float64 (N, K): loss-augmented scores, finite
    table_of: np.ndarray  # int32 (E,)
    tables: np.ndarray  # float64 (T, K, K), finite
    peaks: np.ndarray  # float64 (T,): largest entry of each table
    bank: np.ndarray  # float64 (T, K, K): exp((tables - peaks) / epsilon)
    turned: np.ndarray  # float64 (T, K, K): the bank transposed
