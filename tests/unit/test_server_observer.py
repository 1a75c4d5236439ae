"""privacy.observer = "server": it knows who took part, and observes the samples of all antennas."""

import math
from typing import Any

import numpy as np
import pytest

from airfl.analysis.calculator import privacy_of
from airfl.core.accounting import build_ledger, noise_multiplier
from airfl.errors import UserError
from airfl.privacy.bounds import epsilon
from airfl.privacy.events import Gaussian, noise_of, repeated
from airfl.privacy.gaussian import gaussian_epsilon
from airfl.privacy.masks import masked_epsilon
from airfl.privacy.statement import Statement
from tests.conftest import small_settings
from tests.rounds import opened
from tests.small_data import run

SERVER = ("privacy.observer=server", "scheme.name=pfels")


def round_of(*overrides: str) -> tuple[Any, Any, Any]:
    """Scenario, plan and report."""
    return opened(small_settings(*overrides), 200)


def multiplier(*overrides: str) -> float:
    scenario, _, report = round_of(*overrides)
    return noise_multiplier(scenario, report)


def statement_of(*overrides: str) -> Statement:
    return build_ledger(round_of(*overrides)[0]).statement


def test_with_one_antenna_the_server_sees_no_more_than_the_sum() -> None:
    """The message is real, so that the other part of a sample is noise. Several antennas see more than others do."""
    assert multiplier(*SERVER) == pytest.approx(multiplier(SERVER[1]), rel=1e-6)
    several = ("antennas.count=16", "channel.fading=rayleigh")
    assert multiplier(*SERVER, *several) < multiplier(SERVER[1], *several)


@pytest.mark.parametrize("fading", ["rayleigh", "tapped-line"])
def test_with_several_antennas_it_combines_for_one_device(fading: str) -> None:
    """mu of the best test for one device among the others: with y = h u + z on 2 A real dimensions, ||h|| b C/sigma_0.
    20,000 draws tell mu to 1% (5 standard errors 0.04 of mu around 1)."""
    policy = ["power.policy=per-subcarrier"] if fading == "tapped-line" else []
    scenario, plan, report = round_of(*SERVER, "antennas.count=4", f"channel.fading={fading}", *policy)
    response = plan.channel.response  # [devices, antennas, blocks, subcarriers]
    amplitudes = np.abs(plan.link._control.precoders)
    norms = np.linalg.norm(response, axis=1) * amplitudes
    used = scenario.frame.weights > 0
    if norms.shape[1:] == used.shape:
        norms = norms[:, used]
    strongest = norms.max() * scenario.bound.sensitivity
    assert noise_multiplier(scenario, report) == pytest.approx(scenario.radio.noise_std / strongest, rel=1e-6)
    if fading == "tapped-line":
        return
    device = int(norms.reshape(len(norms), -1).max(axis=1).argmax())
    h = response[device, :, 0, 0] * amplitudes[device, 0, 0] * scenario.bound.sensitivity
    noise = scenario.radio.noise_std * np.random.default_rng(1).standard_normal((20_000, 4, 2)) @ np.array([1, 1j])
    matched = (h.conj() @ (noise + h).T).real
    assert matched.mean() / matched.std() == pytest.approx(1 / noise_multiplier(scenario, report), rel=0.05)


def test_a_device_pays_for_its_own_rounds_in_full() -> None:
    settings = small_settings(*SERVER, "run.rounds=6", "run.evaluate_every=6", "scheme.ratio=1.0")
    with run(settings).trace() as trace:
        ids, multipliers = trace["device_id"].values, trace["noise_multiplier"].values
        own = np.zeros(100)
        for devices, multiplier in zip(ids, multipliers, strict=True):
            own[devices] += (2 / multiplier) ** 2
        worst = gaussian_epsilon(settings.delta, math.sqrt(own.max()))
        assert trace["epsilon"].values[-1] == pytest.approx(worst, rel=1e-9)
        assert trace["epsilon_at_least"].values[-1] == pytest.approx(trace["epsilon"].values[-1], rel=0.01)
        assert trace["epsilon"].attrs["observer"] == "server"
        assert trace["epsilon_round"].values[0] == pytest.approx(gaussian_epsilon(settings.delta, 2 / multipliers[0]))


