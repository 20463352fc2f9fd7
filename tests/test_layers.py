"""Who may import whom: core <- kernels <- executors, qp <- inference <- models, losses <- learning <- shards, parts, estimators <- storage,
torch <- experiments <- cli. Inside learning: certificate, result <- oracles <- proofs <- dual <- objectives <- driver <- learners <- paths, latent; imports
for types alone (under TYPE_CHECKING) may point anywhere in there.

`metrics` and `datasets` stand beside the estimators; `metrics` uses nothing but core, `datasets` core and the samples of models.
`check` uses nothing of ours at all: it must be usable as a file by itself.

Read from the source without running it.
"""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "maxsum"
LAYERS = (
    "core",
    "kernels",
    "executors",
    "qp",
    "inference",
    "models",
    "graphs",
    "losses",
    "progress",
    "learning",
    "shards",
    "parts",
    "estimators",
    "storage",
    "torch",
    "metrics",
    "calibration",
    "datasets",
    "plotting",
    "report",
    "experiments",
    "cli",
    "check",
)
LAZY_PACKAGES = {
    "graphs": {"skimage"},
    "progress": {"rich"},
    "estimators": {"pandas"},
    "datasets": {"scipy", "PIL", "sklearn", "pyarrow"},
    "plotting": {"scipy", "matplotlib"},
    "experiments": {"sklearn", "matplotlib"},
}
_BELOW_MODELS = {"core", "kernels", "executors", "qp", "progress", "inference"}
_BELOW_ESTIMATORS = _BELOW_MODELS | {"models", "losses", "learning"}
_PUBLIC = {
    "core",
    "inference",
    "models",
    "losses",
    "learning",
    "executors",
    "shards",
    "parts",
    "estimators",
    "metrics",
    "calibration",
    "datasets",
    "graphs",
    "plotting",
    "report",
    "storage",
}
MAY_IMPORT_LAYERS = {
    "core": {"core"},
    "kernels": {"kernels"},
    "executors": {"core", "kernels", "executors"},
    "qp": {"core", "kernels", "executors", "qp"},
    "inference": _BELOW_MODELS,
    "models": {"core", "kernels", "models"},
    "graphs": {"core", "models", "graphs"},
    "losses": {"core"},
    "progress": {"core"},
    "learning": _BELOW_ESTIMATORS,
    "shards": _BELOW_ESTIMATORS | {"shards"},
    "parts": _BELOW_ESTIMATORS | {"parts"},
    "estimators": {
        "core",
        "executors",
        "progress",
        "inference",
        "models",
        "losses",
        "learning",
        "metrics",
        "shards",
        "estimators",
    },
    "storage": {"core", "inference", "models", "losses", "learning", "shards", "estimators", "storage", "maxsum"},
    "torch": _BELOW_ESTIMATORS | {"graphs", "estimators", "torch"},
    "metrics": {"core"},
    "calibration": {"core"},
    "datasets": {"core", "models", "shards", "datasets"},
    "plotting": {"core", "plotting"},
    "report": {"core", "models", "estimators", "plotting", "metrics", "report"},
    "experiments": _PUBLIC | {"experiments", "maxsum"},
    "cli": _PUBLIC | {"experiments", "cli", "maxsum", "progress"},
    "check": set(),
    "maxsum": {"core", "inference", "models", "learning", "estimators", "metrics", "datasets", "maxsum"},
}
MAY_IMPORT_PACKAGES = {
    "core": {"numpy", "scipy"},
    "kernels": {"numpy"},
    "executors": {"numpy", "scipy", "threadpoolctl", "dask", "distributed"},
    "qp": {"numpy", "scipy", "piqp"},
    "inference": {"numpy", "scipy", "highspy", "pytoulbar2"},
    "models": {"numpy", "scipy"},
    "graphs": {"numpy", "scipy", "skimage"},
    "losses": {"numpy"},
    "progress": {"rich"},
    "learning": {"numpy", "scipy", "piqp", "highspy"},
    "shards": {"numpy", "scipy"},
    "parts": {"numpy", "scipy"},
    "estimators": {"numpy", "scipy", "sklearn", "pandas"},
    "storage": {"numpy"},
    "torch": {"numpy", "torch"},
    "metrics": {"numpy"},
    "calibration": {"numpy"},
    "datasets": {"numpy", "scipy", "PIL", "sklearn", "pyarrow"},
    "plotting": {"numpy", "scipy", "matplotlib"},
    "report": {"numpy"},
    "experiments": {"numpy", "scipy", "sklearn", "threadpoolctl", "matplotlib"},
    "cli": {"numpy", "typer", "click", "rich", "PIL"},
    "check": {"numpy"},
    "maxsum": set(),
}
LEARNING_ROOMS = (
    ("certificate", "state", "protocols", "registry"),
    ("result", "checkpoint"),
    ("oracles",),
    ("proofs",),
    ("dual",),
    ("objectives",),
    ("driver",),
    ("learners",),
    ("penalties", "whole"),
    ("paths", "latent", "streams"),
)
"""Rooms and files of `maxsum.learning`: each may import what stands before it, and itself. Its `__init__` names the homes of all."""
FILES = sorted(SOURCE.rglob("*.py"))


