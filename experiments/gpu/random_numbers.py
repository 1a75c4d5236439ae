"""Random numbers by address: those that the device computes are those of the numpy reference, bit for bit."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from numpy.typing import NDArray

from airfl.runtime.philox import device_word, normals, reference
from airfl.runtime.philox.tensors import add_normals_, normals_of_blocks, words_of_blocks
from airfl.runtime.streams import Address, Purpose, Streams
from experiments.gpu.rows import Given, Row, equal, figure, guarded
from experiments.gpu.worlds import steady, timed

VECTORS = (
    ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
)
"""Counter, key and words of Random123's philox4x32-10."""
DEVICES = (None, 0, 77, (1 << 31) + 5, 1 << 40)


def random_numbers(given: Given) -> Iterator[Row]:
    """Yield checks of words, uniform and normal numbers, of the positions of sparse messages, and the speed."""
    blocks = np.concatenate([np.arange(given.pick(1 << 18, 1 << 12)), [(1 << 32) - 1]])
    yield from guarded("Random123's vectors", lambda: _vectors(given))
    yield from guarded("numbers", lambda: _numbers(given, blocks))
    yield from guarded("added numbers", lambda: _added(given))
    yield from guarded("speed", lambda: _speed(given))


def _vectors(given: Given) -> Iterator[Row]:
    for number, (counter, key, wanted) in enumerate(VECTORS):
        address = Address(key, counter[1])
        # The word of a device is its number plus one, so that 0 stands for none.
        device = (counter[2] | counter[3] << 32) - 1
        block = torch.tensor([counter[0]], dtype=torch.int64).to(given.device)
        found = words_of_blocks(address, None if device < 0 else device, block)
        words = tuple(int(word.cpu()[0]) for word in found)
        yield equal(f"Random123's vector {number + 1}", words == wanted, "" if words == wanted else str(words))


def _numbers(given: Given, blocks: NDArray[np.int64]) -> Iterator[Row]:
    address = Streams(5).address(Purpose.PRIVACY_NOISE, 3)
    there = torch.from_numpy(blocks).to(given.device)
    same = {"words": True, "uniform numbers": True, "normal numbers": True}
    for device in DEVICES:
        words = reference.words_of_blocks(address, device_word(device), blocks)
        found = torch.stack(words_of_blocks(address, device, there), dim=1)
        same["words"] &= np.array_equal(found.cpu().numpy(), words)
        uniform = ((found >> 8).float() + 0.5) * 2.0**-24
        same["uniform numbers"] &= _bits(uniform.cpu().numpy(), reference.uniforms_of(words))
        normal = normals_of_blocks(address, device, there)
        same["normal numbers"] &= _bits(normal.cpu().numpy(), reference.normals_of(words))
    for name, equal_ in same.items():
        yield equal(f"{name}, {4 * len(blocks) * len(DEVICES):,}", equal_)


def _added(given: Given) -> Iterator[Row]:
    """Check the noise of devices, in whole messages and at the positions that a mask keeps."""
    address, devices, count = Streams(5).address(Purpose.PRIVACY_NOISE, 3), [3, 9], given.pick(100_001, 1_001)
    positions = np.sort(np.random.default_rng(0).choice(count, count // 7, replace=False))
    for name, kept in (("whole messages", None), ("at positions", positions)):
        rows = torch.zeros(2, count if kept is None else len(kept)).to(given.device)
        found = add_normals_(rows, address, devices, 0.25, positions=kept).cpu().numpy()
        wanted = np.float32(0.25) * normals(address, devices, count)
        yield equal(f"noise of devices, {name}", _bits(found, wanted if kept is None else wanted[:, kept]))


def _speed(given: Given) -> Iterator[Row]:
    address, count = Streams(5).address(Purpose.PRIVACY_NOISE, 3), given.pick(10_000_000, 10_000)
    rows = torch.zeros(1, count).to(given.device)
    found = timed(lambda: add_normals_(rows, address, [3], 1.0), given.device, *steady(given))
    yield figure(f"{count:,} normal numbers added", f"{1e9 * found.median / count:.3g} ns each")
    yield figure("their peak memory", f"{found.peak_bytes / 1e6:,.0f} MB")


def _bits(found: NDArray[np.float32], wanted: NDArray[np.float32]) -> bool:
    return bool(np.array_equal(found.view(np.uint32), wanted.view(np.uint32)))
