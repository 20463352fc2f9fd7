"""Answer and model files that were tampered with, and whether what they claim is false: judged by enumeration, not by any certificate.

`tampered_answers` and `tampered_models` go on for ever; take as many as you like with `itertools.islice`. Each `Case` names two files,
which the next one overwrites. ``lie`` is True if a claim of the second file is false, False if the files are as they were written, and
None if the claims are true but may be unproven, or the file is damaged: then either verdict is right, as long as nothing crashes.
"""

from __future__ import annotations

import contextlib
import copy
import itertools
import json
import struct
import tempfile
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from factories.cores import result_by_cores
from factories.factors import factor_problem
from reference.rational import every_score, exact_score

import maxsum as ms
from maxsum.core.certificates.answers import save_answer
from maxsum.storage import save_training
from maxsum.storage.format import FILE

SOLVERS = ("TreeDP", "JunctionTree", "TRWS", "BranchAndBound", "QPRelaxation", "LinearProgram", "ICM", "Exhaustive", "cores")
ROOM = (
    1e-7  # a claim that is false by less than this, relative to the numbers, is not called a lie: room of the verdicts is below
)


class Case(NamedTuple):
    """Two files (problem and answer, or model and training data), whether the claims are false, what was done, and for models the
    training that they come from."""

    paths: tuple[Path, Path]
    lie: bool | None
    what: str
    trained: Any = None


# ---- answers -------------------------------------------------------------------------------------------------------


def small_problem(rng: np.random.Generator) -> ms.Problem:
    """A problem that can be enumerated: real or whole numbers, unequal label counts, forbidden pairs, cliques, any scale and offset."""
    kind, size = rng.integers(5), int(rng.integers(1, 4))
    graph = (ms.Graph.chain(int(rng.integers(1, 6))), ms.Graph.grid(2, 3), ms.Graph.complete(int(rng.integers(2, 6))))[
        rng.integers(3)
    ]
    n, scale = graph.n_nodes, 10.0 ** rng.integers(-3, 4)
    unary, tables = rng.normal(size=(n, size)), rng.normal(size=(int(rng.integers(1, 3)), size, size))
    weight = rng.normal(size=graph.n_edges)
    states, cliques, offset = None, None, float(rng.choice([0.0, 1.5, 1e9]))
    if kind == 1:
        unary, tables, weight, scale, offset = np.round(3 * unary), np.round(3 * tables), np.round(2 * weight), 1.0, 3.0
    elif kind == 2:
        states = rng.integers(1, size + 1, size=n)
    elif kind == 3:
        tables, weight = np.where(rng.random(tables.shape) < 0.2, -np.inf, tables), np.abs(weight) + 0.1
    elif kind == 4:
        cliques = [(rng.choice(n, size=min(n, 3), replace=False), scale * rng.random(size)) for _ in range(2)]
    number = rng.integers(len(tables), size=graph.n_edges)
    return ms.Problem(graph, scale * unary, scale * tables, number, weight, states, cliques, offset)


def best_score(problem: ms.Problem) -> Fraction | float:
    """The optimum by enumeration."""
    return max(every_score(problem).values())


def false_answer(problem: ms.Problem, best: Fraction | float, members: dict[str, np.ndarray]) -> bool:
    """Whether score, bound or guarantee of an answer are false."""
    score, bound = float(members["score"]), float(members["bound"])
    true = exact_score(problem, members["labels"]) if "labels" in members else -np.inf
    sizes = [abs(float(x)) for x in (true, best, problem.offset) if np.isfinite(float(x))]
    spread = float(np.ptp(problem.unary[np.isfinite(problem.unary)])) if problem.unary.size else 0.0
    room = 1e-14 * max(sizes) + 1e-9 * problem.n_nodes * spread + ROOM * (spread if not sizes else min(max(sizes), spread))
    if np.isfinite(float(true)) != np.isfinite(score) or (np.isfinite(score) and abs(Fraction(score) - true) > room):
        return True
    if (np.isneginf(bound) and best > -np.inf) or (np.isfinite(bound) and Fraction(bound) < best - Fraction(room)):
        return True
    word = members["guarantee"].tobytes().decode("ascii", "replace") if "guarantee" in members else ""
    if word == "optimal":
        return bool(true < best - Fraction(room) or true == -np.inf)
    return (word == "infeasible" and best > -np.inf) or (word in ("feasible", "within_gap") and true == -np.inf)


