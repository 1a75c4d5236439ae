"""`airfl theory`: the bound of a run from its settings, beside a finished run, and what it refuses."""

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import airfl as package
from airfl.cli.theory import _lines, _messages
from airfl.errors import UserError
from airfl.theory.bound import Term
from airfl.theory.covered import THEOREMS, check_covered
from airfl.theory.of_run import Theory, theory_of
from experiments.theory import BASE, ROWS, SAMPLES, problem
from tests.conftest import DEMO, SMALL, small_settings
from tests.processes import airfl, refused, succeeded
from tests.refusals import one_line
from tests.small_data import estimate_shortly

PLAIN = (*SMALL, "run.devices=1000", "local.momentum=0.0", "local.batch_size=30")
"""With 9 samples a device, which are quickly gone through."""


def figures(*arguments: object) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(succeeded(airfl("theory", *arguments, "--json")).stdout)
    return found


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of PFELS with its gradient norms, three rounds."""
    folder = tmp_path_factory.mktemp("theory") / "run"
    given = ("run.rounds=3", "run.evaluate_every=1", "trace.gradient_norm=true")
    succeeded(airfl("run", DEMO, *PLAIN, *given, "--out", folder))
    return folder


def test_bound_of_pfels_from_its_settings() -> None:
    """The terms are those of eq. 23 with the constants that are printed, and the noise of the link budget."""
    found = figures(DEMO, *PLAIN)
    constants, terms = found["constants"], {term["name"]: term for term in found["terms"]}
    walked, kept, dimension, selected = 2 * 0.05, 7635, 25450, 8
    assert found["theorem"].startswith("PFELS, theorem 4")
    assert found["dimension"] == dimension
    assert terms["optimisation"]["printed"] == pytest.approx(8 * constants["initial_gap"] / (2 * walked))
    assert terms["optimisation"]["corrected"] == pytest.approx(terms["optimisation"]["printed"] * dimension / kept)
    budget = package.link_budget(DEMO, overrides=list(PLAIN))
    inverse = float(np.mean(budget.alignment_coefficient**-2.0))  # sigma_0 = 1
    wanted = 4 * constants["smoothness"] * kept * inverse / (walked * selected**3)
    assert terms["noise"]["printed"] == pytest.approx(wanted)
    assert found["printed"] == pytest.approx(sum(term["printed"] for term in found["terms"]))
    preferred = found["preferred_ratio"]
    assert preferred["printed"] is preferred["corrected"] is None  # its step is a hundred times the largest, at any p
    assert preferred["why"].startswith("beta of every round as theorem 5")
    assert preferred["why"].endswith("the conditions of the printed or the corrected bound")
    assert found["largest_step_corrected"] == pytest.approx(1 / (24 * 2 * constants["smoothness"]))
    assert not found["printed_conditions_hold"]
    assert all(constants["how"][name] for name in ("smoothness", "gradient_bound", "dissimilarity", "variance"))
    assert "32 of 1000 devices" in constants["how"]["smoothness"]
    assert "measured" not in found


def test_beside_a_run(finished: Path) -> None:
    """The noise is that of the rounds, and the measured mean is over theta^0 ... theta^(T-1)."""
    given = (*PLAIN, "run.rounds=3", "run.evaluate_every=1", "trace.gradient_norm=true")
    found, planned = figures(DEMO, *given, "--run", finished), figures(DEMO, *given)
    with package.open_trace(finished) as trace:
        norms = trace["gradient_norm_squared"].values
        noise = trace["noise_std"].values
    measured = found["measured"]
    assert measured["rounds"] == [0, 1, 2, 3]
    assert measured["gradient_norm_squared"][1:] == pytest.approx(norms)
    start = found["constants"]["initial_gradient"]
    assert measured["gradient_norm_squared"][0] == pytest.approx(start)
    assert measured["mean"] == pytest.approx((start + norms[0] + norms[1]) / 3)
    smoothness = found["constants"]["smoothness"]
    by_rounds = 4 * smoothness * 7635 * float(np.mean((8 * noise) ** 2)) / (0.1 * 8**3)
    of_noise = next(term for term in found["terms"] if term["name"] == "noise")
    assert of_noise["printed"] == pytest.approx(by_rounds)
    assert found["printed"] == pytest.approx(planned["printed"], rel=1e-6)  # the planned rounds are those of the run


def test_the_table_names_what_does_not_hold(finished: Path) -> None:
    given = (*PLAIN, "run.rounds=3", "run.evaluate_every=1", "trace.gradient_norm=true")
    done = succeeded(airfl("theory", DEMO, *given, "--run", finished))
    for words in ("as printed", "corrected", "optimisation", "preferred ratio p", "largest learning rate", "measured"):
        assert words in done.stdout
    assert "Lanczos method" in done.stdout
    assert "none, corrected none" in done.stdout
    assert "after 3 rounds" in done.stdout
    assert "conditions of neither bound" in done.stderr
    assert "estimated from below" in done.stderr
    assert "r^3" in done.stderr


@pytest.mark.parametrize("scheme", [name for name in THEOREMS if name not in ("pfels", "wfl-p")])
def test_every_scheme_with_a_theorem(scheme: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In this process, with constants of few devices; a bound, its terms, conditions and errors are there."""
    estimate_shortly(monkeypatch)
    selected = 8 if any(part in scheme for part in ("smp", "spa", "wfl")) else 20
    given = (f"scheme.name={scheme}", f"run.selected={selected}", "run.devices=20", "local.batch_size=200")
    found = theory_of(small_settings(*given, "local.momentum=0.0"))
    assert found.bound.printed > 0
    assert all(not math.isnan(term.printed) for term in found.bound.terms)
    assert found.bound.errors or scheme in ("soteriafl-gd", "ldp-svrg")
    assert (found.corollary is not None) == ("soteria" in found.bound.theorem.lower())
    if found.corollary:
        assert found.corollary.order > 0


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (("scheme.name=cpsgd",), ("scheme.name", "cpsgd", "pfels", "soteriafl-saga")),
        (("local.momentum=0.9",), ("local.momentum", "0.9", "local.momentum = 0.0")),
        (("local.schedule=inverse-sqrt",), ("local.schedule", "constant")),
        (("server.learning_rate=0.5",), ("server.learning_rate", "1.0")),
        (("server.weights=samples",), ("server.weights", "equal")),
        (("selection.kind=poisson",), ("selection.kind", "uniform")),
        (("scheme.rescale=true",), ("scheme.rescale", "false")),
        (("scheme.name=fed-smp-randk", "scheme.unscaled=true"), ("scheme.unscaled", "false")),
        (("scheme.error_feedback=true",), ("scheme.error_feedback", "false")),
        (("power.strict=true",), ("power.strict", "false")),
        (("scheme.name=soteriafl-sgd",), ("run.selected", "100, all devices")),
    ],
)
def test_what_no_theorem_covers(changes: tuple[str, ...], said: tuple[str, ...]) -> None:
    settings = small_settings("local.momentum=0.0", *changes)
    with pytest.raises(UserError, match=one_line(*said)):
        check_covered(settings)


