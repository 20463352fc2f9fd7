"""Forged proofs and claims: what `verify` accepts is true in rational numbers, whatever was changed."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from adversary.forging import accepted_claim, accepted_lie, forged_certificates


@pytest.mark.parametrize("seed", range(3))
def test_a_forged_proof_proves_nothing_false(seed: int) -> None:
    rng = np.random.default_rng(seed)
    for what, problem, scores, labels, certificate in itertools.islice(forged_certificates(rng), 250):
        for exact in (False, True):
            lie = accepted_lie(problem, scores, labels, certificate, exact)
            assert not lie, (what, type(certificate).__name__, exact, lie)


def test_false_claims_beside_a_proof_are_refused() -> None:
    rng = np.random.default_rng(7)
    for what, problem, scores, labels, certificate in itertools.islice(forged_certificates(rng), 250):
        lie = accepted_claim(rng, problem, scores, labels, certificate)
        assert not lie, (what, lie)
