"""The physics of a run, checked using only the signals in its trace."""

import functools
import math

import numpy as np
import pytest
import torch
import xarray

from airfl.runtime.streams import Streams
from airfl.simulation import run
from airfl.uplinks.stages import Batch, Clip, RandK, bound_after, open_encoder
from tests.conftest import small_settings
from tests.laws.samples import Array, Complex, assert_mean
from tests.rounds import a_round

# One evaluation, and the fastest account of a run's epsilon, which no signal depends on.
SIGNALS = ("trace.signals=true", "run.rounds=3", "run.evaluate_every=3", "privacy.accountant=rdp")


@functools.cache
def traced(*overrides: str) -> xarray.Dataset:
    """The trace of a small run with all signals, in memory; to be read only."""
    done = run(small_settings(*SIGNALS, *overrides))
    with done.trace() as trace:
        return trace.load()


def total_of(trace: xarray.Dataset) -> Complex:
    """sum_i h_i x_i, [rounds, elements]."""
    h, x = (trace[name].values.astype(np.complex128) for name in ("channel_gain", "tx_symbols"))
    return np.asarray((h[..., None] * x).sum(axis=1))


def entries_of(symbols: Complex, packing: str, trace: xarray.Dataset) -> Array:
    """What the elements carry, [rounds, entries], without a phase left where that is one real entry each."""
    m = int(trace["message_length"][0])
    if packing == "iq":
        return np.stack([symbols.real, symbols.imag], axis=-1).reshape(len(symbols), -1)[:, :m]
    assert np.abs(symbols[:, :m].imag).max() < 1e-5 * np.abs(symbols[:, :m].real).max()
    return np.asarray(symbols[:, :m].real)


@pytest.mark.parametrize("scheme", ["pfels", "wfl-p", "wfl-pdp"])
@pytest.mark.parametrize("packing", ["real", "iq"])
def test_alignment_energy_noise_and_phase(scheme: str, packing: str) -> None:
    trace = traced(f"scheme.name={scheme}", f"grid.packing={packing}", "channel.noise_std=2.0")
    x = trace["tx_symbols"].values.astype(np.complex128)

    # |h_i| alpha_i = beta
    h, beta = np.abs(trace["channel_gain"].values.astype(complex)), trace["alignment_coefficient"].values[:, None]
    np.testing.assert_allclose(h * trace["transmit_scale"].values / beta, 1, rtol=1e-6)

    # The energy that is charged is ||x_i||^2.
    np.testing.assert_allclose(np.nansum(np.abs(x) ** 2, axis=2), trace["transmit_energy_j"].values, rtol=1e-4)
    np.testing.assert_allclose(trace["transmit_energy_j"].sum("slot"), trace["energy_j"], rtol=1e-12)

    # What arrives beside the signal is noise of variance sigma0^2 on the observed real entries and nothing else.
    sent, heard = (entries_of(each, packing, trace) for each in (total_of(trace), trace["rx_symbols"].values))
    noise, n = (heard - sent).ravel(), heard.size
    assert abs(noise.var() / 4.0 - 1) < 5 * math.sqrt(2 / n)
    assert abs(noise.mean()) < 5 * 2.0 / math.sqrt(n)
    assert abs(np.corrcoef(noise, sent.ravel())[0, 1]) < 5 / math.sqrt(n)


