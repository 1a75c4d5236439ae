"""Invalid radio settings are refused in one line with their key, before training and before torch is imported."""

import re
import subprocess
import sys
from pathlib import Path

import h5py
import numpy as np
import pytest

from airfl.analysis.budget import link_budget
from airfl.core.preflight import check_recipe
from airfl.errors import UserError
from tests.conftest import DEMO, ROOT, SMALL, small_settings
from tests.processes import airfl, refused

PHYSICAL, DISC = "channel.units=physical", "channel.units=physical topology.kind=disc"
RAYLEIGH, RICIAN = "channel.fading=rayleigh", "channel.fading=rician"
TAPPED, TDL = "channel.fading=tapped-line", "channel.fading=tdl-a"
WAVEFORM, TRUNCATED = "grid.waveform=true", "power.policy=truncated-inversion"
OVER_FADES, TWO = "power.average_over=fading", "antennas.count=2"
LARGE = "task.model=resnet18 run.devices=1000 run.selected=1000"


def rows(table: str) -> list[list[str]]:
    """Overrides -> the line without its less important parts: what is named, what was given, what is allowed."""
    return [re.split(" +-> ", line) for line in table.splitlines() if line and not line.startswith("#")]


BAD = rows(f"""
{TRUNCATED} power.threshold=0.1 power.divide_by=active selection.kind=poisson \
    -> power.divide_by: ... active ... Poisson ... selected
# Channel
channel.min_gain=0.2 -> channel.min_gain ... channel.max_gain = 0.1, got 0.2
channel.bounds=redraw channel.mean_gain=1e-4 channel.min_gain=0.09 \
    -> channel.bounds: ... 0.09 to 0.1 ... 0.0001 ... widen the limits
channel.bounds=redraw {TAPPED} -> channel.bounds: ... redraw ... rayleigh ... "clip"
channel.variation=jakes -> channel.speed_m_s ... positive ... jakes
{TDL} channel.variation=jakes channel.speed_m_s=3.0 \
    -> channel: ... 'jakes' ... 'independent' or 'constant' ... tapped line
{TDL} channel.delay_spread_s=1e-4 -> channel.delay_spread_s: ... 0.0001 s ... 6.66667e-05 s
{TAPPED} channel.taps=5000 -> channel.taps: ... 4,096 ... 5,000
channel.rician_k=strong -> channel.rician_k ... tr38901 ... strong
{RICIAN} channel.rician_k=tr38901 -> channel.rician_k: ... umi, uma, rma ... topology.kind = 'none' ... to a number
{DISC} {RICIAN} channel.rician_k=tr38901 topology.path_loss=log-distance \
    -> channel.rician_k: ... umi, uma, rma ... 'log-distance'
{DISC} channel.fading=uma topology.path_loss=umi -> topology.path_loss: ... 'uma' ... 'umi' ... omit it
{DISC} channel.fading=rma topology.path_loss=log-distance -> topology.path_loss: ... 'rma' ... 'log-distance'
{DISC} channel.fading=uma topology.base_height_m=24.0 -> topology.base_height_m: ... 25 m ... 24
{DISC} channel.fading=rma topology.base_height_m=9.0 -> topology.base_height_m: ... 10 to 150 m ... 9
{DISC} {RICIAN} {TRUNCATED} power.participation=0.8 \
    -> power.participation: ... Rician ... topology.los ... set power.threshold
{DISC} {RICIAN} {TRUNCATED} {OVER_FADES} -> power.average_over: ... Rician ... use "round"
{DISC} {RICIAN} {TRUNCATED} power.threshold=0.1 power.divide_by=expected -> power.divide_by: ... Rician ... "active"
{PHYSICAL} channel.fading=umi -> topology.kind: ... umi ... 'none' ... disc
# Replay
channel.fading=replay -> channel.replay_file ... replay
channel.replay_file=x.h5 -> channel.replay_file ... x.h5 ... exponential
# Topology
topology.kind=disc -> topology.kind: ... physical ... normalised
{DISC} topology.min_distance_m=300.0 -> topology: ... 300 m ... 250 m
{PHYSICAL} topology.kind=annulus topology.min_distance_m=0.0 -> topology: ... 0 m ... positive
{PHYSICAL} topology.kind=coordinates topology.coordinates=[[20.0,20.0]] -> topology: ... 1 coordinates ... 100 devices
topology.coordinates=[[20.0,20.0,1.0]] -> topology.coordinates: ... at most 2 entries ... [20.0, 20.0, 1.0]
{DISC} topology.path_loss=uma channel.carrier_hz=1e8 -> topology: ... 0.1 GHz ... 0.5 to 100 GHz
{DISC} topology.radius_m=6000.0 -> topology: ... 6000 m ... 10 to 5000 m
# Channel knowledge
csi.timing_offset_s=1e-4 -> csi.timing_offset_s must be below the useful symbol, 6.66667e-05 s, got 0.0001
csi.frequency_offset_hz=7500.0 -> csi.frequency_offset_hz must be below half the spacing, 7500 Hz, got 7500.0
privacy.csi_error=quantile csi.estimation=mmse -> privacy.csi_error: ... rayleigh ... exponential
# Antennas
antennas.count=4 antennas.array=rectangular antennas.rows=3 \
    -> antennas.rows: ... must divide the number of antennas, 4, got 3
channel.fading=cdl-a {TWO} antennas.correlation=exponential \
    -> antennas.correlation: ... 'cdl-a' ... 'exponential' ... omit it ... tapped-line
channel.fading=cdl-d {TWO} antennas.array=circular \
    -> antennas.array: ... 'cdl-d' ... "linear" or "rectangular" ... 'circular'
{DISC} channel.fading=umi {TWO} antennas.angle=broadside -> antennas.angle: ... 'umi' ... 'broadside' ... "device"
{RAYLEIGH} privacy.csi_error=quantile csi.estimation=mmse {TWO} antennas.correlation=exponential \
    -> privacy.csi_error: ... exponential ... "realised" ... "first"
# Power
power.threshold=0.1 -> power: ... 'pfels' ... threshold ... truncated-inversion
power.participation=0.5 -> power.participation: ... 'pfels' ... 0.5 ... truncated-inversion
power.policy=cao power.coefficient=1.0 -> power: ... 'cao' ... coefficient ... full-inversion
{TRUNCATED} power.threshold=0.1 power.participation=0.5 -> power.participation ... 0.5 ... 0.1
{TRUNCATED} power.participation=0.5 {TDL} -> power.participation: ... tdl-a ... power.threshold
{TRUNCATED} power.participation=0.5 {TWO} -> power.participation: ... antennas.count = 2 ... power.threshold
{TRUNCATED} {OVER_FADES} power.threshold=0.1 {TWO} -> power.average_over: ... antennas.count = 2 ... "round"
{TRUNCATED} power.divide_by=expected {TWO} -> power.divide_by: ... antennas.count = 2 ... "active"
{PHYSICAL} {TRUNCATED} {OVER_FADES} -> power: ... threshold 0 ... infinite ... above 0
{TRUNCATED} {OVER_FADES} power.threshold=0.1 {TDL} -> power.average_over: ... tdl-a ... "round"
power.divide_by=expected -> power.divide_by: ... 'pfels' ... "selected"
power.tx_power_dbm=[23.0,10.0] -> power.tx_power_dbm ... low <= high ... [23.0, 10.0]
power.spread=message -> power.spread: ... 'normalised' ... "band"
# Grid
grid.resource_blocks=10 grid.subcarriers=100 -> grid.resource_blocks: ... 120 ... grid.subcarriers = 100
grid.used=[[0,3300]] -> grid: ... 0 to 3299 ... 0 to 3300
grid.used=[[0,10],[5,20]] -> grid: ... subcarrier 5 ... once
grid.used=[[10,5]] -> grid: ... ascending ... 10 to 5
grid.used=[] -> grid: ... no subcarrier ... at least one
grid.used=[[5]] -> grid.used: ... at least 2 entries ... [5]
grid.prefix=extended -> grid: ... extended ... 60 kHz ... 15 kHz
grid.prefix=normal grid.spacing_hz=17000.0 -> grid: ... 15, 30, 60, 120 kHz ... 17 kHz
grid.prefix=normal grid.resource_blocks=276 -> grid: ... 275 ... 3312
grid.prefix=normal grid.symbol_duration_s=7e-5 -> grid.symbol_duration_s: ... normal ... one of the two
grid.clip_db=3.0 -> grid.clip_db ... grid.waveform = true
{WAVEFORM} {TDL} -> grid.waveform: ... tapped-line ... tdl-a
{WAVEFORM} {TWO} -> grid.waveform: ... one ... antennas.count = 2
{WAVEFORM} channel.coherence=slot -> grid.waveform: ... "round" ... 'slot'
{WAVEFORM} grid.used=[[0,9]] -> grid.waveform: ... grid.used
{WAVEFORM} power.peak_db=3.0 power.peak=clip -> grid.waveform: ... power.peak ... grid.clip_db
{WAVEFORM} csi.phase_std_rad=0.1 -> grid.waveform: ... csi.phase_std_rad ... 0.1
{WAVEFORM} csi.delay_s=0.01 channel.speed_m_s=3.0 -> grid.waveform: ... csi.delay_s ... 0.01
{WAVEFORM} grid.symbol_duration_s=1e-3 -> grid.waveform: ... 4096 ... 57344
{WAVEFORM} {TAPPED} channel.delay_spread_s=3e-5 -> channel.delay_spread_s: ... 3e-05 s ... 6.66667e-05 s
{WAVEFORM} csi.linewidth_hz=5.0 -> grid.waveform: ... csi.linewidth_hz ... 5
{WAVEFORM} csi.oscillator=r1-163984-a -> grid.waveform: ... csi.oscillator ... 'r1-163984-a'
csi.oscillator=r1-163984-a csi.linewidth_hz=5.0 -> csi.linewidth_hz ... free-running ... 5 ... set one of the two
csi.oscillator=pll -> csi.oscillator ... 'pole-zero' ... 'pll'
csi.oscillator=pole-zero -> csi.oscillator ... needs oscillator_psd_dbc_hz
csi.oscillator=pole-zero csi.oscillator_psd_dbc_hz=500 -> csi.oscillator_psd_dbc_hz ... 400 dBc/Hz ... 500
csi.oscillator=pole-zero csi.oscillator_psd_dbc_hz=-60 csi.oscillator_poles_hz=[9.0] -> csi.oscillator_pole_orders ... 0
csi.oscillator=pole-zero csi.oscillator_psd_dbc_hz=-20 -> csi.oscillator ... 1 rad ... wider spacing
csi.oscillator_zeros_hz=[10.0] -> csi.oscillator_zeros_hz ... 'pole-zero' ... 'free-running'
csi.oscillator_bandwidth_hz=1e6 -> csi.oscillator_bandwidth_hz ... locked ... 'free-running'
csi.linewidth_hz=3000.0 -> csi.linewidth_hz ... spacing over 2 pi ... 3000
# Hardware
{WAVEFORM} hardware.adc_bits=4 -> hardware.adc_bits: ... grid.waveform = false ... 4 bits
{TWO} hardware.adc_bits=4 -> hardware.adc_bits: ... one receive antenna ... antennas.count = 2
hardware.amplifier=rapp power.peak_db=3.0 power.peak=clip -> hardware.amplifier: ... power.peak ... "back-off"
hardware.amplifier=rapp digital.power=per-element -> hardware.amplifier: ... digital.power = "total" ... "per-element"
hardware.amplifier=polynomial hardware.coefficients=[] -> hardware.coefficients ... 1 to 6 ... 0
hardware.amplifier=polynomial hardware.coefficients_imag=[0.1,0.2] -> hardware.coefficients_imag ... 1 ... 2
hardware.amplifier=valve -> hardware.amplifier ... 'rapp' ... 'valve'
# Selection
selection.kind=best-k selection.candidates=101 -> selection.candidates ... run.devices = 100 ... 101
selection.kind=best-k selection.candidates=7 -> selection.candidates ... run.selected = 8 ... 7
selection.kind=threshold -> selection.min_gain: ... above 0 ... threshold
selection.kind=energy-budget -> selection.energy_budget: ... energy-budget
""")

