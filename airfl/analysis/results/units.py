"""The units of energies, which are compared in one unit alone."""

from __future__ import annotations

from collections.abc import Iterable

from airfl.errors import UserError


def check_one_unit(what: str, units: Iterable[str]) -> None:
    """Raise UserError where energies are in different units and cannot be compared.

    Args:
        what: The option or function that compares them, for the error.
        units: The unit of each run.
    """
    different = sorted(set(units))
    if len(different) > 1:
        raise UserError(
            f"{what}: the runs' energies are in {' and in '.join(different)}; compare runs with the same unit"
        )
