"""Which runs the theorems of the papers cover, and what they take for granted of a run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from airfl.config import Settings
from airfl.errors import UserError
from airfl.theory.bound import Condition
from airfl.theory.radio_rounds import RadioRounds
from airfl.uplinks import AnalogUplink

if TYPE_CHECKING:
    from airfl.core.state import World

PFELS = ("pfels", "wfl-p", "wfl-pdp")
FED_SMP = ("fed-smp-randk", "fed-smp-topk")
FED_SPA = ("fed-spa",)
DIRECT = ("cdp-sgd", "ldp-sgd")
SHIFTED = ("soteriafl-gd", "soteriafl-sgd", "soteriafl-svrg", "soteriafl-saga", "ldp-svrg")
THEOREMS: Mapping[str, str] = {
    **dict.fromkeys(PFELS, "PFELS's theorem 4"),
    **dict.fromkeys(FED_SMP, "Fed-SMP's theorem 2"),
    **dict.fromkeys(FED_SPA, "Fed-SPA's theorem 2"),
    **dict.fromkeys(DIRECT, "SoteriaFL's theorem 1"),
    **dict.fromkeys(SHIFTED, "SoteriaFL's theorem 3"),
}
"""Scheme -> the theorem on its convergence."""


def check_covered(settings: Settings) -> None:
    """Raise UserError, in one line, if no theorem covers these settings."""
    name = settings.scheme.name
    if name not in THEOREMS:
        raise UserError(
            f"scheme.name: no paper has a convergence theorem of {name!r}; there is one of {', '.join(THEOREMS)}"
        )
    local, server = settings.local, settings.server
    wrong = {
        "local.momentum": (local.momentum != 0 and name not in (*DIRECT, *SHIFTED), local.momentum, "0.0"),
        "local.schedule": (local.schedule != "constant", local.schedule, "constant"),
        "server.schedule": (server.schedule != "constant", server.schedule, "constant"),
        "server.learning_rate": (
            server.learning_rate != 1 and name in (*PFELS, *FED_SMP),
            server.learning_rate,
            "1.0",
        ),
        "server.weights": (server.weights != "equal", server.weights, "equal"),
        "selection.kind": (_kind(settings) != "uniform", _kind(settings), "uniform"),
        "scheme.rescale": (getattr(settings.scheme, "rescale", False), True, "false"),
        "scheme.unscaled": (getattr(settings.scheme, "unscaled", False), True, "false"),
        "scheme.error_feedback": (getattr(settings.scheme, "error_feedback", False), True, "false"),
        "power.strict": (settings.power.strict and name in PFELS, True, "false"),
        "run.selected": (
            settings.run.selected != settings.run.devices and name in (*DIRECT, *SHIFTED),
            settings.run.selected,
            f"{settings.run.devices}, all devices",
        ),
    }
    for key, (is_wrong, value, allowed) in wrong.items():
        if is_wrong:
            raise UserError(f"{key}: {THEOREMS[name]} does not cover {value!r}; set {key} = {allowed}")


def _kind(settings: Settings) -> str:
    return str(settings.selection.rule.name)


def check_steps(settings: Settings, world: World) -> None:
    """Raise UserError if devices take unequal numbers of local steps."""
    if settings.scheme.name in (*DIRECT, *SHIFTED):
        return
    steps = {local_steps(settings, int(size)) for size in world.task.partition.sizes}
    if len(steps) > 1:
        raise UserError(
            f"local.epochs: {THEOREMS[settings.scheme.name]} is of the same number of local steps for all devices, "
            f"got {min(steps)} to {max(steps)}; set local.steps instead"
        )


def local_steps(settings: Settings, size: int) -> int:
    """Return tau, the local steps of a device with `size` samples."""
    local = settings.local
    return local.steps or local.epochs * -(-size // local.batch_size)


def conditions_of(settings: Settings, world: World, radio: RadioRounds) -> tuple[Condition, ...]:
    """Return the conditions that every theorem takes for granted."""
    sizes, local, uplink = world.task.partition.sizes, settings.local, world.scenario.recipe.uplink
    equal = bool((sizes == sizes[0]).all())
    robust = isinstance(uplink, AnalogUplink) and settings.antennas.count > 1 and uplink.control.receiver.robust
    disturbances = (*radio.disturbances, *(["antennas that are not summed"] if robust else []))
    found = [
        Condition(
            "samples of a device, so that f is the mean over devices and over samples",
            f"{sizes.min()} to {sizes.max()}",
            "equal",
            equal,
        ),
        Condition("selected devices are heard", "all" if radio.all_heard else "not all", "all", radio.all_heard),
        Condition(
            "disturbances of the mean update",
            ", ".join(disturbances) or "noise alone",
            "noise alone",
            not disturbances,
        ),
    ]
    if isinstance(uplink, AnalogUplink):
        found.append(_same_amplitude(settings, uplink, radio.alike))
    if settings.scheme.name in (*PFELS, *FED_SMP):
        passes = local.batch_size < int(sizes.max()) and local_steps(settings, int(sizes.max())) > 1
        found.append(
            Condition(
                "mini-batches of a device's steps",
                "parts of one shuffled pass" if passes else "independent",
                "independent",
                not passes,
            )
        )
    return tuple(found)


def _same_amplitude(settings: Settings, uplink: AnalogUplink, alike: bool | None) -> Condition:
    """Return the condition that the messages that are heard make up the mean in equal parts (PFELS, eq. 12 and 13)."""
    policy, power = uplink.control.rule, settings.power
    entries = policy.least_power > 0 or power.participation is not None  # of which some devices may leave out some
    silent = entries or policy.target is not None or power.alignment == "schedule"
    value = f"power policy {policy.name}"
    if alike is None:
        alike = policy.aligned and not entries
    elif not alike:
        value += ", different amplitudes"
    if silent and power.divide_by == "expected":
        alike, value = False, f"{value}, divided by the expected number"
    return Condition("messages arrive with the same amplitude", value, "in all rounds", alike)
