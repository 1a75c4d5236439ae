"""Every effect on every link changes the cost of a round or the decoded mean, or is refused or reported in a line."""

import re
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from airfl.config import Settings
from airfl.config.without_effect import without_effect
from airfl.core.building import build_scenario
from airfl.core.round_plan import plan_round
from airfl.errors import UserError
from tests.conformance.channel_cases import messages_of, send
from tests.conftest import ROOT, small_settings

Array = NDArray[np.float64]

ENTRIES, ROUNDS = 600, 3
BASE = (
    "run.devices=12 run.selected=6 grid.subcarriers=24 channel.fading=rayleigh channel.mean_gain=1.0 "
    "channel.min_gain=0.3 channel.max_gain=10 power.max_snr_db=20 local.clip_norm=1.0"
)
OFFSETS = ("timing offset", "carrier offset")
MODELS = ("capacity", "finite-blocklength", "nr")
DIGITAL, IDEAL = "scheme.name=fedavg scheme.link=digital", "scheme.name=fedavg scheme.link=ideal"
NONCOHERENT = "scheme.name=fsk-mv"
AVERAGED = f"{NONCOHERENT} antennas.count=64"  # energies of one antenna vary as much as they are large
WAVEFORM, DOWNLINK = "grid.waveform=true", "grid.downlink=true"
LINKS = {
    "analog": "scheme.name=wfl-p",
    "analog iq": "scheme.name=wfl-p grid.packing=iq",
    "analog waveform": f"scheme.name=wfl-p {WAVEFORM}",
    **{f"digital {model}": f"{DIGITAL} digital.error_model={model}" for model in MODELS},
    "ideal": IDEAL,
    "noncoherent": AVERAGED,
    "downlink": f"{IDEAL} {DOWNLINK}",
}
# Said in one line: nothing on these links is made in time, where a waveform has its offsets.
REFUSED = {
    "digital": f"{DIGITAL} {WAVEFORM}",
    "ideal": f"{IDEAL} {WAVEFORM}",
    "noncoherent": f"{NONCOHERENT} {WAVEFORM}",
    "downlink": f"scheme.name=wfl-p {WAVEFORM} {DOWNLINK}",
}


def small(*overrides: str) -> Settings:
    """Settings of this module; a text may hold several overrides."""
    return small_settings(f"run.rounds={ROUNDS}", *" ".join((BASE, *overrides)).split())


@cache
def figures(*overrides: str) -> Array:
    """Of some rounds each, what the link uses (elements first), energy, error and protection; with a downlink its bits,
    elements, ... alone. The error is what is decoded wrongly over the power of the mean, a lost message included."""
    settings = small(*overrides)
    scenario = build_scenario(settings, ENTRIES, np.ones(settings.run.devices))
    found = []
    for t in range(ROUNDS):
        plan = plan_round(scenario, t, scenario.memory)
        if plan.broadcast is not None:
            found.append(list(vars(plan.broadcast).values()))
            continue
        messages = messages_of(plan, scenario)
        reception = send(plan.link, messages)
        report, mean = reception.report, messages.mean(dim=0)
        energy = float(report.devices.energy.sum()) + report.energy_of_others
        error = float(((reception.mean - mean) ** 2).sum() / (mean**2).sum())
        found.append([*list(vars(report.use).values()), energy, error, report.protection])
    return np.array(found, dtype=np.float64)


def price(link: str, effect: str) -> tuple[float, float]:
    """Of all rounds: elements, and the error, of which a broadcast has none."""
    rounds = figures(LINKS[link], effect).sum(axis=0)
    return (rounds[1], 0.0) if link == "downlink" else (rounds[0], rounds[-2])


