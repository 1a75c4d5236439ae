"""Malicious traces: wrong types, links to other files, and impossible sizes."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from airfl.core.summary import summarise
from airfl.exports import export
from airfl.storage.trace import open_trace
from tests.reliability.forgery import Edit, attribute, declare, declare_signals, edited
from tests.reliability.refusals import refusal

ROUNDS = 3
ENERGIES = "energy_j must be float64 with dimensions ('round',)"


def replaced(**how: Any) -> Edit:
    """Another dataset in the place of the energies, tied to their dimension where it has an axis."""

    def change(file: h5py.File) -> None:
        del file["energy_j"]
        made = file.create_dataset("energy_j", **how)
        if made.ndim:
            made.dims[0].attach_scale(file["round"])

    return change


def packed(name: str, *shape: int) -> Edit:
    """A variable of many rounds that takes next to nothing on disk: chunks that are packed a thousandfold."""

    def change(file: h5py.File) -> None:
        file["round"].resize(shape[0], axis=0)
        declare(file, name, ("round", "slot")[: len(shape)], shape, chunks=True, compression=9)[:1] = 0

    return change


def large_chunks(file: h5py.File) -> None:
    square = (1 << 14, 1 << 14)
    declare(file, "rx_symbols", ["round", "coordinate"], (3, 254), chunks=square, compression=9)


def many_groups(file: h5py.File) -> None:
    for number in range(1200):
        file.create_group(f"g{number}")


def longer(file: h5py.File) -> None:
    """Every variable of rounds is said to have 2^40 of them."""
    for item in file.values():
        if item.maxshape[:1] == (None,):
            item.resize(2**40, axis=0)


def linked(how: Callable[[Path], Any]) -> Edit:
    def change(file: h5py.File) -> None:
        del file["energy_j"]
        file["energy_j"] = how(Path(file.filename).with_name("secret.h5"))

    return change


def kept_outside(file: h5py.File) -> None:
    replaced(shape=(3,), dtype="f8", external=[(Path(file.filename).with_name("secret.bin"), 0, 24)])(file)


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
    "complex energy": (replaced(data=np.ones(3, complex)), ENERGIES),
    "energy of 128 bits": (replaced(data=np.ones(3, np.longdouble)), ENERGIES),
    "text energy": (replaced(data=["a", "b", "c"]), ENERGIES),
    "ragged energy": (replaced(shape=(3,), dtype=h5py.vlen_dtype("f8")), ""),
    "compound energy": (replaced(data=np.zeros(3, [("a", "f8"), ("b", "i4")])), ""),
    "opaque energy": (replaced(data=np.zeros(3, "V5")), ""),
    "references": (replaced(shape=(3,), dtype=h5py.ref_dtype), ""),
    "scalar energy": (replaced(data=1.0), ENERGIES),
    "empty energy": (replaced(data=h5py.Empty("f8")), ""),
    "slots of energies": (replaced(data=np.ones((3, 8))), ""),
    "huge rounds": (longer, "more than"),
    "soft link": (linked(lambda secret: h5py.SoftLink("/test_loss")), "not followed"),
    "external link": (linked(lambda secret: h5py.ExternalLink(secret, "/energy_j")), "not followed"),
    "dangling link": (linked(lambda secret: h5py.SoftLink("/none")), "not followed"),
    "external file": (kept_outside, "not followed"),
    "virtual": (virtual, "not followed"),
    # A few bytes that stand for far more.
    "huge round dimension": (lambda file: file["round"].resize(2**40, axis=0), "more than"),
    "figures of a thousand million rounds": (packed("energy_j", 1 << 29), "more than"),
    "slots of a million rounds": (packed("update_norm", 1 << 26, 8), "more than"),
    "a chunk of gigabytes": (large_chunks, "has chunks of shape (16384, 16384)"),
    "lzf": (replaced(data=np.ones(3), chunks=(3,), compression="lzf"), "only deflate, shuffle and fletcher32 are read"),
    "a thousand groups": (many_groups, "at most 1,000 variables are read"),
    "a text of megabytes": (attribute("scheme", "x" * (1 << 21)), "attribute scheme must be a text, got too long"),
}


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    """Another file of the user's, which a trace might point to."""
    with h5py.File(tmp_path / "secret.h5", "w") as file:
        file["energy_j"] = [41.0, 42.0, 43.0]
    (tmp_path / "secret.bin").write_bytes(np.array([41.0, 42.0, 43.0]).tobytes())
    return tmp_path / "secret.h5"


@pytest.mark.parametrize("case", DAMAGE)
def test_files_that_are_made_to_mislead_are_refused(case: str, unsealed: bytes, secret: Path) -> None:
    change, line = DAMAGE[case]
    path = edited(secret.with_name("trace.h5"), unsealed, change)
    assert line in refusal(lambda: open_trace(path))


def test_groups_beside_the_variables_do_no_harm(unsealed: bytes, tmp_path: Path) -> None:
    path = edited(tmp_path / "trace.h5", unsealed, lambda file: file.create_group("notes"), sealed=False)
    with open_trace(path) as trace:
        assert summarise(trace).rounds == ROUNDS


@pytest.mark.parametrize("coordinates", [1 << 23, 1 << 40])
def test_signals_that_no_file_of_that_size_can_hold_are_not_asked_for(
    coordinates: int, unsealed: bytes, tmp_path: Path
) -> None:
    """Signals may be declared for rounds that have none: gigabytes of them, of a file of 300 kB."""
    path = edited(tmp_path / "trace.h5", unsealed, lambda file: declare_signals(file, coordinates))
    with open_trace(path) as trace:
        assert summarise(trace).rounds == ROUNDS
        signals = trace["tx_symbols"]
        line = f"cannot read {signals.nbytes / 1e9:.3g} GB of tx_symbols: the file can hold 0."
        assert line in refusal(lambda: signals.values)
        assert not signals[1, 2, :1000].values.any()
    refusal(lambda: export(path, "npz", tmp_path / "out"))
