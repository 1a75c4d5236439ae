"""Neighbouring cells: devices of their own, as their own base station and that of this cell receive them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from airfl.config.radio_sections import RadioSections
from airfl.runtime.philox import device_uniforms
from airfl.runtime.streams import Purpose, Streams
from airfl.selection import Ids
from airfl.uplinks.radio.parts import cell_of, placed_in, settings_of
from airfl.uplinks.radio.radio import Radio, radio_at
from channels.csi import Response
from channels.frame import Frame
from channels.topology import neighbouring


@dataclass(frozen=True)
class NeighbourCell:
    """A neighbouring cell, which stays the same in all rounds.

    Attributes:
        streams: Its random number streams.
        serving: The radio of its devices with their own base station.
        crossing: The radio of the same devices with the base station of this cell.
    """

    streams: Streams
    serving: Radio
    crossing: Radio

    def crossing_of(self, round_index: int, devices: Ids, frame: Frame) -> Response:
        """Return the true channels of these devices to the base station of this cell, complex [devices, antennas,
        blocks, subcarriers].

        They are turned by a phase that is uniform for each device and round: devices follow the oscillator of their own
        base station, and paths differ by many wavelengths.
        """
        turns = device_uniforms.draw(self.streams, Purpose.NEIGHBOURS, round_index, devices, 1)[:, 0]
        response = self.crossing.channel(round_index, devices, frame).response
        return np.asarray(response * np.exp(2j * np.pi * turns)[:, None, None, None], dtype=np.complex128)


def neighbours_of(
    sections: RadioSections, streams: Streams, *, devices: int, rounds: int, pilots_at_once: bool = False
) -> tuple[NeighbourCell, ...]:
    """Build the neighbouring cells of a run, each with so many devices. Arguments as in `build_radio`.

    What is drawn for a cell does not depend on the number of cells.

    Raises UserError if devices cannot be placed.
    """
    positions = sections.topology.neighbour_positions
    if not positions:
        return ()
    seeds = streams.generator(Purpose.NEIGHBOURS).integers(0, 1 << 64, size=(len(positions), 2), dtype=np.uint64)
    cells = []
    for position, (own, across) in zip(positions, seeds.tolist(), strict=True):
        with settings_of("topology"):
            cell = neighbouring(cell_of(sections.channel, sections.topology), position)
            serving, crossing = placed_in(cell, devices=devices, streams=Streams(own))
        cells.append(
            NeighbourCell(
                streams=Streams(own),
                serving=radio_at(
                    sections, Streams(own), (serving,), devices=devices, rounds=rounds, pilots_at_once=pilots_at_once
                ),
                crossing=radio_at(sections, Streams(across), (crossing,), devices=devices, rounds=rounds),
            )
        )
    return tuple(cells)
