"""All radio features are available through settings of `airfl run` and `airfl budget`, with costs computed by hand."""

import functools
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.io import savemat

from airfl.analysis.budget import Budget, link_budget
from airfl.config import Settings
from airfl.learning import chosen_task
from airfl.learning.tasks.models import MODELS
from airfl.runtime.philox import device_uniforms
from airfl.runtime.streams import Purpose, Streams
from airfl.simulation import Run, run
from channels.power import POLICIES
from channels.resource_mapping import ResourceMapping
from tests.conftest import DEMO, SMALL, small_settings
from tests.processes import airfl, succeeded

Trace = dict[str, NDArray[Any]]
DIMENSION = MODELS["mlp"].parameters  # 25,450 = 50 x 509
FEW = "scheme.ratio=0.05"  # 1,272 entries

RAYLEIGH, RICIAN, TAPPED = "channel.fading=rayleigh", "channel.fading=rician", "channel.fading=tapped-line"
PHYSICAL, TRUNCATED = "channel.units=physical", "power.policy=truncated-inversion"
MMSE, WAVEFORM = "csi.estimation=mmse csi.pilot_snr_db=60.0", "grid.waveform=true grid.subcarriers=60"
JAKES = "channel.variation=jakes channel.speed_m_s"
PLACES = str([[20.0 + x, 30.0] for x in range(100)]).replace(" ", "")

# A name, and overrides.
VARIANTS = dict(
    line.split(" -> ")
    for line in f"""
jakes within a round -> {RAYLEIGH} {JAKES}=30.0 channel.coherence=symbol grid.subcarriers=64
rician, constant -> {RICIAN} channel.rician_k=5.0 channel.variation=constant
nakagami -> channel.fading=nakagami channel.nakagami_m=2.0 power.policy=cao
fixed, cotaf -> channel.fading=fixed power.policy=cotaf power.threshold=0.1
tdl-a, antennas -> channel.fading=tdl-a channel.speed_m_s=3.0 antennas.count=2 grid.subcarriers=64
tapped line, moving -> {TAPPED} {JAKES}=30.0 channel.coherence=slot grid.subcarriers=24 grid.packing=iq
disc -> {PHYSICAL} {RAYLEIGH} topology.kind=disc scheme.name=fedavg
annulus, log-distance -> {PHYSICAL} {RAYLEIGH} topology.kind=annulus topology.min_distance_m=50.0 \
    topology.path_loss=log-distance topology.shadowing_std_db=6.0 power.tx_power_dbm=[10.0,23.0] grid.downlink=true
coordinates -> {PHYSICAL} {RAYLEIGH} topology.kind=coordinates topology.coordinates={PLACES} topology.los=nlos
interference, exact grid, used -> channel.interference_to_noise_db=3.0 grid.prefix=normal grid.resource_blocks=100 \
    grid.used=[[0,99],[200,299]]
mmse, quantile -> {RAYLEIGH} {MMSE} csi.pilots=2 privacy.csi_error=quantile
ls, tapped line -> {TAPPED} csi.estimation=ls csi.pilot_snr_db=60.0 grid.subcarriers=64
unbounded -> {RAYLEIGH} {MMSE} privacy.csi_error=unbounded
ageing, feedback, phase -> {RAYLEIGH} channel.speed_m_s=3.0 csi.delay_s=0.002 csi.phase_bits=4 csi.gain_bits=5 \
    csi.phase_std_rad=0.2
timing and frequency -> {TAPPED} csi.timing_offset_s=1e-5 csi.frequency_offset_hz=100.0 grid.subcarriers=64
peak, back off -> power.peak_db=3.0 power.strict=true
peak, clip -> {TAPPED} power.peak_db=-20.0 power.peak=clip grid.packing=iq
truncated, participation -> {RAYLEIGH} {TRUNCATED} power.participation=0.7 power.divide_by=expected
truncated over fades -> {RAYLEIGH} {TRUNCATED} power.threshold=0.3 power.average_over=fading power.divide_by=active
from mean powers -> {TAPPED} power.policy=statistical power.objective=least-error grid.subcarriers=64 {MMSE}
pre-scalers, disc -> {PHYSICAL} {RAYLEIGH} topology.kind=disc power.policy=statistical-truncation
correlated, I/Q -> {TAPPED} power.policy=correlated power.common_share=0.8 grid.packing=iq grid.subcarriers=64
full inversion to a coefficient -> power.policy=full-inversion power.coefficient=1.5 power.divide_by=active \
    power.limit=transmit_power
per subcarrier, antennas -> {TAPPED} power.policy=per-subcarrier grid.subcarriers=24 antennas.count=4
per subcarrier, truncated -> {TAPPED} power.policy=per-subcarrier-truncated power.threshold=0.3 grid.subcarriers=64 \
    power.divide_by=active
64 antennas -> {RAYLEIGH} antennas.count=64
antennas, correlated -> {RICIAN} {JAKES}=3.0 csi.delay_s=1e-3 antennas.count=4 antennas.array=circular \
    antennas.correlation=local-scattering
antennas, tdl-d -> channel.fading=tdl-d antennas.count=2 antennas.correlation=exponential grid.subcarriers=64
antennas, sum -> {RAYLEIGH} antennas.count=4 antennas.combining=sum
gain threshold -> selection.kind=threshold selection.min_gain=0.07 grid.downlink=true
nobody above the threshold -> selection.kind=threshold selection.min_gain=0.2 grid.downlink=true
best k -> selection.kind=best-k selection.candidates=50 {MMSE}
proportional fair -> selection.kind=proportional-fair
energy budget -> selection.kind=energy-budget selection.energy_budget=1.2e7
waveform -> {WAVEFORM} {TAPPED} grid.clip_db=4.0 csi.frequency_offset_hz=100.0
# At the edges of what is valid.
one device of one -> run.devices=1 run.selected=1 privacy.delta=0.1
everybody -> run.devices=8 run.selected=8
one entry, iq -> scheme.ratio=1e-9 grid.packing=iq
one subcarrier -> grid.subcarriers=1 {TAPPED} csi.timing_offset_s=1e-6
one subcarrier, waveform -> grid.subcarriers=1 grid.waveform=true
more subcarriers than entries -> grid.subcarriers=3300 {TAPPED} scheme.ratio=0.01
odd entries, iq -> scheme.ratio=0.05003 grid.packing=iq grid.waveform=true grid.subcarriers=64
odd entries, iq, clip -> scheme.ratio=0.05003 grid.packing=iq power.peak_db=-20.0 power.peak=clip
weights by samples -> server.weights=samples task.partition=dirichlet power.policy=cao
no noise -> channel.noise=false {RAYLEIGH} {MMSE} privacy.csi_error=unbounded grid.packing=iq
""".splitlines()
    if line and not line.startswith("#")
)
SILENT = {"truncated-inversion": "active", "cotaf": "selected", "per-subcarrier-truncated": "active"}
"""Policies that keep devices silent, and what they divide by."""


