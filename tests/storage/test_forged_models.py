"""Model files that are whole but lie: every claim of the file is compared with what the proof and the data say."""

from __future__ import annotations

import warnings
from functools import cache

import numpy as np
import pytest
from sklearn.base import clone
from storage.model_cases import CASES

import maxsum as ms
from maxsum.core.errors import CertificateError, MaxsumError, ModelFileError
from maxsum.storage import verify_model
from maxsum.storage.format import FILE, fingerprint

NAMES = ["sequence", "grid lp", "multilabel", "graph cliques", "grid supermodular"]


@cache
def fitted(name):
    estimator, (X, y, _) = CASES[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return clone(estimator).fit(X, y), X, y


def forge(path, change):
    """Change header and arrays of a file, which is sealed again."""
    header, arrays = FILE.load(path)
    del header["arrays"]
    arrays = {name: np.array(array) for name, array in arrays.items()}
    change(header, arrays)
    FILE.save(path, header, arrays)


def both_tiny(header, arrays):
    header["result"].update(objective=1e-6, lower_bound=1e-6, gap=0.0, relative_gap=0.0, guarantee="optimal")
    arrays["weights"][:] = 0.0


CHANGES = {
    "objective and bound of nothing, with weights of 0": both_tiny,
    "weights of 0": lambda header, arrays: arrays["weights"].fill(0.0),
    "one weight": lambda header, arrays: arrays["weights"].__setitem__(0, arrays["weights"][0] + 0.5),
    "a lower objective": lambda header, arrays: header["result"].update(
        objective=0.5 * header["result"]["objective"], lower_bound=0.0
    ),
    "a higher bound": lambda header, arrays: header["result"].update(lower_bound=header["result"]["objective"]),
    "no gap": lambda header, arrays: header["result"].update(gap=0.0),
    "no relative gap": lambda header, arrays: header["result"].update(relative_gap=0.0),
    "another guarantee": lambda header, arrays: header["result"].update(guarantee="optimal"),
    "another objective": lambda header, arrays: header["objective"].update(kind="TrivialObjective"),
    "another number of samples": lambda header, arrays: header["objective"].update(n_examples=10**6),
    "another proof": lambda header, arrays: header["certificate"].update(kind="MarginalCertificate"),
    "a proof of another size": lambda header, arrays: header["certificate"].update(n_planes=1),
    "larger multipliers": lambda header, arrays: arrays.update({"certificate.alpha": 2 * arrays["certificate.alpha"]}),
    "smaller multipliers": lambda header, arrays: arrays.update({"certificate.alpha": 0.5 * arrays["certificate.alpha"]}),
    "other examples": lambda header, arrays: arrays.update({"certificate.examples": arrays["certificate.examples"] - 2}),
    "examples that are no numbers of any": lambda header, arrays: arrays.update(
        {"certificate.examples": arrays["certificate.examples"].astype(float)}
    ),
    "fewer multipliers": lambda header, arrays: arrays.update({"certificate.alpha": arrays["certificate.alpha"][:-1]}),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("name", NAMES)
def test_a_file_that_lies_is_found_out(name, change, tmp_path):
    net, X, y = fitted(name)
    ms.save_model(net, tmp_path / "m", certificate=True)
    if name == "grid supermodular" and change == "one weight":
        pytest.skip("a weight of a table that grows may leave the claims as true as they were")
    forge(tmp_path / "m", CHANGES[change])
    with pytest.raises(CertificateError):
        verify_model(tmp_path / "m", X, y)


def test_a_trivial_proof_of_the_true_label_is_found_out(tmp_path):
    """The plane of a true label says 0 >= 1: it would prove the objective C."""
    X, y = [np.eye(2)[[0, 1, 0]], np.eye(2)[[1, 0, 1]]], [[0, 1, 0], [1, 0, 1]]
    net = ms.GraphLabeler(surrogate="trivial", C=5.0).fit([ms.GraphSample(x, ms.Graph.chain(3)) for x in X], y)
    samples = [ms.GraphSample(x, ms.Graph.chain(3)) for x in X]
    ms.save_model(net, tmp_path / "m", certificate=True)
    assert verify_model(tmp_path / "m", samples, y).objective == pytest.approx(net.result_.objective)

    def change(header, arrays):
        fields = header["proof"]["fields"]
        for name, value in (("examples", np.arange(2)), ("alpha", np.full(2, 2.5)), ("keys", None)):
            if value is not None:
                arrays[f"certificate.{name}"] = value
                fields[name] = {"array": f"certificate.{name}"}
        for j in range(2):
            arrays[f"key{j}"] = np.array([0, y[j][0], -1])
        fields["keys"] = {"tuple": [{"array": "key0"}, {"array": "key1"}]}
        header["certificate"]["n_planes"] = 2
        header["result"].update(objective=5.0, lower_bound=5.0, gap=0.0, relative_gap=0.0, guarantee="optimal")

    forge(tmp_path / "m", change)
    with pytest.raises(CertificateError, match="true"):
        verify_model(tmp_path / "m", samples, y)


def test_proofs_of_any_form_are_refused_in_words(tmp_path):
    """A record with fields of the wrong kind is no proof; what comes out is an error of ours, whatever it is."""
    net, X, y = fitted("sequence")
    for value in (None, 3, "text", [1, 2], {"tuple": []}, {"array": "weights"}, {"dict": []}):
        for field in ("examples", "keys", "alpha", "mu"):
            ms.save_model(net, tmp_path / "m", certificate=True)
            forge(tmp_path / "m", lambda header, arrays, f=field, v=value: header["proof"]["fields"].__setitem__(f, v))
            if field == "mu" and value == {"tuple": []}:
                continue  # no multipliers of no rows: true
            with pytest.raises((CertificateError, ModelFileError)):
                verify_model(tmp_path / "m", X, y)


# ---- fingerprints --------------------------------------------------------------------------------------------------


def sample(x, clique, features=None):
    return ms.GraphSample(x, ms.Graph.chain(4), cliques=[clique], clique_features=features)


def test_all_that_makes_an_objective_is_in_its_fingerprint():
    x, y = np.eye(2)[[0, 1, 1, 0]], [[0, 1, 1, 0]]
    plain = ms.GraphSample(x, ms.Graph.chain(4))

    def of(given, **options):
        return fingerprint(ms.GraphLabeler(max_iter=1, **options).fit([given], y).objective_)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = {
            "plain": of(plain),
            "loss": of(plain, loss="normalised"),
            "costs": of(plain, loss=[[0.0, 3.0], [2.0, 0.0]]),
            "class weights": of(plain, class_weight={0: 1.0, 1: 2.0}),
            "lp": of(plain, surrogate="lp"),
            "smoothing": of(plain, surrogate="lp", smoothing=0.1),
            "more smoothing": of(plain, surrogate="lp", smoothing=0.2),
            "potentials": of(plain, potentials="potts"),
            "cone": of(plain, potentials="associative"),
            "supermodular": of(plain, potentials="supermodular"),
            "likelihood": of(plain, surrogate="likelihood"),
            "trivial": of(plain, surrogate="trivial"),
            "qp": of(plain, surrogate="qp"),
            "clique": of(sample(x, [0, 1, 2]), potentials="associative"),
            "another clique": of(sample(x, [1, 2, 3]), potentials="associative"),
            "clique features": of(sample(x, [0, 1, 2], [[2.0]]), potentials="associative"),
            "C": of(plain, C=2.0),
            "node weights": of(ms.GraphSample(x, ms.Graph.chain(4), node_weights=[1.0, 2.0, 1.0, 1.0])),
        }
    assert len(set(found.values())) == len(found)


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("name", ["sequence", "grid"])
def test_files_with_fingerprints_of_before_still_verify(name, version, tmp_path):
    """In those C weighed the mean of the slacks; what is loaded has the C of the sum."""
    net, X, y = fitted(name)
    ms.save_model(net, tmp_path / "m", certificate=True)

    def change(header, arrays):
        header["objective"].update(
            fingerprint_version=version, fingerprint=fingerprint(net.objective_, version), C=net.objective_.C * len(X)
        )
        header["parameters"]["C"] = net.objective_.C * len(X)
        if version == 1:
            del header["objective"]["fingerprint_version"]

    forge(tmp_path / "m", change)
    assert pytest.approx(net.C) == ms.load_model(tmp_path / "m").C
    assert verify_model(tmp_path / "m", X, y).lower_bound == pytest.approx(net.result_.lower_bound)
    forge(tmp_path / "m", lambda header, arrays: header["objective"].update(fingerprint_version=4))
    with pytest.raises(MaxsumError, match="fingerprint"):
        verify_model(tmp_path / "m", X, y)
