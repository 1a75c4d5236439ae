"""5G NR: link adaptation, transport blocks, block error rates from Sionna's tables, and HARQ with chase combining."""

from __future__ import annotations

from typing import Literal

import numpy as np

from channels.digital.elements import DeviceResources
from channels.digital.kinds import ErrorModel
from channels.digital.mcs import transport_blocks
from channels.digital.nr_tables import error_table, nr_block_error_rate
from channels.digital.parameters import target_error, transmissions
from channels.digital.retransmission import retransmit
from channels.digital.task import Array, Counts, Demand, DigitalTask
from channels.part import parameter

SLOT_SYMBOLS, DATA_SYMBOLS = 14, 13
"""One symbol per slot carries pilots (DMRS)."""
MIN_SUBCARRIERS = 12
"""Smallest number of subcarriers (one resource block) for transport blocks of one slot; with fewer, a block takes
several slots."""


class Nr(ErrorModel):
    """Transport blocks of 5G NR with HARQ.

    Each transport block occupies all of a device's subcarriers for one slot (or several, if these are less than a
    resource block). The last block is padded.

    The MCS is the one with the largest transport block whose first transmission fails with probability at most
    `target_error`, by the estimated channel (or the lowest MCS in the table if there is none). A failed block is
    retransmitted completely and combined: in transmission j, the SINR of every subcarrier is j times that of the first
    one, and the effective SINR is computed from it. A block that fails in transmission j also fails in all previous
    ones. Feedback delays cost no time, because other blocks are sent in the meantime.
    """

    name = "nr"
    source = "3GPP TS 38.214, clauses 5.1.3 and 6.1.4; error tables of Sionna's PHYAbstraction; HARQ"

    target_error: float = target_error()
    transmissions: int = transmissions()
    mcs_table: Literal[1, 2] = parameter(
        1, key="mcs_table", description="MCS table of TS 38.214 for error_model = nr: 64-QAM or 256-QAM"
    )

    def send(self, task: DigitalTask, resources: DeviceResources) -> Demand:
        """Return the resources that the messages need, and whether they are decoded."""
        table = error_table(self.mcs_table)
        slots = -(-MIN_SUBCARRIERS // resources.subcarriers)
        data = DATA_SYMBOLS * slots * resources.subcarriers
        row = _adapt(resources, data, self.mcs_table, self.target_error)
        sizes = transport_blocks(data, table.indices[row], self.mcs_table)
        betas = table.betas[row]
        combined = [
            effective_sinr(resources, times * resources.true, betas) for times in range(1, self.transmissions + 1)
        ]
        code_block = nr_block_error_rate(
            table.indices[row][:, None], np.stack(combined, axis=1), sizes.code_block_bits[:, None], self.mcs_table
        )
        error = _any_of(code_block, sizes.code_blocks[:, None])
        bits = task.bits.astype(float)
        sends = (bits > 0) & (resources.mean(resources.known) > 0)
        error = np.where(sends[:, None], error, (bits > 0)[:, None])
        # Conditional on failing before, the probability is P_j/P_(j-1). Sampled curves may increase slightly.
        before = np.concatenate([np.ones((len(bits), 1)), error[:, :-1]], axis=1)
        failure = np.minimum(error / np.where(before > 0, before, 1.0), 1.0)
        blocks = np.where(sends, np.ceil(bits / sizes.bits), 0.0)
        sent, wrong = retransmit(blocks, failure, task.uniforms(self.transmissions))
        elements = SLOT_SYMBOLS * slots * resources.subcarriers
        return Demand(
            rate=np.where(resources.mean(resources.known) > 0, sizes.bits / elements, 0.0),
            resource_elements=sent * elements,
            bits_on_air=bits * sent / np.maximum(blocks, 1.0),
            block_error_rate=error[:, 0],
            decoded=(wrong == 0) & (sends | (bits == 0)),
        )


def effective_sinr(resources: DeviceResources, snr: Array, betas: Array) -> Array:
    """Return the exponential effective SINR, -beta log mean exp(-SNR/beta) over a device's subcarriers and all blocks.

    snr: [blocks, n]; betas: [devices] -> [devices].
    """
    least = resources.least(snr)
    # The minimum is factored out, so that not all exponentials underflow.
    above = snr - np.repeat(least, resources.counts)
    mean = resources.mean(np.exp(-above / np.repeat(betas, resources.counts)))
    return np.asarray(least - betas * np.log(mean))


def _adapt(resources: DeviceResources, data: Counts, table: int, target: float) -> Counts:
    """Select every device's MCS, as rows of the error table, [devices]."""
    entry = error_table(table)
    schemes = entry.indices[:, None]
    sizes = transport_blocks(data, schemes, table)
    sinr = np.stack([effective_sinr(resources, resources.known, np.full(len(data), beta)) for beta in entry.betas])
    error = _any_of(nr_block_error_rate(schemes, sinr, sizes.code_block_bits, table), sizes.code_blocks)
    return np.asarray(np.where(error <= target, sizes.bits, 0).argmax(axis=0))


def _any_of(rate: Array, count: Counts) -> Array:
    """Return the probability that at least one of `count` blocks fails."""
    return np.asarray(-np.expm1(count * np.log1p(-np.minimum(rate, 1 - 1e-16))))
