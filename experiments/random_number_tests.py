"""Statistical tests of the random numbers by address, with Dieharder (Marsaglia's, NIST's and further tests).

    python experiments/random_number_tests.py [--tests NUMBER ...] [--orders NAME ...]

Needs the program `dieharder` (a package of most Linux distributions). It reads the words in three orders: one long
stream, the streams of 4,096 devices word by word, and those of 64 rounds and 8 purposes word by word, so that
correlations between addresses show as well as those within a stream. A test that fails is repeated with words further
on: of some hundred p-values, one or two are below 1% by chance. Exits with status 1 if a test fails twice.
"""

from __future__ import annotations

import argparse
import itertools
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from airfl.runtime.philox import words
from airfl.runtime.streams import Purpose, Streams

Words = NDArray[np.uint32]

SEED = 20_261_125
BLOCK = 1 << 18
DEVICES, ROUNDS = 4096, 64
PURPOSES = [Purpose(number) for number in range(8)]
OPTIONS = {200: ("-n", "6")}
"""Options without which Dieharder does not run a test: the distribution of bits is that of groups of 6."""
# Those that Dieharder calls reliable, and that take seconds to a minute: birthdays, OPERM5, ranks, bit streams, counts
# of ones, spheres, squeeze, runs, craps, GCD, NIST's monobit, runs and serial tests, bit distribution, permutations,
# Kolmogorov-Smirnov, byte distribution, DCT, fill tree, monobit 2.
TESTS = (0, 1, 2, 3, 4, 8, 9, 12, 13, 15, 16, 17, 100, 101, 102, 200, 202, 204, 205, 206, 207, 209)


def of_one_stream(streams: Streams, start: int) -> Iterator[Words]:
    """Yield the words of one device's stream, from block `start` on."""
    address = streams.address(Purpose.PRIVACY_NOISE, 0)
    for block in itertools.count(start):
        yield words(address, None, BLOCK, start=block * BLOCK)


def of_many_devices(streams: Streams, start: int) -> Iterator[Words]:
    """Yield the first word of every device, then the second of every device, and so on."""
    address, devices, count = streams.address(Purpose.QUANTISER, 1), np.arange(DEVICES), BLOCK // DEVICES
    for block in itertools.count(start):
        yield words(address, devices, count, start=block * count).T.ravel()


def of_many_addresses(streams: Streams, start: int) -> Iterator[Words]:
    """Yield the first word of every round and purpose, then the second, and so on."""
    addresses = [streams.address(purpose, index) for index in range(ROUNDS) for purpose in PURPOSES]
    count = BLOCK // len(addresses)
    for block in itertools.count(start):
        yield np.stack([words(one, None, count, start=block * count) for one in addresses], axis=1).ravel()


ORDERS: dict[str, Callable[[Streams, int], Iterator[Words]]] = {
    "one stream": of_one_stream,
    "many devices": of_many_devices,
    "many addresses": of_many_addresses,
}


def assessed(order: str, test: int, start: int) -> list[tuple[str, str]]:
    """Return (p-value, assessment) of every line that Dieharder prints for a test of these words."""
    command = ["dieharder", "-g", "200", "-d", str(test), *OPTIONS.get(test, ())]
    command += ["-D", "pvalues", "-D", "assessment"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as running:
        assert running.stdin is not None
        assert running.stdout is not None
        feeding = threading.Thread(target=feed, args=(running.stdin, ORDERS[order](Streams(SEED), start)))
        feeding.start()
        printed = running.stdout.read().decode()
        feeding.join()
    rows = [[cell.strip() for cell in line.split("|")] for line in printed.splitlines() if "|" in line]
    found = [(row[0], row[-1]) for row in rows if row[-1] in ("PASSED", "WEAK", "FAILED")]
    if not found:
        sys.exit(f"random_number_tests: dieharder printed no result of test {test}; see what it says, or leave it out")
    return found


def feed(pipe: object, blocks: Iterator[Words]) -> None:
    """Write words until the reader has enough."""
    try:
        with pipe:  # type: ignore[attr-defined]
            for block in blocks:
                pipe.write(block.tobytes())  # type: ignore[attr-defined]
    except BrokenPipeError:
        return


def main() -> None:
    """Print a line for every test of every order."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--tests", nargs="+", type=int, default=TESTS, help="numbers as `dieharder -l` prints them")
    parser.add_argument("--orders", nargs="+", choices=list(ORDERS), default=list(ORDERS), metavar="NAME")
    args = parser.parse_args()
    if shutil.which("dieharder") is None:
        sys.exit("random_number_tests: dieharder is not installed; install it, for instance by apt install dieharder")
    counts = {"PASSED": 0, "WEAK": 0, "FAILED": 0}
    failed_twice = False
    for order, test in itertools.product(args.orders, args.tests):
        found = assessed(order, test, 0)
        if any(verdict == "FAILED" for _, verdict in found):
            again = assessed(order, test, 1 << 12)
            failed_twice |= any(verdict == "FAILED" for _, verdict in again)
            found += again
        for p, verdict in found:
            counts[verdict] += 1
            print(f"{order:15s} test {test:3d}  p = {p:12s} {verdict}", flush=True)
    print(", ".join(f"{count} {verdict.lower()}" for verdict, count in counts.items()))
    sys.exit(failed_twice)


if __name__ == "__main__":
    main()
