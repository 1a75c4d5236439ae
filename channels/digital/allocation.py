"""Built-in allocations of the K subcarriers to devices."""

from __future__ import annotations

import heapq
import math

import numpy as np

from channels.digital.kinds import Allocation
from channels.digital.own import check_shares
from channels.digital.parameters import snr_gap
from channels.digital.task import Array, Counts, DigitalTask
from channels.part import is_built_in
from channels.units import db_to_linear


class Equal(Allocation):
    """Equal allocation: K/r subcarriers for each of r devices; the first ones get one more if K is not divisible."""

    name = "equal"

    def shares(self, task: DigitalTask, sharing: slice) -> Counts:
        """Return equal shares, up to one subcarrier."""
        devices = len(task.bits[sharing])
        share, left = divmod(task.subcarriers, devices)
        return share + (np.arange(devices) < left).astype(np.int64)


class Gain(Allocation):
    """Allocation in proportion to the mean of |hhat|^2, by largest remainders, with at least 1 subcarrier each."""

    name = "gain"

    def shares(self, task: DigitalTask, sharing: slice) -> Counts:
        """Return shares in proportion to the gains; equal shares if all gains are 0."""
        gains = task.known[sharing].mean(axis=(1, 2))
        if not gains.sum() > 0:
            return Equal().shares(task, sharing)
        least = np.zeros(len(gains), dtype=bool)  # devices whose proportion is below one subcarrier get one
        while True:
            quota = (task.subcarriers - least.sum()) * gains / gains[~least].sum()
            below = ~least & (quota < 1 - 1e-9)
            if not below.any():
                break
            least |= below
        shares = np.where(least, 1, np.maximum(np.floor(quota), 1)).astype(np.int64)
        remainder = np.where(least, -1.0, quota - shares)
        shares[np.argsort(-remainder, kind="stable")[: task.subcarriers - shares.sum()]] += 1
        return shares


class RateFair(Allocation):
    """Allocation that minimises the time until the slowest device is done, in whole subcarriers.

    Times are at Shannon rates (with the gap) of the estimated channel, for any error model. Every device starts with
    one subcarrier, and the slowest gets the next one. This is optimal, because more subcarriers never slow a device
    down. A device without a message or with a gain of 0 keeps one subcarrier. Because positions of subcarriers are
    assigned later, the rate of a selective channel is that over the whole band.
    """

    name = "rate-fair"

    gap_db: float = snr_gap()

    def shares(self, task: DigitalTask, sharing: slice) -> Counts:
        """Return shares that assign each further subcarrier to the slowest device."""
        bits = task.bits[sharing].astype(float)
        strength = _strength(task, sharing, self.gap_db)
        shares = [1] * len(bits)
        waiting = [(-_symbols(b, e, 1, task), i) for i, (b, e) in enumerate(zip(bits, strength, strict=True))]
        heapq.heapify(waiting)
        for _ in range(task.subcarriers - len(bits)):
            slowest = waiting[0][1]
            shares[slowest] += 1
            time = _symbols(bits[slowest], strength[slowest], shares[slowest], task)
            heapq.heapreplace(waiting, (-time, slowest))
        return np.array(shares, dtype=np.int64)


def allocate(task: DigitalTask) -> tuple[Counts, Counts]:
    """Return the number of subcarriers and the turn of every device, [devices].

    More than K devices take turns, K at a time, in their order.
    """
    devices = len(task.bits)
    groups = [slice(first, first + task.subcarriers) for first in range(0, devices, task.subcarriers)]
    shares = [_shares(task, group) for group in groups]
    return np.concatenate([np.zeros(0, dtype=np.int64), *shares]), np.arange(devices) // task.subcarriers


def _shares(task: DigitalTask, sharing: slice) -> Counts:
    shares = task.allocation.shares(task, sharing)
    if is_built_in(task.allocation):
        return shares
    return check_shares(task.allocation, shares, len(task.bits[sharing]), task.subcarriers)


def _strength(task: DigitalTask, sharing: slice, gap_db: float) -> Array:
    """SNR (over the gap) with the whole symbol energy on one subcarrier, of the flat channel with an equal rate.

    The rates are equal for any share if energy is not concentrated, and for equal shares if it is.
    """
    gains, energy = task.known[sharing], task.symbol_energy[sharing]
    gap = db_to_linear(gap_db)
    share = task.subcarriers / len(gains) if task.concentrate else float(task.subcarriers)
    if task.effective is None:
        sinr = gains * (energy / (task.noise_energy * gap) / share)[:, None, None]
    else:
        sinr = task.effective(gains * (energy / task.noise_energy / share)[:, None, None]) / gap
    rate = np.log1p(sinr).mean(axis=(1, 2))
    return np.asarray(share * np.expm1(rate))


def _symbols(bits: float, strength: float, share: int, task: DigitalTask) -> float:
    """Air time in OFDM symbols, not rounded; 0 for a device that does not send."""
    spread = share if task.concentrate else task.subcarriers
    rate = share * math.log1p(strength / spread) / math.log(2.0)
    return float(bits / rate) if rate > 0 else 0.0