def test_iq_packing_sends_the_same_entries_on_half_the_elements() -> None:
    real, iq = (traced("scheme.ratio=0.3", f"grid.packing={packing}") for packing in ("real", "iq"))
    np.testing.assert_array_equal(iq["resource_elements"], -(-real["resource_elements"] // 2))
    np.testing.assert_allclose(iq["energy_j"], real["energy_j"], rtol=1e-12)
    np.testing.assert_array_equal(iq["test_loss"], real["test_loss"])
    expected, found = entries_of(total_of(real), "real", real), entries_of(total_of(iq), "iq", iq)
    np.testing.assert_allclose(found, expected, atol=1e-4 * np.abs(expected).max())


def test_received_power_and_noise_as_recorded() -> None:
    trace = traced("scheme.ratio=0.5")
    signal = (total_of(trace).real ** 2).sum(axis=1) / trace["message_length"].values
    np.testing.assert_allclose(trace["receive_snr_db"], 10 * np.log10(signal), atol=1e-3)
    np.testing.assert_allclose(trace["noise_std"], 1 / (8 * trace["alignment_coefficient"]), rtol=1e-12)
    np.testing.assert_allclose(trace["noise_multiplier"], 1 / trace["alignment_coefficient"], rtol=1e-12)  # C = 1


@pytest.mark.parametrize("limit", ["round_energy", "transmit_power"])
def test_energy_stays_within_its_limit(limit: str) -> None:
    """20 rounds of 20 devices with one gain and one limit, all of which set beta, with updates at their bound: over the
    mask P on average, within 5 standard errors; in strict mode hardly less, and never more."""
    alike = ("channel.fading=fixed", "power.max_snr_db=30", "local.clip_norm=0.05", "local.steps=1")
    many = ("run.rounds=20", "run.selected=20", "run.evaluate_every=20", "trace.signals=false", "privacy.epsilon=inf")
    for strict in (False, True):
        settings = (*alike, *many, "scheme.ratio=0.3", f"power.limit={limit}", f"power.strict={str(strict).lower()}")
        trace = traced(*settings)
        ratio = float(trace["message_length"][0]) / 25_450
        limits = trace["power_limit"].values * (1.0 if limit == "round_energy" else ratio)
        share = trace["transmit_energy_j"].values / limits
        rounds = share.mean(axis=1)  # the devices of a round share its mask
        assert rounds.std() < 0.015
        if strict:
            assert share.max() <= 1 + 1e-5
            assert rounds.mean() > 0.98
        else:
            assert 1 + 1e-5 < share.max() <= 1 / ratio
            assert_mean(rounds, 1)


def test_a_device_with_one_heavy_coordinate_may_reach_p_over_ratio_but_not_when_strict() -> None:
    """The mask keeps or drops the one coordinate that matters: energy P/p or 0, and P on average: exactly so over ten
    devices, each with another coordinate, as every mask keeps four of them."""
    spikes = 5 * torch.eye(10)
    loose = (Clip(1.0), RandK(10, 4, rescale=False))
    strict = (*loose, Clip(math.sqrt(0.4)))
    for stages, largest, mean in ((loose, 1 / 0.4, 1.0), (strict, 1.0, 0.4)):
        bound = bound_after(stages, 10)
        assert bound.rms == pytest.approx(math.sqrt(0.4))
        for t in range(50):
            messages = open_encoder(stages, a_round(Streams(0), t)).encode(Batch(spikes, torch.ones(10))).messages
            energies = messages.square().sum(dim=1).numpy() / bound.rms**2
            assert energies.max() == pytest.approx(largest, rel=1e-6)
            assert energies.mean() == pytest.approx(mean, rel=1e-6)


def test_beta_is_the_smaller_of_its_bounds() -> None:
    for epsilon, which in ((1e-3, "privacy_bound_binding"), (math.inf, "power_bound_binding")):
        trace = traced(f"privacy.epsilon={epsilon}", "scheme.ratio=0.3")
        assert (trace[which] == 1).all()
        h, limits = np.abs(trace["channel_gain"].values), trace["power_limit"].values
        ratio = float(trace["message_length"][0]) / 25_450
        power = (h * np.sqrt(limits) / math.sqrt(ratio)).min(axis=1)  # eq. 36 at C = 1
        rate, delta = 8 / 100, 1e-3
        privacy = epsilon / (2 * math.sqrt(2) * rate * math.sqrt(math.log(1.25 * rate / delta)))  # eq. 21, sigma0 = 1
        np.testing.assert_allclose(trace["alignment_coefficient"], np.minimum(power, privacy), rtol=1e-6)
        if math.isfinite(epsilon):
            np.testing.assert_allclose(trace["epsilon_paper"], epsilon, rtol=1e-12)


def test_without_noise_nothing_but_the_signal_arrives() -> None:
    # All figures of epsilon that there are, after every round.
    trace = traced("channel.noise=false", "privacy.accountant=auto", "run.evaluate_every=1")
    total = total_of(trace).real
    np.testing.assert_allclose(trace["rx_symbols"], total, atol=1e-5 * np.abs(total).max())
    for name in ("noise_std", "noise_multiplier"):
        assert (trace[name] == 0).all(), name
    for name in ("receive_snr_db", "epsilon_paper", "epsilon_round", "epsilon", "epsilon_as_poisson"):
        assert np.isinf(trace[name]).all(), name


def test_rescaling_multiplies_signal_and_noise() -> None:
    plain, rescaled = traced("scheme.ratio=0.5"), traced("scheme.ratio=0.5", "scheme.rescale=true")
    np.testing.assert_allclose(rescaled["noise_std"], 2 * plain["noise_std"], rtol=1e-12)
    np.testing.assert_array_equal(rescaled["rx_symbols"][0], plain["rx_symbols"][0])  # the air sees no difference
    np.testing.assert_allclose(rescaled["noise_multiplier"], plain["noise_multiplier"], rtol=1e-12)


def test_weights_by_data_size_count_in_power_and_in_sensitivity() -> None:
    common = ("task.partition=dirichlet", "server.weights=samples", "trace.signals=false", "privacy.epsilon=inf")
    trace = traced(*common, "scheme.name=wfl-p")
    sizes, ids = trace["device_samples"].values, trace["device_id"].values
    weights = sizes / sizes.mean()
    h, beta = np.abs(trace["channel_gain"].values), trace["alignment_coefficient"].values
    expected = (h * np.sqrt(trace["power_limit"].values) / weights[ids]).min(axis=1)
    np.testing.assert_allclose(beta, expected, rtol=1e-6)
    np.testing.assert_allclose(trace["noise_multiplier"], 1 / (beta * weights.max()), rtol=1e-12)
    assert (trace["transmit_energy_j"].values <= trace["power_limit"].values * (1 + 1e-5)).all()


def test_ideal_link_is_charged_at_capacity() -> None:
    trace = traced("scheme.name=fedavg", "trace.signals=false")
    d = 25_450
    snr = np.abs(trace["channel_gain"].values.astype(complex)) ** 2 * trace["power_limit"].values / (2 * d)
    elements = np.ceil(32 * d / np.log2(1 + snr))
    np.testing.assert_allclose(trace["resource_elements"], elements.sum(axis=1), rtol=1e-6)
    np.testing.assert_allclose(trace["transmit_energy_j"], elements * trace["power_limit"].values / d, rtol=1e-6)
    np.testing.assert_array_equal(trace["ofdm_symbols"], np.ceil(trace["resource_elements"] / 3300))
    assert (trace["uplink_bits"] == 32 * d * 8).all()
    assert (trace["aggregation_error"] < 1e-12).all()
    assert np.isnan(trace["alignment_coefficient"]).all()
