"""Overrides without effect are reported, and a run shows that they have none."""

import sys
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from airfl.cli.app import say_without_effect
from airfl.cli.runs import budget
from airfl.cli.sweeps import sweep
from airfl.config import without_effect as reasons
from airfl.config.without_effect import BELONGS_TO, LINK, Needs, without_effect
from airfl.core.accounting import noise_multiplier, release_event
from airfl.core.round import run_round
from airfl.core.state import Exchange, State, World
from airfl.storage.resources import data_folder
from airfl.uplinks.radio import slow_shadowing
from tests.conftest import DEMO, SMALL, small_settings
from tests.small_data import world


def of(section: str, **values: str) -> dict[str, str]:
    """Keys of a section, in full, with another value than the default of each."""
    return {f"{section}.{key}": value for key, value in values.items()}


ANOTHER = {
    **of("channel", mean_gain="0.03", min_gain="0.01", max_gain="0.05", bounds="redraw", variation="jakes"),
    **of("channel", round_s="0.2", coherence="slot", speed_m_s="20.0", carrier_hz="1e9", rician_k="7.0"),
    **of("channel", replay_rounds="wrap", replay_devices="draw", replay_outage_gain="0.01"),
    **of("channel", nakagami_m="3.0", replay_variable="h", delay_spread_s="1e-6", taps="5", tr38901_version="v16.1"),
    **of("channel", large_scale="drop"),
    **of("channel", noise="false", noise_std="2.0", noise_figure_db="3.0", temperature_k="100.0"),
    **of("channel", interference="alpha-stable", interference_across_antennas="independent"),
    **of("channel", interference_tail_index="1.2", interference_burst_probability="0.3"),
    **of("antennas", array="circular", rows="2", spacing_wavelengths="2.0", angle="broadside", sector_deg="30.0"),
    **of("antennas", broadside_deg="45.0", correlation="exponential", correlation_coefficient="0.9", combining="sum"),
    **of("antennas", median_clip="2.0", angular_std_deg="3.0", angular_distribution="uniform"),
    **of("csi", pilots="9", pilot_snr_db="20.0", los_doppler="known", phase_std_rad="0.5", phase_bits="2"),
    **of("csi", gain_bits="2", estimation="ls", delay_s="1e-3", residual_variable="h", residual_target="2.0"),
    **of("csi", residual_missed_below="0.2", residual_rounds="wrap", residual_devices="draw"),
    **of("selection", min_gain="0.01", window="7", energy_budget="1e3"),
    **of("task", dirichlet_alpha="0.1", min_samples="3", device_samples="7"),
    **of("task", synthetic_alpha="2.0", synthetic_beta="2.0", synthetic_iid="true", synthetic_sizes="equal"),
    **of("task", gaussian_classes="3", gaussian_features="30", class_separation="2.0", label_concentration="0.5"),
    **of("task", shift_std="1.0"),
    **of("topology", radius_m="90.0", min_distance_m="20.0", los="nlos", base_height_m="12.0", device_height_m="2.0"),
    **of("topology", access_points="[[9.0,0.0]]", neighbours="[[900.0,0.0]]", clutter_density="0.3"),
    **of("topology", clutter_size_m="5.0", clutter_height_m="3.0", hall_m="[50.0,40.0,6.0]", motion="straight"),
    **of("topology", motion_file="places.csv", motion_end="hold", motion_start_s="3.0"),
    **of("topology", shadowing_std_db="3.0", shadowing_correlation_m="20.0", path_loss="uma", exponent="2.0"),
    **of("grid", downlink_snr_db="10.0", downlink_power_dbm="10.0", packing="iq", waveform="true", clip_db="3.0"),
    **of("power", max_snr_db="3.0", tx_power_dbm="10.0", limit="transmit_power", divide_by="active", spread="message"),
    **of("power", strict="true", policy="full-inversion", threshold="0.3", participation="0.7", coefficient="0.01"),
    **of("power", alignment="population", average_over="fading", peak_db="3.0", peak="clip", across_cells="sum"),
    # Of policies other than the one above: their defaults, and in test_policies_of_their_own_keys_... others.
    **of("power", objective="unbiased", prescalers="least-error", common_share="0.5"),
    **of("blockage", orientation="landscape", regions="2", blocker="vehicle", count="7", width_m="2.0", height_m="2.0"),
    **of("blockage", base_m="0.5", speed_m_s="2.0"),
    **of("surface", configuration="random", phase_bits="1", element_gain_db="0.0", direct_loss_db="3.0"),
    **of("surface", device_k="2.0", base_k="2.0"),
    **of("hardware", back_off_db="3.0", smoothness="1.0", beta_amplitude="2.0", alpha_phase="1.0", beta_phase="3.0"),
    **of("hardware", coefficients="[-0.1]", coefficients_imag="[0.1]", amplifier_class="a", calibrated="false"),
    **of("privacy", gains="private", csi_error="unbounded"),
    **of("local", decay="0.5", decay_every="3"),
    **of("server", decay="0.5", decay_every="3"),
    **of("digital", allocation="gain", error_model="nr", gap_db="6.0", target_error="0.3", block_elements="50"),
    **of("digital", transmissions="1", mcs_table="2", power="per-element", deadline_s="1e-3", secure_aggregation="off"),
}
# Settings in which what is said to be needed is not there.
IN_CELL = ("channel.units=physical", "privacy.epsilon=inf")
PLACES = f"topology.coordinates={[[50 + place, 0] for place in range(12)]}"
LOG_DISTANCE = ("topology.kind=disc", "topology.path_loss=log-distance")
REPLAYED = ("channel.fading=replay", "channel.replay_file={}")
GENERATED = ("task.dataset=synthetic", "task.partition=writer", "task.model=softmax")
WITHOUT = {
    reasons.NOT_ALIKE: (*GENERATED, "task.synthetic_iid=true"),
    reasons.EQUAL_SIZES: GENERATED,
    reasons.LINE_OF_SIGHT: (*IN_CELL, "channel.fading=rician", "topology.kind=disc", "topology.los=nlos"),
    reasons.IN_AREA: (*IN_CELL, "channel.fading=rayleigh", "topology.kind=coordinates", PLACES),
    reasons.IN_AREA_OR_FILE: (*IN_CELL, "channel.fading=rayleigh", "topology.kind=coordinates", PLACES),
    reasons.FROM_FILE: (*IN_CELL, "channel.fading=rayleigh", "topology.kind=disc"),
    reasons.SHADOWED: (*IN_CELL, "channel.fading=rayleigh", "topology.kind=disc", "topology.shadowing_std_db=0.0"),
    reasons.SHADOWED_BY_MODEL: (*IN_CELL, "channel.fading=rayleigh", *LOG_DISTANCE),
    reasons.NORMALISED: (*IN_CELL, "channel.fading=rayleigh", "channel.mean_gain=1e-6"),
    reasons.NOT_PLACED: (*IN_CELL, "channel.fading=rician", "antennas.count=2", *LOG_DISTANCE),
    reasons.PLACED: ("channel.fading=rician", "antennas.count=2"),
    reasons.NEIGHBOURED: (*IN_CELL, "channel.fading=rayleigh", "topology.kind=disc"),
    reasons.DRAWN: (*REPLAYED, "channel.speed_m_s=3.0", "csi.estimation=ls"),
    reasons.DRAWN_OR_AGED: (*REPLAYED, "csi.estimation=ls"),
    reasons.DRAWN_AGED_OR_LOCKED: (*REPLAYED, "csi.estimation=ls"),
    reasons.MOVED: ("csi.delay_s=1e-3",),
    reasons.IN_SIGHT: ("csi.delay_s=1e-3", "channel.speed_m_s=3.0"),
    reasons.ARRAY_MATTERS: ("antennas.count=4",),
    reasons.FROM_DEVICES: ("antennas.count=4", "channel.fading=rician", "antennas.angle=broadside"),
    reasons.FROM_RECORDED: ("antennas.count=4", "channel.fading=rician", "antennas.angle=broadside"),
    reasons.PLACED_OR_RECORDED: ("antennas.count=4", "channel.fading=rician"),
    reasons.DIFFUSE: ("antennas.count=2", "channel.fading=fixed"),
    reasons.EXPONENTIAL: ("antennas.count=2", "antennas.correlation=local-scattering"),
    reasons.LOCAL_SCATTERING: ("antennas.count=2", "antennas.correlation=exponential"),
    reasons.DISTURBED: ("antennas.count=2",),
    reasons.IMPULSIVE: ("antennas.count=2", "channel.interference_to_noise_db=3"),
    **{
        Needs("channel.interference", (name,), own=False): ("channel.interference_to_noise_db=3",)
        for name in ("alpha-stable", "bernoulli-gaussian")
    },
    Needs("antennas.array", ("rectangular",)): ("antennas.count=4", "channel.fading=rician"),
}
# And what else a key takes to be given at all.
BESIDE = {
    "power.threshold": ("power.policy=truncated-inversion",),
    "power.participation": ("power.policy=per-subcarrier-truncated",),  # by itself: a threshold excludes it
    "power.average_over": ("power.policy=truncated-inversion", "power.threshold=0.3"),
    "power.coefficient": ("power.policy=full-inversion",),
    "power.peak": ("power.peak_db=3.0",),
    "power.spread": ("channel.units=physical", "channel.fading=rayleigh", "channel.mean_gain=1e-6"),
    "grid.clip_db": ("grid.waveform=true",),
    "antennas.combining": ("antennas.count=3",),
}
# The settings are many, and the runs short.
SHORT = (
    *("task.dataset=a9a-sample", "task.model=logistic", "local.engine=loop"),
    *("run.devices=12", "run.selected=4", "run.evaluate_every=2"),
)
# What a run only keeps a record of, at neither cost nor error.
RECORDED = {"csi.gain_bits": ("channel_estimate",)}
LINKS = {
    link: ("run.rounds=1", f"scheme.name={name}", f"scheme.link={link}")
    for link, name in {"analog": "pfels", "digital": "fedavg", "ideal": "fedavg", "noncoherent": "fsk-mv"}.items()
}


