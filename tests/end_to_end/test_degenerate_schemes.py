"""Schemes of the four papers coincide under stated conditions."""

import numpy as np
import pytest
import torch

from airfl.runtime.store import Store
from airfl.simulation import Run
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


DIGITAL = "scheme.name=fedavg scheme.link=digital"
NOISELESS = "scheme.name=fedavg scheme.link=analog channel.noise=false power.policy="
# DP-Fed draws every batch afresh, FedAvg goes through shuffled data: with full batches they are the same.
FULL_BATCHES = "local.batch_size=1000 local.momentum=0.0 local.steps=3 local.clip_norm=1e6"
PUBLIC = "scheme.ratio=0.3 local.clip_norm=1e6"
WHOLE = "scheme.ratio=1.0 scheme.name=fedavg-"
SAME_BUT_FOR_ROUNDING = (
    (DIGITAL, "scheme.name=fedavg", 0.0),
    (DIGITAL, f"{NOISELESS}pfels", 1e-6),
    (DIGITAL, f"{NOISELESS}full-inversion", 1e-6),
    (f"{WHOLE}randk", f"{WHOLE}randk scheme.error_feedback=true", 1e-6),
    (f"{WHOLE}topk", f"{WHOLE}topk scheme.error_feedback=true", 1e-6),
    (  # where nothing is clipped, the order of clip and mask does not matter
        f"scheme.name=fed-smp-topk scheme.noise_multiplier=0.0 {PUBLIC}",
        f"scheme.name=fedavg-topk scheme.mask=public {PUBLIC}",
        1e-6,
    ),
    (
        f"scheme.name=fedavg {FULL_BATCHES}",
        f"scheme.name=dp-fed {FULL_BATCHES} scheme.noise_multiplier=0.0 scheme.coordinate_clip=inf",
        1e-5,
    ),
)


@pytest.mark.parametrize(("plain", "degenerate", "tolerance"), SAME_BUT_FOR_ROUNDING)
def test_what_must_come_to_the_same_does(plain: str, degenerate: str, tolerance: float) -> None:
    first, second = finished(*plain.split()), finished(*degenerate.split())
    assert moved(first) > 1e-3
    assert distance(second, first) <= tolerance
    assert (loaded(first)["heard"] == loaded(second)["heard"]).all()


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


@pytest.mark.parametrize("clip", ["0.01", "inf"])
def test_fed_spa_that_keeps_everything_sends_what_dp_fed_sends(clip: str) -> None:
    common = ("scheme.ratio=1.0", "scheme.noise_multiplier=0.5", f"scheme.coordinate_clip={clip}", "run.rounds=1")
    noisy = common if clip != "inf" else (*common, "scheme.noise_multiplier=0.0")
    fed_spa = loaded(finished("scheme.name=fed-spa", *noisy))
    dp_fed = loaded(finished("scheme.name=dp-fed", *noisy))
    np.testing.assert_array_equal(fed_spa["update_norm"], dp_fed["update_norm"])


def test_error_feedback_delivers_in_later_rounds_what_it_held_back() -> None:
    """PFELS without noise and bounds: with the memory the run ends nearer to what FedAvg reaches."""
    common = (
        *("channel.noise=false", "privacy.epsilon=inf", "scheme.ratio=0.3", "run.devices=8", "run.rounds=12"),
        *("local.learning_rate=0.01", "local.clip_norm=100.0"),
    )
    fedavg = finished("scheme.name=fedavg", *common)
    plain = finished("scheme.name=pfels", *common)
    kept = finished("scheme.name=pfels", "scheme.error_feedback=true", *common)
    assert distance(kept, fedavg) < 0.6 * distance(plain, fedavg)