def tampered_answers(rng: np.random.Generator, folder: Any = None) -> Iterator[Case]:
    """Answers with every member touched in turn: claims, labels, certificates of every form."""
    with tempfile.TemporaryDirectory() as own:
        place = Path(own if folder is None else folder)
        paths = place / "problem.npz", place / "answer.npz"
        while True:
            problem = small_problem(rng) if rng.random() < 0.6 else factor_problem(rng)
            problem.save(paths[0])
            best = best_score(problem)
            for solver in rng.permutation(SOLVERS)[:3]:
                try:
                    result = _solved(rng, problem, str(solver))
                except ms.MaxsumError:
                    continue
                if result is None:
                    continue
                save_answer(paths[1], result)
                yield Case(paths, False, f"{solver}: as written")
                with np.load(paths[1]) as archive:
                    members = {name: archive[name] for name in archive.files}
                for name in members:
                    changed = dict(members)
                    what = _touch(rng, changed, name)
                    np.savez(paths[1].open("wb"), **changed)
                    yield Case(paths, _judge_answer(problem, best, changed), f"{solver}: {what}")
                if len(problem.factors):
                    np.savez(paths[1].open("wb"), **members)
                    yield from _other_problems(rng, paths, members, str(solver))
                    problem.save(paths[0])


def _solved(rng: np.random.Generator, problem: ms.Problem, solver: str) -> ms.Result | None:
    """The answer of a solver; of random cores, where the problem has no cliques and factors."""
    if solver != "cores":
        return ms.solve(problem, solver)
    return None if len(problem.cliques) or len(problem.factors) else result_by_cores(rng, problem)


def _other_problems(
    rng: np.random.Generator, paths: tuple[Path, Path], members: dict[str, np.ndarray], solver: str
) -> Iterator[Case]:
    """The answer beside problem files whose factors were changed, one member at a time."""
    with np.load(paths[0]) as archive:
        given = {name: archive[name] for name in archive.files}
    for name in given:
        if not name.startswith(("factor_", "function_")):
            continue
        changed = dict(given)
        what = _touch(rng, changed, name)
        np.savez(paths[0].open("wb"), **changed)
        lie = None
        with contextlib.suppress(ms.MaxsumError):  # the file is damaged
            other = ms.read_problem(paths[0])
            lie = _judge_answer(other, best_score(other), members)
        yield Case(paths, lie, f"{solver}: {what} in the problem")


def _judge_answer(problem: ms.Problem, best: Any, members: dict[str, np.ndarray]) -> bool | None:
    """True for claims that are false; None where the file is damaged, or its claims are true."""
    try:
        labels = members.get("labels")
        claims = np.array([float(members["score"]), float(members["bound"])])
        sound = labels is None or (labels.shape == (problem.n_nodes,) and ((labels >= 0) & (labels < problem.n_states)).all())
        return True if sound and not np.isnan(claims).any() and false_answer(problem, best, members) else None
    except (KeyError, TypeError, ValueError, IndexError):
        return None


