"""Random small ``.wcsp`` files with one global cost function each, and its cost by the words of toulbar2's documentation, in plain Python."""

from __future__ import annotations

import itertools
import math

TOP = 1000
ARITHMETIC = (">=", ">", "<=", "<", "=", "disj", "sdisj")
KINDS = [
    "table",
    "salldiff",
    "salldiffdp",
    "salldiffkp",
    "walldiff",
    "sgcc",
    "sgccdp",
    "sgcckp",
    "wgcc",
    "samong",
    "samongdp",
    "wamong",
    "wsum",
    "wvarsum",
    "wvaramong",
    "knapsack",
    "knapsackc",
    "knapsackp",
    "knapsackv",
    "clique",
] + list(ARITHMETIC)


def excess(count, low, high):
    return max(low - count, 0) + max(count - high, 0)


def measured(gap, metric):
    return {"hard": min(gap, 1), "lin": gap, "var": gap, "dec": gap, "quad": gap**2}[metric]


def compare(comparator, total, to):
    gap = {"==": abs(to - total), "<=": total - to, "<": total - to + 1, ">": to - total + 1, ">=": to - total}
    return int(total == to) if comparator == "!=" else max(gap[comparator], 0)


def cost_of(rng):
    return rng.choice([TOP, TOP + 50, rng.randint(1, 9), rng.randint(1, 9)])


def case(rng, kind):
    """Domains, scope, the words after ``-1`` (or the listed tuples), and the cost of the values of the scope."""
    n = rng.randint(3, 5)
    domains = (
        [3] * n if kind == "sgcckp" else [2] * n if kind in ("clique", "knapsackc") else [rng.randint(2, 3) for _ in range(n)]
    )
    low = 4 if kind in ("clique", "knapsackc") and n > 3 else 3
    scope = rng.sample(range(n), 2 if kind in ARITHMETIC else rng.randint(min(low, n), n))
    sizes = [domains[v] for v in scope]
    words, cost = WORDS[kind if kind not in ARITHMETIC else "arithmetic"](rng, kind, scope, sizes)
    return domains, scope, words, cost


def text(rng, domains, scope, words):
    """The whole file, with a cost for every value, and the costs of single variables."""
    unary = [[rng.randint(0, 12) for _ in range(size)] for size in domains]
    functions = [f"{len(scope)} {' '.join(map(str, scope))} {words}"]
    functions += [f"1 {v} 0 {len(row)}\n" + "\n".join(f"{k} {c}" for k, c in enumerate(row)) for v, row in enumerate(unary)]
    head = f"p {len(domains)} {max(domains)} {len(functions)} {TOP}\n{' '.join(map(str, domains))}\n"
    return head + "\n".join(functions) + "\n", unary


def table(rng, kind, scope, sizes):
    cells = list(itertools.product(*map(range, sizes)))
    listed = {cell: rng.choice([0, 1, 5, TOP]) for cell in rng.sample(cells, rng.randint(0, len(cells)))}
    default = rng.choice([0, 3, TOP])
    rows = "\n".join(f"{' '.join(map(str, cell))} {c}" for cell, c in listed.items())
    return f"{default} {len(listed)}\n{rows}", lambda y: listed.get(tuple(y), default)


