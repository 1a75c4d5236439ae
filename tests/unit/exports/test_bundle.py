"""Bundles: what they hold, that runs made again are compared with them, and that files from outside are refused."""

import hashlib
import io
import json
import struct
import tomllib
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import airfl
from airfl.cli.verify import _line
from airfl.config.load import recorded
from airfl.core.callbacks.callback import Callback, Stop, Told
from airfl.errors import NotReproducedError, UserError
from airfl.exports import export
from airfl.exports import verify as verifying
from airfl.exports.compared import Compared
from airfl.exports.tolerances import (
    BEFORE_TRAINING,
    EQUAL,
    OF_TRAINING,
    Tolerance,
    decides,
    first_round_off,
    off_by,
    tolerance_of,
)
from airfl.exports.verify import Verdict, check_reproduced, verify
from airfl.storage import bundle as bundles
from airfl.storage.bundle import BUNDLE_NAME, CRATE, MANIFEST, open_bundle
from airfl.storage.trace.schema import PER_DEVICE, PER_MOVING_DEVICE, PER_PLACED_DEVICE, PER_ROUND, PER_SLOT
from tests.conftest import small_settings
from tests.small_data import OF_PEOPLE

Edit = Callable[[dict[str, bytes]], object]


def made(out: Path, *overrides: str, **options: Any) -> Path:
    airfl.run(small_settings(*OF_PEOPLE, *overrides), out, **options)
    return out


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs in a folder, as of a comparison, with a table of it."""
    folder = tmp_path_factory.mktemp("runs")
    made(folder / "pfels" / "seed-0", "trace.signals=true", "channel.fading=rayleigh")
    made(folder / "fedavg" / "seed-1", "scheme.name=fedavg", "run.seed=1")
    (folder / "comparison.csv").write_text("label,accuracy\n")
    return folder


@pytest.fixture(scope="module")
def bundle(runs: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    (file,) = export(runs, "bundle", tmp_path_factory.mktemp("bundle"))
    return file


def edited(bundle: Path, out: Path, edit: Edit, *, consistent: bool = True) -> Path:
    """Return a copy of a bundle with other contents, whose manifest lists them if it is to be consistent."""
    with zipfile.ZipFile(bundle) as file:
        contents = {name: file.read(name) for name in file.namelist()}
    edit(contents)
    if consistent:
        manifest = json.loads(contents[MANIFEST])
        manifest["files"] = {
            name: {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
            for name, content in contents.items()
            if name not in (MANIFEST, CRATE)
        }
        contents[MANIFEST] = json.dumps(manifest).encode()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in contents.items():
            file.writestr(name, content)
    return out


def in_manifest(change: Callable[[dict[str, Any]], object]) -> Edit:
    """Return an edit of the manifest."""

    def edit(contents: dict[str, bytes]) -> None:
        manifest = json.loads(contents[MANIFEST])
        change(manifest)
        contents[MANIFEST] = json.dumps(manifest).encode()

    return edit


def in_table(table: str, column: str, change: Callable[[float], float], run: str = "pfels/seed-0") -> Edit:
    """Return an edit of one column of a table of a run."""

    def edit(contents: dict[str, bytes]) -> None:
        name = f"runs/{run}/{table}"
        head, *rows = contents[name].decode().splitlines()
        at = head.split(",").index(column)
        cells = [row.split(",") for row in rows]
        for row in cells:
            row[at] = repr(change(float(row[at])))
        contents[name] = "\r\n".join([head, *(",".join(row) for row in cells), ""]).encode()

    return edit


def test_a_bundle_holds_settings_versions_digests_and_tables(runs: Path, bundle: Path) -> None:
    with open_bundle(bundle) as opened, zipfile.ZipFile(bundle) as file:
        opened.check()
        entries = {entry["run"]: entry for entry in opened.manifest["runs"]}
        assert list(entries) == ["fedavg/seed-1", "pfels/seed-0"]
        for name, entry in entries.items():
            with airfl.open_trace(runs / name) as trace, h5py.File(runs / name / "trace.h5") as raw:
                assert entry["numerics"] == json.loads(trace.attrs["numerics"])
                assert entry["versions"] == json.loads(trace.attrs["versions"])
                assert {"airfl", "torch", "numpy", "scipy", "python", "platform"} == set(entry["versions"])
                written = tomllib.loads(file.read(f"runs/{name}/settings.toml").decode())
                assert recorded(written) == recorded(json.loads(trace.attrs["config"]))
                assert set(entry["variables"]) == {str(one) for one in trace.variables}
                beta = raw["alignment_coefficient"][:]  # a digest by hand: type, dimensions, shape, bytes
                by_hand = hashlib.sha256(f"float64 ('round',) ({len(beta)},)".encode() + beta.astype("<f8").tobytes())
                assert entry["variables"]["alignment_coefficient"]["sha256"] == by_hand.hexdigest()
            rows = file.read(f"runs/{name}/rounds.csv").decode().splitlines()
            assert len(rows) == entry["rounds"] + 1
        assert file.read("comparison.csv") == b"label,accuracy\n"
        head, first, second = file.read("runs.csv").decode().splitlines()
        assert head.startswith("run,run.seed,")
        assert "scheme.name" in head.split(",")
        assert (first.split(",")[:2], second.split(",")[:2]) == (["fedavg/seed-1", "1"], ["pfels/seed-0", "0"])
        assert "airfl verify bundle.zip" in file.read("README.md").decode()


def test_a_bundle_is_an_ro_crate(bundle: Path) -> None:
    """Every file is described and in hasPart, and what is referred to is there."""
    with zipfile.ZipFile(bundle) as file:
        graph = json.loads(file.read(CRATE))["@graph"]
        described = {entity["@id"]: entity for entity in graph}
        assert len(described) == len(graph)
        assert described[CRATE]["conformsTo"] == {"@id": "https://w3id.org/ro/crate/1.1"}
        assert described[CRATE]["about"] == {"@id": "./"}
        root = described["./"]
        assert {"name", "description", "datePublished"} <= set(root)
        names = [part["@id"] for part in root["hasPart"]]
        assert sorted(names) == sorted(set(file.namelist()) - {CRATE})
        for name in names:
            assert described[name]["sha256"] == hashlib.sha256(file.read(name)).hexdigest()
            assert described[name]["contentSize"] == str(file.getinfo(name).file_size)
        actions = [entity for entity in graph if entity["@type"] == "CreateAction"]
        assert len(actions) == 2
        for action in actions:
            for one in (action["instrument"], action["object"], *action["result"]):
                assert one["@id"] in described


def test_the_same_runs_give_the_same_file(runs: Path, bundle: Path, tmp_path: Path) -> None:
    (again,) = export(runs, "bundle", tmp_path)
    assert again.read_bytes() == bundle.read_bytes()


def test_runs_made_again_here_are_equal_bit_for_bit(bundle: Path) -> None:
    said: list[Verdict] = []
    verdicts = verify(bundle, say=said.append)
    assert verdicts == said
    assert [(one.run, one.outcome) for one in verdicts] == [
        ("fedavg/seed-1", "bit for bit"),
        ("pfels/seed-0", "bit for bit"),
    ]
    assert not any(one.environment or one.differing for one in verdicts)
    check_reproduced(bundle, verdicts)


def test_a_run_that_ended_early_ends_there_again(tmp_path: Path) -> None:
    class Enough(Callback):
        def on_round(self, record: Told) -> Stop | None:
            return Stop("enough") if record["round"] == 1 else None

    made(tmp_path / "run", "run.rounds=4", callbacks=[Enough()])
    (file,) = export(tmp_path / "run", "bundle", tmp_path / "out")
    (verdict,) = verify(file)
    assert (verdict.run, verdict.outcome) == ("run", "bit for bit")


def another_environment(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(verifying, "software", lambda: {"airfl": "0.0.1"})


@pytest.mark.parametrize(
    ("edit", "variable", "elsewhere"),
    [
        (in_table("rounds.csv", "test_loss", lambda x: x * 1.009), "test_loss", "within tolerance"),
        (in_table("rounds.csv", "test_loss", lambda x: x * 1.011), "test_loss", "differs"),
        (in_table("rounds.csv", "alignment_coefficient", lambda x: x * (1 + 9e-5)), "alignment_coefficient", "within"),
        (in_table("rounds.csv", "alignment_coefficient", lambda x: x * (1 + 2e-4)), "alignment_coefficient", "differs"),
        (in_table("rounds.csv", "resource_elements", lambda x: x + 1), "resource_elements", "differs"),
        (in_table("rounds.csv", "test_accuracy", lambda x: float("inf")), "test_accuracy", "differs"),
        (in_table("devices.csv", "channel_gain_im", lambda x: x + 1e-3), "channel_gain", "differs"),
        (in_table("population.csv", "device_samples", lambda x: x - 1), "device_samples", "differs"),
    ],
)
def test_a_value_that_is_off_is_found(
    bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, edit: Edit, variable: str, elsewhere: str
) -> None:
    """Here by any amount, elsewhere beyond its tolerance. The digest is another one, as a run elsewhere has it."""

    def another_digest(manifest: dict[str, Any]) -> None:
        manifest["runs"][1]["variables"][variable]["sha256"] = "0" * 64

    def both(contents: dict[str, bytes]) -> None:
        edit(contents)
        in_manifest(another_digest)(contents)

    file = edited(bundle, tmp_path / "edited.zip", both)
    if variable == "test_loss":
        (here,) = verify(file, ["pfels/seed-0"])
        assert (here.outcome, [one.variable for one in here.differing]) == ("differs", [variable])
        with pytest.raises(NotReproducedError, match=f"1 of 1 runs differ .pfels/seed-0: {variable} is not equal bit"):
            check_reproduced(file, [here])
    another_environment(monkeypatch)
    (there,) = verify(file, ["pfels/seed-0"])
    assert there.outcome.startswith(elsewhere)
    assert there.environment["airfl"] == (airfl.__version__, "0.0.1")
    if elsewhere == "differs":
        with pytest.raises(NotReproducedError, match=f"{variable} differs by .* times its tolerance"):
            check_reproduced(file, [there])


def test_a_table_that_is_not_that_of_its_digests_is_found(
    bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also elsewhere and within the tolerance: if all variables are equal by their digests, so must the tables be."""
    edit = in_table("rounds.csv", "test_accuracy", lambda x: x + 0.001)
    file = edited(bundle, tmp_path / "edited.zip", edit)
    another_environment(monkeypatch)
    (verdict,) = verify(file, ["pfels/seed-0"])
    assert (verdict.outcome, [one.variable for one in verdict.differing]) == ("differs", ["test_accuracy"])