# What is known once limits and dimension are: refused by the budget, and by a run before its first round.
LATER = rows(f"""
selection.kind=energy-budget selection.energy_budget=1.0 \
    -> selection.energy_budget: ... 1 ... may take from ... raise it
{LARGE} {TAPPED} channel.speed_m_s=3.0 channel.coherence=symbol antennas.count=64 \
    -> channel.coherence: ... 1,000 devices ... 64 antennas ... 3,300 subcarriers ... fewer antennas
{LARGE} csi.frequency_offset_hz=1.0 grid.subcarriers=1 \
    -> channel.coherence: ... 1,000 devices ... blocks ... fewer devices
grid.downlink=true grid.downlink_snr_db=-200.0 -> grid.downlink_snr_db: ... cannot receive ... raise it
""")

GAINS = np.full((2, 100), 0.02 + 0.01j)


def with_one(value: complex) -> np.ndarray:
    gains = GAINS.copy()
    gains[1, 3] = value
    return gains


# The arrays in the file, other overrides, the line after the file's name.
NOT_GAINS = "[rounds, devices] ... has g"
FILES: tuple[tuple[dict[str, np.ndarray], str, str], ...] = (
    ({"g": np.ones((2, 100, 1, 1, 1, 1))}, "", NOT_GAINS),
    ({"g": np.ones(200)}, "", NOT_GAINS),
    ({"g": np.array([[b"a"]])}, "", NOT_GAINS),
    ({"g": with_one(np.nan)}, "", "round 1, device 3 ... NaN"),
    ({"g": with_one(np.inf)}, "", "round 1, device 3 ... infinite"),
    ({"g": GAINS[:1]}, "", "holds 1 of the 2 rounds ... (1, 100)"),
    ({"g": GAINS[:, :50]}, "", "holds 50 of the 100 devices ... (2, 50)"),
    ({"g": GAINS}, TWO, "holds 1 of the 2 antennas ... (2, 100)"),
    ({"g": GAINS, "h": GAINS}, "", "2 arrays ... g, h ... name one"),
    ({"g": GAINS}, "channel.replay_variable=h", "'h' ... has g"),
)