@pytest.fixture(scope="module", autouse=True)
def _data_once() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        load = functools.cache(chosen_task.load_dataset)
        patch.setattr(chosen_task, "load_dataset", lambda name, folders: load(name))
        yield


def radio_settings(*overrides: str) -> Settings:
    """Of small runs; a text may hold several overrides."""
    return small_settings("run.evaluate_every=2", "local.steps=1", FEW, *" ".join(overrides).split())


def recorded(done: Run) -> Trace:
    """What is in the file, without xarray's second for each opening."""
    with h5py.File(done.path) as file:
        return {name: item[...] for name, item in file.items()}


def assert_agree(budget: Budget, trace: Trace) -> None:
    """In beta round for round, in their sums; nothing in the aggregate that is not finite."""
    np.testing.assert_array_equal(budget.alignment_coefficient, trace["alignment_coefficient"])
    assert budget.noise_multiplier_min == trace["noise_multiplier"].min()
    for name in ("resource_elements", "pilot_elements", "downlink_elements"):
        assert getattr(budget, name) == trace[name].sum()
    assert budget.air_time_s == pytest.approx((trace["latency_s"] + trace["downlink_latency_s"]).sum(), rel=1e-12)
    selected, silent = (trace["device_id"] >= 0).sum(), (trace["active"] == 0).sum()
    assert budget.silent_share == silent / max(selected, 1)
    for name in ("aggregation_error", "noise_std", "interference_std", "energy_j", "clipped_share"):
        assert np.isfinite(trace[name]).all(), name
    assert np.isfinite(trace["test_loss"][-1])


