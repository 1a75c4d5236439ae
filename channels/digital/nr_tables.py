"""Block error rates of 5G NR codes, from the tables that come with Sionna (`sionna.sys.PHYAbstraction`).

The data files are read directly, without importing Sionna. The PUSCH tables of Sionna 2 are for transform precoding,
with other MCS tables. The PDSCH tables are used instead, because they are for the MCS tables of an OFDM uplink, and the
code is the same. They are sampled every 1.6 or 1.8 dB, but the waterfall region is narrower than one step. Sionna
interpolates log10 of the error rate, which deviates by up to 1 dB from simulations of its own codes. Here, Q^-1 of the
error rate is interpolated, which is within 0.2 dB of simulations at an error rate of 0.5, and within 0.5 dB at 0.1 (17
points). Blocks of over 2,000 bits perform about 0.5 dB better than the table.
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
# Sionna's entries are estimated from up to 3,000 blocks: no error counts as half an error, and fewer than three errors
# are not reliable.
NO_ERROR = 1 / 6000
FEW_ERRORS = 1e-3


@dataclass(frozen=True)
class ErrorTable:
    """Block error rates of one of Sionna's tables, prepared for interpolation.

    Attributes:
        first: Lowest MCS index in the table (the code has no rate below 1/5).
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
        """All MCS indices in the table."""
        return np.arange(self.first, self.first + len(self.quantiles))


def nr_block_error_rate(mcs: Whole, sinr_linear: Array | float, block_bits: Whole, table: int = 1) -> Array:
    """Return the error rate of code blocks of `block_bits` bits, including CRC, at an (effective) SINR.

    All shapes broadcast. The rate is interpolated in dB and in log(size). Longer blocks than in the table (2,000 bits)
    have the rate of the longest, and the curves are extrapolated beyond the range of SNRs. Raises ValueError for an MCS
    that is not in the table.
    """
    entry = error_table(table)
    row = np.asarray(mcs) - entry.first
    if np.any((row < 0) | (row >= len(entry.quantiles))):
        last = entry.first + len(entry.quantiles) - 1
        raise ValueError(f"MCS of table {table} must be from {entry.first} to {last}, got {np.asarray(mcs)}")
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
    """Load one of Sionna's tables. Raises RuntimeError if Sionna's files are not as expected."""
    entries = _load(f"bler_tables/PDSCH_table{table}.json")["category"][PDSCH]["index"][str(table)]["MCS"]
    schemes = sorted(int(index) for index in entries)
    sizes = list(entries[str(schemes[0])]["CBS"])
    grid = np.array(entries[str(schemes[0])]["SNR_db"])
    rates = np.array([[entries[str(index)]["CBS"][size]["BLER"] for size in sizes] for index in schemes])
    same_grid = all(np.array_equal(entries[str(index)]["SNR_db"], grid) for index in schemes)
    if not same_grid or schemes != list(range(schemes[0], schemes[-1] + 1)) or np.ptp(np.diff(grid)) > 1e-6:
        raise RuntimeError(f"Sionna's error table {table} does not have the layout of version 2.2; install Sionna 2.2")
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
    """Convert one curve over SNR to quantiles, with linear extrapolation outside its last rate of 1 and its first rate
    of (nearly) 0."""
    falling = np.minimum.accumulate(rates)
    normal = ndtri(np.clip(falling, NO_ERROR, 1 - NO_ERROR))
    last = len(rates) - 1
    first_use = min(max(int((falling >= 1).sum()) - 1, 0), last - 1)
    last_use = max(min(int((falling >= FEW_ERRORS).sum()), last), first_use + 1)
    used = normal[first_use : last_use + 1]
    if len(used) > 2:
        # If all blocks or none failed, the rate is only bounded, and the curve continues at least as steeply.
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
    """Read a data file of Sionna's system-level package."""
    spec = find_spec("sionna")
    for folder in (spec.submodule_search_locations or []) if spec else []:
        file = Path(folder) / "sys" / name
        if file.is_file():
            return json.loads(file.read_text(encoding="utf-8"))
    raise RuntimeError(f"Sionna's file sys/{name} is missing; install sionna-no-rt 2.2")
