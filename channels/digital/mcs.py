"""Modulation and coding schemes (MCS) of an OFDM uplink, and sizes of transport and code blocks (TS 38.214)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from channels.digital.task import Array, Counts

# Clause 6.1.4.1: without transform precoding, PUSCH uses the tables of PDSCH, 5.1.3.1-1 and -2.
# (bits per symbol, code rate x 1024) by MCS index.
MCS_TABLES: dict[int, tuple[tuple[int, float], ...]] = {
    1: (
        *((2, rate) for rate in (120, 157, 193, 251, 308, 379, 449, 526, 602, 679)),
        *((4, rate) for rate in (340, 378, 434, 490, 553, 616, 658)),
        *((6, rate) for rate in (438, 466, 517, 567, 616, 666, 719, 772, 822, 873, 910, 948)),
    ),
    2: (
        *((2, rate) for rate in (120, 193, 308, 449, 602)),
        *((4, rate) for rate in (378, 434, 490, 553, 616, 658)),
        *((6, rate) for rate in (466, 517, 567, 616, 666, 719, 772, 822, 873)),
        *((8, rate) for rate in (682.5, 711, 754, 797, 841, 885, 916.5, 948)),
    ),
}

# Table 5.1.3.2-1: sizes of transport blocks of up to 3824 bits.
SMALL_BLOCKS = np.array(
    [
        *(*range(24, 193, 8), *range(208, 385, 16), *range(408, 553, 24), *range(576, 769, 32)),
        *(808, 848, 888, 928, 984, 1032, 1064, *range(1128, 1353, 32), *range(1416, 1929, 64)),
        *(*range(2024, 2281, 64), *range(2408, 2857, 64), 2976, 3104, 3240, 3368, 3496, 3624, 3752, 3824),
    ]
)


Whole = Counts | np.int64 | int


@dataclass(frozen=True)
class TransportBlocks:
    """Sizes of transport blocks and of their code blocks; all fields have the same shape.

    Attributes:
        bits: Payload of a transport block in bits.
        code_blocks: Number of code blocks in a transport block.
        code_block_bits: Bits of each code block, including CRC.
    """

    bits: Counts
    code_blocks: Counts
    code_block_bits: Counts


def mcs_rate(mcs: Whole, table: int = 1) -> Array:
    """Return bits per data resource element, bits per symbol times code rate, by MCS index (38.214, 5.1.3.1)."""
    return np.asarray(bits_per_symbol(mcs, table) * code_rate(mcs, table))


def bits_per_symbol(mcs: Whole, table: int) -> Counts:
    """Return Q_m, the bits per symbol, by MCS index."""
    return np.array([order for order, _ in MCS_TABLES[table]])[mcs]


def code_rate(mcs: Whole, table: int) -> Array:
    """Return R, the code rate, by MCS index."""
    return np.array([rate / 1024 for _, rate in MCS_TABLES[table]])[mcs]


def transport_blocks(elements: Whole, mcs: Whole, table: int) -> TransportBlocks:
    """Return block sizes for `elements` data resource elements and one layer; all shapes broadcast.

    See 38.214, clause 5.1.3.2; segmentation and CRC are those of 38.212, clauses 5.2.2 and 6.2.1.
    """
    rate = code_rate(mcs, table)
    payload = np.maximum(elements * mcs_rate(mcs, table), 1.0)
    step = 2.0 ** np.maximum(np.floor(np.log2(payload)) - 6, 3)
    small = np.maximum(step * np.floor(payload / step), 24)
    step = 2.0 ** (np.floor(np.log2(np.maximum(payload - 24, 1.0))) - 5)
    large = np.maximum(step * np.floor((payload - 24) / step + 0.5), 3840)
    is_small = payload <= 3824
    most = np.where(rate <= 0.25, 3816, np.where(large > 8424, 8424, np.inf))
    code_blocks = np.where(is_small, 1, np.maximum(np.ceil((large + 24) / most), 1)).astype(np.int64)
    eighth = np.ceil((large + 24) / (8 * code_blocks)).astype(np.int64)
    listed = SMALL_BLOCKS[np.minimum(np.searchsorted(SMALL_BLOCKS, small), len(SMALL_BLOCKS) - 1)]
    bits = np.where(is_small, listed, 8 * code_blocks * eighth - 24)
    checks = np.where(bits > 3824, 24, 16)
    return TransportBlocks(bits, code_blocks, (bits + checks) // code_blocks + np.where(code_blocks > 1, 24, 0))
