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


def _sequence(seed: int, purpose: int, round_index: int | None) -> np.random.SeedSequence:
    return np.random.SeedSequence(seed, spawn_key=(purpose,) if round_index is None else (purpose, round_index))


@functools.lru_cache(maxsize=256)  # asked for by every device of a round, for every purpose
def _key(seed: int, purpose: int, round_index: int | None) -> NDArray[np.uint64]:
    key = np.asarray(_sequence(seed, purpose, round_index).generate_state(2, np.uint64), dtype=np.uint64)
    key.flags.writeable = False
    return key