# By hand: resource elements and OFDM symbols of a round, of 1,272 entries or as many as the ratio leaves of 25,450.
USE: dict[str, tuple[int, int]] = {
    "nakagami": (1272, 1),
    "tapped line, moving": (636, 27),
    "interference, exact grid, used": (1272, 7),
    "per subcarrier, antennas": (1272, 53),
    "one entry, iq": (1, 1),
    "one subcarrier": (1272, 1272),
    "more subcarriers than entries": (254, 1),
    "odd entries, iq": (637, 10),
}


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_run_is_finite_and_its_budget_agrees(variant: str) -> None:
    settings = radio_settings(VARIANTS[variant])
    done = run(settings)
    trace = recorded(done)
    assert bool(done.parameters.isfinite().all())
    assert_agree(link_budget(settings), trace)
    if variant in USE:
        elements, symbols = USE[variant]
        assert trace["resource_elements"].tolist() == [elements] * 2
        assert trace["ofdm_symbols"].tolist() == [symbols] * 2
        if settings.grid.prefix == "mean":
            np.testing.assert_allclose(trace["latency_s"], symbols * 1e-3 / 14, rtol=1e-12)


@pytest.mark.parametrize("policy", SILENT)
@pytest.mark.parametrize("fading", ["exponential", "tapped-line"])
def test_a_round_in_which_all_are_silent(policy: str, fading: str) -> None:
    silent = f"power.policy={policy} power.threshold=1e12 power.divide_by={SILENT[policy]}"
    settings = radio_settings(silent, f"channel.fading={fading}", "run.rounds=1")
    done = run(settings)
    trace = recorded(done)
    assert_agree(link_budget(settings), trace)
    assert trace["heard"][0] == 0
    assert trace["energy_j"][0] == trace["transmit_energy_j"].sum() == 0
    assert (trace["active"] == 0).all()


@pytest.mark.parametrize("policy", [name for name, entry in POLICIES.items() if entry.coherent])
def test_a_poisson_round_of_nobody_goes_through_every_policy(policy: str) -> None:
    """Round 4 of this seed is empty: 20 devices, each with probability 1/20."""
    empty = "selection.kind=poisson run.devices=20 run.selected=1 run.rounds=5"
    settings = radio_settings(f"power.policy={policy}", empty)
    budget = link_budget(settings)
    assert np.isfinite(budget.alignment_coefficient).all()
    if policy == "pfels":
        trace = recorded(run(settings))
        assert trace["heard"][4] == 0
        assert_agree(budget, trace)


def test_the_trace_opens_in_xarray_with_what_the_radio_adds() -> None:
    settings = radio_settings(
        f"{PHYSICAL} {TAPPED} {WAVEFORM} topology.kind=disc grid.downlink=true csi.estimation=mmse trace.signals=true"
    )
    with run(settings).trace() as opened:
        trace = opened.load()
    of_one = ["pilot_elements", "downlink_elements", "interference_std", "clipped_share", "waveform_clipped_share"]
    per_round = dict.fromkeys(of_one, "1") | {"downlink_latency_s": "s", "papr_db": "dB"}
    per_round |= dict.fromkeys(("downlink_energy_j", "energy_j"), "J")
    for name, units in per_round.items():
        assert trace[name].dims == ("round",), name
        assert trace[name].attrs["units"] == units, name
        assert np.isfinite(trace[name]).all(), name
    assert {trace[name].attrs["units"] for name in ("device_power_limit", "power_limit", "transmit_energy_j")} == {"J"}
    for name, units in (("device_distance_m", "m"), ("device_path_loss_db", "dB")):
        assert trace[name].dims == ("population",)
        assert trace[name].attrs["units"] == units
    # Default heights: the base station 10 m, the devices 1.5 m.
    assert trace["device_distance_m"].min() >= math.hypot(10, 8.5)
    assert trace["device_distance_m"].max() <= math.hypot(250, 8.5)
    response = trace["channel_response"]
    assert response.dims == ("round", "slot", "symbol", "subcarrier", "antenna")
    assert response.shape == (2, 8, 1, 60, 1)
    # A tapped line has power 1: 8 devices x 60 subcarriers at their path gains, within a factor of 2.
    gain = 10 ** (-trace["device_path_loss_db"].values[trace["device_id"].values[0]] / 10)
    power = (np.abs(response.values[0]) ** 2).mean(axis=(1, 2, 3)) / gain
    assert 0.5 < power.mean() < 2
    assert "device_distance_m" not in recorded(run(radio_settings("run.rounds=1")))


