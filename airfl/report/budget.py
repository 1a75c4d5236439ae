"""The table and the figure of a link budget."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from airfl.analysis.budget import Budget
from airfl.report.figures import COLOURS, check_new_figures, lighten, write_figure
from airfl.report.terminal import AT_BOUND, two_columns
from airfl.runtime.notebook.style import PAGE, Style
from airfl.runtime.numbers import counted, figure, scientific

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from rich.table import Table

FILES = ("budget.png", "budget.pdf")
BINS = 40
HATCHES = ("////", "....")


def budget_table(budget: Budget, delta: float) -> Table:
    """Return a table of two columns, quantity and value."""
    return two_columns(f"{budget.scheme}: {counted(budget.rounds, 'round')}", AT_BOUND, _lines(budget, delta))


def _lines(budget: Budget, delta: float) -> list[tuple[str, str]]:
    beta = budget.alignment_coefficient_median
    unit = "device" if budget.level == "client" else budget.level
    claimed = "ε claimed for the run" if budget.claim_scope == "run" else "largest ε claimed for a round"
    return [
        ("parameters d", f"{budget.dimension:,}"),
        ("entries per round, k", f"{budget.entries_per_round:,}"),
        ("entries per device over the run, k T", f"{budget.entries_per_device:,} = {_in_d(budget)} d"),
        (f"energy of all devices ({budget.units})", scientific(budget.energy_j)),
        ("resource elements", f"{budget.resource_elements:,}"),
        *_optional(budget),
        ("air time (s)", _seconds(budget.air_time_s)),
        *_digital(budget),
        *_interference(budget),
        ("alignment coefficient β, median", figure(beta)),
        ("rounds in which the privacy bound determines β", f"{100 * budget.privacy_bound_binding_share:.1f}%"),
        (
            f"noise multiplier (noise over a {unit}'s largest contribution), smallest over rounds",
            figure(budget.noise_multiplier_min),
        ),
        (f"{claimed} (δ = {delta:g})", figure(budget.epsilon_paper)),
        ("ε of the worst round, at most, for the sampling that is used", figure(budget.epsilon_round_max)),
        ("ε of that round accounted as Poisson", figure(budget.epsilon_round_max_as_poisson)),
    ]


def _digital(budget: Budget) -> list[tuple[str, str]]:
    """Return the lines on digital links, and on devices that keep state between rounds."""
    lines = []
    if budget.uplink_bits:
        lines.append(("bits of all messages", scientific(budget.uplink_bits)))
        lines.append(("cost per device as defined by the papers (MB)", figure(budget.paper_cost_mb)))
    if budget.device_memory_bytes:
        lines.append(("state of a device between rounds (MB)", figure(budget.device_memory_bytes / 1e6)))
    return lines


def _interference(budget: Budget) -> list[tuple[str, str]]:
    """Return the lines on interference and other disturbances of the sum, if there are any."""
    if not budget.interference_std > 0:
        return []
    return [
        ("noise on an entry of the mean (standard deviation)", figure(budget.noise_std)),
        ("interference and distortion on an entry of the mean (standard deviation)", figure(budget.interference_std)),
        ("squared error by both, over that by noise alone (dB)", figure(budget.error_over_noise_db)),
    ]


def _optional(budget: Budget) -> list[tuple[str, str]]:
    """Return the lines on pilots, the downlink and silent devices, if the run has any."""
    lines = []
    if budget.pilot_elements:
        lines.append(("of these, pilots", f"{budget.pilot_elements:,}"))
    if budget.amplifier_energy_j:
        lines.append(
            (f"energy that the devices' amplifiers draw ({budget.units})", scientific(budget.amplifier_energy_j))
        )
    if budget.fronthaul_bits:
        lines.append(("bits over the fronthaul", scientific(budget.fronthaul_bits)))
    if budget.downlink_elements:
        lines.append(("resource elements of the downlink", f"{budget.downlink_elements:,}"))
        lines.append((f"energy of the downlink ({budget.units})", scientific(budget.downlink_energy_j)))
        lines.append(("air time of the downlink (s), included below", _seconds(budget.downlink_air_time_s)))
    if budget.silent_share:
        lines.append(("selected devices that do not transmit", f"{100 * budget.silent_share:.1f}%"))
    return lines


def _seconds(duration_s: float) -> str:
    return f"{duration_s:,.1f}" if duration_s >= 100 else f"{duration_s:.4g}"


def _in_d(budget: Budget) -> str:
    return f"{budget.entries_per_device / budget.dimension:,.6g}"


def plot_budget(budget: Budget, out: Path, style: Style | None = None) -> list[Path]:
    """Write the figure to out/budget.png and out/budget.pdf, which must not exist, and return these files."""
    check_new_figures(out, FILES)
    files, size = [out / name for name in FILES], (PAGE, 2.7) if style else (10, 3.8)
    return write_figure(lambda drawing: draw_budget(drawing, budget), files, size, style)


def draw_budget(drawing: Figure, budget: Budget) -> None:
    """Draw a histogram of beta by the constraint that determined it (left), and the cumulative energy (right)."""
    left, right = drawing.subplots(1, 2)
    _draw_coefficients(left, budget)
    right.plot(np.arange(1, budget.rounds + 1), np.cumsum(budget.round_energy), color=COLOURS[0])
    right.set(
        xlabel="round", ylabel=f"cumulative energy of all devices ({budget.units})", ylim=(0, None), xlim=(0, None)
    )
    for axis in (left, right):
        lighten(axis)
    drawing.suptitle(f"{budget.scheme}, d = {budget.dimension:,}, {counted(budget.rounds, 'round')}", fontsize="medium")


def _draw_coefficients(axis: Axes, budget: Budget) -> None:
    """Draw a stacked histogram: rounds in which the power limits determine beta, the privacy bound, or a setting such
    as power.coefficient."""
    known = np.isfinite(budget.alignment_coefficient) & (budget.alignment_coefficient > 0)
    if not known.any():
        axis.text(
            0.5, 0.5, "no power alignment on this link, hence no β", ha="center", va="center", transform=axis.transAxes
        )
        axis.set_axis_off()
        return
    beta, private = budget.alignment_coefficient[known], budget.privacy_bound_binding[known]
    powered = budget.power_bound_binding[known] & ~private
    kinds = {"the power limit": powered, "the privacy bound": private, "neither": ~(powered | private)}
    if not kinds["neither"].any():
        del kinds["neither"]
    labels = [f"set by {name} ({100 * of_kind.mean():.0f}%)" for name, of_kind in kinds.items()]
    style: dict[str, Any] = {"color": COLOURS[: len(kinds)], "stacked": True}
    bars: Any = axis.hist([beta[of_kind] for of_kind in kinds.values()], bins=BINS, label=labels, **style)[2]
    for of_kind, hatch in zip(bars[1:], HATCHES, strict=False):  # distinct in greyscale
        for bar in of_kind:
            bar.set(hatch=hatch, edgecolor="white", linewidth=0)
    axis.set(xlabel="alignment coefficient β", ylabel="rounds")
    axis.legend(frameon=False, fontsize="small", loc="best")