@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize("effect", ["interference", *OFFSETS])
def test_an_effect_costs_something_on_every_link(effect: str, link: str) -> None:
    plain, disturbed = price(link, ""), price(link, ALL_EFFECTS[effect][0])
    assert disturbed[0] >= plain[0]  # of offsets that are known no retransmission is saved
    assert disturbed[0] > 1.01 * plain[0] or disturbed[1] > 1.01 * plain[1]


@pytest.mark.parametrize("link", LINKS)
def test_paths_beyond_the_prefix_cost_something_on_every_link(link: str) -> None:
    """Against the same paths within a prefix that is longer than they are late."""
    delays = "channel.fading=tapped-line channel.delay_spread_s=5e-6"
    within, late = price(link, f"{delays} grid.symbol_duration_s=1.3e-4"), price(link, delays)
    assert late[0] > 1.01 * within[0] or late[1] > 1.01 * within[1]


@pytest.mark.parametrize("effect", OFFSETS)
@pytest.mark.parametrize("link", REFUSED)
def test_offsets_that_a_waveform_would_keep_from_a_link_are_refused(link: str, effect: str) -> None:
    settings = small(REFUSED[link], ALL_EFFECTS[effect][0])
    with pytest.raises(UserError, match=f"^grid.waveform: .*{link}.*; ") as refused:
        build_scenario(settings, ENTRIES, np.ones(settings.run.devices))
    assert "\n" not in str(refused.value)


# --- every effect of docs/channels on every link ---------------------------------------------------------------------