def bases_of(key: str, needs: Needs) -> list[tuple[str, ...]]:
    """Settings in which what is said to be needed is not there; every link without which it is not."""
    if needs.owner != LINK:
        return [WITHOUT.get(needs, ())]
    beside = BESIDE.get(key, ())
    if needs.values:  # a policy that truncates, so that it can be asked for
        beside = ("power.policy=truncated-inversion", "power.threshold=0.3")
    return [(*LINKS[link], *beside) for link in LINKS if link not in needs.active]


def of_one_reason() -> dict[tuple[Needs, tuple[str, ...]], list[str]]:
    """(what is needed, settings in which it is not there) -> the keys that need it."""
    found: dict[tuple[Needs, tuple[str, ...]], list[str]] = {}
    for key, every in BELONGS_TO.items():
        for needs in every:
            for base in bases_of(key, needs):
                found.setdefault((needs, base), []).append(key)
    return found


REASONS = [
    pytest.param(needs, base, keys, id=f"{needs.owner} {keys[0]} {' '.join(base[2:3])}")
    for (needs, base), keys in of_one_reason().items()
]


@pytest.fixture(scope="module")
def gains(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Gains for the small settings."""
    file = tmp_path_factory.mktemp("gains") / "gains.npy"
    np.save(file, np.random.default_rng(1).exponential(0.02, (2, 12)) + 1e-3)
    return file


def what_is_accounted(world: World, exchanged: Exchange, rounds: int, compose: bool) -> dict[str, Any]:
    """All that the figures of a round's privacy follow from, in the place of the figures, which take longer than the
    rest of the round."""
    plan, multiplier = exchanged.plan, noise_multiplier(world.scenario, exchanged.reception.report)
    if not multiplier:  # nothing is private, whatever is claimed
        return {"accounted": ""}
    event = release_event(world.scenario, multiplier)
    return {"accounted": repr((event, world.ledger.statement, plan.devices, plan.disclosure))}


@pytest.fixture(scope="module", autouse=True)
def _no_figures_of_privacy() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("airfl.core.round.account", what_is_accounted)
        yield


@cache
def numbers_of(*overrides: str) -> dict[str, NDArray[Any]]:
    """All that a run's trace holds or that follows from it, round by round."""
    built = world(small_settings(*SHORT, *overrides))
    scenario, placed = built.scenario, built.scenario.radio.drop
    found: dict[str, Any] = {
        "device_samples": built.task.partition.sizes,
        "device_power_limit": scenario.power_limits * scenario.radio.energy_unit,
        "device_distance_m": placed and placed.distance_m,
        "device_path_loss_db": placed and placed.path_loss_db,
    }
    state = State(0, built.model.initial(), scenario.memory)
    for t in range(scenario.run.rounds):
        state, record = run_round(built, state)
        found |= {f"{name} of round {t}": value for name, value in record.items()}
    return {name: np.asarray(value) for name, value in found.items()}


def changed_by(overrides: Sequence[str], base: tuple[str, ...]) -> list[str]:
    """The variables that are other ones with these overrides, but for what a key is only recorded in."""
    plain, changed = numbers_of(*base), numbers_of(*base, *overrides)
    assert plain.keys() == changed.keys()
    names = (name for text in overrides for name in RECORDED.get(text.partition("=")[0], ()))
    recorded = {f"{name} of round {t}" for name in names for t in range(2)}
    nan = {name for name in plain if plain[name].dtype.kind in "fc"}
    same = {name for name in plain if np.array_equal(plain[name], changed[name], equal_nan=name in nan)}
    return sorted(plain.keys() - same - recorded)


@pytest.mark.parametrize(("needs", "base", "keys"), REASONS)
def test_what_is_said_to_change_nothing_changes_nothing(needs: Needs, base: Any, keys: list[str], gains: Path) -> None:
    """All keys of one reason at once; one by one, where they do change something, to say which."""
    base = tuple(text.format(gains) for text in base)
    overrides = [f"{key}={needs.values[0] if needs.values else ANOTHER[key]}" for key in keys]
    sentences = list(without_effect(overrides, [small_settings(*SHORT, *base, *overrides)]))
    for key, sentence in zip(keys, sentences, strict=False):
        assert sentence.startswith(f"{key} has no effect: {needs.owner} is ")
    assert len(sentences) >= len(keys)
    together = changed_by(overrides, base)
    assert not together, {text: changed_by([text], base) for text in overrides}


@pytest.mark.parametrize("link", ["digital", "ideal"])
@pytest.mark.parametrize(
    "overrides",
    [
        ("power.policy=statistical", "power.objective=least-error"),
        ("power.policy=statistical-truncation", "power.prescalers=unbiased"),
        ("power.policy=correlated", "power.common_share=0.1"),
    ],
)
def test_policies_of_their_own_keys_change_nothing_on_links_of_bits(link: str, overrides: tuple[str, ...]) -> None:
    base = ("scheme.name=fedavg", f"scheme.link={link}")
    said = " ".join(without_effect(overrides, [small_settings(*SHORT, *base, *overrides)]))
    assert all(f"{text.partition('=')[0]}" in said for text in overrides)
    assert "no effect" in said
    assert not changed_by(overrides, base)


IDEAL, UNIFORM = (
    "no effect: scheme.link is ideal, not analog or noncoherent",
    "selection.kind is uniform, not energy-budget",
)
PHASE_BITS = "csi.phase_bits has no effect: scheme.link is digital, not analog, and grid.downlink is False, not True"
DOWNLINK = "the broadcast is charged at the capacity of the true channel with noise and one receive antenna"
NOT_DOWN = {f"csi.estimation, antennas.count do not affect the downlink: {DOWNLINK}"}


@pytest.mark.parametrize(
    ("overrides", "told"),
    [
        (
            ("scheme.name=fedavg", "power.peak_db=3", "channel.noise=false", "power.limit=transmit_power"),
            {f"channel.noise, power.peak_db have {IDEAL}", f"power.limit has {IDEAL}, and {UNIFORM}"},
        ),
        (("scheme.name=fedavg", "scheme.link=digital", "csi.phase_bits=3", "csi.gain_bits=3"), {PHASE_BITS}),
        (("scheme.name=fedavg", "csi.phase_bits=3", "grid.downlink=true"), set()),
        (("digital.gap_db=3",), {"digital.gap_db has no effect: scheme.link is analog, not digital"}),
        (("grid.downlink=true", "antennas.count=2", "csi.estimation=ls"), NOT_DOWN),
    ],
)
def test_what_does_not_reach_a_link_is_told_wherever_it_was_set(overrides: tuple[str, ...], told: set[str]) -> None:
    """By an override, key by key, or in a configuration file, all keys of one reason together."""
    settings, keys = small_settings(*overrides), {text.partition("=")[0] for text in overrides}

    def named(sentences: Iterable[str]) -> set[str]:
        return {key for sentence in sentences for key in keys if key in sentence.partition(":")[0]}

    assert set(without_effect([], [settings])) == told
    assert named(without_effect(overrides, [settings])) == named(told)


@pytest.mark.parametrize(
    ("overrides", "told"),
    [
        (("server.beta1=0.5",), ["server.beta1 is ignored for pfels, fedavg, which do not use it"]),
        (("privacy.epsilon=2",), ["privacy.epsilon is ignored for fedavg, which does not use it"]),
        (("local.gradient_clip_norm=0.5", "local.momentum=0.5", "local.clip_norm=2", "run.rounds=3"), []),
    ],
)
def test_what_a_scheme_does_not_use_is_told(overrides: tuple[str, ...], told: list[str]) -> None:
    """Only where it is given; that it changes nothing is shown for every scheme in tests/conformance."""
    rows = [small_settings(*overrides), small_settings("scheme.name=fedavg", *overrides)]
    assert list(without_effect(overrides, rows)) == told
    assert not list(without_effect([], rows))


def test_record_level_schemes_say_which_local_settings_they_ignore() -> None:
    overrides = ("local.clip_norm=0.5", "local.gradient_clip_norm=0.5", "local.momentum=0.5")
    perturbed = small_settings("scheme.name=fed-spa", "local.steps=2", "local.epochs=0", *overrides)
    clips = ["local.clip_norm", "local.gradient_clip_norm"]
    assert list(without_effect(overrides, [perturbed])) == [
        f"{key} is ignored for fed-spa, which does not use it" for key in clips
    ]
    descent = small_settings("scheme.name=soteriafl-gd", "scheme.gradient_clip=1.0", *overrides)
    told = [f"{key} is ignored for soteriafl-gd, which does not use it" for key in (*clips, "local.momentum")]
    assert list(without_effect(overrides, [descent])) == told


@pytest.mark.parametrize("name", ["dp-fedavg", "fed-smp-randk", "dp-fed", "soteriafl-gd"])
def test_a_given_noise_multiplier_leaves_the_privacy_target_without_effect(name: str) -> None:
    """Neither the target nor what it bounds is told of schemes whose noise follows from it."""
    own = {"soteriafl-gd": ("scheme.gradient_clip=1.0",), "dp-fed": ("scheme.coordinate_clip=0.1",)}.get(name, ())
    base = (f"scheme.name={name}", "local.epochs=0", "local.steps=2", *own)
    overrides = ("privacy.epsilon=1.2", "privacy.bound=accountant")
    assert not list(without_effect(overrides, [small_settings(*base, *overrides)]))
    given = (*base, "scheme.noise_multiplier=1.5")
    rows = [small_settings(*given, *overrides)]
    assert list(without_effect(overrides, rows)) == [
        f"{key} has no effect: scheme.noise_multiplier is 1.5" for key in ("privacy.epsilon", "privacy.bound")
    ]
    assert not changed_by(overrides, given)
    assert not list(without_effect(overrides, [*rows, small_settings(*overrides)]))


def test_that_an_engine_does_not_clip_gradients_is_told() -> None:
    """By whichever file it is set; schemes that do not clip them keep the engine."""
    clipped = ("local.engine=dense", "task.model=mlp", "local.gradient_clip_norm=0.5")
    told = "local.engine: 'dense' does not clip gradients (local.gradient_clip_norm); another engine is used"
    assert list(without_effect([], [small_settings(*clipped)])) == [told]
    assert world(small_settings(*clipped)).trainer.engine != "dense"
    assert not list(without_effect([], [small_settings(*clipped[:2])]))
    assert not list(without_effect([], [small_settings("local.gradient_clip_norm=0.5")]))


def test_nothing_is_said_of_what_counts_in_one_row() -> None:
    rows = [small_settings("power.peak_db=3"), small_settings("power.peak_db=3", "scheme.name=fedavg")]
    assert not list(without_effect([], rows))
    assert not list(without_effect(["power.peak_db=3"], rows))
    overrides = ["channel.rician_k=5.0"]
    rician = small_settings("channel.fading=rician", *overrides)
    assert not list(without_effect(overrides, [rician]))
    assert not list(without_effect(overrides, [small_settings(*overrides), rician]))
    assert len(list(without_effect(overrides, [small_settings(*overrides)]))) == 1
    assert not list(without_effect(["run.rounds=3"], [rician]))


def test_of_a_replayed_channel_what_its_file_sets_is_told_too() -> None:
    """In one line, without what stands at its default, and without what ageing uses after all."""
    replayed = ["channel.fading=replay", "channel.replay_file=gains.h5"]
    settings = small_settings(*replayed, "channel.mean_gain=0.5", "channel.speed_m_s=3.0", "channel.round_s=2.0")
    assert list(without_effect(replayed, [settings])) == [
        "channel.mean_gain, channel.round_s have no effect: channel.fading is replay",
        "channel.speed_m_s has no effect: channel.fading is replay, and csi.delay_s is 0",
    ]
    assert not list(without_effect(replayed, [small_settings(*replayed)]))
    aged = small_settings(*replayed, "channel.speed_m_s=3.0", "csi.delay_s=0.001")
    assert not list(without_effect(["channel.speed_m_s=3.0"], [aged]))
    locked = small_settings(*replayed, "channel.carrier_hz=3e10", "csi.oscillator=r1-163984-a")
    assert not list(without_effect(["channel.carrier_hz=3e10"], [locked]))
    assert not list(without_effect(replayed, [settings, small_settings("channel.mean_gain=0.5")]))


@pytest.mark.parametrize("override", ["antennas.broadside_deg=-45.0", "antennas.array=circular"])
def test_the_array_that_receives_recorded_paths_has_an_effect(override: str) -> None:
    """One recorded antenna with angles stands for any array: what turns or forms it is not called useless."""
    street = data_folder() / "street-canyon" / "channel.h5"
    base = ("channel.fading=replay", f"channel.replay_file={street}", "channel.replay_rounds=wrap", "antennas.count=4")
    base = (*base, *IN_CELL, "grid.subcarriers=24", "grid.spacing_hz=30000.0")
    assert not list(without_effect([override], [small_settings(*SHORT, *base, override)]))
    assert "alignment_coefficient of round 0" in changed_by([override], base)


def test_a_sweep_of_what_changes_nothing_says_so(gains: Path, tmp_path: Path, monkeypatch: Any, capsys: Any) -> None:
    """Before it begins."""
    words = ("channel.fading=replay", f"channel.replay_file={gains}", "channel.mean_gain=0.1,0.2", *SMALL, *SHORT)
    monkeypatch.setattr("airfl.study.sweeps.sweep.run_points", lambda *_: sys.exit("begun"))
    with pytest.raises(SystemExit, match="begun"):
        sweep(DEMO, list(words), out=tmp_path / "s")
    assert capsys.readouterr().err.splitlines()[0] == "channel.mean_gain has no effect: channel.fading is replay"


def test_a_budget_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    budget(DEMO, ["run.rounds=2", "channel.rician_k=5.0"])
    assert "channel.rician_k has no effect: channel.fading is exponential, not rician" in capsys.readouterr().err


def test_correlated_shadowing_of_very_many_devices_is_announced(capsys: pytest.CaptureFixture[str]) -> None:
    """For umi it is correlated by default; a topology is needed, and few devices take no time."""
    cell = ("topology.kind=disc", "run.devices=1000000")
    told = slow_shadowing(small_settings(*cell).radio, 1_000_000)
    assert told is not None
    assert "topology.shadowing_correlation_m" in told
    assert "1,000,000 devices takes minutes" in told
    say_without_effect((), [small_settings(*cell), small_settings(*cell, "run.seed=1")])
    assert capsys.readouterr().err.splitlines() == [told]
    for radio, devices in (
        (small_settings(*cell).radio, 100_000),
        (small_settings("run.devices=1000000").radio, 1_000_000),
        (small_settings(*cell, "topology.shadowing_correlation_m=0").radio, 1_000_000),
        (small_settings(*cell, "topology.path_loss=log-distance").radio, 1_000_000),
    ):
        assert slow_shadowing(radio, devices) is None


@pytest.mark.parametrize(
    ("place", "fewest", "told"),
    [
        ("topology.neighbours=[[600,0],[0,-700]]", 60_000, "60,000 devices in each of 3 cells, 300,000 links, takes"),
        ("topology.access_points=[[0,0],[90,0],[0,90]]", 100_000, "100,000 devices, 300,000 links, takes minutes"),
        (
            "topology.access_points=[[0,0],[90,0]] topology.neighbours=[[600,0]] antennas.count=2",
            50_000,
            "50,000 devices in each of 2 cells, 300,000 links, takes minutes",
        ),
        (
            "topology.neighbours=[[600,0],[0,-700]] power.across_cells=sum",
            33_334,
            "33,334 devices in each of 3 cells, 300,006 links, takes minutes",
        ),
    ],
)
def test_shadowing_is_announced_by_its_number_of_links(place: str, fewest: int, told: str) -> None:
    """A device has a link to every access point; one of a neighbouring cell to its own and those of this cell, or to
    those of all cells."""
    radio = small_settings("topology.kind=disc", "antennas.count=3", *place.split()).radio
    notice = slow_shadowing(radio, fewest)
    assert notice is not None
    assert told in notice
    assert slow_shadowing(radio, fewest - 1) is None
