"""User-defined accountants: as objects, or registered and named in a settings file."""

import json
import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import airfl
from airfl.config import Settings
from airfl.errors import UserError
from airfl.privacy.accountants import ACCOUNTANTS, Account, Accountant, Rdp, register
from airfl.privacy.bounds import bounds
from airfl.privacy.calibration import smallest_noise
from airfl.privacy.events import Adjacency, Event, Gaussian, releases, repeated
from airfl.privacy.gaussian import gaussian_epsilon
from airfl.privacy.statement import Statement
from airfl.storage.fingerprint import own_parts
from airfl.study.check import check_part
from airfl.study.sweeps.job import Job, packed_job, unpacked_job
from airfl.study.sweeps.points import SweepPlan, build_points
from channels.part import Part, parameter
from tests.conftest import small_settings
from tests.entry_points import offer
from tests.refusals import one_line
from tests.small_data import run

CHANGES: dict[str, Callable[[float, float, int], Any]] = {
    "plain": lambda figure, delta, asked: figure,
    "falls": lambda figure, delta, asked: figure / asked**3,
    "negative": lambda figure, delta, asked: -figure - 1,
    "nan": lambda figure, delta, asked: math.nan,
    "text": lambda figure, delta, asked: "1.0",
    "rises": lambda figure, delta, asked: figure * (1 + 1e4 * delta),
    "low": lambda figure, delta, asked: figure / 2,
    "offset": lambda figure, delta, asked: figure + 1,
}
# Few, as every order takes its time.
ORDERS = (2, 3, 4, 6, 8, 12, 16, 24, 32)
CHEAP = ("scheme.name=wfl-p", "privacy.epsilon=inf")  # nothing is looked for that would do
FEW_ORDERS = f"privacy.accountant={{ name = 'rdp', orders = {list(ORDERS)} }}"


class Looser(Accountant):
    """RDP's figures of few orders, `factor` times as large, changed in one way."""

    name = "looser"
    slow = True

    factor: float = parameter(default=2.0, ge=1, description="that figures are multiplied by")
    how: str = parameter(default="plain", description="what is changed")

    def open(self, adjacency: Adjacency) -> Account:
        inner, change, factor, asked = Rdp(orders=ORDERS).open(adjacency), CHANGES[self.how], self.factor, [0]

        class Changed:
            compose = staticmethod(inner.compose)

            def epsilon(self, delta: float) -> Any:
                asked[0] += 1
                return change(factor * inner.epsilon(delta), delta, asked[0])

        return Changed()


class Idle(Looser):
    """A parameter of it changes nothing."""

    name = "idle"

    spare: float = parameter(default=1.0, description="nothing")


class Closed(Looser):
    """Opens no account."""

    name = "closed"

    def open(self, adjacency: Adjacency) -> Any:
        return adjacency


@pytest.fixture
def registered() -> Iterator[None]:
    register(Looser)
    yield
    del ACCOUNTANTS._registered["looser"]


def mine(accountant: Accountant | str, *overrides: str) -> Settings:
    return small_settings(*overrides).resolved(privacy={"accountant": accountant})


def test_it_is_what_a_run_and_the_calculator_are_accounted_by() -> None:
    own, by_rdp = mine(Looser(factor=3.0), *CHEAP), small_settings(FEW_ORDERS, *CHEAP)
    with run(own).trace() as trace, run(by_rdp).trace() as plain:
        np.testing.assert_allclose(trace["epsilon"], 3 * plain["epsilon"])
        assert trace["epsilon"].attrs["accountant"] == "Looser(factor=3.0)"
        recorded = json.loads(trace.attrs["config"])["privacy"]["accountant"]
        assert recorded == {"name": "looser", "factor": 3.0, "how": "plain"}
        assert "privacy.accountant" in trace.attrs["own_parts"]
    found, wanted = airfl.privacy(own), 3 * airfl.privacy(by_rdp).epsilon
    assert (found.accountant, found.epsilon) == ("Looser(factor=3.0)", pytest.approx(wanted))


