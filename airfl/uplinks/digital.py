"""The digital uplink: every device its own subcarriers, coded bits, block errors, retransmissions, a deadline."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from airfl.errors import UserError
from airfl.stages.stage import Batch
from airfl.streams import Purpose
from airfl.uplinks.orthogonal import add_up, coupling, mean_of, own_noise_gain, power_gains, spilled_gains
from airfl.uplinks.uplink import Array, DeviceUse, Link, LinkReport, Reception, Terms
from channels.digital import Allocation, DigitalOutcome, DigitalTask, ErrorModel, send
from channels.grid import GridUse, OfdmaGrid
from channels.noise import disturbance_energy
from channels.units import linear_to_db

if TYPE_CHECKING:
    from torch import Tensor

SecureAggregation = Literal["assumed", "counted", "off"]

KEY_BITS = SHARE_BITS = 256


@dataclass(frozen=True)
class DigitalUplink:
    """Orthogonal OFDMA.

    Attributes:
        grid: Of resource elements.
        allocation: Who gets how many subcarriers.
        error_model: Rates, and what arrives.
        noise_std: Root of the noise energy on an element.
        concentrate: Whether a device's power goes into its own subcarriers.
        deadline_s: Until when a message has to be through, inf for none.
        secure_aggregation: Whether the server sees the sum only, and whether that is charged.
        divide_by_received: Whether the sum is divided by those that were heard, not by all that were selected.
        interference_to_noise_db: Of other cells, at a level that is known, None for none.
    """

    grid: OfdmaGrid
    allocation: Allocation
    error_model: ErrorModel
    noise_std: float
    concentrate: bool = True
    deadline_s: float = math.inf
    secure_aggregation: SecureAggregation = "assumed"
    divide_by_received: bool = False
    interference_to_noise_db: float | None = None

    def open(self, terms: Terms) -> Link:
        """Rates, errors and retransmissions follow from the channel and the length of the messages: all is known here.
        UserError where the link is too weak to be counted."""
        return _DigitalLink(self, terms)


class _DigitalLink:
    by_entry = True

    def __init__(self, uplink: DigitalUplink, terms: Terms) -> None:
        self._uplink, self._terms = uplink, terms
        self._sum: Tensor | None = None
        knowledge = terms.knowledge
        self._power = power_gains(knowledge.state.response)
        devices = len(self._power)
        bits = message_bits(terms, devices, uplink.secure_aggregation)
        subcarriers = uplink.grid.used_subcarriers
        self._bits = np.full(devices, bits, dtype=np.int64)
        # Rates are taken from a measured SINR, and what leaks is in it. What is known of a flat channel is flat, though
        # an offset may have put a ramp on the true one.
        kept = (1.0 - knowledge.leakage) / (1.0 - knowledge.late)  # late paths are lost to the estimate, too
        estimate = power_gains(knowledge.estimate.response) * kept[:, None, None]
        known, true = np.broadcast_arrays(estimate, self._power)
        task = DigitalTask(
            bits=self._bits,
            known=known,
            true=true,
            symbol_energy=terms.element_power * min(subcarriers, uplink.grid.elements_for(terms.dimension)),
            noise_energy=disturbance_energy(uplink.noise_std, uplink.interference_to_noise_db),
            subcarriers=subcarriers,
            concentrate=uplink.concentrate,
            deadline_symbols=uplink.deadline_s / uplink.grid.mean_symbol_s,
            allocation=uplink.allocation,
            error_model=uplink.error_model,
            uniforms=self._uniforms,
            offsets=knowledge.offsets,
            spilled=spilled_gains(knowledge.state),
            coupling=coupling(knowledge.state.response) if knowledge.offsets.present else None,
        )
        try:
            self._outcome: DigitalOutcome = send(task)
        except OverflowError as error:
            raise UserError(
                f"digital.deadline_s: round {terms.round_index}: {error}; give one, or devices more power "
                "(power.max_snr_db, power.tx_power_dbm)"
            ) from None
        except ValueError as error:  # what a user's own part gives
            raise UserError(f"digital: round {terms.round_index}: {error}") from None

    @property
    def heard(self) -> NDArray[np.bool_]:
        """Whose message came through in time."""
        return self._outcome.heard

    def send(self, batch: Batch, devices: slice) -> None:
        """Add up what arrives of a chunk."""
        arrives = batch.scale * batch.scale.new_tensor(self.heard[devices])
        self._sum = add_up(self._sum, batch, arrives, self._terms.entries)

    def close(self) -> Reception:
        """The mean of what arrived, exactly."""
        mean = mean_of(self._sum, self._terms, self._divisor)
        return Reception(mean=mean, receive_snr_db=float("inf"), report=self._report)

    def at_bound(self) -> LinkReport:
        """What sending takes does not depend on what is in the messages."""
        return self._report

    @cached_property
    def _report(self) -> LinkReport:
        terms, outcome, grid = self._terms, self._outcome, self._uplink.grid
        pilots = terms.pilots
        heard = terms.weights[outcome.heard]
        return LinkReport(
            noise_std=0.0,
            alignment_coefficient=float("nan"),
            power_bound_binding=False,
            privacy_bound_binding=False,
            protection=0.0,
            noisy_devices=(1.0 if self._uplink.secure_aggregation == "off" else float((heard**2).sum()))
            * terms.own_noise**2,
            own_noise_gain=own_noise_gain(heard, self._divisor) * terms.own_noise,
            use=self._use(),
            devices=DeviceUse(
                transmit_scale=np.sqrt(terms.element_power),
                energy=outcome.energy * terms.energy_unit + pilots.energy,
                bits=self._bits,
                active=outcome.heard.astype(np.int8),
                snr_db=linear_to_db(self._power.mean(axis=(1, 2)) * terms.element_power / self._uplink.noise_std**2),
                rate=outcome.rate,
                air_time_s=np.asarray(outcome.symbols * grid.mean_symbol_s, dtype=np.float64),
                block_error_rate=outcome.block_error_rate,
                bits_on_air=outcome.bits_on_air,
            ),
            pilot_elements=pilots.resource_elements,
            energy_of_others=pilots.energy_of_others,
        )

    def _use(self) -> GridUse:
        """Elements add up; the round ends with the device that is through last."""
        grid, pilots = self._uplink.grid, self._terms.pilots.resource_elements
        elements = int(self._outcome.resource_elements.sum())
        first = grid.occupy(pilots)
        symbols = int(self._outcome.air_time_symbols) + first.ofdm_symbols
        return GridUse(
            resource_elements=elements + pilots,
            subcarriers=min(int(self._outcome.subcarriers.sum()), grid.used_subcarriers),
            ofdm_symbols=symbols,
            air_time_s=grid.air_time_s(symbols),
        )

    @property
    def _divisor(self) -> float:
        return float(self.heard.sum()) if self._uplink.divide_by_received else self._terms.divisor

    def _uniforms(self, count: int) -> Array:
        terms = self._terms
        return terms.streams.device_uniforms(Purpose.BLOCK_ERRORS, terms.round_index, terms.ids, count)


def message_bits(terms: Terms, devices: int, secure_aggregation: SecureAggregation) -> int:
    """Bits a device sends: its values, what names their coordinates; with secure aggregation charged, every entry
    modulo r times its range and the keys and shares of Bonawitz et al. 2017.

    Their protocol has a client send 2 public keys, 2(r - 1) encrypted shares and r shares to unmask (section 7.1).
    """
    message = terms.message
    if secure_aggregation != "counted":
        return message.payload_bits
    entry_bits = math.ceil(message.value_bits) + math.ceil(math.log2(max(devices, 1)))
    keys = 2 * KEY_BITS + (2 * (devices - 1) + devices) * SHARE_BITS
    return message.entries * entry_bits + keys
