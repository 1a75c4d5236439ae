"""Schemes of the four papers that must coincide under stated conditions do."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from airfl.simulation import Run
from airfl.store import Store
from tests import small_data
from tests.end_to_end.test_degenerate_cases import assert_equal, finished, loaded

EVERYBODY = ("run.devices=20", "run.selected=20", "run.rounds=4", "run.chunk=5")
NO_NOISE = ("scheme.noise_multiplier=0.0", "scheme.gradient_clip=inf")


def distance(first: Run, second: Run) -> float:
    """Relative l2 distance of the final parameters."""
    return float((first.parameters - second.parameters).norm() / second.parameters.norm())


def moved(done: Run) -> float:
    """How far a run has come, so that equality is not that of two runs that never moved."""
    start = small_data.world(done.settings).model.initial()
    return float((done.parameters - start).norm() / start.norm())


FED_SMP = "scheme.ratio=1.0 scheme.noise_multiplier=0.7"
SHIFTED = "scheme.ratio=0.2 scheme.noise_multiplier=1.0"
# One scheme, another that it must be, and what both are given; noise is addressed by coordinate, so it is the same.
SAME = (
    *(("fedavg", f"fedavg-{which}", "scheme.link=digital scheme.ratio=1.0") for which in ("randk", "topk")),
    *(
        ("dp-fedavg", f"fed-smp-{which}", f"scheme.link={link} {FED_SMP}")
        for which in ("randk", "topk")
        for link in ("digital", "analog")
    ),
    ("wfl-pdp", "pfels", "scheme.ratio=1.0 trace.signals=true"),
    ("wfl-p", "wfl-pdp", "privacy.epsilon=inf trace.signals=true"),
    ("cdp-sgd", "soteriafl-sgd", f"scheme.gamma=0.0 {SHIFTED}"),
)


@pytest.mark.parametrize(("plain", "degenerate", "given"), SAME)
def test_what_must_be_the_same_scheme_is_bit_for_bit(plain: str, degenerate: str, given: str) -> None:
    first, second = (finished(f"scheme.name={name}", *given.split()) for name in (plain, degenerate))
    assert torch.equal(first.parameters, second.parameters)
    assert_equal(loaded(first), loaded(second), but=("epsilon_paper",) if degenerate == "wfl-pdp" else ())


@pytest.mark.parametrize(
    ("estimator", "gamma"), [("sgd", 0.0), ("gd", 0.3), ("saga", 0.3), ("sgd", 0.7071), ("svrg", 1.0)]
)
def test_soteriafl_that_compresses_nothing_is_descent_for_every_gamma(estimator: str, gamma: float) -> None:
    common = (*EVERYBODY, *NO_NOISE, f"scheme.name=soteriafl-{estimator}", "local.batch_size=7")
    shifted = finished(*common, "scheme.ratio=1.0", f"scheme.gamma={gamma}")
    world = small_data.world(shifted.settings)
    parameters, store = world.model.initial(), Store()
    everybody = np.arange(20)
    for t in range(4):
        chunk = world.trainer.chunk
        parts = [everybody[at : at + chunk] for at in range(0, 20, chunk)]
        estimates = torch.cat([world.trainer.updates(parameters, part, t, store) for part in parts])
        parameters = parameters + shifted.settings.local.learning_rate * estimates.mean(dim=0)
    assert float((shifted.parameters - parameters).norm() / parameters.norm()) < 1e-5
    assert moved(shifted) > 1e-3


def test_variance_reduction_on_full_batches_is_gradient_descent() -> None:
    common = (*EVERYBODY, *NO_NOISE, "local.batch_size=1000", "scheme.ratio=0.5", "scheme.refresh=0.5")
    runs = {name: finished(f"scheme.name=soteriafl-{name}", *common) for name in ("gd", "sgd", "svrg", "saga")}
    assert moved(runs["gd"]) > 1e-3
    for name in ("sgd", "svrg", "saga"):
        assert distance(runs[name], runs["gd"]) < 1e-5, name


def test_dp_fed_without_noise_and_clip_is_fedavg_and_so_is_fed_spa_that_keeps_everything() -> None:
    """Full batches, since FedAvg goes through shuffled data and DP-Fed draws every batch afresh; dp-fed is fed-spa at
    p = 1 with averaging in the place of eq. 6."""
    common = ("local.batch_size=1000", "local.momentum=0.0", "local.steps=3", "local.clip_norm=1e6")
    bare = ("scheme.noise_multiplier=0.0", "scheme.coordinate_clip=inf")
    fedavg = finished("scheme.name=fedavg", *common)
    dp_fed = finished("scheme.name=dp-fed", *common, *bare)
    assert moved(fedavg) > 1e-3
    assert distance(dp_fed, fedavg) < 1e-5


@pytest.mark.parametrize("clip", ["0.01", "inf"])
def test_fed_spa_that_keeps_everything_sends_what_dp_fed_sends(clip: str) -> None:
    common = ("scheme.ratio=1.0", "scheme.noise_multiplier=0.5", f"scheme.coordinate_clip={clip}", "run.rounds=1")
    noisy = common if clip != "inf" else (*common, "scheme.noise_multiplier=0.0")
    fed_spa = loaded(finished("scheme.name=fed-spa", *noisy))
    dp_fed = loaded(finished("scheme.name=dp-fed", *noisy))
    np.testing.assert_array_equal(fed_spa["update_norm"], dp_fed["update_norm"])


@pytest.mark.parametrize("policy", ["pfels", "full-inversion"])
def test_a_noiseless_analog_link_with_nobody_silent_is_an_error_free_digital_one(policy: str) -> None:
    digital = finished("scheme.name=fedavg", "scheme.link=digital")
    analog = finished("scheme.name=fedavg", "scheme.link=analog", "channel.noise=false", f"power.policy={policy}")
    assert distance(analog, digital) < 1e-6
    assert (loaded(analog)["heard"] == loaded(digital)["heard"]).all()


def test_an_error_free_digital_link_is_the_ideal_one() -> None:
    digital = finished("scheme.name=fedavg", "scheme.link=digital")
    assert torch.equal(digital.parameters, finished("scheme.name=fedavg").parameters)


def test_error_feedback_that_compresses_nothing_changes_nothing() -> None:
    for name in ("fedavg-randk", "fedavg-topk"):
        plain = finished(f"scheme.name={name}", "scheme.ratio=1.0")
        kept = finished(f"scheme.name={name}", "scheme.ratio=1.0", "scheme.error_feedback=true")
        assert distance(kept, plain) < 1e-6


def test_error_feedback_delivers_in_later_rounds_what_it_held_back() -> None:
    """PFELS without noise and bounds: with the memory the run ends nearer to what FedAvg reaches."""
    common = (
        "channel.noise=false",
        "privacy.epsilon=inf",
        "scheme.ratio=0.3",
        "run.devices=8",
        "run.rounds=12",
        "local.learning_rate=0.01",
        "local.clip_norm=100.0",
    )
    fedavg = finished("scheme.name=fedavg", *common)
    plain = finished("scheme.name=pfels", *common)
    kept = finished("scheme.name=pfels", "scheme.error_feedback=true", *common)
    assert distance(kept, fedavg) < 0.6 * distance(plain, fedavg)