def full_power(*overrides: str) -> Settings:
    """One device with 20 dBm and a channel of -100 dB, whose updates all reach their bound."""
    one = "run.devices=1 run.selected=1 privacy.delta=0.1 privacy.epsilon=inf local.clip_norm=1e-3"
    channel = f"{PHYSICAL} channel.fading=fixed channel.mean_gain=1e-5 power.tx_power_dbm=20.0"
    return small_settings(*one.split(), *channel.split(), "power.policy=full-inversion", *overrides)


@pytest.mark.parametrize(
    ("symbols", "overrides"),
    [
        (50, ("scheme.name=wfl-p", "grid.subcarriers=509")),
        (25, ("scheme.name=wfl-p", "grid.subcarriers=509", "grid.packing=iq")),
        (50, ("scheme.name=wfl-p", "grid.subcarriers=1018", "grid.used=[[100, 608]]")),
        (50, ("scheme.name=wfl-p", "grid.subcarriers=509", "grid.spacing_hz=60000.0")),
        (25, ("scheme.ratio=0.5", "grid.subcarriers=509", "power.limit=transmit_power")),
    ],
)
def test_energy_is_power_times_air_time(symbols: int, overrides: tuple[str, ...]) -> None:
    """Full inversion by one device takes all it may: 0.1 W for as long as it sends."""
    settings = full_power(*overrides)
    budget = link_budget(settings)
    symbol_s = 15 / (14 * settings.grid.spacing_hz)
    assert budget.air_time_s == pytest.approx(2 * symbols * symbol_s, rel=1e-12)
    assert budget.energy_j == pytest.approx(0.1 * budget.air_time_s, rel=1e-9)
    assert budget.units == "J"
    if settings.scheme.name == "wfl-p":  # a masked update reaches its bound on average only
        trace = recorded(run(settings))
        assert trace["energy_j"].sum() == pytest.approx(0.1 * budget.air_time_s, rel=1e-5)
        assert trace["device_power_limit"][0] == pytest.approx(0.1 * symbols * symbol_s, rel=1e-12)


def only_pilots(*overrides: str) -> tuple[Settings, Budget]:
    """All 100 devices are listened to, none is chosen."""
    settings = radio_settings("selection.kind=threshold", "selection.min_gain=1e3", "csi.estimation=ls", *overrides)
    return settings, link_budget(settings)


def test_pilots_are_charged_by_hand() -> None:
    """3 pilots on each of 64 subcarriers, at 10 dB over sigma0^2 = 1; two rounds."""
    _, budget = only_pilots(TAPPED, "grid.subcarriers=64", "csi.pilots=3", "csi.pilot_snr_db=10.0")
    assert budget.pilot_elements == 2 * 100 * 3 * 64
    assert budget.resource_elements == budget.pilot_elements + 2 * 1272
    assert budget.energy_j == pytest.approx(budget.pilot_elements * 10.0, rel=1e-12)


def test_a_pilot_is_as_strong_as_the_data_unless_it_is_said() -> None:
    """As much as an element of data: in J, 0.2 W over 60 subcarriers for a symbol of 71.4 us; else P_i/d."""
    settings, budget = only_pilots(PHYSICAL, "power.tx_power_dbm=23.0", "grid.subcarriers=60", RAYLEIGH)
    by_hand = 2 * 100 * 10**-0.7 / 60 * 1e-3 / 14
    assert budget.energy_j == pytest.approx(by_hand, rel=1e-9)
    assert recorded(run(settings))["energy_j"].sum() == pytest.approx(by_hand, rel=1e-9)
    settings, budget = only_pilots(RAYLEIGH)
    limits = recorded(run(settings))["device_power_limit"]
    assert budget.energy_j == pytest.approx(2 * limits.sum() / DIMENSION, rel=1e-9)


