"""From whom random selection hides devices, and the privacy loss of a device that is not hidden."""

import pytest

from airfl.privacy.calibration import run_event
from airfl.privacy.events import Composed, Event, FixedSizeSampled, Gaussian, PoissonSampled
from airfl.privacy.statement import Observer, Statement
from airfl.selection import Sampling

NOISE = Gaussian(2.0)
SAMPLE, COIN = FixedSizeSampled(4, 100, NOISE), PoissonSampled(0.04, NOISE)


@pytest.mark.parametrize(
    ("sampling", "observer", "known", "seen"),
    [
        ("without_replacement", "third_party", {}, SAMPLE),
        ("poisson", "third_party", {}, COIN),
        ("by_channel", "third_party", {}, NOISE),
        *((sampling, "server", {}, NOISE) for sampling in ("without_replacement", "poisson", "by_channel")),
        # Beta, or something else that shows, tells who took part.
        *((sampling, "third_party", {"granted": True}, NOISE) for sampling in ("without_replacement", "poisson")),
        # What a device remembers tells of earlier samples of fixed size; a coin is fresh whatever was before.
        ("without_replacement", "third_party", {"memory": True}, NOISE),
        ("poisson", "third_party", {"memory": True}, COIN),
    ],
)
def test_what_the_observer_sees(sampling: Sampling, observer: Observer, known: dict[str, bool], seen: Event) -> None:
    """Whoever is hidden may have been in any of 50 rounds; whoever is known to take part pays for its own 7."""
    statement = Statement("client", sampling, 4, 100, observer, 1e-3, **known)
    assert statement.hidden == (seen != NOISE)
    assert statement.of_round(NOISE) == seen
    assert statement.adjacency == ("add_remove" if sampling == "poisson" else "replace_one")
    assert run_event(statement, NOISE, rounds=50, participations=7) == Composed(((seen, 7 if seen == NOISE else 50),))
