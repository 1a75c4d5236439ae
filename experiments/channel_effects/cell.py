"""The cell: topology, air time on the resource grid, and interference from other cells."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from airfl.core.accounting import noise_multiplier
from airfl.core.scenario import Scenario
from airfl.privacy.events import Gaussian
from airfl.privacy.ledger import PrivacyLedger
from airfl.privacy.statement import Statement
from channel_effects.drawing import ERROR, dots, label, line, panels, quote
from channel_effects.rounds import FIXED, errors, opened, scenario_of, sent
from channels.grid import exact_grid
from channels.topology.path_loss import Paths, path_losses

PHYSICAL = ("channel.units=physical", "channel.fading=rayleigh", "grid.subcarriers=256", "power.tx_power_dbm=23.0")
DISC = (*PHYSICAL, "topology.kind=disc")


def topology(figure: Figure) -> list[str]:
    """Left path loss, and 300 devices of a drop; right the error against the radius, median of 100 rounds, r = 16."""
    left, right = panels(figure)
    _path_loss(left)
    return _by_radius(right)


def _path_loss(axis: Axes) -> None:
    distances = np.geomspace(10, 500, 60)
    models = (("log-distance", 1.5, "los"), ("umi", 10.0, "los"), ("umi", 10.0, "nlos"), ("uma", 25.0, "nlos"))
    for number, (name, base_height_m, sight) in enumerate(models):
        paths = Paths(distances, base_height_m, 1.5, 3.5e9, exponent=3.0)
        loss = path_losses(name, paths, sight, np.full((60, 2), 0.5))[0]
        text = "log-distance, n = 3" if name == "log-distance" else f"{name}, {sight.upper()}"
        axis.plot(distances, loss, label=text, **line(number))
    drop = scenario_of((*DISC, "topology.radius_m=500.0"), devices=300, selected=16).radio.drop
    assert drop is not None
    axis.plot(drop.distance_m, drop.path_loss_db, ".", color="0.6", markersize=2.5, label="umi, shadowed", zorder=0)
    label(axis, "distance (m)", "path loss (dB)", legend="upper left", xscale="log", ylim=(50, 190))


def _by_radius(axis: Axes) -> list[str]:
    radii = np.array([50.0, 100.0, 200.0, 300.0, 400.0, 500.0])
    policies = {
        "full inversion (pfels)": ("power.policy=pfels",),
        "truncated, 80% take part": ("power.policy=truncated-inversion", "power.participation=0.8"),
        "Cao et al.": ("power.policy=cao",),
    }
    numbers = []
    for number, (name, overrides) in enumerate(policies.items()):
        scenarios = [
            scenario_of((*DISC, *overrides, f"topology.radius_m={radius}"), devices=300, selected=16)
            for radius in radii
        ]
        rounds = [sent(scenario, 100) for scenario in scenarios]
        measured = [np.median(errors(each)) for each in rounds]
        axis.plot(radii, measured, label=name, **line(number, marked=True))
        at = {1: "100 m", 3: "300 m", 5: "500 m"}
        if not number:
            snr = np.array([np.quantile(_snr_db(scenario), [0.5, 0.05]) for scenario in scenarios])
            noise_std = scenarios[0].radio.noise_std
            betas = [np.median([one.report.alignment_coefficient for one in each]) / noise_std for each in rounds]
            numbers.append(quote("receive SNR in dB, median device", snr[:, 0], at, ".1f"))
            numbers.append(quote("receive SNR in dB, 5% of the devices are below", snr[:, 1], at, ".1f"))
            numbers.append(quote("β of full inversion in units of σ0", betas, at))
        numbers.append(quote(f"{name}: error", measured, at))
    label(axis, "radius of the cell (m)", ERROR, legend="lower right", yscale="log")
    return numbers


def _snr_db(scenario: Scenario) -> np.ndarray:
    """Return the mean receive SNR over fading of each device at its power limit in dB, [devices]."""
    assert scenario.radio.drop is not None
    received = scenario.power_limits / scenario.dimension * scenario.radio.drop.amplitude**2
    return np.asarray(10 * np.log10(received / scenario.radio.noise_std**2))


def grid(figure: Figure) -> list[str]:
    """Left air time against entries, 273 resource blocks; right a round's at 15 kHz, median of 20, r = 32 of 1,000."""
    left, right = panels(figure)
    numbers, entries = [], np.unique(np.geomspace(100, 1e6, 400).astype(int))
    for number, spacing in enumerate((15e3, 30e3, 60e3, 120e3)):
        one = exact_grid(3276, spacing)
        left.plot(entries, [1e3 * one.occupy(count).air_time_s for count in entries.tolist()], **line(number))
        left.lines[-1].set_label(f"{spacing / 1e3:g} kHz")
        use = one.occupy(1_000_000)
        numbers.append(
            f"{spacing / 1e3:g} kHz: 10^6 entries take {use.ofdm_symbols} symbols, {1e3 * use.air_time_s:.2f} ms"
        )
    label(left, "entries", "air time (ms)", legend="upper left", xscale="log", yscale="log")

    sizes = np.geomspace(1e3, 1e7, 9).astype(int)
    ways = {"real": (), "iq": ("grid.packing=iq",), "real, with the downlink": ("grid.downlink=true",)}
    for number, (name, overrides) in enumerate(ways.items()):
        times = [_air_time_ms(int(size), *overrides) for size in sizes]
        right.plot(sizes, times, label=name, **line(number, marked=True))
        numbers.append(f"{name}: a round of d = 10^6, p = 0.3, takes {times[6]:.3g} ms")
    label(right, "parameters d", "air time of a round (ms)", legend="upper left", xscale="log", yscale="log")
    return numbers