def test_signals_are_compared_by_their_digests(bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are in no table: elsewhere nothing is known of how far they are off, here they must be equal."""

    def other(manifest: dict[str, Any]) -> None:
        manifest["runs"][1]["variables"]["rx_symbols"]["sha256"] = "0" * 64

    file = edited(bundle, tmp_path / "edited.zip", in_manifest(other))
    (here,) = verify(file, ["pfels/seed-0"])
    assert [(one.variable, np.isnan(one.difference)) for one in here.differing] == [("rx_symbols", True)]
    assert not here.is_reproduced
    another_environment(monkeypatch)
    (there,) = verify(file, ["pfels/seed-0"])
    assert there.outcome == "within tolerance"


def test_rows_that_are_missing_or_too_many_are_found(bundle: Path, tmp_path: Path) -> None:
    name = "runs/pfels/seed-0/rounds.csv"
    for change in (lambda rows: rows[:-1], lambda rows: [*rows, rows[-1]], lambda rows: rows[:1]):
        file = edited(
            bundle,
            tmp_path / "edited.zip",
            lambda contents, change=change: contents.update(
                {name: b"".join(change(contents[name].splitlines(keepends=True)))}
            ),
        )
        (verdict,) = verify(file, ["pfels/seed-0"])
        assert verdict.outcome == "differs"
        assert all(np.isinf(one.difference) for one in verdict.differing)


def test_every_variable_has_a_tolerance() -> None:
    """Integers must be equal; those of training are variables that there are."""
    variables = [*PER_ROUND, *PER_SLOT, *PER_MOVING_DEVICE, *PER_DEVICE, *PER_PLACED_DEVICE]
    for one in variables:
        allowed = tolerance_of(one.name, np.dtype(one.dtype))
        assert (allowed == EQUAL) == (one.dtype[0] == "i"), one.name
        assert tolerance_of(one.name.removesuffix("_j") + "_normalised", np.dtype(one.dtype)) == allowed
    names = {one.name.removesuffix("_j") for one in variables}
    assert set(OF_TRAINING) <= names
    assert tolerance_of("alignment_coefficient", np.dtype("f8")) == BEFORE_TRAINING
    assert tolerance_of("metric_recall", np.dtype("f8")) == OF_TRAINING["test_loss"]


def test_the_largest_difference_by_hand() -> None:
    allowed = Tolerance(relative=0.1, absolute=0.5)
    old, new = np.array([10.0, -2.0, np.nan, np.inf]), np.array([8.0, -2.0, np.nan, np.inf])
    assert off_by(new, old, allowed) == pytest.approx(2 / (0.5 + 0.1 * 10))
    assert off_by(np.array([3 + 4j]), np.array([3 - 4j]), allowed) == pytest.approx(8 / (0.5 + 0.1 * 5))
    assert off_by(old, np.array([10.0, -2.0, 0.0, np.inf]), allowed) == np.inf
    assert off_by(np.array([1.0]), np.array([2.0]), EQUAL) == np.inf
    of_mean = Tolerance(relative=0.1, absolute=0.5, of_mean=True)
    old, new = np.array([3.0, 4.0, np.nan]), np.array([4.0, 4.0, np.nan])
    assert off_by(new, old, of_mean) == pytest.approx(np.sqrt(1 / 2) / (0.5 + 0.1 * np.sqrt(25 / 2)))


def test_the_first_round_that_is_off_by_hand() -> None:
    """Of a root mean square, it is the first value off by more than the tolerance of the whole run, 0.1 sqrt(12.5)."""
    old, rounds = np.array([3.0, 4.0, 3.0, 4.0]), np.array([0.0, 0.0, 5.0, 6.0])
    of_mean = Tolerance(relative=0.1, of_mean=True)
    assert first_round_off(old + np.array([0.3, 0.3, 0.36, 9.0]), old, of_mean, rounds) == 5
    assert first_round_off(old + np.array([0.3, 0.3, 0.35, 9.0]), old, of_mean, rounds) == 6
    assert first_round_off(old + np.array([0.3, -0.36, 0.0, 0.0]), old, of_mean, rounds) == 0
    assert first_round_off(old + 0.3, old, of_mean, rounds) is None
    assert first_round_off(np.array([3.0, 4.0, np.nan, 4.0]), old, of_mean, rounds) == 5
    assert first_round_off(old + np.array([0.0, 0.0, 0.0, 1e-9]), old, EQUAL, rounds) == 6


def test_rounds_before_training_may_have_amplified_rounding_are_told() -> None:
    """Where the environment differs, and nothing is off but what depends on training."""
    trained, channel = OF_TRAINING["test_loss"], BEFORE_TRAINING
    late, later = Compared("test_loss", trained, 3.0, 4), Compared("update_norm", trained, 2.0, 7)
    other = {"processor": ("a", "b")}

    def told(*differing: Compared, outcome: str = "differs", environment: dict[str, Any] = other) -> int:
        return Verdict("run", outcome, environment, differing, 60).agreeing_rounds

    assert told(late, later, Compared("snr_db", trained, 0.5)) == 4
    assert told(later) == 7
    assert told(later, Compared("test_loss", trained, np.inf)) == 0
    assert told(later, Compared("channel_gain", channel, 2.0, 3)) == 0
    assert told(late, environment={}) == told(late, outcome="within tolerance") == 0
    line = _line(Verdict("run", "differs", other, [late], 60))
    assert "; the first 4 rounds are within the tolerances, and training may have amplified rounding" in line
    assert "the first round is within" in _line(Verdict("run", "differs", other, [Compared("x", trained, 2.0, 1)], 60))
    assert "amplified" not in _line(Verdict("run", "differs", {}, [late], 60))


@pytest.mark.parametrize(
    ("scheme", "wanted"),
    [
        *((name, False) for name in ("pfels", "wfl-pdp", "fedavg", "fed-smp-randk", "fed-spa", "soteriafl-saga")),
        *((name, True) for name in ("fed-smp-topk", "fedavg-topk", "cpsgd", "obda", "fsk-mv", "ncairfl", "md-aircomp")),
    ],
)
def test_schemes_that_decide_on_entries_have_wider_tolerances(scheme: str, wanted: bool) -> None:
    assert decides(small_settings(*OF_PEOPLE, f"scheme.name={scheme}"), 123) == wanted
    loose, tight = (tolerance_of("test_loss", np.dtype("f8"), one) for one in (True, False))
    assert loose.relative > tight.relative
    assert tolerance_of("channel_gain", np.dtype("c8"), True) == BEFORE_TRAINING


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"status": "running"}, "bundle holds complete runs; finish it with --resume"),
        ({"own_parts": '{"scheme": {}}'}, "code of your own .scheme., which a bundle does not hold"),
        ({"task": "mine"}, "code of your own .mine., which a bundle does not hold"),
    ],
)
def test_runs_that_cannot_be_made_again_are_refused(
    runs: Path, tmp_path: Path, attributes: dict[str, str], message: str
) -> None:
    from airfl.exports.bundle import check

    with airfl.open_trace(runs / "pfels" / "seed-0") as trace:
        trace.attrs.update(attributes)
        with pytest.raises(UserError, match=message):
            check(trace)


def test_a_recorded_channel_is_found_beside_the_bundle_by_its_digest(tmp_path: Path) -> None:
    gains = np.full((3, 12), 1.5)
    np.save(tmp_path / "gains.npy", gains)
    made(tmp_path / "run", "channel.fading=replay", f"channel.replay_file={tmp_path / 'gains.npy'}")
    np.save(tmp_path / "gains.npy", 2 * gains)
    with pytest.raises(UserError, match=r"gains.npy has changed since the run read it"):
        export(tmp_path / "run", "bundle", tmp_path / "other")
    np.save(tmp_path / "gains.npy", gains)
    said: list[str] = []
    (file,) = export(tmp_path / "run", "bundle", tmp_path / "out", said.append)
    assert f"{tmp_path / 'gains.npy'} is not in the bundle, and the run depends on it; publish it as well" in said[0]
    digest = hashlib.sha256((tmp_path / "gains.npy").read_bytes()).hexdigest()
    with zipfile.ZipFile(file) as opened:
        assert (
            f"beside the bundle (SHA-256 and name):\n\n    {digest}  gains.npy\n" in opened.read("README.md").decode()
        )
    (tmp_path / "gains.npy").rename(tmp_path / "out" / "gains.npy")
    (verdict,) = verify(file)
    assert verdict.outcome == "bit for bit"
    np.save(tmp_path / "out" / "gains.npy", 2 * gains)
    with pytest.raises(
        UserError, match=r"gains.npy of SHA-256 [0-9a-f]{64}, which is not in the bundle; put it beside"
    ):
        verify(file)


def twice(path: Path, bundle: Path) -> None:
    with zipfile.ZipFile(bundle) as old, zipfile.ZipFile(path, "w") as file:
        for name in (*old.namelist(), "runs.csv"):
            with (
                pytest.warns(UserWarning, match="Duplicate")
                if name in file.namelist()
                else pytest.MonkeyPatch.context()
            ):
                file.writestr(name, old.read(name))


def with_flags(path: Path, bundle: Path, where: int, value: bytes) -> None:
    """Change bytes of the central directory's first entry."""
    content = bytearray(bundle.read_bytes())
    at = content.rindex(b"PK\x01\x02", 0, content.index(b"PK\x01\x02") + 4) + where
    content[at : at + len(value)] = value
    path.write_bytes(content)


def linked(path: Path, bundle: Path) -> None:
    with_flags(path, bundle, 38, struct.pack("<I", 0o120777 << 16))


HOSTILE: dict[str, tuple[Callable[[Path, Path], object], str]] = {
    "no zip": (lambda path, bundle: path.write_bytes(b"a,b\n1,2\n"), "not a zip file"),
    "empty": (lambda path, bundle: path.write_bytes(b""), "not a zip file"),
    "truncated": (lambda path, bundle: path.write_bytes(bundle.read_bytes()[:-2000]), "not a zip file"),
    "its middle missing": (
        lambda path, bundle: path.write_bytes(bundle.read_bytes()[:500] + bundle.read_bytes()[900:]),
        "not a bundle",
    ),
    "another zip": (lambda path, bundle: zipfile.ZipFile(path, "w").close(), f"{MANIFEST} is missing"),
    "a path upwards": (
        lambda path, bundle: edited(bundle, path, lambda c: c.update({"../../.bashrc": b"x"})),
        "'../../.bashrc' is no name of a file in a bundle",
    ),
    "an absolute path": (
        lambda path, bundle: edited(bundle, path, lambda c: c.update({"/etc/passwd": b"x"})),
        "'/etc/passwd' is no name",
    ),
    "a path of Windows": (
        lambda path, bundle: edited(bundle, path, lambda c: c.update({"C:\\x": b"x"})),
        "is no name of a file",
    ),
    "one name twice": (twice, "runs.csv is in it twice"),
    "encrypted": (lambda path, bundle: with_flags(path, bundle, 8, b"\x01\x00"), "is encrypted"),
    "another method": (lambda path, bundle: with_flags(path, bundle, 10, b"\x0e\x00"), "packed in another way"),
    "a link": (linked, "no regular file"),
    "a file that is not listed": (
        lambda path, bundle: edited(bundle, path, lambda c: c.update({"more": b"x"}), consistent=False),
        "its files are not those that bundle.json lists: more",
    ),
    "a file that is missing": (
        lambda path, bundle: edited(bundle, path, lambda c: c.pop("runs.csv"), consistent=False),
        "its files are not those that bundle.json lists: runs.csv",
    ),
    "another size": (
        lambda path, bundle: edited(bundle, path, lambda c: c.update({"runs.csv": b"x"}), consistent=False),
        "runs.csv is not of the size",
    ),
    "another content": (
        lambda path, bundle: edited(
            bundle, path, lambda c: c.update({"runs.csv": c["runs.csv"][::-1]}), consistent=False
        ),
        "runs.csv was changed after the bundle was written",
    ),
    "another schema": (
        lambda path, bundle: edited(bundle, path, in_manifest(lambda m: m.update(schema="airfl-bundle/9"))),
        "'airfl-bundle/9', and not of airfl-bundle/1",
    ),
    "no JSON": (
        lambda path, bundle: edited(bundle, path, lambda c: c.update({MANIFEST: b"{"}), consistent=False),
        MANIFEST,
    ),
    "nested JSON": (
        lambda path, bundle: edited(bundle, path, lambda c: c.update({MANIFEST: b"[" * 200000}), consistent=False),
        MANIFEST,
    ),
    "no runs": (lambda path, bundle: edited(bundle, path, in_manifest(lambda m: m.update(runs=[]))), "lists no runs"),
    "a run without a description": (
        lambda path, bundle: edited(bundle, path, in_manifest(lambda m: m["runs"][0].pop("variables"))),
        "its description of the run fedavg/seed-1 is not complete",
    ),
    "one run twice": (
        lambda path, bundle: edited(bundle, path, in_manifest(lambda m: m["runs"].append(m["runs"][0]))),
        "no name of a run, or is there twice",
    ),
    "settings that are none": (
        lambda path, bundle: edited(
            bundle, path, lambda c: c.update({"runs/fedavg/seed-1/settings.toml": b"[run]\nx=1"})
        ),
        "cannot be run by this version of airfl",
    ),
    "settings without a file": (
        lambda path, bundle: edited(bundle, path, lambda c: c.pop("runs/fedavg/seed-1/settings.toml")),
        "settings.toml is missing",
    ),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_what_is_no_bundle_is_refused_in_a_line_before_anything_runs(
    bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    write, message = HOSTILE[kind]
    path = tmp_path / "hostile.zip"
    write(path, bundle)
    monkeypatch.setattr(verifying, "run", lambda *given, **options: pytest.fail("a run was begun"))
    with pytest.raises(UserError) as raised:
        verify(path)
    assert message in str(raised.value)
    assert str(raised.value).startswith(f"{path}: ")
    assert [file.name for file in tmp_path.iterdir()] == ["hostile.zip"]


def test_a_bomb_is_refused_unread(bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of what a bundle unpacks to, before anything is unpacked; and what is unpacked is no more than was announced."""
    monkeypatch.setattr(bundles, "MOST_BYTES", 1 << 20)
    monkeypatch.setattr(bundles, "LIST_BYTES", 1 << 20)
    path = edited(bundle, tmp_path / "bomb.zip", lambda c: c.update({"zeros.csv": bytes(4 << 20)}))
    assert path.stat().st_size < 1 << 18
    with pytest.raises(UserError, match=r"it unpacks to 16 files of [0-9,]+ bytes, more than a bundle may hold"):
        verify(path)
    with pytest.raises(UserError, match="bundle: 1 files of 4,194,304 bytes; at most"):
        bundles.BundleWriter(zipfile.ZipFile(io.BytesIO(), "w")).add("zeros.csv", bytes(4 << 20))


def test_a_manifest_that_could_not_be_read_is_not_written(
    runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bundles, "LIST_BYTES", 10_000)
    with pytest.raises(UserError, match=r"bundle.json has [0-9,]+ bytes, at most 10,000; export fewer runs at a time"):
        export(runs, "bundle", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_lines_are_read_to_a_bound(bundle: Path, tmp_path: Path) -> None:
    name = "runs/pfels/seed-0/rounds.csv"
    path = edited(bundle, tmp_path / "long.zip", lambda c: c.update({name: b"0," * (1 << 20)}))
    with pytest.raises(UserError, match="a line that is too long"):
        verify(path, ["pfels/seed-0"])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"round,x\r\n0,1\r2,3\r\n", "new-line character"),
        (b'round,x\r\n0,"' + b"1\n" * 100_000, "field larger than"),
        (b"round,x\r\n0\r\n", "a row has 1 cells, and there are 2 columns"),
    ],
)
def test_a_table_that_is_none_is_refused_in_a_line(bundle: Path, tmp_path: Path, content: bytes, message: str) -> None:
    """The last one so that a few bytes, repeated, do not take the memory of as many long rows."""
    edit = {"runs/pfels/seed-0/rounds.csv": content}
    path = edited(bundle, tmp_path / "odd.zip", lambda c: c.update(edit))
    with pytest.raises(UserError, match=f"the table rounds.csv of the run pfels/seed-0: .*{message}"):
        verify(path, ["pfels/seed-0"])


def test_a_run_that_is_not_in_the_bundle_is_a_line(bundle: Path) -> None:
    with pytest.raises(UserError, match=r"--run: no run 'pfels/seed-9' in .*did you mean pfels/seed-0\?"):
        verify(bundle, ["pfels/seed-9"])
    with pytest.raises(UserError, match="cannot be read"):
        verify(bundle.parent)
    assert bundle.name == BUNDLE_NAME
