"""`airfl theory`: the bound of a run from its settings, beside a finished run, and what it refuses."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import airfl as package
from airfl.errors import UserError
from airfl.theory.of_run import THEOREMS, check_covered, theory_of
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
    assert 0 < found["preferred_ratio"]["corrected"] <= 1
    assert found["preferred_ratio"]["why"].startswith("beta of every round as theorem 5")
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
    assert "power method" in done.stdout
    assert "after 3 rounds" in done.stdout
    assert "does not meet the theorem's conditions" in done.stderr
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