def abridged(said: str) -> str:
    """For `match`: one line that reads so, with anything where " ... " stands, and before it the file of settings."""
    return rf"\A(airfl: )?({re.escape(str(DEMO))}: )?" + ".*".join(map(re.escape, said.split(" ... "))) + r".*\Z"


def refuse(overrides: str, said: str) -> None:
    """So `airfl run` does before anything else, and so do `airfl budget`, and `run` from Python."""
    for answer in (check_recipe, link_budget):
        with pytest.raises(UserError, match=abridged(said)):
            answer(small_settings(*overrides.split()))


def replay(tmp_path: Path, arrays: dict[str, np.ndarray]) -> str:
    path = tmp_path / "gains.h5"
    with h5py.File(path, "w") as file:
        for name, values in arrays.items():
            file[name] = values
    return f"channel.fading=replay channel.replay_file={path}"


@pytest.mark.parametrize(("overrides", "said"), BAD)
def test_one_line_names_key_fault_and_remedy(overrides: str, said: str) -> None:
    refuse(overrides, said)


@pytest.mark.parametrize(("overrides", "said"), LATER)
def test_what_limits_and_dimension_do_not_allow(overrides: str, said: str) -> None:
    if "downlink" not in overrides:  # which takes a round
        refuse(f"privacy.delta=1e-5 {overrides}", said)
    with pytest.raises(UserError, match=abridged(said)):
        link_budget(small_settings("privacy.delta=1e-5", *overrides.split()))


