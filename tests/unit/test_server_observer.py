"""privacy.observer = "server": it knows who took part, and sees the raw samples of all antennas."""

from __future__ import annotations

import math

import numpy as np
import pytest

from airfl.building import build_cell
from airfl.calculator import privacy_of
from airfl.cell import build_ledger, noise_multiplier
from airfl.config import Settings
from airfl.errors import UserError
from airfl.opening import open_round
from airfl.privacy.gaussian import gaussian_epsilon
from tests.conftest import small_settings
from tests.small_data import run

SERVER = ("privacy.observer=server", "scheme.name=pfels")


def opened(settings: Settings):  # type: ignore[no-untyped-def]
    cell = build_cell(settings, 200, np.ones(settings.run.devices))
    opening = open_round(cell, 0, cell.memory)
    return cell, opening, opening.link.at_bound()


def test_with_one_antenna_the_server_sees_no_more_than_the_sum() -> None:
    """The message is real, so that the other part of a sample is noise."""
    multipliers = []
    for overrides in (SERVER, SERVER[1:]):
        cell, _, report = opened(small_settings(*overrides))
        multipliers.append(noise_multiplier(cell, report))
    assert multipliers[0] == pytest.approx(multipliers[1], rel=1e-6)


@pytest.mark.parametrize("fading", ["rayleigh", "tapped-line"])
def test_with_several_antennas_it_combines_for_one_device(fading: str) -> None:
    """mu of the best test for one device among the others: with y = h u + z on 2 A real dimensions, ||h|| b C/sigma_0.
    20,000 draws tell mu to 1% (5 standard errors 0.04 of mu around 1)."""
    policy = ["power.policy=per-subcarrier"] if fading == "tapped-line" else []
    settings = small_settings(*SERVER, "antennas.count=4", f"channel.fading={fading}", *policy)
    cell, opening, report = opened(settings)
    response = opening.channel.response  # [devices, antennas, blocks, subcarriers]
    amplitudes = np.abs(opening.link._control.precoders)
    norms = np.linalg.norm(response, axis=1) * amplitudes
    used = cell.frame.weights > 0
    if norms.shape[1:] == used.shape:
        norms = norms[:, used]
    strongest = norms.max() * cell.bound.sensitivity
    assert noise_multiplier(cell, report) == pytest.approx(cell.radio.noise_std / strongest, rel=1e-6)
    if fading == "tapped-line":
        return
    device = int(norms.reshape(len(norms), -1).max(axis=1).argmax())
    h = response[device, :, 0, 0] * amplitudes[device, 0, 0] * cell.bound.sensitivity
    generator, draws = np.random.default_rng(1), 20_000
    noise = cell.radio.noise_std * generator.standard_normal((draws, 4, 2)) @ np.array([1, 1j])
    matched = (h.conj() @ (noise + h).T).real
    assert matched.mean() / matched.std() == pytest.approx(1 / noise_multiplier(cell, report), rel=0.05)


def test_several_antennas_protect_less_from_the_server_than_from_others() -> None:
    settings = (SERVER[1], "antennas.count=16", "channel.fading=rayleigh")
    third, server = (opened(small_settings(*settings, f"privacy.observer={who}")) for who in ("third_party", "server"))
    assert noise_multiplier(server[0], server[2]) < noise_multiplier(third[0], third[2])


def test_a_device_pays_for_its_own_rounds_in_full() -> None:
    settings = small_settings(*SERVER, "run.rounds=6", "run.evaluate_every=6")
    with run(settings).trace() as trace:
        ids, multipliers = trace["device_id"].values, trace["noise_multiplier"].values
        own = np.zeros(100)
        for devices, multiplier in zip(ids, multipliers, strict=True):
            own[devices] += (2 / multiplier) ** 2
        assert trace["epsilon"].values[-1] == pytest.approx(
            gaussian_epsilon(settings.delta, math.sqrt(own.max())), rel=1e-9
        )
        assert trace["epsilon_at_least"].values[-1] == pytest.approx(trace["epsilon"].values[-1], rel=0.01)
        assert trace["epsilon"].attrs["observer"] == "server"
        assert trace["epsilon_round"].values[0] == pytest.approx(gaussian_epsilon(settings.delta, 2 / multipliers[0]))


def test_with_several_antennas_only_a_device_s_own_noise_surely_covers_it() -> None:
    """Others' noise comes from other directions, and the server may look past it."""
    overrides = ("scheme.name=dp-fedavg", "scheme.link=analog", "scheme.noise_multiplier=1.0", "channel.noise=false")
    for antennas, covered in ((1, math.sqrt(8)), (4, 1.0)):
        settings = small_settings(*overrides, "privacy.observer=server", f"antennas.count={antennas}")
        cell, _, report = opened(settings)
        assert report.noisy_devices == pytest.approx(covered**2, rel=1e-6)
        own = cell.bound.noise_std / cell.bound.sensitivity
        assert noise_multiplier(cell, report) == pytest.approx(covered * own, rel=1e-6)


