"""Gains from damaged files are finite and of the requested shape, or one line refuses them; the process survives."""

import itertools
import zipfile
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import pytest
from scipy.io import savemat

from channels.fading.replay import read_replay
from channels.isolated.child import IsolatedError
from channels.isolated.hdf5 import probe
from channels.isolated.mat import mat_array, mat_variables
from tests.reliability.forked import forked_readers
from tests.reliability.mutations import mutations, truncated
from tests.reliability.refusals import refusal
from tests.reliability.scale import Measured, cases
from tests.reliability.test_traces import check_each, read_each

GENERATOR = np.random.default_rng(5)
GAINS = GENERATOR.standard_normal((6, 8)) + 1j * GENERATOR.standard_normal((6, 8))


def plain(path: Path) -> None:
    with h5py.File(path, "w") as file:
        file["h"], file["mean_power"] = GAINS, np.ones(8)


def packed(path: Path) -> None:
    with h5py.File(path, "w") as file:
        file.create_dataset("site/h", data=GAINS, chunks=(2, 8), compression="gzip", fletcher32=True)


def matlab_73(path: Path) -> None:
    with h5py.File(path, "w", userblock_size=512) as file:
        pairs = np.empty((8, 6), [("real", "f8"), ("imag", "f8")])
        pairs["real"], pairs["imag"] = GAINS.T.real, GAINS.T.imag
        file["h"] = pairs
        file["h"].attrs["MATLAB_class"] = np.bytes_("double")


def responses(path: Path) -> None:
    with h5py.File(path, "w") as file:
        file["h"] = (GAINS[:, :, None, None, None] * np.ones((2, 2, 3))).astype(np.complex64)
        file["frequency_hz"], file["block_time_s"] = 15e3 * np.arange(3), 1e-3 * np.arange(2)
        file["leaked_power"] = np.full((6, 8, 2, 3), 1e-3, np.float32)


def paths(path: Path) -> None:
    delays = 1e-6 * GENERATOR.random((6, 8, 2))
    np.savez(path, a=GAINS[:, :, None, None] * np.ones(2), tau_s=delays, doppler_hz=1e8 * delays)


FILES: dict[str, tuple[Callable[[Path], object], int, int]] = {
    "plain.h5": (plain, 8, 120),
    "packed.hdf5": (packed, 4, 80),
    "matlab73.mat": (matlab_73, 3, 60),
    "matlab5.mat": (lambda path: savemat(path, {"h": GAINS}), 5, 80),
    "packed5.mat": (lambda path: savemat(path, {"h": GAINS}, do_compression=True), 3, 50),
    "matlab4.mat": (lambda path: savemat(path, {"h": GAINS}, format="4"), 3, 50),
    "plain.npy": (lambda path: np.save(path, GAINS), 4, 120),
    "plain.npz": (lambda path: np.savez(path, h=GAINS, mean_power=np.ones(8)), 4, 100),
    "responses.h5": (responses, 5, 100),
    "paths.npz": (paths, 3, 80),
    "packed.npz": (lambda path: np.savez_compressed(path, h=GAINS), 3, 80),
}
"""Writer, mutations in the short version and in the full one."""


def damaged(name: str, folder: Path) -> list[Path]:
    """A good file of that kind, then damaged ones."""
    write, short, full = FILES[name]
    write(folder / name)
    data, files = (folder / name).read_bytes(), [folder / name]
    several = itertools.islice(mutations(np.random.default_rng(7), data), cases(short, full))
    for number, (what, content) in enumerate([*several, *truncated(data, cases(2, 20))]):
        files.append(folder / f"{number}-{what.split()[0]}-{name}")
        files[-1].write_bytes(content)
    return files


def test_mutated_replay_files(tmp_path: Path, measured: Measured) -> None:
    every = {name: damaged(name, tmp_path) for name in FILES}
    told = iter(read_each("replay", tmp_path, list(itertools.chain(*every.values()))))
    for name, files in every.items():
        of_these = list(itertools.islice(told, len(files)))
        assert of_these[0]["ended"] == "read", name
        measured(f"{len(files)} mutated {name}: {check_each(of_these, 2)}")