@pytest.mark.parametrize(("arrays", "overrides", "said"), FILES, ids=[said for _, _, said in FILES])
def test_what_cannot_be_replayed(arrays: dict[str, np.ndarray], overrides: str, said: str, tmp_path: Path) -> None:
    """Which array is meant is another key's to say."""
    key = "variable" if said.endswith(("name one", "'h' ... has g")) else "file"
    refuse(f"{replay(tmp_path, arrays)} {overrides}", f"channel.replay_{key}: ... {tmp_path / 'gains.h5'} ... {said}")


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("none.h5", "no such file"),
        (".", "is a folder, not a file"),
        ("text.h5", "not a readable ... HDF5 ... export it again"),
    ],
)
def test_a_path_that_is_no_file_of_gains(path: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "text.h5").write_text("gains: 0.02, 0.03")
    given = f"channel.fading=replay channel.replay_file={tmp_path / path}"
    refuse(given, f"channel.replay_file: ... {tmp_path} ... {said}")


def test_a_cell_has_no_replayed_path_loss(tmp_path: Path) -> None:
    refuse(f"{replay(tmp_path, {'g': GAINS})} {DISC}", 'topology.kind: ... replayed ... "none"')


def test_nothing_of_it_takes_torch() -> None:
    """All refusals in one process, which also says that the parts of the radio load without it."""
    code = (
        "import sys\n"
        "from tests.end_to_end.test_radio_bad_input import BAD, UserError, check_recipe, small_settings\n"
        "for overrides, _ in BAD:\n"
        "    try:\n"
        "        check_recipe(small_settings(*overrides.split()))\n"
        "    except UserError:\n"
        "        continue\n"
        "    sys.exit(4)\n"
        "sys.exit(3 if {'torch', 'sionna', 'dp_accounting', 'matplotlib'} & set(sys.modules) else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=ROOT)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("command", ["run", "budget"])
@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        ("channel.speed_m_s=-1.0", "channel.speed_m_s ... at least 0 ... -1.0"),
        next(case for case in BAD if "csi.timing_offset_s" in case[0]),
        next(case for case in BAD if case[0].endswith("channel.fading=umi")),
    ],
)
def test_the_command_line_answers_so(command: str, overrides: str, said: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    given = (*SMALL, *overrides.split(), *(("--out", out) if command == "run" else ("--json",)))
    assert re.match(abridged(said), refused(airfl(command, DEMO, *given)).rstrip())
    assert not out.exists()


def test_a_comparison_is_refused_before_its_first_row_runs(tmp_path: Path) -> None:
    file = replay(tmp_path, {"g": GAINS[:1]}).rpartition("=")[2]
    rows = tmp_path / "rows.toml"
    rows.write_text(
        DEMO.read_text().split("[[compare]]")[0]
        + '[[compare]]\nlabel = "a"\n[[compare]]\nlabel = "b"\n'
        + f'channel.fading = "replay"\nchannel.replay_file = "{file}"\n'
    )
    line = refused(airfl("compare", rows, *SMALL, "--out", tmp_path / "out"))
    assert "holds 1 of the 2 rounds" in line
    assert not (tmp_path / "out").exists()