def layer_of(parts: tuple[str, ...]) -> str:
    """The layer of a dotted name below the package; "maxsum" is the package itself."""
    return parts[0].removesuffix(".py") if parts and parts[0].removesuffix(".py") in LAYERS else "maxsum"


def imported(tree: ast.AST, file: Path) -> list[tuple[str, ...]]:
    """Dotted names of all modules that a tree imports, inside functions too; ours begin with "maxsum"."""
    package = ("maxsum", *file.relative_to(SOURCE).parent.parts)
    found: list[tuple[str, ...]] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [tuple(alias.name.split(".")) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            inside = tuple((node.module or "").split(".")) if node.module else ()
            found += [(*base, *inside)] if inside else [(*base, alias.name) for alias in node.names]
    return found


def imports(source: str, file: Path) -> list[tuple[str, str]]:
    """("layer" or "package", name) of everything that a file imports."""
    names = imported(ast.parse(source), file)
    ours = [("layer", layer_of(name[1:])) for name in names if name[0] == "maxsum"]
    return ours + [("package", name[0]) for name in names if name[0] != "maxsum" and name[0] not in sys.stdlib_module_names]


def room_of(parts: tuple[str, ...]) -> str:
    """The room of learning that a dotted name below the package stands in; empty outside of it, and for learning itself."""
    return parts[1].removesuffix(".py") if len(parts) > 1 and parts[0] == "learning" else ""


def room_faults(source: str, file: Path) -> list[str]:
    """Imports between rooms of learning that point upwards."""
    place, own = file.relative_to(SOURCE), room_of(file.relative_to(SOURCE).parts)
    height = {room: i for i, rooms in enumerate(LEARNING_ROOMS) for room in rooms}
    if own in ("", "__init__"):
        return []
    if own not in height:
        return [f"{place} stands in no room of LEARNING_ROOMS"]
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            node.body = [ast.Pass()]
    rooms = {room_of(name[1:]) for name in imported(tree, file) if name[0] == "maxsum"} - {"", own}
    return [f"{place} ({own}) imports {room}" for room in sorted(rooms) if height.get(room, len(height)) >= height[own]]


def faults(source: str, file: Path) -> list[str]:
    layer = layer_of(file.relative_to(SOURCE).parts)
    wrong = []
    for kind, name in imports(source, file):
        allowed = (MAY_IMPORT_LAYERS if kind == "layer" else MAY_IMPORT_PACKAGES)[layer]
        if name not in allowed:
            wrong.append(f"{file.relative_to(SOURCE)} ({layer}) imports {name}")
    lazy = LAZY_PACKAGES.get(layer, set())
    for node in ast.parse(source).body:
        wrong += [
            f"{file.relative_to(SOURCE)}:{node.lineno} imports {name} at once, wanted inside a function"
            for kind, name in (imports(ast.unparse(node), file) if isinstance(node, ast.Import | ast.ImportFrom) else ())
            if kind == "package" and name in lazy
        ]
    wrong += room_faults(source, file)
    if layer == "storage":
        wrong += [
            f"{file.relative_to(SOURCE)} imports {word}"
            for word in ("pickle", "marshal", "shelve")
            if f"import {word}" in source
        ]
    if layer not in ("cli", "check"):
        calls = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
        printed = [call.lineno for call in calls if isinstance(call.func, ast.Name) and call.func.id == "print"]
        wrong += [f"{file.relative_to(SOURCE)}:{line} prints" for line in printed]
    return wrong


def test_there_is_something_to_check():
    assert {layer_of(file.relative_to(SOURCE).parts) for file in FILES} == {*LAYERS, "maxsum"}
    rooms = {room_of(file.relative_to(SOURCE).parts) for file in FILES} - {"", "__init__"}
    assert rooms == {room for rooms in LEARNING_ROOMS for room in rooms}


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(SOURCE)))
def test_imports_point_downwards(file):
    assert faults(file.read_text(encoding="utf-8"), file) == []