PHYSICAL = "channel.units=physical channel.mean_gain=1e-6"
MOVING = "channel.speed_m_s=30 channel.variation=jakes channel.round_s=0.01"
TAPPED = "channel.fading=tapped-line"
KNOWN_BADLY = "csi.estimation=ls csi.pilot_snr_db=0 digital.transmissions=1"
TRUNCATED = "power.policy=truncated-inversion power.threshold=0.3"
# What makes an effect, as a user gives it, and what it takes to be there at all, with and without it. Of Sionna's
# channels only what the tapped line has as well reaches a link; they take seconds each.
ALL_EFFECTS = {
    "noise level": ("channel.noise_std=3", ""),
    "receiver noise left out": ("channel.noise=false", ""),
    "noise figure": ("channel.noise_figure_db=12", PHYSICAL),
    "fading law": ("channel.fading=exponential", ""),
    "gain bounds": ("channel.bounds=redraw", ""),
    "replayed gains": ("channel.fading=replay channel.replay_file={gains}", ""),
    "variation over rounds": ("channel.variation=constant", ""),
    "variation within a round": ("channel.coherence=symbol", MOVING),
    "frequency-selective fading": (TAPPED, ""),
    "delay spread": ("channel.delay_spread_s=1e-6", TAPPED),
    "topology": ("topology.kind=disc", PHYSICAL),
    "motion": ("topology.motion=straight", f"{PHYSICAL} topology.kind=disc channel.speed_m_s=30 channel.round_s=10"),
    "motion under selective fading": (
        "topology.motion=straight",
        f"{PHYSICAL} {TAPPED} topology.kind=disc channel.speed_m_s=30 channel.round_s=10",
    ),
    "motion from a file": (
        "topology.motion_start_s=5",
        f"{PHYSICAL} topology.kind=coordinates topology.motion=file topology.motion_file={{places}} "
        "channel.speed_m_s=30",
    ),
    "blockage": (
        "blockage.model=model-b blockage.count=2000",
        f"{PHYSICAL} channel.carrier_hz=28e9 topology.kind=disc topology.radius_m=40 topology.los=los "
        "channel.fading=rician power.tx_power_dbm=-10",
    ),
    "access points": (
        "topology.access_points=[[-100,0],[100,0]]",
        f"{PHYSICAL} topology.kind=disc antennas.count=4 power.tx_power_dbm=-10",
    ),
    "subcarriers": ("grid.subcarriers=12", ""),
    "subcarrier spacing": ("grid.spacing_hz=30000", ""),
    "used subcarriers": ("grid.used=[[3,9]]", ""),
    "prefix": ("grid.prefix=extended", "grid.spacing_hz=60000"),
    "packing": ("grid.packing=iq", ""),
    "downlink level": ("grid.downlink_snr_db=30", ""),
    "channel estimation": ("csi.estimation=ls", ""),
    "ageing": ("csi.delay_s=1e-3", "channel.speed_m_s=30"),
    "phase feedback": ("csi.phase_bits=2", ""),
    "gain feedback": ("csi.gain_bits=3", ""),
    "residual phase": ("csi.phase_std_rad=0.5", ""),
    "timing offset": ("csi.timing_offset_s=2e-5", ""),
    "carrier offset": ("csi.frequency_offset_hz=4000", ""),
    "phase noise": ("csi.linewidth_hz=500", ""),
    "phase noise of a loop": ("csi.oscillator=tr38803-30ghz", "channel.carrier_hz=3e11"),
    "amplitude error": ("csi.amplitude_std_db=3", ""),
    "missed trigger": ("csi.missed_probability=0.5", ""),
    "measured synchronisation": ("csi.residual_file={gains}", ""),
    "measured rounds": ("csi.residual_rounds=draw", "csi.residual_file={gains}"),
    "measured devices": ("csi.residual_devices=draw", "csi.residual_file={gains}"),
    "measured target": ("csi.residual_target=2", "csi.residual_file={gains}"),
    "weak measured gains": ("csi.residual_missed_below=0.9", "csi.residual_file={gains}"),
    "power policy": ("power.policy=cao", ""),
    "truncation": (TRUNCATED, ""),
    "divisor": ("power.divide_by=active", f"power.policy=truncated-inversion power.threshold=1 {KNOWN_BADLY}"),
    "expected senders": ("power.divide_by=expected", TRUNCATED),
    "limit of power or energy": ("power.limit=transmit_power", ""),
    "power within a symbol": ("power.spread=message", f"{PHYSICAL} grid.subcarriers=1000"),
    "peak limit": ("power.peak_db=0 power.peak=clip", ""),
    "receive antennas": ("antennas.count=3", ""),
    "combining": ("antennas.combining=sum", "antennas.count=3"),
    "robust combining": ("antennas.combining=median", "antennas.count=3"),
    "median clipping": ("antennas.median_clip=2", ""),
    "device selection": ("selection.kind=best-k", ""),
    "interference": ("channel.interference_to_noise_db=10", ""),
    "heavy tails": ("channel.interference=alpha-stable", "channel.interference_to_noise_db=10"),
    "tail index": (
        "channel.interference_tail_index=1.2",
        "channel.interference_to_noise_db=10 channel.interference=alpha-stable",
    ),
    "bursts": ("channel.interference=bernoulli-gaussian", "channel.interference_to_noise_db=10"),
    "burst probability": (
        "channel.interference_burst_probability=0.02",
        "channel.interference_to_noise_db=10 channel.interference=bernoulli-gaussian",
    ),
    "neighbouring cells": (
        "topology.neighbours=[[550,0]]",
        f"{PHYSICAL} topology.kind=disc topology.radius_m=250 power.tx_power_dbm=10",
    ),
    "power across cells": (
        "power.across_cells=sum",
        f"{PHYSICAL} topology.kind=disc topology.radius_m=250 topology.neighbours=[[550,0]] power.tx_power_dbm=10",
    ),
    "impulses of each antenna": (
        "channel.interference_across_antennas=independent",
        "channel.interference_to_noise_db=10 channel.interference=alpha-stable antennas.count=3",
    ),
    "surface at random": ("surface.elements=8 surface.configuration=random surface.element_gain_db=0", ""),
    "surface": ("surface.configuration=max-min surface.elements=8 surface.element_gain_db=0", ""),
    "waveform": ("grid.waveform=true grid.clip_db=0", ""),
    "power amplifier": ("hardware.amplifier=rapp", ""),
    "converter": ("hardware.adc_bits=4", ""),
    "fronthaul": ("hardware.fronthaul_bits=2", "antennas.count=3"),
    "gain of the amplifier": ("hardware.calibrated=false", "hardware.amplifier=rapp hardware.back_off_db=3"),
    "privacy under channel error": ("privacy.csi_error=unbounded", "csi.estimation=mmse"),
}
RAND_K = "scheme.name=fedavg-randk scheme.ratio=0.5"
WEAK = "scheme.link=digital power.max_snr_db=5 digital.block_elements=20"  # below the highest of NR's rates
ALL_LINKS = {
    "analog": f"{RAND_K} scheme.link=analog",
    **{f"digital {model}": f"{RAND_K} {WEAK} digital.error_model={model}" for model in MODELS},
    "ideal": f"{RAND_K} scheme.link=ideal",
    "noncoherent": NONCOHERENT,
    "downlink": f"{RAND_K} scheme.link=ideal {DOWNLINK}",
}
SAME = 1e-6
"""Of figures that differ by rounding alone, single precision included."""


