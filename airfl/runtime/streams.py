"""Random streams by address: a draw is determined by (root seed, purpose, round, device), and not by earlier draws.

The scheme is not part of the address, so two schemes with one seed have the same devices, fading, batches and noise. A
scheme, a metric or an option with additional draws does not change any other draw.
"""

import functools
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

__all__ = ["Address", "Purpose", "Streams"]


class Purpose(IntEnum):
    """The purpose of a stream. Only append: existing numbers must not change."""

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
    IMPULSES = 28
    SYMBOL_PHASE = 29
    OSCILLATOR = 30
    SEQUENCES = 31
    CODEBOOK = 32
    REPLAY_ROUNDS = 33
    REPLAY_DEVICES = 34
    SYNCHRONISATION = 35
    MEASURED_ROUNDS = 36
    MEASURED_DEVICES = 37
    DEVICE_SIZE = 38
    DEVICE_DATA = 39
    COMMON_DATA = 40
    SURFACE = 41
    SURFACE_TO_BASE = 42
    SURFACE_TRAINING = 43
    SURFACE_PHASES = 44
    ACCESS_POINTS = 45
    PLACED_AGAIN = 46
    ACCESS_POINT_PHASE = 47
    NEIGHBOURS = 48
    MOTION = 49
    FIELDS = 50
    BLOCKERS = 51
    BLOCKED_REGIONS = 52


@dataclass(frozen=True)
class Address:
    """The address of long arrays of random numbers (`airfl.runtime.philox`), without the device.

    Attributes:
        key: Hash of seed and purpose, two 32-bit words.
        round_word: t + 1, or 0 for no round, below 2^32.
    """

    key: tuple[int, int]
    round_word: int


@dataclass(frozen=True)
class Streams:
    """The random numbers of a run.

    The address (seed, purpose, round) is hashed to the key of a counter-based generator (Philox 4x64). The device is
    the highest word of its counter, so a device's stream needs no hashing and does not depend on other devices.

    Attributes:
        seed: The root seed, from 0 to 2^64 - 1.
    """

    seed: int

    def generator(self, purpose: Purpose, round_index: int | None = None) -> np.random.Generator:
        """Return the generator of an address without a device."""
        return np.random.Generator(np.random.Philox(key=self.key(purpose, round_index)))

    def address(self, purpose: Purpose, round_index: int | None = None) -> Address:
        """Return the address of the arrays of this purpose and round."""
        return Address(_short_key(self.seed, int(purpose)), 0 if round_index is None else round_index + 1)

    def device_generator(self, purpose: Purpose, round_index: int | None, device: int) -> np.random.Generator:
        """Return the generator of one device's own stream, whose first draws are those of `philox.device_uniforms`."""
        bits = np.random.Philox(key=self.key(purpose, round_index), counter=[0, 0, 0, int(device) + 1])
        return np.random.Generator(bits)

    def torch_seed(self, purpose: Purpose) -> int:
        """Return a 32-bit seed for torch's CPU generator, which ignores higher bits. As it is a hash, the root seeds 5
        and 5 + 2^32 give different ones."""
        return int(_sequence(self.seed, int(purpose), None).generate_state(1, np.uint32)[0])

    def key(self, purpose: Purpose, round_index: int | None) -> NDArray[np.uint64]:
        """Return the key of the generators of this purpose and round, two words."""
        return _key(self.seed, int(purpose), round_index)


def _sequence(seed: int, purpose: int, round_index: int | None) -> np.random.SeedSequence:
    return np.random.SeedSequence(seed, spawn_key=(purpose,) if round_index is None else (purpose, round_index))


@functools.lru_cache(maxsize=256)  # called for every device of a round and every purpose
def _key(seed: int, purpose: int, round_index: int | None) -> NDArray[np.uint64]:
    key = np.asarray(_sequence(seed, purpose, round_index).generate_state(2, np.uint64), dtype=np.uint64)
    key.flags.writeable = False
    return key


@functools.lru_cache(maxsize=256)
def _short_key(seed: int, purpose: int) -> tuple[int, int]:
    first, second = _sequence(seed, purpose, None).generate_state(2, np.uint32).tolist()
    return first, second
