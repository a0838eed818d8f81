"""Short forms of the proofs (tests/prove): figures are printed as they come."""

import pytest

from prove import run as proofs


@pytest.mark.proof
@pytest.mark.parametrize("name", proofs.names())
def test_proof_holds(name, capsys):
    with capsys.disabled():
        print()
        proofs.load(name).prove(short=True)
