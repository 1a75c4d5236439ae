"""Federated learning schemes, one file each, in the order of the scheme's paper. Names are registered in names.py.

    airfl.schemes.Pfels(ratio=0.3)

The classes are available here by name and are imported on first access; `help(airfl.schemes.Pfels)` lists the
parameters.
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

# Measured: a cell takes 50 bytes per device of the population, 150 with a topology. Doubled for the rest of a run.
BYTES_A_DEVICE = 300
MOST_ROUNDS = 1_000_000


def fitted(settings: Settings) -> Settings:
    """Return the settings adapted to the scheme.

    If the scheme prescribes a power policy, it is set, and any other policy raises UserError. On a frequency-selective
    channel, a policy for flat channels is replaced by its per-subcarrier version. On digital and ideal links, settings
    that affect only analog messages are reset.
    """
    entry = settings.scheme
    if entry.carrier != "analog":
        settings = _for_bits(settings)
    power = settings.power
    if entry.policy is None:
        return settings
    prescribed = [entry.policy]
    if entry.policy == "truncated-inversion":
        prescribed.append("per-subcarrier-truncated")
    default = prescribed[-1 if settings.channel.fading_model.selective else 0]
    policy = default if power.policy == "pfels" else power.policy
    if policy not in prescribed:
        raise UserError(
            f"power.policy: scheme {entry.name!r} prescribes {' or '.join(prescribed)}, got {power.policy!r}; omit it"
        )
    threshold_set = power.threshold or power.participation is not None or power.coefficient is not None
    threshold = power.threshold if threshold_set else entry.threshold
    return settings.resolved(power={"policy": policy, "threshold": threshold})


def _for_bits(settings: Settings) -> Settings:
    """Reset settings that have no effect on digital and ideal links.

    Modulated bits use both parts of a resource element, the receiver tracks the phase, and privacy does not depend on
    the channel. `airfl.config.without_effect` warns users who set these keys.
    """
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
    """Check that the scheme and the radio can be built from the settings, without reading data or importing torch.

    Args:
        settings: All settings of the run.
        task: A user-defined task that the settings are for, if any.
        folders: Folders that are searched for data sets whose class does not declare their size.

    Raises UserError if they cannot be built.
    """
    from airfl.building import build_cell
    from airfl.tasks import dimension_of, equal_share, training_samples

    samples = equal_share(settings.task, settings.run.devices, training_samples(settings.task, folders, task))
    build_cell(settings, dimension_of(settings.task, task), equal_weights(settings.run), samples)


def equal_weights(run: RunSettings) -> NDArray[np.float64]:
    """Return equal weights for the devices' updates, all 1, [N].

    Raises UserError if the devices do not fit in memory or there are more than `MOST_ROUNDS` rounds.
    """
    import numpy as np

    devices, rounds = run.devices, run.rounds
    memory = machine_bytes()
    if devices * BYTES_A_DEVICE > memory:
        raise UserError(
            f"run.devices: {devices:,} devices need {devices * BYTES_A_DEVICE / 1e9:.3g} GB, but this machine has "
            f"{memory / 1e9:.3g} GB; use fewer"
        )
    if rounds > MOST_ROUNDS:
        raise UserError(f"run.rounds: must be at most {MOST_ROUNDS:,}, got {rounds:,}")
    return np.ones(devices)


def nominal_samples(task: TaskSettings, devices: int) -> int:
    """Return the samples per device if the training data is divided equally, without reading the data."""
    from airfl.tasks import equal_share, training_samples

    return equal_share(task, devices, training_samples(task))


_class_named, __dir__ = lazily(__name__, ("SCHEMES", "Scheme"), SCHEMES)


def __getattr__(name: str) -> type[Scheme]:
    return SCHEMES.base if name == "Scheme" else _class_named(name)