def test_a_broadcast_is_charged_by_hand() -> None:
    """40 dB over sigma_0^2 and a gain of 0.02 are SNR 2: log2(3) bits an element, for model, seed, beta, 8 x 7."""
    broadcast = "grid.downlink=true grid.downlink_snr_db=40.0 csi.phase_bits=3 csi.gain_bits=4"
    budget = link_budget(radio_settings(broadcast, "channel.fading=fixed", "run.rounds=1"))
    elements = math.ceil((32 * DIMENSION + 64 + 32 + 8 * 7) / math.log2(3))
    assert budget.downlink_elements == elements
    assert budget.downlink_air_time_s == pytest.approx(math.ceil(elements / 3300) * 1e-3 / 14, rel=1e-12)
    assert budget.air_time_s == pytest.approx(budget.downlink_air_time_s + 1e-3 / 14, rel=1e-12)
    assert budget.downlink_energy_j == pytest.approx(elements * 1e4, rel=1e-12)


def test_a_broadcast_is_for_the_weakest_of_those_who_take_part() -> None:
    trace = recorded(run(radio_settings("grid.downlink=true", RAYLEIGH)))
    weakest = (np.abs(trace["channel_gain"].astype(complex)) ** 2).min(axis=1)
    by_hand = (32 * DIMENSION + 96) / np.log2(1 + 1e5 / 2 * weakest)
    np.testing.assert_allclose(trace["downlink_elements"], by_hand, rtol=1e-5)
    nobody = link_budget(radio_settings("grid.downlink=true", "selection.kind=threshold", "selection.min_gain=0.2"))
    assert (nobody.downlink_elements, nobody.downlink_energy_j, nobody.downlink_air_time_s) == (0, 0.0, 0.0)


@pytest.mark.parametrize(
    ("overrides", "samples", "rate_hz"),
    [
        # 7,635 entries on 1,200 subcarriers: 7 symbols of 2048 + 144 samples, the first with 16 more (TS 38.211).
        (("grid.resource_blocks=100",), 7 * 2192 + 16, 30.72e6),
        # 15 symbols: those of numbers 0, 7 and 14 have the longer prefix.
        (("grid.resource_blocks=44",), 15 * 2192 + 3 * 16, 30.72e6),
        # At 60 kHz the longer prefix comes every 28 symbols; 16 samples at 30.72 MHz are 64 at four times it.
        (("grid.resource_blocks=20", "grid.spacing_hz=60000.0"), 32 * 2192 + 2 * 64, 4 * 30.72e6),
        (("grid.resource_blocks=20", "grid.spacing_hz=60000.0", "grid.prefix=extended"), 32 * 2560, 4 * 30.72e6),
    ],
)
def test_air_time_of_a_numerology_is_exact(overrides: tuple[str, ...], samples: int, rate_hz: float) -> None:
    budget = link_budget(radio_settings("scheme.ratio=0.3", "run.rounds=1", "grid.prefix=normal", *overrides))
    assert budget.air_time_s == pytest.approx(samples / rate_hz, rel=1e-12)


# 60 subcarriers take an FFT of 64: samples of 1/960 kHz, 5 of them in the prefix. 4 taps one sample apart.
SAMPLE_S = 1 / 960e3
UNBOUNDED = "channel.min_gain=1e-12 channel.max_gain=1e6"
LINE = f"{TAPPED} channel.taps=4 channel.delay_spread_s={SAMPLE_S * math.sqrt(15 / 12)!r} {UNBOUNDED}"
LATE = f"csi.timing_offset_s={4 * SAMPLE_S!r}"


