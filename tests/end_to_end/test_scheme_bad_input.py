"""Settings that do not fit a scheme or a digital link are refused in one line before anything runs."""

import re

import pytest

from airfl.config import load_settings
from airfl.core.preflight import check_recipe
from airfl.errors import UserError
from airfl.simulation import run
from tests.conftest import DEMO, small_settings

BAD = (
    ("scheme.name=pfels scheme.link=digital", r"scheme\.link: scheme 'pfels' does not support link 'digital'"),
    ("scheme.name=cpsgd scheme.link=analog", r"scheme\.link: scheme 'cpsgd' does not support"),
    ("scheme.name=fed-smp-topk task.public_samples=0", r"task\.public_samples: scheme 'fed-smp-topk' uses public data"),
    ("scheme.name=cpsgd scheme.trials=3", r"scheme\.trials: must be at least [0-9,]+ .*got 3"),
    ("scheme.name=cpsgd server.weights=samples", r"server\.weights: .*'samples'"),
    ("scheme.name=dp-fedavg selection.kind=poisson", r"selection\.kind: devices of scheme 'dp-fedavg' bring the noise"),
    ("scheme.name=dp-fedavg privacy.epsilon=50.0", r"privacy\.epsilon: theorem 1 of Fed-SMP needs .*got 50"),
    ("scheme.name=pfels scheme.error_feedback=true scheme.rescale=true", r"scheme\.error_feedback: "),
    ("scheme.name=ldp-sgd scheme.gradient_clip=inf", r"scheme\.gradient_clip: .*got inf"),
    ("scheme.name=fed-spa scheme.coordinate_clip=inf", r"scheme\.coordinate_clip: .*got inf"),
    ("scheme.name=baa power.policy=cao", r"power\.policy: scheme 'baa' prescribes"),
    ("scheme.name=dp-fedavg scheme.link=analog power.peak_db=10.0", r"power\.peak: a message with the device's own"),
    ("scheme.name=dp-fedavg scheme.link=analog power.strict=true", r"power\.strict: a message with the device's own"),
)


@pytest.mark.parametrize(("overrides", "message"), BAD, ids=[overrides for overrides, _ in BAD])
def test_it_is_refused_in_one_line(overrides: str, message: str) -> None:
    with pytest.raises(UserError, match=rf"^({re.escape(str(DEMO))}: )?{message}") as refusal:
        check_recipe(load_settings(DEMO, overrides.split()))
    assert "\n" not in str(refusal.value)


def test_a_table_that_does_not_fit_is_refused_with_its_size() -> None:
    """SAGA with a CNN of 1,663,370 parameters and 45 samples on each of 200 devices: 60 GB."""
    settings = small_settings(
        "scheme.name=soteriafl-saga", "task.model=cnn-fashion", "run.devices=200", "run.selected=200"
    )
    with pytest.raises(
        UserError, match=r"^scheme\.name: 'soteriafl-saga': .* 200 devices takes 31\d(\.\d)? MB each, .* GB of memory"
    ):
        run(settings)


def test_a_deadline_and_bad_channels_lose_devices_and_their_noise() -> None:
    """Whoever is late is recorded, pays, and takes its share of the noise along."""
    common = ("scheme.name=dp-fedavg", "scheme.noise_multiplier=2.0", "run.rounds=2")
    with run(small_settings(*common, "digital.deadline_s=2.0")).trace() as trace:
        heard = trace["heard"].values
        assert (heard < 8).any()
        assert (heard > 0).all()
        expected = 2.0 * (heard / 8) ** 0.5
        assert abs(trace["noise_multiplier"].values - expected).max() < 1e-9
        assert (trace["transmit_energy_j"].values > 0).all()