def all_different(rng, kind, scope, sizes):
    metric = rng.choice({"salldiff": ["var", "dec", "decbi"], "walldiff": ["hard", "lin", "quad"]}.get(kind, ["var"]))
    if kind == "salldiffkp":
        metric = "hard"
    c = TOP if kind == "salldiffkp" else cost_of(rng)

    def cost(y):
        counts = [y.count(k) for k in set(y)]
        if metric in ("dec", "decbi"):
            return c * sum(m * (m - 1) // 2 for m in counts)
        return c * sum(measured(m - 1, metric) for m in counts)

    return f"-1 {kind} {metric} {c}", cost


def cardinalities(rng, kind, scope, sizes):
    n, values = len(scope), max(sizes)
    metric = rng.choice(
        {"sgcc": ["var", "dec", "wdec"], "wgcc": ["hard", "lin", "quad"], "sgccdp": ["var"], "sgcckp": ["hard"]}[kind]
    )
    c = TOP if kind == "sgcckp" else cost_of(rng)
    rows = []
    for v in range(values) if kind == "sgcckp" else sorted(rng.sample(range(values), rng.randint(1, values))):
        low, high = sorted(rng.randint(0, n) for _ in range(2))
        if (kind, metric) == ("sgcc", "var"):  # bounds that can be kept: else the number of changes is not defined
            low, high = min(low, n // (values + 1)), max(high, 1 + n // values)
        rows.append([v, low, high] + ([rng.randint(1, 9), rng.randint(1, 9)] if metric == "wdec" else []))

    def cost(y):
        short = [max(row[1] - y.count(row[0]), 0) for row in rows]
        over = [max(y.count(row[0]) - row[2], 0) for row in rows]
        if metric == "wdec":
            return sum(s * row[3] + o * row[4] for s, o, row in zip(short, over, rows, strict=True))
        if (kind, metric) == ("sgcc", "var"):
            return c * max(sum(short), sum(over))
        return c * sum(measured(s + o, metric) for s, o in zip(short, over, strict=True))

    return f"-1 {kind} {metric} {c} {len(rows)} " + " ".join(" ".join(map(str, row)) for row in rows), cost


def among(rng, kind, scope, sizes):
    values = sorted(rng.sample(range(max(sizes)), rng.randint(1, max(sizes))))
    low, high = sorted(rng.randint(0, len(scope)) for _ in range(2))
    metric, c = rng.choice(["hard", "lin", "quad"]) if kind == "wamong" else "var", cost_of(rng)
    listed = f"{len(values)} {' '.join(map(str, values))}"
    words = f"{listed} {low} {high}" if kind == "wamong" else f"{low} {high} {listed}"
    return f"-1 {kind} {metric} {c} {words}", lambda y: c * measured(excess(sum(k in values for k in y), low, high), metric)


def sums(rng, kind, scope, sizes):
    if kind == "wvaramong":
        values = sorted(rng.sample(range(max(sizes)), rng.randint(1, max(sizes))))
        words = f"-1 wvaramong hard {TOP} {len(values)} {' '.join(map(str, values))}"
        return words, lambda y: TOP * (sum(k in values for k in y[:-1]) != y[-1])
    comparator = rng.choice(["==", "<=", "<", ">", ">="] + ["!="] * (kind == "wsum"))
    if kind == "wvarsum":
        return f"-1 wvarsum hard {TOP} {comparator}", lambda y: TOP * compare(comparator, sum(y[:-1]), y[-1])
    metric, c, to = rng.choice(["hard", "lin", "quad"]), cost_of(rng), rng.randint(1, sum(sizes) - len(sizes))
    return f"-1 wsum {metric} {c} {comparator} {to}", lambda y: c * measured(compare(comparator, sum(y), to), metric)


def knapsack(rng, kind, scope, sizes):
    capacity = rng.randint(-3, 8)
    weights = [{k: rng.randint(-5, 9) for k in range(size) if rng.random() < 0.7} for size in sizes]
    apart = []
    if kind == "knapsack":
        weights = [{1: rng.randint(-5, 9)} for _ in sizes]
        words = " ".join(str(row[1]) for row in weights)
    elif kind == "knapsackv":
        triplets = [(v, k, w) for v, row in zip(scope, weights, strict=True) for k, w in row.items()]
        words = f"{len(triplets)} " + " ".join(f"{v} {k} {w}" for v, k, w in triplets)
    else:
        if kind == "knapsackc":
            weights = [{1: rng.randint(0, 6)} for _ in sizes]
            apart = rng.sample(range(len(scope)), 2)
        words = " ".join(f"{len(row)} " + " ".join(f"{k} {w}" for k, w in row.items()) for row in weights)
        if kind == "knapsackc":
            words += f" 1 2 {scope[apart[0]]} 1 {scope[apart[1]]} 1"

    def cost(y):
        total = sum(row.get(k, 0) for row, k in zip(weights, y, strict=True))
        return 0 if total >= capacity and sum(y[i] == 1 for i in apart) < 2 else math.inf

    return f"-1 {kind} {capacity} {words}", cost


def clique(rng, kind, scope, sizes):
    return "-1 clique 1 " + " ".join("1 1" for _ in scope), lambda y: 0 if sum(y) <= 1 else math.inf


def arithmetic(rng, kind, scope, sizes):
    if kind == "disj":
        a, b, c = rng.randint(0, 2), rng.randint(0, 2), cost_of(rng)
        return f"-1 disj {a} {b} {c}", lambda y: 0 if y[0] >= y[1] + b or y[1] >= y[0] + a else c
    if kind == "sdisj":
        a, b, c, d = rng.randint(0, 2), rng.randint(0, 2), rng.randint(0, 5), rng.randint(0, 5)
        ends = [size - 1 for size in sizes]

        def cost(y):
            inside = y[0] < ends[0] and y[1] < ends[1]
            if inside and not (y[0] >= y[1] + b or y[1] >= y[0] + a):
                return math.inf
            return c * (y[0] == ends[0]) + d * (y[1] == ends[1])

        return f"-1 sdisj {a} {b} {ends[0]} {ends[1]} {c} {d}", cost
    constant, tolerance = rng.randint(-1, 1), rng.randint(0, 2)

    def inequality(y):
        gap = compare("==" if kind == "=" else kind, y[0], y[1] + constant)
        return gap if gap <= tolerance else math.inf

    return f"-1 {kind} {constant} {tolerance}", inequality


WORDS = {
    "table": table,
    **dict.fromkeys(("salldiff", "salldiffdp", "salldiffkp", "walldiff"), all_different),
    **dict.fromkeys(("sgcc", "sgccdp", "sgcckp", "wgcc"), cardinalities),
    **dict.fromkeys(("samong", "samongdp", "wamong"), among),
    **dict.fromkeys(("wsum", "wvarsum", "wvaramong"), sums),
    **dict.fromkeys(("knapsack", "knapsackc", "knapsackp", "knapsackv"), knapsack),
    "clique": clique,
    "arithmetic": arithmetic,
}
