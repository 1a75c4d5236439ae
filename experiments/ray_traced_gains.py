"""Gains of devices on a street, traced by Sionna RT, as a file that any run replays.

    python experiments/ray_traced_gains.py --out gains.h5 [--rounds 10] [--devices 100] [--seed 0]
    airfl run demo channel.fading=replay channel.replay_file=gains.h5 run.rounds=10 run.devices=100 ... --out DIR

A base station stands on a roof of Sionna's scene "simple street canyon"; devices walk along the street, a step between
rounds. gains, complex [rounds, devices], is the flat channel at the carrier, divided by one number (attribute `scale`)
so that their mean power is 1: the path loss between devices stays in them. Wants the extra [rt], and LLVM's library.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import h5py
import numpy as np
from numpy.typing import NDArray

CARRIER_HZ = 3.5e9
BASE = (-33.0, 11.0, 32.0)
STREET_M = ((-60.0, 60.0), (-8.0, 8.0))
HEIGHT_M = 1.5
REFLECTIONS = 3


def walk(rounds: int, devices: int, step_m: float, seed: int) -> NDArray[np.float64]:
    """Positions in metres, [rounds, devices, 3]: anywhere on the street at first, then along it in either direction."""
    generator = np.random.default_rng(seed)
    x, y = (generator.uniform(*side, devices) for side in STREET_M)
    along = generator.choice([-1.0, 1.0], devices) * step_m * np.arange(rounds)[:, None]
    return np.stack([x + along, np.broadcast_to(y, along.shape), np.full(along.shape, HEIGHT_M)], axis=-1)


def trace(positions: NDArray[np.float64], seed: int) -> NDArray[np.complex128]:
    """h of every round and device, [rounds, devices]; 0 where no path arrives."""
    from sionna import rt

    scene = rt.load_scene(rt.scene.simple_street_canyon)
    scene.frequency = CARRIER_HZ
    scene.tx_array = scene.rx_array = rt.PlanarArray(num_rows=1, num_cols=1, pattern="iso", polarization="V")
    scene.add(rt.Transmitter("base", position=list(BASE)))  # the channel is the same both ways
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
    """Trace and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="the HDF5 file to write, a new one")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--devices", type=int, default=100)
    parser.add_argument("--step", type=float, default=0.5, help="metres a device walks between rounds")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    if given.out.exists():
        raise SystemExit(f"{given.out}: is there already; give a new file")
    gains = trace(walk(given.rounds, given.devices, given.step, given.seed), given.seed)
    unheard = int((gains == 0).any(axis=0).sum())
    if unheard:
        raise SystemExit(
            f"{unheard} of {given.devices} devices have no path in some round; take another --seed, or fewer"
        )
    scale = float(np.sqrt((np.abs(gains) ** 2).mean()))
    with h5py.File(given.out, "x") as file:
        file["gains"] = gains / scale
        file["gains"].attrs.update(scale=scale, carrier_hz=CARRIER_HZ)
    print(f"{given.out}: {gains.size} gains; mean path gain {20 * np.log10(scale):.1f} dB")


if __name__ == "__main__":
    main()
