"""Random numbers by address: those that the device computes are those of the CPU, bit for bit, and how fast it is.

On a GPU they are computed by Triton kernels. The operations of torch, which stand in for these, are checked as well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import torch
from numpy.typing import NDArray

from airfl.runtime.philox import LONGEST, device_word, gpu, normals, reference
from airfl.runtime.philox import words as words_of_cpu
from airfl.runtime.philox.tensors import (
    add_fair_binomials_,
    add_normals_,
    normals_of_blocks,
    round_stochastically_,
    uniforms,
    words_of_blocks,
)
from airfl.runtime.streams import Address, Purpose, Streams
from experiments.gpu.environment import copy_bandwidth
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
CPU = torch.device("cpu")
DEVICES = (None, 0, 77, (1 << 31) + 5, 1 << 40)


def random_numbers(given: Given) -> Iterator[Row]:
    """Yield checks of words and numbers, of the positions of sparse messages and of what draws them, and the speed."""
    blocks = np.concatenate([np.arange(given.pick(1 << 18, 1 << 12)), [(1 << 32) - 1]])
    yield from guarded("Random123's vectors", lambda: _vectors(given))
    yield from guarded("numbers", lambda: _numbers(given, blocks))
    yield from guarded("Triton kernels", lambda: _kernels(given))
    yield from guarded("added numbers", lambda: _added(given))
    yield from guarded("drawn numbers", lambda: _drawn(given))
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
    """Check the noise of devices, in whole messages and at the positions that a mask keeps, and of the receiver."""
    address, devices, count = Streams(5).address(Purpose.PRIVACY_NOISE, 3), [3, 9], given.pick(100_001, 1_001)
    positions = np.sort(np.random.default_rng(0).choice(count, count // 7, replace=False))
    for name, kept in (("whole messages", None), ("at positions", positions)):
        rows = torch.zeros(2, count if kept is None else len(kept)).to(given.device)
        found = add_normals_(rows, address, devices, 0.25, positions=kept).cpu().numpy()
        wanted = np.float32(0.25) * normals(address, devices, count)
        yield equal(f"noise of devices, {name}", _bits(found, wanted if kept is None else wanted[:, kept]))

    for start in (0, 3, LONGEST - count):
        rows = torch.zeros(1, count).to(given.device)
        found = add_normals_(rows, address, [1 << 40], 0.25, start=start).cpu().numpy()
        wanted = np.float32(0.25) * normals(address, [1 << 40], count, start=start)
        yield equal(f"noise from position {start:,} on", _bits(found, wanted))
    whole = given.pick(1 << 24, 1 << 12)
    received = add_normals_(torch.ones(whole).to(given.device), address, None, 0.25).cpu().numpy()
    wanted = np.float32(1) + np.float32(0.25) * normals(address, None, whole)
    yield equal(f"noise of the receiver, {whole:,} entries", _bits(received, wanted))


def _kernels(given: Given) -> Iterator[Row]:
    """Check that the kernels are used on a GPU, and their words."""
    kernels = gpu.load_kernels(given.device) if given.on_gpu else None
    if not given.on_gpu:
        yield figure("computed by", "kernel.c or numpy" if given.device.type == "cpu" else "torch")
        return
    yield Row("computed by", "torch" if kernels is None else "Triton kernels", "Triton kernels", kernels is not None)
    if kernels is not None:
        address, count = Streams(5).address(Purpose.PRIVACY_NOISE, 3), given.pick(1 << 22, 1 << 12)
        rows = torch.zeros(1, count, dtype=torch.int32, device=given.device)
        gpu.put(kernels, "words", rows, address, [device_word(1 << 40)], start=2)
        wanted = words_of_cpu(address, [1 << 40], count, start=2)
        yield equal(f"words of the kernels, {count:,}", np.array_equal(rows.cpu().numpy().view(np.uint32), wanted))


def _drawn(given: Given) -> Iterator[Row]:
    """Check uniform numbers of stochastic rounding and binomial noise, in whole messages and at positions."""
    address, devices, count = Streams(5).address(Purpose.QUANTISER, 3), [3, 9], given.pick(100_001, 1_001)
    positions = np.sort(np.random.default_rng(0).choice(count, count // 7, replace=False))
    for name, kept in (("whole messages", None), ("at positions", positions)):
        number = count if kept is None else len(kept)
        found, wanted = (uniforms(address, devices, number, one, positions=kept) for one in (given.device, CPU))
        yield equal(f"uniform numbers, {name}", torch.equal(found.cpu(), wanted))
        values = torch.linspace(-2.0, 2.0, 2 * number).view(2, number)
        found, wanted = (
            round_stochastically_(values.to(one, copy=True), address, devices, 1.5, 0.2, 16, positions=kept)
            for one in (given.device, CPU)
        )
        yield equal(f"stochastic rounding, {name}", torch.equal(found.cpu(), wanted))
        for trials in (1, 64, 65, 512):
            found, wanted = (
                add_fair_binomials_(values.to(one, copy=True), address, devices, trials, 0.3, positions=kept)
                for one in (given.device, CPU)
            )
            yield equal(f"Bin({trials}, 1/2), {name}", torch.equal(found.cpu(), wanted))


def _speed(given: Given) -> Iterator[Row]:
    """Measure nanoseconds a number, and the share of the bandwidth of a copy that reading and writing them takes."""
    address, count = Streams(5).address(Purpose.PRIVACY_NOISE, 3), given.pick(100_000_000, 10_000)
    if not given.on_gpu:
        count //= given.pick(10, 1)
    bandwidth = copy_bandwidth(given)
    rows = torch.zeros(1, count).to(given.device)
    kept = torch.arange(0, count, 3).to(given.device)
    some = torch.zeros(1, len(kept)).to(given.device)
    ways: dict[str, tuple[int, int, Callable[[], object]]] = {
        "normal numbers added": (count, 8, lambda: add_normals_(rows, address, [3], 1.0)),
        "normal numbers added, within a block": (count, 8, lambda: add_normals_(rows, address, [3], 1.0, start=1)),
        "normal numbers added at a third of the positions": (
            len(kept),
            16,
            lambda: add_normals_(some, address, [3], 1.0, positions=kept),
        ),
        "uniform numbers": (count, 4, lambda: uniforms(address, [3], count, given.device)),
        "numbers from Bin(64, 1/2) added": (count, 8, lambda: add_fair_binomials_(rows, address, [3], 64, 1.0)),
    }
    for name, (number, bytes_each, draw) in ways.items():
        found = timed(draw, given.device, *steady(given))
        each, share = f"{1e9 * found.median / number:.3g} ns each", bytes_each * number / found.median / bandwidth
        yield figure(f"{number:,} {name}", f"{each}, {share:.1%} of a copy's bandwidth")
        yield figure(f"{number:,} {name}: peak memory", f"{found.peak_bytes / 1e6:,.0f} MB")


def _bits(found: NDArray[np.float32], wanted: NDArray[np.float32]) -> bool:
    return bool(np.array_equal(found.view(np.uint32), wanted.view(np.uint32)))