def test_noise_that_arrives_turned_does_not_surely_cover_anybody() -> None:
    """One antenna and unknown phases: the others' noise is not along a device's own direction."""
    overrides = ("scheme.name=dp-fedavg", "scheme.link=analog", "scheme.noise_multiplier=1.0", "channel.noise=false")
    for phase, covered in ((0.0, 8.0), (0.3, 1.0)):
        report = opened(small_settings(*overrides, "privacy.observer=server", f"csi.phase_std_rad={phase}"))[2]
        assert report.noisy_devices == pytest.approx(covered, rel=1e-6)


def test_secure_aggregation_hides_messages_and_not_who_was_asked() -> None:
    cell = build_cell(small_settings("scheme.name=dp-fedavg", "privacy.observer=server"), 200, np.ones(100))
    statement = build_ledger(cell).statement
    assert (statement.observer, statement.hidden) == ("server", False)


@pytest.mark.parametrize(
    "scheme", [("scheme.name=a-dsgd",), ("scheme.name=pfels", "scheme.error_feedback=true")], ids=str
)
def test_what_devices_keep_may_tell_of_samples_of_fixed_size(scheme: tuple[str, ...]) -> None:
    """No amplification by those is proven then: everybody pays for each of their own rounds in full, as against
    somebody who knows who took part. Under Poisson sampling a device's coin is fresh whatever the past was."""
    fixed = privacy_of(small_settings("run.rounds=3", *scheme))
    known = privacy_of(small_settings("run.rounds=3", "privacy.observer=server", *scheme))
    assert (fixed.statement.observer, fixed.statement.hidden, fixed.statement.remembered) == (
        "third_party",
        False,
        True,
    )
    rounds = list(fixed.released.multipliers)
    most = max(np.bincount(np.concatenate(fixed.released.devices)))
    assert fixed.epsilon >= gaussian_epsilon(fixed.delta, 2 / max(rounds) * math.sqrt(most)) * (1 - 1e-9)
    assert fixed.epsilon <= gaussian_epsilon(fixed.delta, 2 / min(rounds) * math.sqrt(most)) * (1 + 1e-9)
    assert fixed.epsilon_round == pytest.approx(gaussian_epsilon(fixed.delta, 2 / min(rounds)), rel=1e-6)
    assert math.isnan(fixed.epsilon_at_least)
    assert known.statement.remembered is False
    coins = privacy_of(small_settings("run.rounds=3", "selection.kind=poisson", *scheme))
    assert (coins.statement.remembered, coins.statement.adjacency) == (False, "add_remove")
    with run(small_settings("run.rounds=3", *scheme)).trace() as trace:
        assert trace["epsilon"].values[-1] == pytest.approx(fixed.epsilon, rel=1e-6)


@pytest.mark.parametrize(
    ("overrides", "attained"),
    [
        (("scheme.name=pfels",), True),
        (("scheme.name=fed-smp-randk",), True),
        (("scheme.name=fed-spa",), True),
        (("scheme.name=dp-fedavg", "scheme.link=analog"), True),
        # Bounds that nobody is known to reach:
        (("scheme.name=obda",), False),
        (("scheme.name=a-dsgd",), False),
        (("scheme.name=cpsgd",), False),
        (("scheme.name=soteriafl-svrg",), False),
        (("scheme.name=dp-fedavg", "scheme.link=analog", "privacy.observer=server", "antennas.count=4"), False),
        (("scheme.name=pfels", "privacy.csi_error=unbounded"), False),
        (("scheme.name=pfels", "scheme.error_feedback=true"), False),
    ],
    ids=str,
)
def test_a_lower_bound_is_given_where_neighbours_really_pay(overrides: tuple[str, ...], attained: bool) -> None:
    settings = small_settings("run.rounds=1", "local.batch_size=3", *overrides)
    with run(settings).trace() as trace:
        assert np.isfinite(trace["epsilon_at_least"].values[-1]) == attained


@pytest.mark.parametrize(
    ("overrides", "sentence"),
    [
        (
            ("scheme.name=fed-spa", "privacy.observer=third_party"),
            r"^privacy\.observer: single messages reach the server",
        ),
        (
            ("privacy.observer=third_party", "scheme.name=dp-fedavg", "digital.secure_aggregation=off"),
            "single messages",
        ),
        (("privacy.observer=server", "privacy.csi_error=quantile"), r"privacy\.csi_error: what the server sees"),
    ],
)
def test_what_contradicts_itself_is_refused(overrides: tuple[str, ...], sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        build_ledger(build_cell(small_settings(*overrides), 200, np.ones(100)))
