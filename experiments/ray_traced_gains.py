"""Trace the channel gains of devices on a street with Sionna RT, and write a file that any run can replay.

    python experiments/ray_traced_gains.py --out gains.h5 [--rounds 10] [--devices 100] [--seed 0]
    airfl run demo channel.fading=replay channel.replay_file=gains.h5 run.rounds=10 run.devices=100 ... --out DIR

The base station is on a roof of Sionna's scene "simple street canyon"; devices walk along the street, one step between
rounds. `gains`, complex [rounds, devices], is the flat channel at the carrier over a single number (attribute `scale`),
so that the mean power is 1 and path loss differences are preserved. Requires the extra [rt] and, without a GPU, the
library of LLVM 17 or later (Debian: apt install libllvm19).
"""

from __future__ import annotations

import argparse
from pathlib import Path
from types import ModuleType

import h5py
import numpy as np
from numpy.typing import NDArray

CARRIER_HZ = 3.5e9
BASE = (-33.0, 11.0, 32.0)
STREET_M = ((-60.0, 60.0), (-8.0, 8.0))
HEIGHT_M = 1.5
REFLECTIONS = 3


def walk(rounds: int, devices: int, step_m: float, seed: int) -> NDArray[np.float64]:
    """Return positions in meters, [rounds, devices, 3]: uniform on the street, then moving along it either way."""
    generator = np.random.default_rng(seed)
    x, y = (generator.uniform(*side, devices) for side in STREET_M)
    along = generator.choice([-1.0, 1.0], devices) * step_m * np.arange(rounds)[:, None]
    return np.stack([x + along, np.broadcast_to(y, along.shape), np.full(along.shape, HEIGHT_M)], axis=-1)


def ray_tracer() -> ModuleType:
    """Import Sionna RT. With LLVM 15 and 16 it imports, but compiling its kernels then ends the process."""
    try:
        import drjit
        from sionna import rt
    except ImportError as error:
        raise SystemExit(f"Sionna RT cannot be imported; install airfl[rt] and LLVM 17 or later ({error})") from None
    version = drjit.detail.llvm_version()
    if not drjit.has_backend(drjit.JitBackend.CUDA) and version < (17,):
        found = ".".join(map(str, version))
        raise SystemExit(f"LLVM must be 17 or later, got {found}; install it, or set DRJIT_LIBLLVM_PATH to its library")
    return rt


def trace(positions: NDArray[np.float64], seed: int) -> NDArray[np.complex128]:
    """Return the channel h of every round and device, [rounds, devices]; 0 without a path."""
    rt = ray_tracer()
    scene = rt.load_scene(rt.scene.simple_street_canyon)
    scene.frequency = CARRIER_HZ
    scene.tx_array = scene.rx_array = rt.PlanarArray(num_rows=1, num_cols=1, pattern="iso", polarization="V")
    scene.add(rt.Transmitter("base", position=list(BASE)))  # the channel is reciprocal
    for device, position in enumerate(positions[0]):
        scene.add(rt.Receiver(f"device-{device}", position=position.tolist()))
    solver, gains = rt.PathSolver(), []
    for at in positions:
        for device, position in enumerate(at):
            scene.get(f"device-{device}").position = position.tolist()
        paths = solver(scene, max_depth=REFLECTIONS, seed=seed + 1)
        gains.append(paths.cfr(frequencies=np.zeros(1, np.float32), out_type="numpy").reshape(len(at)))
    return np.array(gains, dtype=np.complex128)


def main() -> None:
    """Trace the gains and write the file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="the HDF5 file to write; it must not exist")
    parser.add_argument("--rounds", type=int, default=10, help="number of rounds")
    parser.add_argument("--devices", type=int, default=100, help="number of devices")
    parser.add_argument("--step", type=float, default=0.5, help="meters that a device walks between rounds")
    parser.add_argument("--seed", type=int, default=0, help="seed of positions and directions")
    args = parser.parse_args()
    if args.out.exists():
        raise SystemExit(f"{args.out}: file already exists; choose another name")
    gains = trace(walk(args.rounds, args.devices, args.step, args.seed), args.seed)
    without_path = int((gains == 0).any(axis=0).sum())
    if without_path:
        raise SystemExit(
            f"{without_path} of {args.devices} devices have no path in some round; change --seed, or use fewer devices"
        )
    scale = float(np.sqrt((np.abs(gains) ** 2).mean()))
    with h5py.File(args.out, "x") as file:
        file["gains"] = gains / scale
        file["gains"].attrs.update(scale=scale, carrier_hz=CARRIER_HZ)
    print(f"{args.out}: {gains.size} gains; mean path gain {20 * np.log10(scale):.1f} dB")


if __name__ == "__main__":
    main()
