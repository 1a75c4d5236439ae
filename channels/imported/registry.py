"""The kinds of sources."""

from __future__ import annotations

from channels.imported import cir, csv_rows, deepmimo, dichasus, npy, sionna_rt
from channels.imported.kinds import Kind

KINDS: dict[str, Kind] = {
    kind.name: kind
    for kind in (
        Kind("npy", "array of gains or responses (.npy, .npz, .mat, HDF5)", npy.read, npy.OPTIONS),
        Kind("csv", "table of gains, responses or paths", csv_rows.read, csv_rows.OPTIONS),
        Kind("cir", "impulse responses a, tau of Sionna (.npz, .mat, HDF5)", cir.read, cir.OPTIONS),
        Kind(
            "deepmimo",
            "folder of a scenario of DeepMIMO 3 or 4, or its MATLAB dataset",
            deepmimo.read,
            deepmimo.OPTIONS,
        ),
        Kind("dichasus", "TFRecord file of measurements of DICHASUS", dichasus.read, dichasus.OPTIONS),
        Kind("sionna-rt", "scene that Sionna RT traces: a name, or an .xml file", sionna_rt.read, sionna_rt.OPTIONS),
    )
}
