"""Block error rates of 5G NR's codes, from the tables that come with Sionna (`sionna.sys.PHYAbstraction`).

The files are read as they lie in the package, which is not imported. The tables for PUSCH that Sionna 2 has are for
transform precoding (its MCS tables are others); those for PDSCH are for the MCS tables of an OFDM uplink, and the code
is the same. They are sampled every 1.6 or 1.8 dB, and a waterfall falls within one step; Sionna interpolates log10 of
the rate, which is up to 1 dB from what its own codes do. Here Q^-1 of the rate is interpolated: within 0.2 dB of them
at a rate of 0.5, within 0.5 dB at 0.1 (17 points); blocks of over 2,000 bits do better than the table, by about 0.5 dB.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import ndtr, ndtri

from channels.digital.mcs import Whole
from channels.digital.task import Array, Counts
from channels.units import linear_to_db

PDSCH = "1"
# Sionna's entries come from up to 3,000 blocks: none in error stands for half a block, fewer than three say little.
NO_ERROR = 1 / 6000
FEW_ERRORS = 1e-3


@dataclass(frozen=True)
class ErrorTable:
    """Block error rates of one of Sionna's tables, ready to be interpolated.

    Attributes:
        first: Lowest MCS index that is there (the code has no rate below 1/5).
        quantiles: Q^-1 of the error rate, negated, [MCS from `first` on, code block sizes, SNRs].
        sizes: Code block sizes in bits, ascending, [code block sizes].
        start_db: First SNR in dB.
        step_db: Distance between SNRs in dB.
        betas: Parameter of the exponential effective SINR, [MCS from `first` on].
    """

    first: int
    quantiles: Array
    sizes: Array
    start_db: float
    step_db: float
    betas: Array

    @property
    def indices(self) -> Counts:
        """Every MCS that is there."""
        return np.arange(self.first, self.first + len(self.quantiles))


def nr_block_error_rate(mcs: Whole, sinr_linear: Array | float, block_bits: Whole, table: int = 1) -> Array:
    """Error rate of a code block of `block_bits` bits, checks included, at an (effective) SINR; shapes broadcast.

    Interpolated in dB and in log(size); a block longer than the longest in the table (2,000 bits) has its error rate,
    and beyond the last SNRs the curves go on as they end. Raises ValueError for an MCS that is not in the table.
    """
    entry = error_table(table)
    row = np.asarray(mcs) - entry.first
    if np.any((row < 0) | (row >= len(entry.quantiles))):
        last = entry.first + len(entry.quantiles) - 1
        raise ValueError(f"MCS {np.asarray(mcs)} of table {table}: error rates are known of {entry.first} to {last}")
    sinr_db = linear_to_db(np.maximum(sinr_linear, np.finfo(float).tiny))
    column = (sinr_db - entry.start_db) / entry.step_db
    left = np.clip(np.floor(column), 0, entry.quantiles.shape[2] - 2).astype(np.int64)
    sizes = np.log(entry.sizes)
    size = np.interp(np.log(np.maximum(block_bits, 1)), sizes, np.arange(len(sizes)))
    below = np.minimum(size.astype(np.int64), len(sizes) - 2)
    along, across = column - left, size - below
    shorter = _between(entry.quantiles[row, below, left], entry.quantiles[row, below, left + 1], along)
    longer = _between(entry.quantiles[row, below + 1, left], entry.quantiles[row, below + 1, left + 1], along)
    return np.asarray(ndtr(_between(shorter, longer, across)))


@cache
def error_table(table: int) -> ErrorTable:
    """One of Sionna's tables, ready to look up. Raises RuntimeError where Sionna's files are not as expected."""
    entries = _load(f"bler_tables/PDSCH_table{table}.json")["category"][PDSCH]["index"][str(table)]["MCS"]
    schemes = sorted(int(index) for index in entries)
    sizes = list(entries[str(schemes[0])]["CBS"])
    grid = np.array(entries[str(schemes[0])]["SNR_db"])
    rates = np.array([[entries[str(index)]["CBS"][size]["BLER"] for size in sizes] for index in schemes])
    same_grid = all(np.array_equal(entries[str(index)]["SNR_db"], grid) for index in schemes)
    if not same_grid or schemes != list(range(schemes[0], schemes[-1] + 1)) or np.ptp(np.diff(grid)) > 1e-6:
        raise RuntimeError(f"Sionna's error table {table} is not laid out as version 2.2's: install that")
    betas = _load("esm_params/eesm_beta_table.json")["index"][str(table)]
    return ErrorTable(
        first=schemes[0],
        quantiles=np.array([[_quantiles(curve) for curve in row] for row in rates]),
        sizes=np.array([float(size) for size in sizes]),
        start_db=float(grid[0]),
        step_db=float(grid[1] - grid[0]),
        betas=np.array(betas, dtype=np.float64)[schemes],
    )


def _quantiles(rates: Array) -> Array:
    """Of one curve over SNR: between its last rate of 1 and its first of (nearly) 0; beyond them straight on."""
    falling = np.minimum.accumulate(rates)
    normal = ndtri(np.clip(falling, NO_ERROR, 1 - NO_ERROR))
    last = len(rates) - 1
    first_use = min(max(int((falling >= 1).sum()) - 1, 0), last - 1)
    last_use = max(min(int((falling >= FEW_ERRORS).sum()), last), first_use + 1)
    used = normal[first_use : last_use + 1]
    if len(used) > 2:
        # Where no block was right, or none wrong, the rate is only bounded: the curve goes on at least as steeply.
        before, after = 2 * used[1] - used[2], 2 * used[-2] - used[-3]
        used[0] = max(used[0], before) if falling[first_use] >= 1 else used[0]
        used[-1] = min(used[-1], after) if falling[last_use] <= 0 else used[-1]
    index = np.arange(len(rates))
    below, above = np.minimum(index - first_use, 0), np.maximum(index - last_use, 0)
    inside = used[np.clip(index, first_use, last_use) - first_use]
    return np.asarray(inside + (used[1] - used[0]) * below + (used[-1] - used[-2]) * above)


def _between(low: Array, high: Array, share: Array) -> Array:
    return np.asarray(low + (high - low) * share)


def _load(name: str) -> Any:
    """A data file of Sionna's system-level part."""
    spec = find_spec("sionna")
    for folder in (spec.submodule_search_locations or []) if spec else []:
        file = Path(folder) / "sys" / name
        if file.is_file():
            return json.loads(file.read_text(encoding="utf-8"))
    raise RuntimeError(f"Sionna's file sys/{name} is not there: install sionna-no-rt 2.2")
