"""Every check of the theory, its Monte Carlo at full size, with a seed that no development run used."""

import pytest

from scalefit.theory import CHECKS, Outcome, Sampling


@pytest.mark.slow
def test_every_claim_holds():
    results = [result for check in CHECKS.values() for result in check.run(Sampling(seed=20_261_129))]
    assert len(results) > 150
    assert [(r.check, r.claim) for r in results if r.verdict is not Outcome.HOLDS] == []


@pytest.mark.slow
def test_simulation_tells_bhyt_from_the_control():
    results = {r.claim: r.judgement for r in CHECKS["stack-simulation"].run(Sampling(seed=3))}
    bhyt = next(j for claim, j in results.items() if claim.startswith("bhyt-exact: 1.62755"))
    assert abs(bhyt.estimated - 1.62755) < 4 * bhyt.standard_error < 4 * 0.002 * 1.62755
    paired = next(j for claim, j in results.items() if claim.startswith("control - bhyt-exact"))
    assert paired.estimated > 100 * paired.standard_error
