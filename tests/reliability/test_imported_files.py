"""Damaged files of other tools are imported or refused in one line; the process survives, and takes no memory."""

import itertools
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
from scipy.io import savemat

from channels.imported.tfrecord import masked_crc, places, record
from tests.conftest import ROOT
from tests.reliability.mutations import mutations
from tests.reliability.scale import Measured, cases
from tests.reliability.test_traces import check_each, read_each

MEASURED = ROOT / "tests" / "data" / "dichasus" / "dichasus-small.tfrecords"
PARAMETERS = ("phase", "ToA", "power", "DoA_phi", "DoA_theta", "DoD_phi", "DoD_theta")
TABLE = """round,device,path_loss_db,phase_deg,delay_ns,azimuth_deg,elevation_deg,doppler_hz,x_m,y_m
0,0,80,0,100,10,-5,20,1,2
0,0,92,45,250,-170,0,-3,1,2
0,1,85,90,40,0,0,1,3,4
1,0,81,0,110,11,-5,20,1,3
"""


def measured_record(_: Path) -> bytes:
    """A record of DICHASUS without its checksums."""
    return record(MEASURED, *places(MEASURED)[0], 0)


def sealed(data: bytes) -> bytes:
    """A TFRecord file with this record, whose checksums fit."""
    length = struct.pack("<Q", len(data))
    return length + struct.pack("<I", masked_crc(length)) + data + struct.pack("<I", masked_crc(data))


def dataset(path: Path) -> bytes:
    """A dataset of DeepMIMO's MATLAB generator, of a base station and 2 users."""
    parameters = {name: np.full((1, 3), 1e-9 if name in ("power", "ToA") else 60.0) for name in PARAMETERS}
    users, stations = np.empty((1, 2), object), np.empty((1, 1), object)
    for user in range(2):
        users[0, user] = {"loc": np.ones(3), "path_params": parameters}
    stations[0, 0] = {"loc": np.ones(3), "user": users}
    savemat(path, {"DeepMIMO_dataset": stations})
    return path.read_bytes()


def as_is(data: bytes) -> bytes:
    return data


FILES: dict[str, tuple[Callable[[Path], bytes], Callable[[bytes], bytes], int, int]] = {
    "dichasus": (measured_record, sealed, 16, 1000),
    "deepmimo": (dataset, as_is, 4, 100),
    "csv": (lambda _: TABLE.encode(), as_is, 16, 1000),
}
"""By kind: what writes a good file, what is done to its damaged bytes, mutations in short and in full."""


def test_mutated_files_of_other_tools(tmp_path: Path, measured: Measured) -> None:
    """Checksums fit the damaged records of DICHASUS, so that the mutations reach what is behind them."""
    (tmp_path / "out").mkdir()
    every: dict[str, list[Path]] = {}
    for kind, (make, finish, short, full) in FILES.items():
        data = make(tmp_path / "good")
        several = itertools.islice(mutations(np.random.default_rng(9), data), cases(short, full))
        every[kind] = files = []
        for number, (_, content) in enumerate([("good", data), *several]):
            files.append(tmp_path / f"{number}.{kind}")
            files[-1].write_bytes(finish(content))
    told = iter(read_each("channel", tmp_path, list(itertools.chain(*every.values()))))
    for kind, files in every.items():
        of_kind = list(itertools.islice(told, len(files)))
        assert of_kind[0]["ended"] == "read", of_kind[0]
        measured(f"{len(files)} mutated files of {kind}: {check_each(of_kind, 2)}")
