"""What becomes of a point that has run: its folder with its request, or its error in the list of points."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from airfl.analysis.results.sweep_folder import Listing, code_of, place, write_listing
from airfl.study.sweeps.job import Outcome
from airfl.study.sweeps.points import SweepPoint
from airfl.version import __version__


def settled(
    listing: Listing, point: SweepPoint, outcome: Outcome, request: Callable[[SweepPoint], Mapping[str, Any]]
) -> Listing:
    """Move a finished run to its folder, or record the error of a failed one, and return the new listing.

    Args:
        listing: The list of the sweep.
        point: The point that has run.
        outcome: How it ended.
        request: Returns what is written next to a finished run.
    """
    failed = {name: cause for name, cause in listing.failed.items() if name != point.folder}
    if outcome.cause is None:
        place(listing.root, point.folder, request(point))
    else:
        failed[point.folder] = outcome.cause
    if failed == listing.failed:
        return listing
    listing = replace(listing, failed=failed)
    write_listing(listing)
    return listing


def request_of(point: SweepPoint) -> dict[str, Any]:
    """Return what is written next to the finished run of a point, besides the checksums of its data."""
    return {
        "airfl_version": __version__,
        "label": point.label,
        "values": dict(point.values),
        "seed": point.settings.run.seed,
        "settings": point.settings.model_dump(),
        **({"task": point.task.fingerprint} if point.task else {}),
        **({"code": code} if (code := code_of(point.settings)) else {}),
    }
