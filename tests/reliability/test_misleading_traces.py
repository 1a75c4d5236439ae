"""Malicious traces: wrong types, links to other files, and impossible sizes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from airfl.core.summary import Summary, summarise
from airfl.exports import export
from airfl.storage.trace import open_trace
from tests.reliability.forgery import Edit, declare_signals, edited
from tests.reliability.refusals import refusal

ROUNDS = 3


def attribute(name: str, value: Any, of: str = "/") -> Edit:
    def change(file: h5py.File) -> None:
        file[of].attrs.pop(name, None)
        if value is not None:
            file[of].attrs[name] = value

    return change


def replaced(name: str, **how: Any) -> Edit:
    """Another dataset in a variable's place, tied to its dimensions where it has as many axes."""

    def change(file: h5py.File) -> None:
        old = file[name]
        scales = [file["round"], *([file["slot"]] if old.ndim > 1 else [])]
        del file[name]
        made = file.create_dataset(name, **how)
        for axis, scale in enumerate(scales[: made.ndim]):
            made.dims[axis].attach_scale(scale)

    return change


def longer(file: h5py.File) -> None:
    """Every variable of rounds is said to have 2^40 of them."""
    for item in file.values():
        if item.maxshape[:1] == (None,):
            item.resize(2**40, axis=0)


def only_rounds(file: h5py.File) -> None:
    file["round"].resize(2**40, axis=0)


def linked(how: Callable[[Path], Any]) -> Edit:
    def change(file: h5py.File) -> None:
        del file["energy_j"]
        file["energy_j"] = how(Path(file.filename).with_name("secret.h5"))

    return change


def kept_outside(file: h5py.File) -> None:
    del file["energy_j"]
    file.create_dataset("energy_j", (3,), "f8", external=[(Path(file.filename).with_name("secret.bin"), 0, 24)])


def virtual(file: h5py.File) -> None:
    del file["energy_j"]
    layout = h5py.VirtualLayout(shape=(3,), dtype="f8")
    layout[:] = h5py.VirtualSource(Path(file.filename).with_name("secret.h5"), "energy_j", shape=(3,))
    file.create_virtual_dataset("energy_j", layout)


DAMAGE: dict[str, tuple[Edit, str]] = {
    "no config": (attribute("config", None), "attribute config must be a text, got missing"),
    "config no JSON": (attribute("config", "{"), "does not hold settings in JSON"),
    "config deep": (attribute("config", "[" * 100_000), "does not hold settings in JSON"),
    "config a list": (attribute("config", "[1]"), "does not hold settings in JSON"),
    "config numbers": (attribute("config", '{"run": 3}'), "does not hold settings in JSON"),
    "config bytes": (attribute("config", np.bytes_(b"\xff\xfe")), "must be a text"),
    "status": (attribute("status", "done"), "must be one of running, complete, failed"),
    "seed": (attribute("seed", "zero"), "must be a number"),
    "seed array": (attribute("seed", np.arange(3)), "must be a number"),
    "level": (attribute("level", "nobody", "epsilon"), "one of client, record"),
    "units": (attribute("units", "kWh", "energy_j"), "one of normalised, J"),
    "variable missing": (lambda file: file.__delitem__("epsilon"), "the variable epsilon is missing"),
    "complex energy": (replaced("energy_j", data=np.ones(3, complex)), "must be float64 with dimensions ('round',)"),
    "text energy": (replaced("energy_j", data=["a", "b", "c"]), "must be float64 with dimensions ('round',)"),
    "ragged energy": (replaced("energy_j", shape=(3,), dtype=h5py.vlen_dtype("f8")), ""),
    "compound energy": (replaced("energy_j", data=np.zeros(3, [("a", "f8"), ("b", "i4")])), ""),
    "opaque energy": (replaced("energy_j", data=np.zeros(3, "V5")), ""),
    "references": (replaced("energy_j", shape=(3,), dtype=h5py.ref_dtype), ""),
    "scalar energy": (replaced("energy_j", data=1.0), "must be float64 with dimensions ('round',)"),
    "empty energy": (replaced("energy_j", data=h5py.Empty("f8")), ""),
    "slots of energies": (replaced("energy_j", data=np.ones((3, 8))), ""),
    "huge rounds": (longer, "more than"),
    "huge round dimension": (only_rounds, "more than"),
    "soft link": (linked(lambda secret: h5py.SoftLink("/test_loss")), "not followed"),
    "external link": (linked(lambda secret: h5py.ExternalLink(secret, "/energy_j")), "not followed"),
    "dangling link": (linked(lambda secret: h5py.SoftLink("/none")), "not followed"),
    "external file": (kept_outside, "not followed"),
    "virtual": (virtual, "not followed"),
}


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    """Another file of the user's, which a trace might point to."""
    with h5py.File(tmp_path / "secret.h5", "w") as file:
        file["energy_j"] = [41.0, 42.0, 43.0]
    (tmp_path / "secret.bin").write_bytes(np.array([41.0, 42.0, 43.0]).tobytes())
    return tmp_path / "secret.h5"


def summed_up(path: Path) -> Summary:
    with open_trace(path) as trace:
        return summarise(trace)


@pytest.mark.parametrize("case", DAMAGE)
def test_files_that_are_made_to_mislead_are_refused(case: str, unsealed: bytes, secret: Path) -> None:
    change, line = DAMAGE[case]
    path = edited(secret.with_name("trace.h5"), unsealed, change)
    assert line in refusal(lambda: summed_up(path))


def test_groups_beside_the_variables_do_no_harm(unsealed: bytes, tmp_path: Path) -> None:
    path = edited(tmp_path / "trace.h5", unsealed, lambda file: file.create_group("notes"), sealed=False)
    assert summed_up(path).rounds == ROUNDS


def test_more_than_the_memory_is_not_asked_for(unsealed: bytes, tmp_path: Path) -> None:
    """Signals may be declared for rounds that have none; whoever reads all of them at once is told."""
    path = edited(tmp_path / "trace.h5", unsealed, lambda file: declare_signals(file, 2**40), sealed=False)
    with open_trace(path) as trace:
        assert summarise(trace).rounds == ROUNDS
        refusal(lambda: trace["tx_symbols"].values, "GB of tx_symbols")
    refusal(lambda: export(path, "npz", tmp_path / "out"))
