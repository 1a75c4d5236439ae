"""The radio of given settings, built without a scheme or privacy claims."""

from airfl.config import Settings
from airfl.runtime.streams import Streams
from airfl.uplinks import radio


def check_radio(settings: Settings) -> None:
    """Raise UserError if the settings of the radio contradict each other."""
    radio.check_radio(settings.radio, settings.run.devices)


def radio_of(settings: Settings) -> radio.Radio:
    """Return the radio of these settings, which holds for all rounds."""
    run = settings.run
    return radio.build_radio(settings.radio, Streams(run.seed), devices=run.devices, rounds=run.rounds)
