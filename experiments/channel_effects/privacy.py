"""The effect of imperfect CSI on privacy accounting."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from airfl.core.accounting import noise_multiplier
from airfl.privacy.events import Gaussian
from airfl.privacy.ledger import PrivacyLedger
from airfl.privacy.statement import Statement
from channel_effects.drawing import label, line, panels, quote
from channel_effects.rounds import RAYLEIGH, Array, opened, scenario_of

ROUNDS, DELTA, RATIO = 100, 1e-3, 0.3
LEVELS_DB = np.arange(0.0, 61.0, 5.0)
AT = {4: "20 dB", 8: "40 dB", 12: "60 dB"}


def privacy(figure: Figure) -> list[str]:
    """Noise multiplier and epsilon of one round against the SNR of a pilot; PFELS, 100 rounds, r = 32 of 1,000."""
    left, right = panels(figure)
    numbers = []
    for number, (csi_error, tail) in enumerate({"realised": 0.0, "quantile": DELTA / 2}.items()):
        multipliers = np.array([_quantiles(level, csi_error) for level in LEVELS_DB])
        epsilons = np.array([[_epsilon(value, tail, granted=True) for value in row] for row in multipliers])
        for axis, shown in ((left, multipliers), (right, epsilons)):
            axis.plot(LEVELS_DB, shown[:, 1], label=f"{csi_error} (5 to 95%)", **line(number, marked=True))
            colour = line(number)["color"]
            axis.fill_between(LEVELS_DB, shown[:, 0], shown[:, 2], color=colour, alpha=0.15, linewidth=0)
        numbers.append(quote(f"{csi_error}: median noise multiplier", multipliers[:, 1], AT, ".3g"))
        numbers.append(quote(f"{csi_error}: ε of the round", epsilons[:, 1], AT, ".4g"))
    unbounded = np.array([_quantiles(level, "unbounded")[1] for level in LEVELS_DB])
    left.plot(LEVELS_DB, unbounded, label="unbounded: 0, ε = ∞", **line(2))
    perfect = _quantiles(None, "realised")[1]
    left.axhline(perfect, label="perfect CSI", **line(6))
    right.axhline(_epsilon(perfect, 0.0), label="perfect CSI", **line(6))
    label(left, "pilot SNR (dB)", "noise multiplier of a round", legend="upper left", ylim=(-0.005, 0.175))
    label(right, "pilot SNR (dB)", "ε of one round (δ = 0.001)", legend="upper right", yscale="log")
    return [
        *numbers,
        f"unbounded: noise multiplier {unbounded.max():g} at every level, ε infinite",
        f"perfect CSI: noise multiplier {perfect:.3g}, ε of the round {_epsilon(perfect, 0.0):.4g}",
    ]


def _quantiles(pilot_snr_db: float | None, csi_error: str) -> Array:
    """Return the 5%, 50% and 95% quantiles of the noise multiplier over rounds."""
    pfels = ("scheme.name=pfels", f"scheme.ratio={RATIO}", "local.clip_norm=1.0", "privacy.epsilon=1.5")
    csi = () if pilot_snr_db is None else ("csi.estimation=mmse", f"csi.pilot_snr_db={pilot_snr_db}")
    unit = (*RAYLEIGH, *pfels, *csi, "power.max_snr_db=30.0", f"privacy.csi_error={csi_error}", f"run.rounds={ROUNDS}")
    scenario = scenario_of(unit, entries=1000, devices=1000)
    multipliers = [noise_multiplier(scenario, one.link.link_budget()) for one in opened(scenario, ROUNDS)]
    return np.asarray(np.quantile(multipliers, [0.05, 0.5, 0.95]))


def _epsilon(multiplier: float, tail: float, granted: bool = False) -> float:
    """Return epsilon of one round. granted: whether the observer is assumed to know who was selected, as if devices are
    received with different amplitudes."""
    statement = Statement("client", "without_replacement", 32, 1000, "third_party", DELTA, tail, granted=granted)
    ledger = PrivacyLedger(statement)
    return ledger.of_one_round(Gaussian(float(multiplier), RATIO))