@pytest.mark.parametrize(
    ("where", "source"),
    [
        ("core/x.py", "from ..kernels import tree"),
        ("core/x.py", "from .. import inference"),
        ("core/x.py", "import numba"),
        ("core/x.py", "def f():\n    from maxsum.inference import solve"),
        ("core/x.py", "print('hello')"),
        ("kernels/x.py", "from ..core.problem import Problem"),
        ("kernels/x.py", "import scipy.sparse"),
        ("inference/x.py", "from ..cli import app"),
        ("inference/x.py", "import sklearn"),
        ("models/x.py", "from ..inference import solve"),
        ("models/x.py", "from ..learning import path"),
        ("models/x.py", "import sklearn"),
        ("losses.py", "from .models import GraphModel"),
        ("losses.py", "import scipy"),
        ("learning/paths.py", "from ..estimators import GraphLabeler"),
        ("learning/paths.py", "from sklearn.base import clone"),
        ("learning/paths.py", "import numba"),
        ("learning/certificate.py", "from .result import LearningResult"),
        ("learning/certificate.py", "def f():\n    from .proofs.feature_sums import dual_bound"),
        ("learning/oracles/x.py", "from ..dual.planes import PlaneStore"),
        ("learning/proofs/x.py", "from ..objectives import margin"),
        ("learning/dual/x.py", "from ..objectives.margin import MarginObjective"),
        ("learning/dual/x.py", "from maxsum.learning.learners.subgradient import Subgradient"),
        ("learning/objectives/x.py", "from ..learners.quasi_newton import ProjectedQuasiNewton"),
        ("learning/objectives/x.py", "from ..driver import Learner"),
        ("learning/objectives/x.py", "from .. import driver"),
        ("learning/driver.py", "from .learners.bundle import Bundle"),
        ("learning/learners/x.py", "from ..paths import path"),
        ("learning/cellar/x.py", "import numpy"),
        ("parts/x.py", "from ..estimators import GraphLabeler"),
        ("learning/paths.py", "from ..parts import solve_parts"),
        ("estimators/x.py", "from ..kernels import tree"),
        ("estimators/x.py", "from ..cli import app"),
        ("estimators/x.py", "print(1)"),
        ("estimators/x.py", "from ..storage import load_model"),
        ("storage/x.py", "import pickle"),
        ("storage/x.py", "import sklearn"),
        ("metrics.py", "from .estimators import GraphLabeler"),
        ("metrics.py", "import scipy"),
        ("datasets/x.py", "from ..learning import path"),
        ("datasets/x.py", "from PIL import Image"),
        ("datasets/x.py", "import scipy.sparse"),
        ("datasets/x.py", "import sklearn.datasets"),
        ("datasets/x.py", "print(1)"),
        ("core/x.py", "from ..datasets import read_conll"),
        ("plotting/x.py", "from ..estimators import GraphLabeler"),
        ("plotting/x.py", "import matplotlib"),
        ("report/x.py", "from ..learning import path"),
        ("report/x.py", "import matplotlib"),
        ("estimators/x.py", "from ..plotting import plot_graph"),
        ("experiments/x.py", "from ..cli import app"),
        ("experiments/x.py", "import sklearn"),
        ("experiments/x.py", "import torch"),
        ("cli/x.py", "from ..kernels import tree"),
        ("cli/x.py", "import sklearn.svm"),
        ("check.py", "from .core.problem import Problem"),
        ("check.py", "import scipy"),
    ],
)
def test_the_check_sees_a_fault(where, source):
    assert len(faults(source, SOURCE / where)) == 1


@pytest.mark.parametrize(
    ("where", "source"),
    [
        ("core/x.py", "from .graph import Graph\nimport numpy as np\nfrom scipy.sparse import coo_array\nimport os.path"),
        ("inference/x.py", "from ..core.problem import Problem\nfrom ..kernels import tree\nfrom . import base"),
        ("models/x.py", "from ..kernels.design import Design\nfrom scipy import sparse\nfrom .cone import Cone"),
        ("losses.py", "from .core.problem import Problem"),
        ("learning/paths.py", "from ..losses import Loss\nfrom ..models.bound import BoundModel\nimport piqp"),
        ("learning/paths.py", "from .learners.bundle import Bundle\nfrom .driver import Learner"),
        (
            "learning/objectives/x.py",
            "from ..dual.planes import PlaneStore\nfrom .base import Objective\nfrom ..certificate import Check",
        ),
        (
            "learning/dual/x.py",
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from ..objectives.margin import MarginObjective",
        ),
        ("estimators/x.py", "from sklearn.base import BaseEstimator\nfrom ..learning.driver import Learner"),
        ("metrics.py", "import numpy as np\nfrom .core.errors import InvalidSampleError"),
        (
            "datasets/x.py",
            "from ..core.files.text import Limits\nfrom .source import lines\ndef f():\n    from PIL import Image",
        ),
        ("datasets/x.py", "def f():\n    from scipy import sparse\n    from sklearn import datasets"),
        ("datasets/x.py", "def f():\n    from ..models.sample import GraphSample"),
        ("plotting/x.py", "from ..core.result import Result\ndef f():\n    import matplotlib"),
        ("report/x.py", "from ..estimators.base import Labeler\nfrom ..plotting import plot_graph"),
        ("experiments/x.py", "def f():\n    from sklearn.svm import SVC"),
        ("experiments/x.py", "import maxsum as ms\nfrom ..datasets import load_sudoku\nfrom ..metrics import mean_iou"),
        ("cli/x.py", "import maxsum\nfrom .. import __version__\nprint(1)"),
    ],
)
def test_the_check_lets_the_rest_pass(where, source):
    assert faults(source, SOURCE / where) == []