@pytest.mark.parametrize(
    ("radio", "covering"), [((), 8.0), (("antennas.count=4",), 1.0), (("csi.phase_std_rad=0.3",), 1.0)]
)
def test_noise_of_others_from_other_directions_surely_covers_nobody(radio: tuple[str, ...], covering: float) -> None:
    """With several antennas, or unknown phases, the server may look past it: a device's own is left."""
    own = ("scheme.name=dp-fedavg", "scheme.link=analog", "scheme.noise_multiplier=1.0", "channel.noise=false")
    scenario, _, report = round_of(*own, "privacy.observer=server", *radio)
    assert report.noisy_devices == pytest.approx(covering, rel=1e-6)
    of_one = scenario.bound.noise_std / scenario.bound.sensitivity
    assert noise_multiplier(scenario, report) == pytest.approx(math.sqrt(covering) * of_one, rel=1e-6)


def test_secure_aggregation_hides_messages_and_not_who_was_asked() -> None:
    statement = statement_of("scheme.name=dp-fedavg", "privacy.observer=server")
    assert (statement.observer, statement.hidden) == ("server", False)


@pytest.mark.parametrize("scheme", [["scheme.name=a-dsgd"], ["scheme.name=pfels", "scheme.error_feedback=true"]])
def test_what_devices_keep_may_tell_of_samples_of_fixed_size(scheme: list[str]) -> None:
    """No amplification by those is proven then: everybody pays for each of their own rounds in full, as against
    somebody who knows who took part. Under Poisson sampling a device's coin is fresh whatever the past was."""
    settings = small_settings("run.rounds=2", *scheme)
    fixed = privacy_of(settings)
    about = fixed.statement
    assert (about.observer, about.hidden, about.remembered) == ("third_party", False, True)
    rounds = list(fixed.released.multipliers)
    most = max(np.bincount(np.concatenate(fixed.released.devices)))
    seen = noise_of(fixed.released.events[0]).seen  # the mask of PFELS; A-DSGD has none
    assert seen == (pytest.approx(0.3, rel=1e-3) if scheme[0] == "scheme.name=pfels" else 1)

    def of(noise: float) -> float:
        return epsilon(repeated(Gaussian(noise, seen), most), "replace_one", fixed.delta)

    assert of(max(rounds)) * (1 - 1e-9) <= fixed.epsilon <= of(min(rounds)) * (1 + 1e-9)
    assert fixed.epsilon <= gaussian_epsilon(fixed.delta, 2 / min(rounds) * math.sqrt(most)) * (1 + 1e-9)
    assert fixed.epsilon_round == pytest.approx(masked_epsilon(fixed.delta, 2 / min(rounds), seen), rel=1e-6)
    assert math.isnan(fixed.epsilon_at_least)
    known, coins = (statement_of(*scheme, other) for other in ("privacy.observer=server", "selection.kind=poisson"))
    assert (known.remembered, known.adjacency) == (False, "replace_one")
    assert (coins.remembered, coins.adjacency) == (False, "add_remove")
    with run(settings).trace() as trace:
        assert trace["epsilon"].values[-1] == pytest.approx(fixed.epsilon, rel=1e-6)


@pytest.mark.parametrize(
    ("attained", "overrides"),
    [
        *((True, (f"scheme.name={name}",)) for name in ("pfels", "fed-smp-randk", "fed-spa")),
        (True, ("scheme.name=dp-fedavg", "scheme.link=analog")),
        # Bounds that nobody is known to reach:
        *((False, (f"scheme.name={name}",)) for name in ("obda", "a-dsgd", "cpsgd", "soteriafl-svrg")),
        (False, ("scheme.name=dp-fedavg", "scheme.link=analog", "privacy.observer=server", "antennas.count=4")),
        (False, ("scheme.name=pfels", "privacy.csi_error=unbounded")),
        (False, ("scheme.name=pfels", "scheme.error_feedback=true")),
    ],
    ids=str,
)
def test_a_lower_bound_is_given_where_neighbours_really_pay(attained: bool, overrides: tuple[str, ...]) -> None:
    settings = small_settings("run.rounds=1", "local.batch_size=3", *overrides)
    with run(settings).trace() as trace:
        assert np.isfinite(trace["epsilon_at_least"].values[-1]) == attained


@pytest.mark.parametrize(
    ("sentence", "overrides"),
    [
        (r"^privacy\.observer: third_party needs", ("scheme.name=fed-spa",)),
        ("single messages", ("scheme.name=dp-fedavg", "digital.secure_aggregation=off")),
        (r"privacy\.csi_error must be .realised.", ("privacy.observer=server", "privacy.csi_error=quantile")),
    ],
)
def test_what_contradicts_itself_is_refused(sentence: str, overrides: tuple[str, ...]) -> None:
    with pytest.raises(UserError, match=sentence):
        statement_of("privacy.observer=third_party", *overrides)
