"""Make data/a9a-sample from the official a9a files.

    python data/make_a9a_sample.py FOLDER_OF_THE_OFFICIAL_FILES data/a9a-sample

The first 2,000 rows of a9a and the first 1,000 of a9a.t, in the official order and text, xz. The official files may be
plain or gzipped. The output is the same byte for byte whenever it is made.
"""

import gzip
import hashlib
import lzma
import sys
from pathlib import Path

KEEP = {"a9a": 2_000, "a9a.t": 1_000}


def read(folder: Path, name: str) -> bytes:
    """The text of a file, plain or gzipped."""
    plain = folder / name
    return plain.read_bytes() if plain.is_file() else gzip.decompress((folder / f"{name}.gz").read_bytes())


def main(source: Path, target: Path) -> None:
    target.mkdir(parents=True, exist_ok=True)
    sums = []
    for name, count in KEEP.items():
        head = b"".join(read(source, name).splitlines(keepends=True)[:count])
        packed = lzma.compress(head, preset=9)
        (target / f"{name}.xz").write_bytes(packed)
        sums.append(f"{hashlib.sha256(packed).hexdigest()}  {name}.xz\n")
    (target / "SHA256SUMS").write_text("".join(sums))


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: make_a9a_sample.py OFFICIAL_FOLDER OUTPUT_FOLDER")
    main(Path(sys.argv[1]), Path(sys.argv[2]))