def _touch(rng: np.random.Generator, members: dict[str, Any], name: str) -> str:
    """Change one member: a number in it, its size, its type, or its being there."""
    array, how = np.array(members[name]), int(rng.integers(10))
    if how == 0:
        del members[name]
        return f"{name} dropped"
    if how == 1 or not array.size:
        members[name] = np.concatenate([array.ravel(), array.ravel()[:1]])
        return f"{name} longer"
    flat = array.reshape(-1).copy()
    at = int(rng.integers(flat.size))
    if flat.dtype.kind == "f":
        value = float(rng.choice([0.0, -1.0, 1e-12, 1e6, -1e6, 1e99, np.inf, -np.inf, np.nan])) if how < 5 else (
            float(flat[at]) + float(rng.normal()) * 10.0 ** rng.integers(-8, 3)
        )  # fmt: skip
        flat[at] = value
        if how == 9:
            flat = flat * rng.choice([0.5, 2.0, -1.0])
    elif name in ("form", "solver", "guarantee"):
        words = ["optimal", "within_gap", "upper_bound", "feasible", "infeasible", "none", "messages", "search", "elimination"]
        flat = np.frombuffer(str(rng.choice(words)).encode(), dtype=np.uint8)
        members[name] = flat
        return f"{name} is {flat.tobytes().decode()}"
    else:
        low, high = np.iinfo(flat.dtype).min, min(np.iinfo(flat.dtype).max, 2**62)
        flat[at] = min(max(int(rng.choice([-2, -1, 0, 1, 2, int(flat[at]) + 1, 2**62])), low), high)
        if how == 9:
            flat = rng.permutation(flat)
    members[name] = flat.reshape(array.shape).astype(array.dtype)
    return f"{name}[{at}] changed"


# ---- models --------------------------------------------------------------------------------------------------------


class Trained(NamedTuple):
    """A model, its data, and the lists that it was trained on."""

    net: Any
    X: Any
    y: Any


def trainings(rng: np.random.Generator) -> list[Trained]:
    """Small trainings of the kinds that the checker takes: chains, single nodes and trees of labels, free weights and cones."""
    X = [rng.normal(size=(int(rng.integers(1, 5)), 3)) for _ in range(6)]
    y = [(x[:, 0] + 0.5 * rng.normal(size=len(x)) > 0).astype(int) + (x[:, 1] > 1) for x in X]
    y[0][0], y[1][0] = 0, 1
    rows = rng.normal(size=(12, 3))
    tags = (rows @ rng.normal(size=(3, 3)) + 0.5 * rng.normal(size=(12, 3)) > 0).astype(int)
    tags[:2] = [[0, 1, 0], [1, 0, 1]]
    C = float(rng.choice([0.5, 3.0]))
    kinds = [ms.SequenceLabeler(C=C, potentials=p) for p in ("general", "supermodular", "associative")]
    many = [ms.MultiLabelClassifier(C=C, label_graph=graph) for graph in ("tree", "complete")]
    sets = [Trained(net, X, y) for net in kinds] + [Trained(net, rows, tags) for net in many]
    return [Trained(net.fit(X, y), X, y) for net, X, y in sets]


def objective_value(objective: Any, w: np.ndarray) -> float:
    """The objective by enumeration of all labellings."""
    total = 0.5 * float(w @ w)
    for j in range(objective.n_examples):
        problem = objective.loss_problem(w, j)
        truth = problem.score(objective.model.truth(j))
        every = itertools.product(*(range(k) for k in problem.n_states.tolist()))
        total += float(objective.c[j]) * max(0.0, max(problem.score(y) for y in every) - truth)
    return total


def tampered_models(rng: np.random.Generator, folder: Any = None) -> Iterator[Case]:
    """Models with every field of header, certificate and weights touched in turn; sealed again, so that checksums are right."""
    with tempfile.TemporaryDirectory() as own:
        place = Path(own if folder is None else folder)
        paths = place / "net.model", place / "data.npz"
        while True:
            for trained in trainings(rng):
                net = trained.net
                ms.save_model(net, paths[0], certificate=True)
                save_training(paths[1], net)
                header, arrays = FILE.load(paths[0])
                decidable = False if net.objective_.model.is_forest else None  # slacks of graphs with cycles may stay open
                yield Case(paths, decidable, f"{type(net).__name__}: as written", trained)
                for what, new_header, new_arrays in _touched_models(rng, header, arrays):
                    seal(paths[0], new_header, new_arrays)
                    lie = _judge_model(trained, header, new_header, new_arrays)
                    yield Case(paths, lie, f"{type(net).__name__}: {what}", trained)


