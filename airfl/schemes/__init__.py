"""The schemes. One file each, in its paper's order; the registry of names is in names.py.

    airfl.schemes.Pfels(ratio=0.3)

Its classes are here by name, and imported when they are asked for; `help(airfl.schemes.Pfels)` has their parameters.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from airfl.errors import UserError
from airfl.memory import machine_bytes
from airfl.schemes.names import SCHEMES
from channels.part import lazily

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray

    from airfl.config.settings import RunSettings, Settings
    from airfl.config.task import TaskSettings

    # For editors and type checkers, which do not see what `__getattr__` imports.
    from airfl.schemes.a_dsgd import ADsgd as ADsgd
    from airfl.schemes.baa import Baa as Baa
    from airfl.schemes.cdp_sgd import CdpSgd as CdpSgd
    from airfl.schemes.cotaf import Cotaf as Cotaf
    from airfl.schemes.cpsgd import CpSgd as CpSgd
    from airfl.schemes.dp_fed import DpFed as DpFed
    from airfl.schemes.dp_fedavg import DpFedAvg as DpFedAvg
    from airfl.schemes.fed_smp_randk import FedSmpRandK as FedSmpRandK
    from airfl.schemes.fed_smp_topk import FedSmpTopK as FedSmpTopK
    from airfl.schemes.fed_spa import FedSpa as FedSpa
    from airfl.schemes.fedavg import FedAvg as FedAvg
    from airfl.schemes.fedavg_randk import FedAvgRandK as FedAvgRandK
    from airfl.schemes.fedavg_topk import FedAvgTopK as FedAvgTopK
    from airfl.schemes.ldp_sgd import LdpSgd as LdpSgd
    from airfl.schemes.ldp_svrg import LdpSvrg as LdpSvrg
    from airfl.schemes.obda import Obda as Obda
    from airfl.schemes.pfels import Pfels as Pfels
    from airfl.schemes.scheme import Scheme as Scheme
    from airfl.schemes.soteriafl_gd import SoteriaFLGd as SoteriaFLGd
    from airfl.schemes.soteriafl_saga import SoteriaFLSaga as SoteriaFLSaga
    from airfl.schemes.soteriafl_sgd import SoteriaFLSgd as SoteriaFLSgd
    from airfl.schemes.soteriafl_svrg import SoteriaFLSvrg as SoteriaFLSvrg
    from airfl.schemes.wfl_p import WflP as WflP
    from airfl.schemes.wfl_pdp import WflPdp as WflPdp
    from airfl.tasks.own import Task

# Measured: a cell takes 50 a device of the population, 150 with a topology; twice that, for what else a run holds.
BYTES_A_DEVICE = 300
MOST_ROUNDS = 1_000_000


def fitted(settings: Settings) -> Settings:
    """The settings with the power policy that is part of the scheme, where it has one, UserError for another one; and
    over a link that carries bits without what only analog messages meet.

    A policy for flat channels becomes its version per coefficient over a selective one.
    """
    entry = settings.scheme
    if entry.carrier != "analog":
        settings = _for_bits(settings)
    power = settings.power
    if entry.policy is None:
        return settings
    own = [entry.policy]
    if entry.policy == "truncated-inversion":
        own.append("per-subcarrier-truncated")
    wanted = own[-1 if settings.channel.fading_model.selective else 0] if power.policy == "pfels" else power.policy
    if wanted not in own:
        raise UserError(
            f"power.policy: scheme {entry.name!r} has its own, {' or '.join(own)} (given: {power.policy!r}); leave it "
            "out"
        )
    chosen = power.threshold or power.participation is not None or power.coefficient is not None
    threshold = power.threshold if chosen else entry.threshold
    return settings.resolved(power={"policy": wanted, "threshold": threshold})


def _for_bits(settings: Settings) -> Settings:
    """Bits fill both parts of an element and are decoded from a phase that the receiver tracks; what they protect does
    not rest on the channel. `airfl.config.without_effect` tells who sets it otherwise."""
    analog_only: dict[str, dict[str, object]] = {
        "grid": {"packing": "real"},
        "csi": {"phase_std_rad": 0.0} if settings.grid.downlink else {"phase_std_rad": 0.0, "phase_bits": 0},
        "privacy": {"csi_error": "realised"},
    }
    for section, values in analog_only.items():
        if any(getattr(getattr(settings, section), key) != value for key, value in values.items()):
            settings = settings.resolved(**{section: values})
    return settings


def check_recipe(settings: Settings, task: Task | None = None, folders: Sequence[Path] | None = None) -> None:
    """UserError if scheme or radio cannot be built from these settings; needs neither data nor torch. task: of the
    user's own, which the settings are for; folders: where data is looked for whose size no class says."""
    from airfl.building import build_cell
    from airfl.tasks import dimension_of, equal_share, training_samples

    samples = equal_share(settings.task, settings.run.devices, training_samples(settings.task, folders, task))
    build_cell(settings, dimension_of(settings.task, task), equal_weights(settings.run), samples)


def equal_weights(run: RunSettings) -> NDArray[np.float64]:
    """Of the devices' updates, 1 each, [N]; UserError for more devices than fit, or rounds than anybody counts."""
    import numpy as np

    devices, rounds = run.devices, run.rounds
    memory = machine_bytes()
    if devices * BYTES_A_DEVICE > memory:
        raise UserError(
            f"run.devices: {devices:,} devices take {devices * BYTES_A_DEVICE / 1e9:.3g} GB of {memory / 1e9:.3g} GB; "
            "take fewer"
        )
    if rounds > MOST_ROUNDS:
        raise UserError(f"run.rounds: {rounds:,} rounds, at most {MOST_ROUNDS:,} are allowed; take fewer")
    return np.ones(devices)


def nominal_samples(task: TaskSettings, devices: int) -> int:
    """Samples of a device if the training data is divided equally: known without reading it."""
    from airfl.tasks import equal_share, training_samples

    return equal_share(task, devices, training_samples(task))


_class_named, __dir__ = lazily(__name__, ("SCHEMES", "Scheme"), SCHEMES)


def __getattr__(name: str) -> type[Scheme]:
    return SCHEMES.base if name == "Scheme" else _class_named(name)