def refused(path: Path, variable: str | None = None, rounds: int = 3, devices: int = 4) -> str:
    """The line, which names the file; the reader is forked."""
    with forked_readers():
        return refusal(lambda: read_replay(path, variable, rounds=rounds, devices=devices), path.name, ValueError)


def test_a_file_that_ends_the_process_that_reads_it_is_told_in_one_line(tmp_path: Path) -> None:
    """scipy 1.17 follows a null pointer where a number's type is none; the reader is another process."""
    savemat(tmp_path / "m.mat", {"h": GAINS})
    data = bytearray((tmp_path / "m.mat").read_bytes())
    place = data.index(b"h\0\0\0") + 4  # the tag of the real parts
    data[place : place + 8] = bytes(8)
    (tmp_path / "m.mat").write_bytes(data)
    with forked_readers():
        assert mat_variables(tmp_path / "m.mat") == [("h", (6, 8), "double")]
        with pytest.raises(IsolatedError):
            mat_array(tmp_path / "m.mat", "h")
    assert "export it again" in refused(tmp_path / "m.mat")


def test_what_a_child_process_does_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Killed, without room, or refused: each in a line."""
    (tmp_path / "channels_fake.py").write_text(
        "import os, sys\n"
        "from channels.isolated.child import answer\n"
        "def main(path):\n"
        "    if path == 'kill': os.kill(os.getpid(), 11)\n"
        "    if path == 'room': bytearray(1 << 36)\n"
        "    raise ValueError('this is\\nwrong')\n"
        "answer(main, 'json')\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    from channels.isolated.child import call

    lines = {"kill": "the process that reads it crashed", "room": "MemoryError", "wrong": "ValueError: this is"}
    for what, line in lines.items():
        with pytest.raises(IsolatedError, match=line):
            call("channels_fake", what)


def test_links_objects_and_texts_are_no_gains(tmp_path: Path) -> None:
    savemat(tmp_path / "a.mat", {"h": np.array([[{"a": 1}, "text"]], dtype=object), "t": "abc"})
    plain(tmp_path / "secret.h5")
    GAINS.tofile(tmp_path / "secret.bin")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        kinds = {"h": h5py.vlen_dtype("f8"), "s": h5py.string_dtype(), "r": h5py.ref_dtype, "v": "V16"}
        for name, kind in kinds.items():
            file.create_dataset(name, (6, 8), kind)
        file["there"] = h5py.ExternalLink("secret.h5", "/h")
        file["gone"] = h5py.SoftLink("/none")
        file.create_dataset("outside", GAINS.shape, "c16", external=[(tmp_path / "secret.bin", 0, GAINS.nbytes)])
        layout = h5py.VirtualLayout(GAINS.shape, "c16")
        layout[...] = h5py.VirtualSource("secret.h5", "h", GAINS.shape)
        file.create_virtual_dataset("virtual", layout)
    for name in ("a.mat", "a.h5"):
        assert "no array of numbers" in refused(tmp_path / name)


def test_an_array_that_is_said_to_be_huge_takes_no_memory(tmp_path: Path) -> None:
    """Of 2 kB: a fill value that stands for terabytes, a chunk of gigabytes, a .mat file that unpacks to a gigabyte."""
    large = (1 << 14, 1 << 14)
    with h5py.File(tmp_path / "fill.h5", "w") as fill, h5py.File(tmp_path / "chunk.h5", "w") as chunk:
        fill.create_dataset("h", (100_000, 100_000), "f8", chunks=True, fillvalue=1.0)
        chunk.create_dataset("h", large, "f4", chunks=large, compression=9, fillvalue=1.0)
    assert "declares" in refused(tmp_path / "fill.h5", rounds=20_000, devices=20_000)
    assert "declares" in refused(tmp_path / "chunk.h5")
    savemat(tmp_path / "packed.mat", {"h": np.ones((3000, 4000))}, do_compression=True)
    assert "declares" in refused(tmp_path / "packed.mat")


def test_numpy_files_are_not_unpickled(tmp_path: Path) -> None:
    """An array of objects is a pickle: code that runs where it is read."""
    done = tmp_path / "done"

    class Evil:
        def __reduce__(self) -> tuple[object, tuple[object, ...]]:
            return Path.touch, (done,)

    objects = np.empty((6, 8), dtype=object)
    objects[...] = Evil()
    np.save(tmp_path / "a.npy", objects)
    np.savez(tmp_path / "a.npz", h=objects)
    for name in ("a.npy", "a.npz"):
        assert "no array of numbers" in refused(tmp_path / name)
    assert "objects, not numbers" in refused(tmp_path / "a.npz", "h")
    assert not done.exists()


def headed(header: str, data: bytes = b"", length: int | None = None) -> bytes:
    """A .npy file with this header, which says that it is so long."""
    text = header.encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + (len(text) if length is None else length).to_bytes(2, "little") + text + data


def shaped(shape: str, size: int = 0, descr: str = "'<f8'") -> bytes:
    """One that announces numbers, and holds so many bytes of zeros."""
    return headed(f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}", bytes(size))


HEADERS = (
    *(shaped("(1000000, 1000000)", 800), shaped("(4294967296, 4294967296)"), shaped("(True, 8)", 64)),
    *(shaped("(6, 8)", 383), shaped("(6, 8)", 385), shaped("(-6, -8)", 384), shaped("(6, 8)", descr="'|V0'")),
    shaped("(6, 8)", 3840, "[('r', '<f8', (9,)), ('i', '<f8')]"),
    *(headed("(" * 5000 + ")" * 5000), headed("-" * 9000 + "1"), headed("'" + "x" * 60000 + "'")),
    *(headed("{}", length=65535), b"\x93NUMPY\x09\x00" + bytes(100), b"\x93NUMPY"),
    *(b"PK\x03\x04" + bytes(100), b"PK\x05\x06" + bytes(18)),
)


@pytest.mark.parametrize("content", HEADERS, ids=range(len(HEADERS)))
def test_headers_of_numpy_files_are_not_believed(content: bytes, tmp_path: Path) -> None:
    for name in ("a.npy", "a.npz"):
        path = tmp_path / name
        path.write_bytes(content)
        assert refused(path)
        if content.startswith(b"\x93"):
            with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
                archive.writestr("h.npy", content)
            assert refused(path)


def test_an_archive_that_unpacks_to_far_more_takes_no_memory(tmp_path: Path) -> None:
    """Said so by the header; or not said, and there; or of too many arrays."""
    for name, shape in (("said", "(4000, 5000)"), ("unsaid", "(6, 8)")):
        with (
            zipfile.ZipFile(tmp_path / f"{name}.npz", "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
            archive.open("h.npy", "w") as member,
        ):
            member.write(shaped(shape))
            for _ in range(160):
                member.write(bytes(1_000_000))
    assert "declares" in refused(tmp_path / "said.npz")
    assert "384 bytes declared, the file has more" in refused(tmp_path / "unsaid.npz")
    with zipfile.ZipFile(tmp_path / "many.npz", "w") as archive:
        for number in range(1001):
            archive.writestr(f"{number}.npy", b"")
    assert "at most 1,000 arrays, got 1,001" in refused(tmp_path / "many.npz")


@pytest.mark.parametrize("gain", [1e-200, 1e150, 1e150j, 1e21, 1e-21, 1e20 + 1e20j, 1e308 + 1e308j])
def test_gains_that_single_precision_does_not_carry(gain: complex, tmp_path: Path) -> None:
    values = GAINS.copy()
    values[1, 2] = gain
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["h"] = values
    told = refused(tmp_path / "a.h5")
    assert f"is {abs(gain):g}, outside the range" in told
    assert "round 1, device 2, antenna 0" in told


def test_a_look_at_a_good_file_says_nothing_and_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain(tmp_path / "a.h5")
    probe(tmp_path / "a.h5")
    monkeypatch.setattr("channels.isolated.hdf5.call", lambda *_: pytest.fail("looked at twice"))
    probe(tmp_path / "a.h5")
