"""What the radio cannot be is said in one line, with its key, before anything is trained and before torch is loaded."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import h5py
import numpy as np
import pytest

from airfl.budget import link_budget
from airfl.errors import UserError
from airfl.schemes import check_recipe
from tests.conftest import DEMO, ROOT, SMALL, small_settings
from tests.processes import airfl, refused

PHYSICAL, DISC = "channel.units=physical", ("channel.units=physical", "topology.kind=disc")
RAYLEIGH, TAPPED, TDL = "channel.fading=rayleigh", "channel.fading=tapped-line", "channel.fading=tdl-a"
WAVEFORM, TRUNCATED = "grid.waveform=true", "power.policy=truncated-inversion"
LARGE = ("task.model=resnet18", "run.devices=1000", "run.selected=1000")

# Overrides, the section or key that is named, and words of what was given and what is allowed.
BAD: dict[str, tuple[tuple[str, ...], str, tuple[str, ...]]] = {
    "active devices of a Poisson sample": (
        (TRUNCATED, "power.threshold=0.1", "power.divide_by=active", "selection.kind=poisson"),
        "power.divide_by",
        ("active", "Poisson", "selected"),
    ),
    # Channel
    "negative speed": (("channel.speed_m_s=-1.0",), "channel.speed_m_s", ("-1.0", "greater than or equal to 0")),
    "speed nan": (("channel.speed_m_s=nan",), "channel.speed_m_s", ("nan", "finite")),
    "carrier 0": (("channel.carrier_hz=0.0",), "channel.carrier_hz", ("0.0", "greater than 0")),
    "K = inf": (("channel.rician_k=inf",), "channel.rician_k", ("inf", "finite")),
    "K = nan": (("channel.rician_k=nan",), "channel.rician_k", ("nan", "finite")),
    "K below 0": (("channel.rician_k=-1.0",), "channel.rician_k", ("-1.0", "greater than or equal to 0")),
    "m below a half": (("channel.nakagami_m=0.4",), "channel.nakagami_m", ("0.4", "0.5")),
    "min_gain above max_gain": (("channel.min_gain=0.2",), "channel.min_gain", ("0.2", "channel.max_gain (0.1)")),
    "nothing to redraw": (
        ("channel.bounds=redraw", "channel.mean_gain=1e-4", "channel.min_gain=0.09"),
        "channel.bounds",
        ("0.09 to 0.1", "0.0001", "widen the limits"),
    ),
    "redraw, selective": (("channel.bounds=redraw", TAPPED), "channel.bounds", ("redraw", "rayleigh", '"clip"')),
    "jakes without speed": (("channel.variation=jakes",), "channel.speed_m_s", ("jakes", "above 0")),
    "jakes of Sionna": (
        (TDL, "channel.variation=jakes", "channel.speed_m_s=3.0"),
        "channel",
        ("'jakes'", "'independent' or 'constant'", "tapped line"),
    ),
    "delay spread below 0": (("channel.delay_spread_s=-1.0",), "channel.delay_spread_s", ("-1.0", "or equal to 0")),
    "delay spread beyond the symbol": (
        (TDL, "channel.delay_spread_s=1e-4"),
        "channel.delay_spread_s",
        ("0.0001 s", "6.66667e-05 s"),
    ),
    "too many taps": ((TAPPED, "channel.taps=5000"), "channel.taps", ("5,000", "4,096")),
    "interference inf": (
        ("channel.interference_to_noise_db=inf",),
        "channel.interference_to_noise_db",
        ("inf", "finite"),
    ),
    "noise figure below 0": (("channel.noise_figure_db=-1.0",), "channel.noise_figure_db", ("-1.0", "or equal to 0")),
    "K = no number": (("channel.rician_k=strong",), "channel.rician_k", ("strong", "tr38901")),
    "K drawn in no cell": (
        ("channel.fading=rician", "channel.rician_k=tr38901"),
        "channel.rician_k",
        ("topology.kind = 'none'", "umi, uma, rma", "as a number"),
    ),
    "K drawn without a table": (
        (*DISC, "channel.fading=rician", "channel.rician_k=tr38901", "topology.path_loss=log-distance"),
        "channel.rician_k",
        ("'log-distance'", "umi, uma, rma"),
    ),
    "uma over umi's paths": (
        (*DISC, "channel.fading=uma", "topology.path_loss=umi"),
        "topology.path_loss",
        ("'uma'", "'umi'", "leave it out"),
    ),
    "rma over another law": (
        (*DISC, "channel.fading=rma", "topology.path_loss=log-distance"),
        "topology.path_loss",
        ("'rma'", "'log-distance'"),
    ),
    "uma on a low mast": (
        (*DISC, "channel.fading=uma", "topology.base_height_m=24.0"),
        "topology.base_height_m",
        ("25 m", "24", "leave it out"),
    ),
    "rma on a low mast": (
        (*DISC, "channel.fading=rma", "topology.base_height_m=9.0"),
        "topology.base_height_m",
        ("10 to 150 m", "9"),
    ),
    "participation of two laws": (
        (*DISC, "channel.fading=rician", "power.policy=truncated-inversion", "power.participation=0.8"),
        "power.participation",
        ("line of sight", "topology.los", "give power.threshold"),
    ),
    "limit on the mean over two laws": (
        (*DISC, "channel.fading=rician", "power.policy=truncated-inversion", "power.average_over=fading"),
        "power.average_over",
        ("line of sight", 'take "round"'),
    ),
    "expected senders of two laws": (
        (
            *DISC,
            "channel.fading=rician",
            "power.policy=truncated-inversion",
            "power.threshold=0.1",
            "power.divide_by=expected",
        ),
        "power.divide_by",
        ("line of sight", '"active"'),
    ),
    "shadowing correlated over less than nothing": (
        (*DISC, "topology.shadowing_correlation_m=-5.0"),
        "topology.shadowing_correlation_m",
        ("-5.0", "greater than or equal to 0"),
    ),
    "umi in no cell": ((PHYSICAL, "channel.fading=umi"), "topology.kind", ("umi", "'none'", "disc")),
    # Replay
    "replay without a file": (("channel.fading=replay",), "channel.replay_file", ("None", "replay")),
    "a file without replay": (("channel.replay_file=x.h5",), "channel.replay_file", ("exponential", "x.h5")),
    # Topology
    "path loss in the papers' units": (("topology.kind=disc",), "topology.kind", ("normalised", "physical")),
    "radius 0": ((*DISC, "topology.radius_m=0.0"), "topology.radius_m", ("0.0", "greater than 0")),
    "min distance above the radius": ((*DISC, "topology.min_distance_m=300.0"), "topology", ("300 m", "250 m")),
    "annulus from 0": (
        (PHYSICAL, "topology.kind=annulus", "topology.min_distance_m=0.0"),
        "topology",
        ("0 m", "positive"),
    ),
    "too few coordinates": (
        (PHYSICAL, "topology.kind=coordinates", "topology.coordinates=[[20.0, 20.0]]"),
        "topology",
        ("1 coordinates", "100 devices"),
    ),
    "coordinates in space": (
        ("topology.coordinates=[[20.0, 20.0, 1.0]]",),
        "topology.coordinates",
        ("[20.0, 20.0, 1.0]", "2 items"),
    ),
    "carrier out of range": (
        (*DISC, "topology.path_loss=uma", "channel.carrier_hz=1e8"),
        "topology",
        ("0.1 GHz", "0.5 to 100 GHz"),
    ),
    "cell out of range": ((*DISC, "topology.radius_m=6000.0"), "topology", ("6000 m", "10 to 5000 m")),
    # Channel knowledge
    "offset beyond the symbol": (("csi.timing_offset_s=1e-4",), "csi", ("timing offset of 0.0001 s", "6.66667e-05 s")),
    "offset below 0": (("csi.timing_offset_s=-1e-6",), "csi.timing_offset_s", ("-1e-06", "or equal to 0")),
    "half a spacing off": (("csi.frequency_offset_hz=7500.0",), "csi", ("frequency offset of 7500.0 Hz", "7500 Hz")),
    "17 bits": (("csi.phase_bits=17",), "csi.phase_bits", ("17", "16")),
    "no pilot": (("csi.pilots=0",), "csi.pilots", ("0", "greater than or equal to 1")),
    "quantile of no Gaussian": (
        ("privacy.csi_error=quantile", "csi.estimation=mmse"),
        "privacy.csi_error",
        ("exponential", "rayleigh"),
    ),
    # Antennas
    "no antenna": (("antennas.count=0",), "antennas.count", ("0", "or equal to 1")),
    "65 antennas": (("antennas.count=65",), "antennas.count", ("65", "64")),
    "rows that divide nothing": (
        ("antennas.count=4", "antennas.array=rectangular", "antennas.rows=3"),
        "antennas.rows",
        ("3 rows of 4 antennas", "must divide the count"),
    ),
    "no spacing": (("antennas.spacing_wavelengths=0.0",), "antennas.spacing_wavelengths", ("0.0", "greater than 0")),
    "array": (("antennas.array=circle",), "antennas.array", ("circle", "circular, linear, rectangular")),
    "correlation above 1": (
        ("antennas.correlation_coefficient=1.1",),
        "antennas.correlation_coefficient",
        ("1.1", "less than or equal to 1"),
    ),
    "correlated clusters": (
        ("channel.fading=cdl-a", "antennas.count=2", "antennas.correlation=exponential"),
        "antennas.correlation",
        ("'cdl-a'", "'exponential'", "leave it out", "tapped-line"),
    ),
    "a circle of clusters": (
        ("channel.fading=cdl-d", "antennas.count=2", "antennas.array=circular"),
        "antennas.array",
        ("'cdl-d'", "'circular'", "linear or rectangular"),
    ),
    "a cell from its broadside": (
        (*DISC, "channel.fading=umi", "antennas.count=2", "antennas.angle=broadside"),
        "antennas.angle",
        ("'umi'", "'broadside'", '"device"'),
    ),
    "quantile of correlated antennas": (
        (
            "channel.fading=rayleigh",
            "privacy.csi_error=quantile",
            "csi.estimation=mmse",
            "antennas.count=2",
            "antennas.correlation=exponential",
        ),
        "privacy.csi_error",
        ("'exponential'", '"realised"', '"first"'),
    ),
    # Power
    "a threshold for pfels": (("power.threshold=0.1",), "power", ("'pfels'", "threshold", "truncated-inversion")),
    "participation for pfels": (
        ("power.participation=0.5",),
        "power.participation",
        ("'pfels'", "0.5", "truncated-inversion"),
    ),
    "a coefficient for cao": (
        ("power.policy=cao", "power.coefficient=1.0"),
        "power",
        ("'cao'", "coefficient", "full-inversion"),
    ),
    "threshold and participation": (
        (TRUNCATED, "power.threshold=0.1", "power.participation=0.5"),
        "power.participation",
        ("0.5", "0.1", "not both"),
    ),
    "participation of nobody": ((TRUNCATED, "power.participation=0.0"), "power.participation", ("0.0", "than 0")),
    "participation, law unknown": (
        (TRUNCATED, "power.participation=0.5", TDL),
        "power.participation",
        ("tdl-a", "power.threshold"),
    ),
    "participation, antennas": (
        (TRUNCATED, "power.participation=0.5", "antennas.count=2"),
        "power.participation",
        ("antennas.count = 2", "power.threshold"),
    ),
    "mean over fades, antennas": (
        (TRUNCATED, "power.average_over=fading", "power.threshold=0.1", "antennas.count=2"),
        "power.average_over",
        ("antennas.count = 2", '"round"'),
    ),
    "expected senders, antennas": (
        (TRUNCATED, "power.divide_by=expected", "antennas.count=2"),
        "power.divide_by",
        ("antennas.count = 2", '"active"'),
    ),
    "infinite mean inverse power": (
        ("channel.units=physical", TRUNCATED, "power.average_over=fading"),
        "power",
        ("threshold 0", "infinite", "above 0"),
    ),
    "mean over an unknown law": (
        (TRUNCATED, "power.average_over=fading", "power.threshold=0.1", TDL),
        "power.average_over",
        ("tdl-a", '"round"'),
    ),
    "expected senders of pfels": (("power.divide_by=expected",), "power.divide_by", ("'pfels'", '"selected"')),
    "powers high to low": (("power.tx_power_dbm=[23.0, 10.0]",), "power.tx_power_dbm", ("[23.0, 10.0]", "low <= high")),
    "power on a message of no power": (("power.spread=message",), "power.spread", ("'normalised'", '"band"')),
    "peak nan": (("power.peak_db=nan",), "power.peak_db", ("nan", "finite")),
    # Grid
    "no subcarrier": (("grid.subcarriers=0",), "grid.subcarriers", ("0", "greater than or equal to 1")),
    "blocks and subcarriers": (
        ("grid.resource_blocks=10", "grid.subcarriers=100"),
        "grid.resource_blocks",
        ("120", "grid.subcarriers = 100"),
    ),
    "used beyond the grid": (("grid.used=[[0, 3300]]",), "grid", ("0 to 3300", "0 to 3299")),
    "used twice": (("grid.used=[[0, 10], [5, 20]]",), "grid", ("subcarrier 5", "once")),
    "used downwards": (("grid.used=[[10, 5]]",), "grid", ("10 to 5", "goes up")),
    "nothing used": (("grid.used=[]",), "grid", ("no subcarrier", "at least one")),
    "half a range": (("grid.used=[[5]]",), "grid.used", ("[5]", "2 items")),
    "extended prefix at 15 kHz": (("grid.prefix=extended",), "grid", ("15 kHz", "extended", "60 kHz")),
    "17 kHz": (("grid.prefix=normal", "grid.spacing_hz=17000.0"), "grid", ("17 kHz", "15, 30, 60, 120 kHz")),
    "276 blocks": (("grid.prefix=normal", "grid.resource_blocks=276"), "grid", ("3312", "275")),
    "prefix and duration": (
        ("grid.prefix=normal", "grid.symbol_duration_s=7e-5"),
        "grid.symbol_duration_s",
        ("normal", "one of the two"),
    ),
    "clip_db without a waveform": (("grid.clip_db=3.0",), "grid.clip_db", ("grid.waveform = true",)),
    "waveform of Sionna": ((WAVEFORM, TDL), "grid.waveform", ("tdl-a", "tapped-line")),
    "waveform, antennas": ((WAVEFORM, "antennas.count=2"), "grid.waveform", ("antennas.count = 2", "one")),
    "waveform, blocks": ((WAVEFORM, "channel.coherence=slot"), "grid.waveform", ("'slot'", '"round"')),
    "waveform, used": ((WAVEFORM, "grid.used=[[0, 9]]"), "grid.waveform", ("grid.used",)),
    "waveform, cut entries": (
        (WAVEFORM, "power.peak_db=3.0", "power.peak=clip"),
        "grid.waveform",
        ("power.peak", "grid.clip_db"),
    ),
    "waveform, phase": ((WAVEFORM, "csi.phase_std_rad=0.1"), "grid.waveform", ("0.1", "csi.phase_std_rad")),
    "waveform, ageing": (
        (WAVEFORM, "csi.delay_s=0.01", "channel.speed_m_s=3.0"),
        "grid.waveform",
        ("0.01", "csi.delay_s"),
    ),
    "waveform, prefix above the symbol": (
        (WAVEFORM, "grid.symbol_duration_s=1e-3"),
        "grid.waveform",
        ("57344 samples", "4096"),
    ),
    "waveform, taps beyond the symbol": (
        (WAVEFORM, TAPPED, "channel.delay_spread_s=3e-5"),
        "channel.delay_spread_s",
        ("3e-05 s", "6.66667e-05 s"),
    ),
    # Selection
    "more candidates than devices": (
        ("selection.kind=best-k", "selection.candidates=101"),
        "selection.candidates",
        ("101", "run.devices = 100"),
    ),
    "fewer candidates than selected": (
        ("selection.kind=best-k", "selection.candidates=7"),
        "selection.candidates",
        ("7", "run.selected = 8"),
    ),
    "no gain to reach": (("selection.kind=threshold",), "selection.min_gain", ("threshold", "above 0")),
    "no energy to spend": (("selection.kind=energy-budget",), "selection.energy_budget", ("energy-budget",)),
    # Names
    "fading": (("channel.fading=raleigh",), "channel.fading", ("'raleigh'", "did you mean rayleigh?")),
    "variation": (("channel.variation=jake",), "channel.variation", ("'jake'", "did you mean jakes?")),
    "policy": (("power.policy=truncated",), "power.policy", ("did you mean truncated-inversion?", "cotaf")),
    "combiner": (("antennas.combining=maxmin",), "antennas.combining", ("did you mean max-min?", "principal")),
    "path loss": (("topology.path_loss=umii",), "topology.path_loss", ("did you mean umi?", "log-distance")),
    "placement": (("topology.kind=disk",), "topology.kind", ("did you mean disc?", "annulus")),
    "selection": (("selection.kind=bestk",), "selection.kind", ("did you mean best-k?", "proportional-fair")),
    "estimation": (("csi.estimation=mse",), "csi.estimation", ("'mse'", "'mmse'")),
    "coherence": (("channel.coherence=slots",), "channel.coherence", ("'slots'", "'slot'")),
    "key": (("csi.timing_offset=1e-6",), "csi.timing_offset", ("did you mean timing_offset_s?",)),
}

# What is known once limits and dimension are: refused by the budget, and by a run before its first round.
LATER: dict[str, tuple[tuple[str, ...], str, tuple[str, ...]]] = {
    "budget below a round": (
        ("selection.kind=energy-budget", "selection.energy_budget=1.0"),
        "selection.energy_budget",
        ("1 ", "may take from", "raise it"),
    ),
    "channels larger than memory": (
        (*LARGE, TAPPED, "channel.speed_m_s=3.0", "channel.coherence=symbol", "antennas.count=64"),
        "channel.coherence",
        ("1,000 devices", "64 antennas", "3,300 subcarriers", "fewer antennas"),
    ),
    "symbols larger than memory": (
        (*LARGE, "csi.frequency_offset_hz=1.0", "grid.subcarriers=1"),
        "channel.coherence",
        ("1,000 devices", "blocks", "fewer devices"),
    ),
    "a broadcast nobody hears": (
        ("grid.downlink=true", "grid.downlink_snr_db=-200.0"),
        "grid.downlink_snr_db",
        ("cannot hear", "raise it"),
    ),
}

GAINS = np.full((2, 100), 0.02 + 0.01j)


def with_one(value: complex) -> np.ndarray:
    gains = GAINS.copy()
    gains[1, 3] = value
    return gains


# The array in the file, other overrides, words of the refusal.
FILES: dict[str, tuple[dict[str, np.ndarray], tuple[str, ...], tuple[str, ...]]] = {
    "four axes": ({"g": np.ones((2, 100, 1, 1))}, (), ("[rounds, devices]", "there are g")),
    "one axis": ({"g": np.ones(200)}, (), ("[rounds, devices]", "there are g")),
    "text": ({"g": np.array([[b"a"]])}, (), ("[rounds, devices]", "there are g")),
    "nan": ({"g": with_one(np.nan)}, (), ("round 1, device 3", "NaN")),
    "inf": ({"g": with_one(np.inf)}, (), ("round 1, device 3", "infinite")),
    "zero": ({"g": with_one(0)}, (), ("round 1, device 3", "cannot be inverted")),
    "too few rounds": ({"g": GAINS[:1]}, (), ("holds 1 of the 2 rounds", "(1, 100)")),
    "too few devices": ({"g": GAINS[:, :50]}, (), ("holds 50 of the 100 devices", "(2, 50)")),
    "too few antennas": ({"g": GAINS}, ("antennas.count=2",), ("holds 1 of the 2 antennas", "(2, 100)")),
    "two arrays": ({"g": GAINS, "h": GAINS}, (), ("2 arrays", "g, h", "name one")),
    "another name": ({"g": GAINS}, ("channel.replay_variable=h",), ("'h'", "there are g")),
}


def refusal(*overrides: str) -> str:
    """The one line that load_settings and check_recipe answer with."""
    with pytest.raises(UserError) as caught:
        check_recipe(small_settings(*overrides))
    return one_line(caught.value)


def one_line(error: UserError) -> str:
    line = str(error)
    assert "\n" not in line
    return line


def assert_names(line: str, key: str, words: tuple[str, ...]) -> None:
    line = line.removeprefix(f"{DEMO}: ")
    assert line.startswith((f"{key}:", f"{key} (")), line
    for word in words:
        assert word in line, line


def replay(tmp_path: Path, arrays: dict[str, np.ndarray]) -> tuple[str, str]:
    path = tmp_path / "gains.h5"
    with h5py.File(path, "w") as file:
        for name, values in arrays.items():
            file[name] = values
    return "channel.fading=replay", f"channel.replay_file={path}"


@pytest.mark.parametrize("case", BAD)
def test_one_line_names_key_fault_and_remedy(case: str) -> None:
    overrides, key, words = BAD[case]
    line = refusal(*overrides)
    assert_names(line, key, words)
    # The same for those who check nothing first: `airfl budget`, and `run` from Python.
    with pytest.raises(UserError) as caught:
        link_budget(small_settings(*overrides))
    assert one_line(caught.value) == line


@pytest.mark.parametrize("case", LATER)
def test_what_limits_and_dimension_do_not_allow(case: str) -> None:
    overrides, key, words = LATER[case]
    settings = small_settings("privacy.delta=1e-5", *overrides)
    needs_a_round = case == "a broadcast nobody hears"
    for refuse in (link_budget,) if needs_a_round else (check_recipe, link_budget):
        with pytest.raises(UserError) as caught:
            refuse(settings)
        assert_names(one_line(caught.value), key, words)


@pytest.mark.parametrize("case", FILES)
def test_a_file_that_cannot_be_replayed(case: str, tmp_path: Path) -> None:
    arrays, overrides, words = FILES[case]
    given = (*replay(tmp_path, arrays), *overrides)
    line = refusal(*given)
    # Which array is meant is another key's to say.
    key = "channel.replay_variable" if case in ("two arrays", "another name") else "channel.replay_file"
    assert_names(line, key, (str(tmp_path / "gains.h5"), *words))
    with pytest.raises(UserError) as caught:
        link_budget(small_settings(*given))
    assert one_line(caught.value) == line


@pytest.mark.parametrize(
    ("path", "words"),
    [("none.h5", ("no such file",)), (".", ("no such file",)), ("text.h5", ("no readable", "HDF5", "export it again"))],
)
def test_a_path_that_is_no_file_of_gains(path: str, words: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "text.h5").write_text("gains: 0.02, 0.03")
    line = refusal("channel.fading=replay", f"channel.replay_file={tmp_path / path}")
    assert_names(line, "channel.replay_file", (str(tmp_path), *words))


def test_a_cell_has_no_replayed_path_loss(tmp_path: Path) -> None:
    line = refusal(*replay(tmp_path, {"g": GAINS}), *DISC)
    assert_names(line, "topology.kind", ("replayed", '"none"'))


def test_nothing_of_it_takes_torch() -> None:
    """All refusals in one process, which also says that the parts of the radio load without it."""
    code = (
        "import sys\n"
        "from tests.end_to_end.test_radio_bad_input import BAD, refusal\n"
        "[refusal(*overrides) for overrides, _, _ in BAD.values()]\n"
        "sys.exit(3 if {'torch', 'sionna', 'dp_accounting', 'matplotlib'} & set(sys.modules) else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=ROOT)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("command", ["run", "budget"])
@pytest.mark.parametrize("case", ["negative speed", "offset beyond the symbol", "umi in no cell"])
def test_the_command_line_answers_so(command: str, case: str, tmp_path: Path) -> None:
    overrides, key, words = BAD[case]
    out = tmp_path / "out"
    line = refused(airfl(command, DEMO, *SMALL, *overrides, *(["--out", out] if command == "run" else ["--json"])))
    assert_names(line.removeprefix("airfl: "), key, words)
    assert not out.exists()


def test_a_comparison_is_refused_before_its_first_row_runs(tmp_path: Path) -> None:
    _, file = replay(tmp_path, {"g": GAINS[:1]})
    rows = tmp_path / "rows.toml"
    rows.write_text(
        DEMO.read_text().split("[[compare]]")[0]
        + '[[compare]]\nlabel = "a"\n[[compare]]\nlabel = "b"\n'
        + f'channel.fading = "replay"\nchannel.replay_file = "{file.partition("=")[2]}"\n'
    )
    line = refused(airfl("compare", rows, *SMALL, "--out", tmp_path / "out"))
    assert "holds 1 of the 2 rounds" in line
    assert not (tmp_path / "out").exists()