def seal(path: Path, header: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
    """Write a model file with any header, its checksum being right."""
    listed = [[name, array.dtype.str, list(array.shape)] for name, array in arrays.items()]
    text = json.dumps({**header, "arrays": listed}).encode()
    body = struct.pack("<Q", len(text)) + text + b"".join(np.ascontiguousarray(array).tobytes() for array in arrays.values())
    path.write_bytes(FILE.seal(body))


def _touched_models(rng: np.random.Generator, header: dict[str, Any], arrays: dict[str, np.ndarray]) -> Iterator[Any]:
    result = header["result"]
    for name in ("objective", "lower_bound", "gap", "relative_gap"):
        for value in (
            1e-6,
            0.0,
            result[name] * 0.9,
            result[name] * 1.1,
            result[name] + 1e-3,
            -1.0,
            {"float": "inf"},
            {"float": "-inf"},
        ):
            yield f"{name} is {value}", {**header, "result": {**result, name: value}}, arrays
    for word in ("optimal", "feasible", "infeasible", "nonsense"):
        yield f"guarantee is {word}", {**header, "result": {**result, "guarantee": word}}, arrays
    for name, value in (("C", 2.5 * header["objective"]["C"]), ("n_examples", 1), ("n_nodes", 2), ("training", "0" * 64)):
        yield f"{name} is {value}", {**header, "objective": {**header["objective"], name: value}}, arrays
    numbers = {"objective": 1e-6, "lower_bound": 1e-6, "gap": 0.0, "relative_gap": 0.0, "guarantee": "optimal"}
    nothing = {**arrays, "weights": np.zeros_like(arrays["weights"])}
    yield "everything proven to be nothing", {**header, "result": {**result, **numbers}}, nothing
    for name, array in arrays.items():
        if name == "trace" or not array.size:
            continue
        for _ in range(3):
            members = {name: array.copy()}
            what = _touch(rng, members, name)
            yield what, header, {k: v for k, v in {**arrays, **members}.items() if k in members or k != name}
    alpha = next((name for name in arrays if name.endswith(".alpha")), None)
    if alpha:
        most = {**result, "lower_bound": result["objective"], "gap": 0.0, "relative_gap": 0.0, "guarantee": "optimal"}
        for factor in (1.5, 100.0, -1.0):
            yield f"alpha times {factor}", {**copy.deepcopy(header), "result": most}, {**arrays, alpha: arrays[alpha] * factor}


def _judge_model(
    trained: Trained, before: dict[str, Any], header: dict[str, Any], arrays: dict[str, np.ndarray]
) -> bool | None:
    objective, told, result = trained.net.objective_, header["objective"], header["result"]
    if any(told[name] != before["objective"][name] for name in ("C", "n_examples", "n_nodes", "training", "surrogate")):
        return True
    try:
        w = np.concatenate([arrays["weights"], arrays["more_weights"]]).astype(float)
        number = {name: own if isinstance(own, float | int) else float(own["float"]) for name, own in result.items()
                  if name in ("objective", "lower_bound", "gap", "relative_gap")}  # fmt: skip
    except (KeyError, TypeError, ValueError):
        return None
    if w.shape != (objective.n_weights,) or not np.isfinite(w).all() or np.abs(w).max(initial=0.0) > 1e50:
        return None
    if not objective.cone.contains(w, tol=1e-6 * (1 + np.abs(w).max(initial=0.0))):
        return True
    true, known = objective_value(objective, w), objective_value(objective, trained.net.result_.weights)
    room = ROOM * (1 + abs(true)) + 1e-6 * abs(true)
    if not number["objective"] >= true - room or number["lower_bound"] > min(true, known) + room:
        return True
    if abs(number["gap"] - max(0.0, number["objective"] - number["lower_bound"])) > room:
        return True
    guarantee = result["guarantee"]
    return True if guarantee in ("infeasible", "nonsense") else None
