"""Make data/fashion-mnist-sample from the official Fashion-MNIST files.

    python data/make_fashion_mnist_sample.py /usr/share/datasets/fashion-mnist data/fashion-mnist-sample

The first 10,000 training and the first 2,000 test images, in the official order and the official idx format.
The output is the same byte for byte whenever it is made.
"""

import gzip
import hashlib
import struct
import sys
from pathlib import Path

KEEP = {"train": 10_000, "t10k": 2_000}


def head_of_idx(raw: bytes, count: int) -> bytes:
    """The idx file `raw` cut to its first `count` records."""
    dimensions = raw[3]
    shape = struct.unpack(f">{dimensions}I", raw[4 : 4 + 4 * dimensions])
    record = 1
    for size in shape[1:]:
        record *= size
    body = 4 + 4 * dimensions
    return raw[:4] + struct.pack(f">{dimensions}I", count, *shape[1:]) + raw[body : body + count * record]


def main(source: Path, target: Path) -> None:
    target.mkdir(parents=True, exist_ok=True)
    sums = []
    for part, count in KEEP.items():
        for kind in ("images-idx3", "labels-idx1"):
            name = f"{part}-{kind}-ubyte.gz"
            packed = gzip.compress(head_of_idx(gzip.decompress((source / name).read_bytes()), count), 9, mtime=0)
            (target / name).write_bytes(packed)
            sums.append(f"{hashlib.sha256(packed).hexdigest()}  {name}\n")
    (target / "SHA256SUMS").write_text("".join(sums))


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: make_fashion_mnist_sample.py OFFICIAL_FOLDER OUTPUT_FOLDER")
    main(Path(sys.argv[1]), Path(sys.argv[2]))