def test_noise_follows_it() -> None:
    by_rdp = Statement("client", "poisson", 32, 1000, "third_party", 1e-3, accountant=Rdp(orders=ORDERS))
    noise = smallest_noise(replace(by_rdp, accountant=Looser(factor=2.0)), 3.0, 20, 1)
    assert noise == pytest.approx(smallest_noise(by_rdp, 1.5, 20, 1), rel=1e-4)
    found = airfl.privacy(mine(Looser(), "privacy.bound=accountant", "privacy.epsilon=6.0", "selection.kind=poisson"))
    assert 5.5 < found.epsilon <= 6.0 * (1 + 1e-3)


def test_its_figures_are_not_kept_on_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    kept: list[str] = []
    monkeypatch.setattr("airfl.privacy.bounds.cached_figures", lambda by, *_: kept.append(by) or (0.0, 0.0))
    for accountant in (Looser(), Rdp(), Rdp(orders=[2, 8])):
        bounds(Gaussian(1.0), "add_remove", 1e-3, accountant)
    assert kept == ["RDP", "RDP Rdp(orders=(2.0, 8.0))"]


@pytest.mark.usefixtures("registered")
def test_it_is_named_by_files_and_goes_to_workers_of_a_sweep() -> None:
    named = small_settings(*CHEAP, "privacy.accountant={ name = 'looser', factor = 4.0 }")
    assert named == mine(Looser(factor=4.0), *CHEAP)
    assert small_settings("privacy.accountant=looser").privacy.accountant == Looser()
    points = build_points(named, [], SweepPlan({"privacy.accountant.factor": [1.0, 2.0]}))
    jobs = [packed_job(Job(point.folder, point.settings)) for point in points]
    del ACCOUNTANTS._registered["looser"]  # as in a worker, which gets to know it by the job
    once, twice = (run(unpacked_job(job).settings).summary().epsilon for job in jobs)
    assert twice == pytest.approx(2 * once)
    assert small_settings("privacy.accountant=looser").privacy.accountant == Looser()


