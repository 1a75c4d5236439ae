"""OFDM waveform in time compared with the per-subcarrier model; PAPR and clipping."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy.special import erfc

from airfl.core.round_plan import plan_round
from airfl.uplinks import AnalogUplink
from channel_effects.drawing import ERROR, dots, label, line, panels, quote
from channel_effects.rounds import FIXED, WIDE, errors, messages, scenario_of, sent
from channels.waveform import Waveform, papr_db

SUBCARRIERS, TAPS, DEVICES = 256, 8, 8
PREFIX_S = 18 / (SUBCARRIERS * 15e3)  # the mean prefix of 4.76 us, rounded to whole samples


def waveform(figure: Figure) -> list[str]:
    """Left: error beyond the prefix, median of 20 rounds; middle: PAPR, 10,000 symbols; right: clipping, 20 rounds. r =
    8, K = 256."""
    left, middle, right = panels(figure, 3)
    return [*_beyond_prefix(left), *_peaks(middle), *_clipping(right)]


def _beyond_prefix(axis: Axes) -> list[str]:
    spans = np.array([0.0, 0.25, 0.5, 0.75, 1.0, 1.1, 1.25, 1.5, 2.0, 3.0])
    spreads_s = spans * PREFIX_S / (TAPS - 1) / np.sqrt(12 / (TAPS**2 - 1))
    both = np.array([_both(f"channel.delay_spread_s={spread_s}") for spread_s in spreads_s])
    difference, simulated, modelled = both.T
    axis.axvspan(0, 1, color="0.86", linewidth=0, label="prefix")
    axis.plot(spans[5:], modelled[5:], label="model per subcarrier", **line(0))
    axis.plot(spans[5:], simulated[5:], label="waveform", **dots(0))
    label(axis, "last echo over the prefix", ERROR, legend="upper left", yscale="log")
    axis.set_xlim(0, spans[-1])
    places = {5: "1.1 prefixes", 7: "1.5 prefixes", 9: "3 prefixes"}
    return [
        f"waveform and model per subcarrier: means differ by at most {max(difference[:5]):.1g} within the prefix",
        quote("waveform: error", simulated, places),
        quote("model per subcarrier: error", modelled, places),
    ]


def _both(override: str) -> tuple[float, float, float]:
    """Run the waveform and the per-subcarrier model on the same taps. Return ||mean - mean'||/||mean'|| of the decoded
    means, and the median error of each."""
    import torch

    from airfl.uplinks.stages import Batch

    taps = ("channel.fading=tapped-line", "channel.mean_gain=1.0", *WIDE, f"channel.taps={TAPS}", override)
    unit = (*taps, "channel.noise=false", f"grid.subcarriers={SUBCARRIERS}", "grid.waveform=true")
    scenario = scenario_of(unit, entries=4096, devices=DEVICES, selected=DEVICES)
    uplink = scenario.recipe.uplink
    assert isinstance(uplink, AnalogUplink)
    plain = replace(scenario, recipe=replace(scenario.recipe, uplink=replace(uplink, waveform=None)))
    difference, whole, measured = 0.0, 0.0, []
    for index in range(20):
        values = torch.from_numpy(messages(DEVICES, 4096, scenario.bound.rms, index))
        links = [plan_round(one, index, one.memory).link for one in (scenario, plain)]
        for link in links:
            link.send(Batch(values, torch.ones(DEVICES)), slice(0, DEVICES))
        simulated, modelled = (link.close().mean.numpy().astype(np.float64) for link in links)
        difference, whole = difference + float(((simulated - modelled) ** 2).sum()), whole + float((modelled**2).sum())
        mean = values.double().mean(dim=0).numpy()
        means = (simulated, modelled)
        measured.append([float(((one - mean) ** 2).sum()) * DEVICES / scenario.bound.rms**2 for one in means])
    medians = np.median(measured, axis=0)
    return float(np.sqrt(difference / whole)), float(medians[0]), float(medians[1])


def _peaks(axis: Axes) -> list[str]:
    levels, grid = np.linspace(4, 13, 100), Waveform(SUBCARRIERS, 18, SUBCARRIERS)
    parts = np.random.default_rng(9).standard_normal((2, 20, 500, SUBCARRIERS))
    numbers = []
    for number, (packing, symbols) in enumerate({"real": parts[0] + 0j, "iq": parts[0] + 1j * parts[1]}.items()):
        ratios = papr_db(symbols, grid).ravel()
        axis.plot(levels, (ratios[:, None] > levels).mean(axis=0), label=packing, **line(number))
        rare = np.quantile(ratios, 0.99)
        numbers.append(f"PAPR, {packing}: median {np.median(ratios):.1f} dB, one symbol of 100 above {rare:.1f} dB")
    power = 10 ** (levels / 10)
    axis.plot(levels, 1 - (1 - np.exp(-power)) ** (2.8 * SUBCARRIERS), label="1 - (1 - e^-γ)^2.8K", **line(6))
    label(axis, "PAPR γ (dB)", "share of symbols above", legend="upper left", yscale="log", ylim=(1e-3, 30))
    return numbers


def _clipping(axis: Axes) -> list[str]:
    limits, smooth = np.arange(-2.0, 11.0, 2.0), np.linspace(-2, 10, 100)
    cut = 10 ** (smooth / 20)
    axis.plot(smooth, np.exp(-(cut**2)) - cut * np.sqrt(np.pi) * erfc(cut), label="closed form", **line(0))
    base = (*FIXED, "channel.noise=false", f"grid.subcarriers={SUBCARRIERS}", "grid.packing=iq", "grid.waveform=true")
    rounds = [
        sent(scenario_of((*base, f"grid.clip_db={limit}"), entries=2048, devices=DEVICES, selected=DEVICES), 20)
        for limit in limits
    ]
    measured = [errors(each).mean() for each in rounds]
    shares = [100 * np.mean([one.report.waveform_clipped_share for one in each]) for each in rounds]
    axis.plot(limits, measured, label="link", **dots(0))
    label(axis, "clip level over rms (dB)", ERROR, legend="lower left", yscale="log")
    at = {1: "0 dB", 3: "4 dB", 5: "8 dB"}
    return [quote("clipping: error", measured, at), quote("clipping: % of the samples", shares, at)]