def _air_time_ms(dimension: int, *overrides: str) -> float:
    pfels = ("scheme.name=pfels", "scheme.ratio=0.3", "local.clip_norm=1.0")
    scenario = scenario_of(
        (*pfels, "grid.prefix=normal", "grid.subcarriers=3276", *overrides), entries=dimension, devices=1000
    )
    times = [
        one.link.link_budget().use.air_time_s + (one.broadcast.air_time_s if one.broadcast else 0.0)
        for one in opened(scenario, 20)
    ]
    return float(1e3 * np.median(times))


def interference(figure: Figure) -> list[str]:
    """Error and noise multiplier against the interference; 60 rounds, r = 32 of 1,000, 0 dB, no fading."""
    left, right = panels(figure)
    levels, smooth = np.arange(-20.0, 21.0, 5.0), np.linspace(-20, 20, 80)
    measured, multipliers = [], []
    for level in levels:
        scenario = scenario_of(
            (*FIXED, "power.max_snr_db=0.0", f"channel.interference_to_noise_db={level}"), devices=1000
        )
        rounds = sent(scenario, 60)
        measured.append(errors(rounds).mean())
        # For a device whose update is a single entry of 1.
        multipliers.append(noise_multiplier(scenario, rounds[0].report) * scenario.bound.peak)
    left.plot(smooth, (1 + 10 ** (smooth / 10)) / 32, label="law 1 × (1 + I/N)", **line(0))
    left.plot(levels, measured, label="link", **dots(0))
    right.plot(levels, multipliers, label="receiver noise, which counts", **line(0, marked=True))
    right.plot(smooth, np.sqrt(1 + 10 ** (smooth / 10)), label="with interference, which does not", **line(1))
    label(left, "interference over noise (dB)", ERROR, legend="upper left", yscale="log")
    label(right, "interference over noise (dB)", "noise multiplier of a round", legend="upper left", yscale="log")
    at = {0: "-20 dB", 4: "0 dB", 8: "20 dB"}
    ledger = PrivacyLedger(Statement("client", "without_replacement", 32, 1000, "third_party", 1e-3))
    epsilons = [ledger.of_one_round(Gaussian(multiplier)) for multiplier in multipliers]
    return [
        quote("error", measured, at),
        quote("noise multiplier", multipliers, at, ".4g"),
        quote("ε of one round", epsilons, at, ".3g"),
    ]