def test_the_command_refuses_in_one_line(tmp_path: Path, finished: Path) -> None:
    assert "cpsgd" in refused(airfl("theory", DEMO, *PLAIN, "scheme.name=cpsgd"))
    assert "run.rounds" in refused(airfl("theory", DEMO, *PLAIN, "--run", finished))
    assert "trace" in refused(airfl("theory", DEMO, *PLAIN, "--run", tmp_path))


def test_a_run_without_gradient_norms_is_refused(tmp_path: Path) -> None:
    succeeded(airfl("run", DEMO, *PLAIN, "--out", tmp_path / "run"))
    said = refused(airfl("theory", DEMO, *PLAIN, "--run", tmp_path / "run"))
    assert "trace.gradient_norm=true" in said


AIR: dict[str, Any] = {
    **BASE,
    **ROWS["PFELS, p = 0.7"],
    "run.rounds": 6,
    "run.evaluate_every": 1,
    "trace.gradient_norm": True,
    "local.engine": "loop",
    "local.learning_rate": 1e-3,
    "local.clip_norm": 5.0,
}
HEARD, NOISE_ALONE, ALIKE = (
    "selected devices are heard",
    "disturbances of the mean update",
    "messages arrive with the same amplitude",
)
FOUR_ANTENNAS = {"antennas.count": 4, "antennas.median_clip": 0.1, "channel.fading": "rayleigh"}


def on_the_quadratic(changes: dict[str, Any], run: Path | None = None) -> Theory:
    constants = problem().constants(SAMPLES, of_samples=False)
    return theory_of({**AIR, **changes}, run, task=problem().task, constants=constants)