def test_a_package_offers_it_by_an_entry_point(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is found by its name, as an installed package would offer it; another kind of class is refused."""
    (tmp_path / "their_accountant.py").write_text(THEIRS)
    monkeypatch.syspath_prepend(tmp_path)
    kinds = {"tripled": "Tripled", "other": "Other"}.items()
    points = [EntryPoint(name, f"their_accountant:{kind}", "airfl.accountants") for name, kind in kinds]
    offer(monkeypatch, ACCOUNTANTS, *points)
    named = small_settings("privacy.accountant={ name = 'tripled', factor = 3.0 }")
    assert type(named.privacy.accountant).__module__ == "their_accountant"
    by_rdp = airfl.privacy(small_settings("privacy.accountant=rdp"))
    assert airfl.privacy(named).epsilon == pytest.approx(3 * by_rdp.epsilon)
    assert list(own_parts(named)) == ["privacy.accountant"]
    with pytest.raises(UserError, match=r"entry point 'other' of airfl\.accountants must be a class derived from"):
        small_settings("privacy.accountant=other")


THEIRS = """
from airfl.privacy.accountants import Accountant, Rdp
from channels.part import parameter

class Account:
    def __init__(self, inner, factor):
        self.compose, self.inner, self.factor = inner.compose, inner, factor
    def epsilon(self, delta):
        return self.factor * self.inner.epsilon(delta)

class Tripled(Accountant):
    name = "tripled"
    factor: float = parameter(default=3.0, ge=1, description="that figures are multiplied by")
    def open(self, adjacency):
        return Account(Rdp().open(adjacency), self.factor)

class Other:
    pass
"""


@pytest.mark.parametrize(
    ("accountant", "said"),
    [
        (Looser(how="falls"), "epsilon must not decrease when more is composed"),
        (Looser(how="negative"), "must be a number of at least 0"),
        (Looser(how="nan"), "got nan at delta"),
        (Looser(how="text"), "got '1.0' at delta"),
        (Looser(how="rises"), "epsilon must not increase with delta"),
        (Closed(), "methods compose(event, times) and epsilon(delta), got str"),
    ],
    ids=repr,
)
def test_an_accountant_that_breaks_its_promise_is_named(accountant: Accountant, said: str) -> None:
    with pytest.raises(UserError, match=one_line(repr(accountant), said)):
        run(mine(accountant, "run.evaluate_every=1"))


@pytest.mark.parametrize(
    ("part", "wrong"),
    [
        (Looser(), None),
        (Looser(how="low", factor=1.0), "proven"),
        (Looser(how="offset"), "nothing"),
        (Looser(how="falls"), "rounds"),
        (Looser(how="rises"), "delta"),
        (Idle(), "parameters"),
    ],
    ids=repr,
)
def test_checks_find_what_is_wrong(part: Part, wrong: str | None) -> None:
    found = [one.check for one in check_part(part) if one.outcome != "ok"]
    assert found == [] if wrong is None else wrong in found


def test_orders_are_a_parameter_of_rdp() -> None:
    event = repeated(Gaussian(4.0), 20)
    accountants = (Rdp(), Rdp(orders=[4, 5, 6]), Rdp(orders=[50]))
    best, few, one = (bounds(event, "replace_one", 1e-3, by, lower=False).upper for by in accountants)
    assert best <= few < one
    for orders, adjacency, said in (
        ([0.5], "add_remove", "orders must be finite and above 1"),
        ([], "add_remove", "orders must be finite and above 1"),
        ([2.5], "replace_one", "must hold an integer under replace-one"),
    ):
        with pytest.raises((UserError, ValueError), match=one_line(said)):
            Rdp(orders=orders).open(adjacency)


class Basic(Accountant):
    """Basic composition: k releases at delta/k each, which many small releases make worse than one of the same sum."""

    name = "basic"

    def open(self, adjacency: Adjacency) -> Account:
        counts: dict[float, int] = {}

        class Opened:
            def compose(self, event: Event, times: int = 1) -> None:
                for release, count in releases(event, times):
                    assert isinstance(release, Gaussian)
                    counts[release.noise_multiplier] = counts.get(release.noise_multiplier, 0) + count

            def epsilon(self, delta: float) -> float:
                each = delta / max(sum(counts.values()), 1)
                return sum(count * gaussian_epsilon(each, 2 / one) for one, count in counts.items())

        return Opened()


@pytest.mark.parametrize("every", [1, 3, 12])
def test_an_accountant_is_given_every_round_however_often_it_is_asked(every: int) -> None:
    """Against a server, rounds of a device are not merged to one, which only some accountants compose to the same."""
    server = ("scheme.name=wfl-p", "privacy.observer=server", "privacy.epsilon=inf", "channel.fading=fixed")
    few = ("run.devices=8", "run.selected=8", "run.rounds=12", f"run.evaluate_every={every}")
    settings = small_settings(*server, *few).resolved(privacy={"accountant": Basic()})
    with run(settings).trace() as trace:
        noise, delta = trace["noise_multiplier"].values, float(trace["epsilon"].attrs["delta"])
        expected = math.fsum(gaussian_epsilon(delta / 12, 2 / one) for one in noise)
        assert trace["epsilon"].values[-1] == pytest.approx(expected, rel=1e-6)


def test_an_accountant_below_what_neighbours_pay_is_said_to_be_none() -> None:
    settings = small_settings(*CHEAP, "run.rounds=3")
    found = airfl.privacy(settings.resolved(privacy={"accountant": Hundredth()}))
    assert found.epsilon < found.epsilon_at_least
    assert "it is no bound; correct the accountant" in str(found.verdict())
    assert airfl.privacy(settings).verdict() is None


class Hundredth(Accountant):
    """A hundredth of RDP's figures."""

    name = "hundredth"

    def open(self, adjacency: Adjacency) -> Account:
        inner = Rdp(orders=ORDERS).open(adjacency)

        class Opened:
            compose = staticmethod(inner.compose)

            def epsilon(self, delta: float) -> float:
                return inner.epsilon(delta) / 100

        return Opened()
