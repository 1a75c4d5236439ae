"""From whom random selection hides devices, and the privacy loss of a device that is not hidden."""

from __future__ import annotations

import pytest

from airfl.privacy.calibration import run_event
from airfl.privacy.events import Composed, FixedSizeSampled, Gaussian, PoissonSampled
from airfl.privacy.statement import Observer, Statement
from airfl.selection import Sampling

NOISE = Gaussian(2.0)
SAMPLE, COIN = FixedSizeSampled(4, 100, NOISE), PoissonSampled(0.04, NOISE)


@pytest.mark.parametrize(
    ("sampling", "observer", "granted", "memory", "seen"),
    [
        ("without_replacement", "third_party", False, False, SAMPLE),
        ("poisson", "third_party", False, False, COIN),
        ("without_replacement", "server", False, False, NOISE),
        ("poisson", "server", False, False, NOISE),
        ("by_channel", "third_party", False, False, NOISE),
        ("by_channel", "server", False, False, NOISE),
        # Beta, or something else that shows, tells who took part.
        ("without_replacement", "third_party", True, False, NOISE),
        ("poisson", "third_party", True, False, NOISE),
        # What a device remembers tells of earlier samples of fixed size; a coin is fresh whatever was before.
        ("without_replacement", "third_party", False, True, NOISE),
        ("poisson", "third_party", False, True, COIN),
    ],
)
def test_what_the_observer_sees_and_for_how_many_rounds(
    sampling: Sampling, observer: Observer, granted: bool, memory: bool, seen: Gaussian | FixedSizeSampled
) -> None:
    """Whoever is hidden may have been in any of 50 rounds; whoever is known to take part pays for its own 7."""
    statement = Statement("client", sampling, 4, 100, observer, 1e-3, granted=granted, memory=memory)
    assert statement.hidden == (seen != NOISE)
    assert statement.of_round(NOISE) == seen
    assert statement.adjacency == ("add_remove" if sampling == "poisson" else "replace_one")
    assert run_event(statement, NOISE, rounds=50, participations=7) == Composed(((seen, 7 if seen == NOISE else 50),))