@pytest.mark.filterwarnings("error::RuntimeWarning")  # rounds without devices, in which beta is infinite
@pytest.mark.parametrize(
    ("changes", "broken"),
    [
        ({}, None),
        ({"csi.missed_probability": 0.9}, HEARD),
        ({"power.policy": "cao"}, ALIKE),
        ({"power.policy": "correlated"}, ALIKE),
        ({"power.policy": "truncated-inversion"}, None),  # which leaves nobody out over a channel that does not fade
        ({"power.peak": "clip", "power.peak_db": -20.0, "local.clip_norm": 0.02}, NOISE_ALONE),
        ({"grid.waveform": True, "grid.clip_db": 0.1}, NOISE_ALONE),
        (FOUR_ANTENNAS, NOISE_ALONE),
    ],
)
def test_what_the_radio_breaks_as_planned_and_as_run(
    changes: dict[str, Any], broken: str | None, tmp_path: Path
) -> None:
    """The same conditions hold of the planned rounds and of those of the run."""
    planned = on_the_quadratic(changes)
    assert [one.name for one in planned.bound.conditions if not one.holds] == ([] if broken is None else [broken])
    package.run({**AIR, **changes}, tmp_path / "run", task=problem().task)
    recorded = on_the_quadratic(changes, tmp_path / "run")
    assert recorded.bound.conditions == planned.bound.conditions
    assert recorded.bound.corrected == pytest.approx(planned.bound.corrected, rel=1e-5)


@pytest.mark.parametrize(
    ("changes", "aligned"),
    [
        ({"power.policy": "pfels"}, True),
        ({"power.policy": "truncated-inversion", "power.threshold": 0.1}, False),
        ({"power.policy": "per-subcarrier-truncated", "power.threshold": 0.1}, False),
        ({"power.policy": "full-inversion", "power.coefficient": 1.0, "power.divide_by": "expected"}, False),
    ],
)
def test_whose_messages_arrive_alike_over_a_selective_channel(changes: dict[str, Any], aligned: bool) -> None:
    """Where a device has several gains, or a divisor of its own, the settings of the power control decide."""
    bound = on_the_quadratic({"channel.fading": "tapped-line", **changes}).bound
    condition = next(one for one in bound.conditions if one.name == ALIKE)
    assert condition.holds == aligned
    assert changes["power.policy"] in condition.value


def test_settings_decide_what_may_be_clipped() -> None:
    """A peak limit that is met by a smaller beta clips nothing."""
    for changes in ({"power.peak": "clip"}, {"power.peak_db": 0.1}):
        assert on_the_quadratic(changes).bound.holds("corrected")


def test_which_bound_says_nothing_of_the_run() -> None:
    """At p = 0.05 the corrected conditions hold alone; the line names the bound."""
    only_corrected = on_the_quadratic({"scheme.ratio": 0.05})
    assert next(_messages(only_corrected)).startswith("the run meets the conditions of the corrected bound, but")
    conditions = tuple(replace(one, of="corrected", holds=False) for one in only_corrected.bound.conditions)
    only_printed = replace(only_corrected, bound=replace(only_corrected.bound, conditions=conditions))
    assert next(_messages(only_printed)).startswith("the run meets the conditions of the printed bound, but")
    both = on_the_quadratic({})
    assert not any("conditions" in line for line in _messages(both))
    neither = on_the_quadratic({"local.learning_rate": 1.0})
    assert next(_messages(neither)).startswith("the run meets the conditions of neither bound")
    unproven = replace(both.bound, terms=(Term("all", 1.0, math.nan),), conditions=conditions)
    assert not any("conditions" in line for line in _messages(replace(both, bound=unproven)))
    # Constants that are given are not estimated.
    assert not any("too low" in line for line in _messages(both))


def test_no_terms_of_a_bound_that_does_not_exist() -> None:
    """No beta of SoteriaFL allows a step of 10, and the table says so once."""
    changes = {**BASE, **ROWS["SoteriaFL-GD, p = 0.5"]}
    constants = problem().constants(SAMPLES, of_samples=True)
    found = theory_of({**changes, "local.learning_rate": 10.0}, task=problem().task, constants=constants)
    lines = dict(_lines(found))
    assert lines["as printed"] == lines["corrected"] == "none: it is infinite at these settings"
    assert "  optimisation" not in lines
    assert lines["preferred ratio p"] == "none, corrected none"
    assert lines["initial shift, mean of ‖∇f_i(θ⁰)‖²"] == f"{constants.initial_shift:.4g}"
    allowed = theory_of({**changes, "local.learning_rate": 0.01}, task=problem().task, constants=constants)
    assert "  optimisation" in dict(_lines(allowed))
    assert dict(_lines(allowed))["preferred ratio p"] == "1, corrected 1"
