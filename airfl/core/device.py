"""The torch devices on which runs are computed: the CPU, the first GPU, or GPU number k of those that are visible."""

from __future__ import annotations

import re
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

from airfl.errors import UserError, unknown_name

if TYPE_CHECKING:
    import torch

CPU, CUDA = KINDS = ("cpu", "cuda")
ALLOWED = (*KINDS, "cuda:0", "cuda:1, ...")
NUMBERED = re.compile(r"cuda:(0|[1-9][0-9]{0,3})")


def check_kind(name: object) -> None:
    """Raise UserError unless this is cpu, cuda or cuda:k, without importing torch."""
    name = str(name)  # the argument may be a torch.device
    if name not in KINDS and not NUMBERED.fullmatch(name):
        raise UserError(unknown_name("--device", name, ALLOWED))


def is_gpu(name: object) -> bool:
    """Whether a valid name is that of a GPU."""
    return str(name).startswith(CUDA)


def number_of(name: object) -> int | None:
    """Return k of cuda:k, None for cpu and cuda."""
    numbered = NUMBERED.fullmatch(str(name))
    return int(numbered[1]) if numbered else None


def find_device(name: str | torch.device) -> torch.device:
    """Return the torch device of that name. Raises UserError where this machine has none."""
    import torch

    name = str(name)
    check_kind(name)
    if is_gpu(name):
        check_among(name, torch.cuda.device_count() if torch.cuda.is_available() else 0)
    return torch.device(name)


def check_among(name: str, count: int, option: str = "--device", where: str = "on this machine") -> None:
    """Raise UserError if a GPU of that name is not among `count` visible ones."""
    if not count:
        raise UserError(f"{option}: no cuda device found {where}; omit --device, or use --device cpu")
    number = number_of(name)
    if number is not None and number >= count:
        known = "cuda:0" if count == 1 else f"cuda:0 to cuda:{count - 1}"
        raise UserError(f"{option}: no {name} {where}; use {known}, or show it further ones by CUDA_VISIBLE_DEVICES")


def current(device: torch.device) -> AbstractContextManager[object]:
    """Return a context in which torch's calls that name no GPU mean this one; nothing for the CPU or a GPU without a
    number."""
    import torch

    return nullcontext() if device.index is None or device.type != CUDA else torch.cuda.device(device)