@pytest.fixture(scope="module")
def gains(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("gains") / "gains.npy"
    np.save(file, np.random.default_rng(1).uniform(0.5, 2.0, (ROUNDS, 12)))
    start = np.random.default_rng(2).uniform(50, 100, (12, 2))
    np.savez(file.with_name("places.npz"), time_s=[0.0, 60.0], positions_m=[start, start + 1000])
    return file


def outcome(name: str, link: str, gains: Path) -> str:
    """ "yes", "no effect" where it is reported, "refused", or "silence"."""
    names = {"{gains}": str(gains), "{places}": str(gains.with_name("places.npz"))}
    made, given = ALL_EFFECTS[name]
    for which, file in names.items():
        made, given = made.replace(which, file), given.replace(which, file)
    keys = made.split()
    settings = small(ALL_LINKS[link], given, *keys)
    named = {text.partition("=")[0] for text in keys}
    told = []
    for overrides in (keys, ()):  # on the command line, and in a configuration file
        sentences = list(without_effect(overrides, [settings]))
        assert not any("\n" in sentence for sentence in sentences)
        silent = {key for key in named for one in sentences if re.search(rf"{key}\b[^:]*(no effect|not affect)", one)}
        told.append(silent == named)
    assert told[0] == told[1]
    prepared = {text.partition("=")[0] for text in given.split()}
    try:
        plain = figures(ALL_LINKS[link], given)
        changed = figures(ALL_LINKS[link], given, *keys)
    except UserError as error:
        refusal = str(error)
        assert "\n" not in refusal
        assert any(key in refusal for key in named | prepared)
        return "refused"
    if plain.shape == changed.shape and np.allclose(plain, changed, rtol=SAME, atol=0.0):
        return "no effect" if told[0] else "silence"
    assert not told[0], "said to change nothing"
    return "yes"


def table() -> dict[str, dict[str, str]]:
    """Which links an effect reaches, as docs/channels/index.md has it."""
    text = (ROOT / "docs" / "channels" / "index.md").read_text()
    lines = [line for line in text.partition("\n## Links\n")[2].partition("\n## ")[0].splitlines() if line[:1] == "|"]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return {row[0]: dict(zip(rows[0][1:], row[1:], strict=True)) for row in rows[2:]}


def test_the_table_has_every_effect() -> None:
    assert list(table()) == list(ALL_EFFECTS)


@pytest.mark.parametrize("link", ALL_LINKS)
@pytest.mark.parametrize("name", ALL_EFFECTS)
def test_no_effect_is_ignored_in_silence(name: str, link: str, gains: Path) -> None:
    """It changes a cost or the error, or is refused, or reported in one line; which of them, the table says."""
    assert outcome(name, link, gains) == table()[name][link.partition(" ")[0]]
