"""5G NR: link adaptation, transport blocks, block errors from Sionna's tables, HARQ with chase combining."""

from __future__ import annotations

from typing import Literal

import numpy as np

from channels.digital.elements import OwnElements
from channels.digital.kinds import ErrorModel
from channels.digital.mcs import transport_blocks
from channels.digital.nr_tables import error_table, nr_block_error_rate
from channels.digital.parameters import target_error, transmissions
from channels.digital.retransmission import retransmit
from channels.digital.task import Array, Counts, Demand, DigitalTask
from channels.part import parameter

SLOT_SYMBOLS, DATA_SYMBOLS = 14, 13
"""One symbol of a slot is pilots (DMRS)."""
LEAST_SUBCARRIERS = 12
"""Of a transport block of one slot: a resource block. On fewer subcarriers a block takes several slots."""


class Nr(ErrorModel):
    """Whole transport blocks, each over all of a device's subcarriers for a slot (or as many as make one resource
    block's elements); the last one is filled up.

    The MCS has the largest transport block among those whose first transmission fails, by the known channel, with
    probability `target_error` at most (the lowest in the table where none does). A block that fails is sent again whole
    and combined with what was received: by transmission j the SINR of every subcarrier is j times what it was, of which
    the effective SINR is taken, and a block that fails in j fails in all before. When to repeat costs no time: other
    blocks are sent meanwhile.
    """

    name = "nr"
    source = "3GPP TS 38.214, clauses 5.1.3 and 6.1.4; error tables of Sionna's PHYAbstraction; HARQ"

    target_error: float = target_error()
    transmissions: int = transmissions()
    mcs_table: Literal[1, 2] = parameter(
        1, key="mcs_table", description="MCS table of TS 38.214 for error_model = nr: 64-QAM or 256-QAM"
    )

    def send(self, task: DigitalTask, own: OwnElements) -> Demand:
        """What the messages take, and whether they arrive."""
        table = error_table(self.mcs_table)
        slots = -(-LEAST_SUBCARRIERS // own.subcarriers)
        data = DATA_SYMBOLS * slots * own.subcarriers
        choice = _adapt(own, data, self.mcs_table, self.target_error)
        sizes = transport_blocks(data, table.indices[choice], self.mcs_table)
        betas = table.betas[choice]
        combined = [effective_sinr(own, times * own.true, betas) for times in range(1, self.transmissions + 1)]
        code_block = nr_block_error_rate(
            table.indices[choice][:, None], np.stack(combined, axis=1), sizes.code_block_bits[:, None], self.mcs_table
        )
        error = _any_of(code_block, sizes.code_blocks[:, None])
        bits = task.bits.astype(float)
        sends = (bits > 0) & (own.mean(own.known) > 0)
        error = np.where(sends[:, None], error, (bits > 0)[:, None])
        # Given that it failed before: P_j/P_(j-1). Sampled curves may rise by a hair.
        before = np.concatenate([np.ones((len(bits), 1)), error[:, :-1]], axis=1)
        failure = np.minimum(error / np.where(before > 0, before, 1.0), 1.0)
        blocks = np.where(sends, np.ceil(bits / sizes.bits), 0.0)
        sent, wrong = retransmit(blocks, failure, task.uniforms(self.transmissions))
        elements = SLOT_SYMBOLS * slots * own.subcarriers
        return Demand(
            rate=np.where(own.mean(own.known) > 0, sizes.bits / elements, 0.0),
            resource_elements=sent * elements,
            bits_on_air=bits * sent / np.maximum(blocks, 1.0),
            block_error_rate=error[:, 0],
            decoded=(wrong == 0) & (sends | (bits == 0)),
        )


def effective_sinr(own: OwnElements, snr: Array, betas: Array) -> Array:
    """Exponential effective SINR over each device's own subcarriers and all blocks: -beta log mean exp(-SNR/beta).

    snr: [blocks, n]; betas: [devices] -> [devices].
    """
    least = own.least(snr)
    above = snr - np.repeat(least, own.counts)  # the smallest taken out, so that no exponential is 0 throughout
    mean = own.mean(np.exp(-above / np.repeat(betas, own.counts)))
    return np.asarray(least - betas * np.log(mean))


def _adapt(own: OwnElements, data: Counts, table: int, target: float) -> Counts:
    """Row in the error table of every device's MCS, [devices]."""
    entry = error_table(table)
    schemes = entry.indices[:, None]
    sizes = transport_blocks(data, schemes, table)
    sinr = np.stack([effective_sinr(own, own.known, np.full(len(data), beta)) for beta in entry.betas])
    error = _any_of(nr_block_error_rate(schemes, sinr, sizes.code_block_bits, table), sizes.code_blocks)
    return np.asarray(np.where(error <= target, sizes.bits, 0).argmax(axis=0))


def _any_of(rate: Array, count: Counts) -> Array:
    """That at least one of so many fails."""
    return np.asarray(-np.expm1(count * np.log1p(-np.minimum(rate, 1 - 1e-16))))