@pytest.mark.parametrize(
    ("paths", "packing"),
    [("", "real"), (LINE, "iq"), (LATE, "iq"), (f"{LINE} {LATE}", "real")],
    ids=["flat", "line, iq", "late, iq", "line, late"],
)
def test_the_waveform_is_the_model_per_subcarrier(paths: str, packing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """To 1e-5 of what is received, delays and offsets in whole samples: 3 of the line and 2 late are the prefix."""
    draw = device_uniforms.draw

    def whole(self: Streams, purpose: Purpose, *address: object) -> NDArray[np.float64]:
        uniforms = draw(self, purpose, *address)  # type: ignore[arg-type]
        return np.floor(3 * uniforms) / 4 if purpose is Purpose.TIMING else uniforms

    monkeypatch.setattr(device_uniforms, "draw", whole)
    if TAPPED not in paths:  # over a flat channel only the model draws a place, and only with an offset
        monkeypatch.setattr("airfl.uplinks.analog._placement", lambda context, shape: ResourceMapping(context.frame, 0))
    common = (paths, f"grid.packing={packing}", "grid.subcarriers=60", "trace.signals=true", "scheme.ratio=0.0501")
    model, made = (recorded(run(radio_settings(*common, f"grid.waveform={way}"))) for way in ("false", "true"))
    received = slice(0, 1275 if packing == "real" else 638)
    for first, second in zip(model["rx_symbols"], made["rx_symbols"], strict=True):
        level = np.sqrt(np.mean(np.abs(first[received]) ** 2))
        assert np.abs(first - second)[received].max() < 1e-5 * level
    np.testing.assert_allclose(made["energy_j"], model["energy_j"], rtol=1e-5)
    assert np.isnan(model["papr_db"]).all()
    assert (made["papr_db"] > 3).all()


def test_one_tap_too_late_and_the_waveform_has_interference_of_its_own() -> None:
    """The model draws the interference between symbols as noise: a line of 9 samples in a prefix of 5."""
    spread = f"channel.delay_spread_s={3 * SAMPLE_S * math.sqrt(15 / 12)!r}"
    common = (LINE, spread, "grid.subcarriers=60", "trace.signals=true", "channel.noise=false")
    model, made = (recorded(run(radio_settings(*common, f"grid.waveform={way}"))) for way in ("false", "true"))
    error = np.abs(model["rx_symbols"] - made["rx_symbols"]).max() / np.abs(model["rx_symbols"]).max()
    assert 1e-3 < error < 1


def test_peaks_and_clipping_of_the_waveform_are_reported() -> None:
    plain, clipped = (
        recorded(run(radio_settings(WAVEFORM, more, "run.rounds=1"))) for more in ("", "grid.clip_db=3.0")
    )
    # 60 equal phases would peak 60 times above their mean.
    assert 3 < plain["papr_db"][0] <= 10 * math.log10(60)
    assert plain["papr_db"] == clipped["papr_db"]
    assert plain["waveform_clipped_share"] == 0
    assert 0 < clipped["waveform_clipped_share"][0] < 0.3
    assert 0.5 < clipped["energy_j"][0] / plain["energy_j"][0] < 1
    one = recorded(run(radio_settings("grid.waveform=true", "grid.subcarriers=1", "scheme.ratio=0.001")))
    np.testing.assert_allclose(one["papr_db"], 0, atol=1e-9)


@pytest.mark.full
def test_the_command_line_takes_them_all(tmp_path: Path) -> None:
    gains = 0.02 * np.random.default_rng(0).standard_normal((2, 100, 2, 2)).view(complex)[..., 0]
    with h5py.File(tmp_path / "gains.h5", "w") as file:
        file["measured/gains"] = gains
    savemat(tmp_path / "gains.mat", {"gains": gains})
    replay = ("channel.fading=replay", "antennas.count=2")
    rows = {
        "umi": (PHYSICAL, "topology.kind=disc", "channel.fading=umi", "grid.subcarriers=24"),
        "line": (TAPPED, "power.policy=per-subcarrier"),
        "h5": (*replay, f"channel.replay_file={tmp_path / 'gains.h5'}"),
        "mat": (*replay, f"channel.replay_file={tmp_path / 'gains.mat'}", "channel.replay_variable=gains"),
    }
    done = {name: airfl("budget", DEMO, *SMALL, FEW, *more, "--json") for name, more in rows.items()}
    assert {name: (one.returncode, one.stderr) for name, one in done.items()} == dict.fromkeys(rows, (0, ""))
    figures = {name: json.loads(one.stdout) for name, one in done.items()}
    assert figures["umi"]["units"] == "J"
    assert 0 < figures["umi"]["energy_j"] < 100 * 0.2
    assert figures["line"]["units"] == "normalised"
    assert figures["h5"] == figures["mat"]
    assert figures["mat"]["energy_j"] == pytest.approx(link_budget(small_settings(FEW, *rows["mat"])).energy_j)

    succeeded(airfl("run", DEMO, *SMALL, FEW, *rows["h5"], "--out", tmp_path / "run"))
    with h5py.File(tmp_path / "run" / "trace.h5") as trace:
        ids = trace["device_id"][...]
        np.testing.assert_allclose(trace["channel_gain"][...], np.take_along_axis(gains[..., 0], ids, 1), rtol=1e-6)
        assert trace["resource_elements"][...].sum() == figures["h5"]["resource_elements"]
