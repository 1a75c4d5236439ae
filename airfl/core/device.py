"""The torch devices on which runs are computed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airfl.errors import UserError, unknown_name

if TYPE_CHECKING:
    import torch

KINDS = ("cpu", "cuda")


def check_kind(name: object) -> None:
    """Raise UserError for an unknown kind of device, without importing torch."""
    name = str(name)  # the argument may be a torch.device
    if name not in KINDS:
        raise UserError(unknown_name("--device", name, KINDS))


def find_device(name: str | torch.device) -> torch.device:
    """Return the torch device of that kind. Raises UserError where this machine has none."""
    import torch

    name = str(name)
    check_kind(name)
    if name == "cuda" and not torch.cuda.is_available():
        raise UserError("--device: no cuda device found on this machine; omit --device, or use --device cpu")
    return torch.device(name)
