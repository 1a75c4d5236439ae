"""The privacy statement of a run: what its privacy figures refer to, by its settings."""

from __future__ import annotations

from airfl.config.settings import Settings
from airfl.errors import UserError
from airfl.privacy.statement import Level, Statement
from airfl.selection.select import sampling_of
from airfl.uplinks.radio.visibility import beta_depends_on_sample, is_granted, received_equally


def statement_of(
    settings: Settings,
    level: Level,
    link: str,
    calibrated: bool = False,
    memory: bool = False,
    device_noise: bool = False,
    silent: bool = False,
) -> Statement:
    """Return the privacy statement of a run over this link.

    At client level a digital server without secure aggregation sees single messages and knows whom it selected. Record
    level protects from the server, which sees every message; there the sampling is that of a device's records.

    Args:
        settings: The settings of the run.
        level: Whose data is protected.
        link: Kind of the uplink.
        calibrated: Whether the accountant sets the noise, which must then suffice for whatever beta reveals.
        memory: Whether messages depend on state kept on the devices.
        device_noise: Whether devices add noise.
        silent: Whether some devices have no channel in some rounds.

    Raises UserError where privacy.observer is "third_party" and the server sees single messages.
    """
    observer = settings.privacy.observer
    secure = link != "digital" or settings.digital.secure_aggregation != "off"
    if observer == "third_party" and not (secure and level == "client"):
        raise UserError(
            "privacy.observer: third_party needs a server that does not see single messages, but it does here; use "
            "auto or server"
        )
    client = level == "client"
    at_server = not (client and secure and observer != "server")
    # The server observes the samples of all its antennas, on which the devices' amplitudes are not aligned.
    unequal = link == "analog" and at_server and settings.antennas.count > 1
    unknown_before = link == "analog" and settings.privacy.gains == "public" and beta_depends_on_sample(settings.radio)
    granted = client and (
        is_granted(settings.radio, settings.server.weights, link, device_noise, silent)
        or (calibrated and unknown_before)
    )
    return Statement(
        level=level,
        sampling=sampling_of(settings.selection.rule) if client else "without_replacement",
        selected=settings.run.selected,
        devices=settings.run.devices,
        observer="server" if at_server else "third_party",
        delta=settings.delta,
        tail=settings.csi_tail if client else 0.0,
        accountant=settings.privacy.privacy_accountant,
        # A device that is not received, or with less power than others, incurs less than is accounted. So do all if the
        # observer knows less of the selection than is granted.
        attained=received_equally(settings.radio, settings.server.weights, link, silent)
        and not unequal
        and not (granted and not at_server)
        and (not client or settings.privacy.csi_error == "realised"),
        gains=settings.privacy.gains,
        granted=granted,
        memory=memory and client,
    )
