"""Devices to compute on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airfl.errors import UserError, unknown_name

if TYPE_CHECKING:
    import torch

KINDS = ("cpu", "cuda")


def check_kind(name: object) -> None:
    """UserError for a kind of device that does not exist anywhere; needs no torch."""
    name = str(name)  # of a torch.device too
    if name not in KINDS:
        raise UserError(unknown_name("--device", name, KINDS))


def find_device(name: str | torch.device) -> torch.device:
    """The device of that kind; UserError where this machine has none."""
    import torch

    name = str(name)
    check_kind(name)
    if name == "cuda" and not torch.cuda.is_available():
        raise UserError("--device: no cuda device is found on this machine; leave --device out, or use --device cpu")
    return torch.device(name)
