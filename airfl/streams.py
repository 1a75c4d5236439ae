"""Random streams by address: a draw is named by (root seed, purpose, round, device), never by how many came before.

No address holds the scheme's name, so two schemes with one seed meet the same devices, fades, batches and noise; and a
scheme, a metric or an option that draws something new moves no other draw.
"""

import functools
from collections.abc import Sequence
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray


class Purpose(IntEnum):
    """What a stream is for. Append only: a number, once given, stays."""

    INIT = 0
    PARTITION = 1
    SELECT = 2
    BATCH = 3
    TOPOLOGY = 4
    FADING = 5
    CSI = 6
    RECEIVER_NOISE = 7
    MASK = 8
    QUANTISER = 9
    PRIVACY_NOISE = 10
    POWER_LIMIT = 11
    PLACEMENT = 12
    INTERFERENCE = 13
    FEEDBACK = 14
    AGEING = 15
    PHASE = 16
    TIMING = 17
    FREQUENCY = 18
    CANDIDATES = 19
    SNAPSHOT = 20
    LOCAL_NOISE = 21
    ROTATION = 22
    PROJECTION = 23
    BLOCK_ERRORS = 24
    INITIAL_ROUND = 25
    AUDIT = 26
    ANGLE = 27


MANY_DEVICES, FEW_NUMBERS = 64, 16
"""Where all devices at once are quicker than one after another."""
# Philox 4x64 with ten rounds (Salmon et al., Parallel random numbers: as easy as 1, 2, 3, 2011).
PHILOX_ROUNDS = 10
MULTIPLIERS = np.array([[0xD2E7470EE14C6C93], [0xCA5A826395121157]], dtype=np.uint64)
KEY_STEPS = np.array([[0x9E3779B97F4A7C15], [0xBB67AE8584CAA73B]], dtype=np.uint64)
LOW_HALF, HALF = np.uint64(0xFFFFFFFF), np.uint64(32)


class Streams:
    """All random numbers of a run with root seed `seed` (from 0 to 2^64 - 1).

    The address (seed, purpose, round) is hashed into the key of a counter-based generator (Philox 4x64); the device is
    the highest word of its counter, so a device's stream costs no hashing and depends on no other device.
    """

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def generator(self, purpose: Purpose, round_index: int | None = None) -> np.random.Generator:
        """The generator of an address that no device is part of."""
        return np.random.Generator(np.random.Philox(key=self._key(purpose, round_index)))

    def device_uniforms(
        self,
        purpose: Purpose,
        round_index: int | None,
        devices: Sequence[int] | NDArray[np.integer],
        count: int,
    ) -> NDArray[np.float64]:
        """Uniform numbers in [0, 1) of each device's own stream, [devices, count]."""
        if len(devices) >= MANY_DEVICES and count <= FEW_NUMBERS:
            return _uniforms_of_many(self._key(purpose, round_index), devices, count)
        bits = np.random.Philox(key=self._key(purpose, round_index))
        generator = np.random.Generator(bits)
        start = bits.state
        uniforms = np.empty((len(devices), count))
        for row, device in enumerate(devices):
            # Counter word 3 is 0 in `generator` above, so that devices begin at 1.
            start["state"]["counter"] = np.array([0, 0, 0, int(device) + 1], dtype=np.uint64)
            bits.state = start
            generator.random(out=uniforms[row])
        return uniforms

    def device_generator(self, purpose: Purpose, round_index: int | None, device: int) -> np.random.Generator:
        """The generator of one device's own stream; what it draws first is what `device_uniforms` draws."""
        bits = np.random.Philox(key=self._key(purpose, round_index), counter=[0, 0, 0, int(device) + 1])
        return np.random.Generator(bits)

    def torch_seed(self, purpose: Purpose) -> int:
        """A 32-bit seed for torch's CPU generator, which ignores higher bits: a hash, so that 5 and 5 + 2^32 differ."""
        return int(_sequence(self._seed, int(purpose), None).generate_state(1, np.uint32)[0])

    def _key(self, purpose: Purpose, round_index: int | None) -> NDArray[np.uint64]:
        return _key(self._seed, int(purpose), round_index)


def _uniforms_of_many(
    key: NDArray[np.uint64], devices: Sequence[int] | NDArray[np.integer], count: int
) -> NDArray[np.float64]:
    """What `Streams.device_uniforms` draws, by numpy's generator written out for all devices at once."""
    blocks = -(-count // 4)
    # Words 0 and 2 of each counter, then 1 and 3. numpy counts up before it draws, so that word 0 begins at 1.
    even, odd = np.zeros((2, 2, len(devices) * blocks), dtype=np.uint64)
    even[0] = np.tile(np.arange(1, blocks + 1, dtype=np.uint64), len(devices))
    odd[1] = np.repeat(np.asarray(devices, dtype=np.uint64) + np.uint64(1), blocks)
    keys = key[:, None]
    for _ in range(PHILOX_ROUNDS):
        even, odd = _high_words(even)[::-1] ^ odd ^ keys, (even * MULTIPLIERS)[::-1]
        keys = keys + KEY_STEPS
    words = np.stack([even[0], odd[0], even[1], odd[1]], axis=1).reshape(len(devices), 4 * blocks)
    return np.asarray((words[:, :count] >> np.uint64(11)) * 2.0**-53, dtype=np.float64)


def _high_words(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The upper 64 of the 128 bits of each product with its multiplier, by halves."""
    low, high = words & LOW_HALF, words >> HALF
    factor_low, factor_high = MULTIPLIERS & LOW_HALF, MULTIPLIERS >> HALF
    middle = high * factor_low + (low * factor_low >> HALF)
    carried = (low * factor_high + (middle & LOW_HALF)) >> HALF
    return np.asarray(high * factor_high + (middle >> HALF) + carried, dtype=np.uint64)


def _sequence(seed: int, purpose: int, round_index: int | None) -> np.random.SeedSequence:
    return np.random.SeedSequence(seed, spawn_key=(purpose,) if round_index is None else (purpose, round_index))


@functools.lru_cache(maxsize=256)  # asked for by every device of a round, for every purpose
def _key(seed: int, purpose: int, round_index: int | None) -> NDArray[np.uint64]:
    key = np.asarray(_sequence(seed, purpose, round_index).generate_state(2, np.uint64), dtype=np.uint64)
    key.flags.writeable = False
    return key
