"""`airfl export`, `--tensorboard` and experiments/export_traces.py."""

import importlib
import re
import runpy
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from airfl.analysis.results.find import find_runs
from airfl.cli import runs
from airfl.cli.export import export
from airfl.errors import UserError
from airfl.exports import FORMATS
from airfl.storage.trace import open_trace
from tests.conftest import DEMO, ROOT, SMALL
from tests.processes import airfl, refused, succeeded

SCRIPT = ROOT / "experiments" / "export_traces.py"
PAGE = (ROOT / "docs" / "exports.md").read_text()
SNIPPETS = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
QUICK = (*SMALL, "scheme.ratio=0.02", "local.steps=1")


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A comparison of two rows, with TensorBoard's files."""
    out = tmp_path_factory.mktemp("compared") / "c"
    succeeded(airfl("compare", DEMO, *QUICK, "--schemes", "pfels,fedavg", "--out", out, "--tensorboard"))
    return out


def test_a_comparison_is_exported_run_by_run(compared: Path, tmp_path: Path) -> None:
    done = succeeded(airfl("export", compared, "--to", "npz", "--out", tmp_path / "x"))
    files = sorted((tmp_path / "x").rglob("*.npz"))
    names = [str(file.relative_to(tmp_path / "x")) for file in files]
    assert names == ["fedavg/seed-0/trace.npz", "pfels/seed-0/trace.npz"]
    with open_trace(compared / "pfels" / "seed-0") as trace, np.load(files[1]) as arrays:
        np.testing.assert_array_equal(arrays["energy_normalised"], trace["energy_j"].values)
    assert done.stdout == ""
    assert done.stderr.startswith("written: ")
    again = refused(airfl("export", compared, "--to", "npz", "--out", tmp_path / "x"))
    assert "trace.npz: already exists" in again


def test_tensorboard_has_a_folder_a_row_and_nothing_else_minds(compared: Path) -> None:
    assert sorted(folder.name for folder in (compared / "tensorboard").iterdir()) == ["fedavg", "pfels"]
    assert [label for label, _ in find_runs([compared])] == ["pfels", "fedavg"]


def test_a_run_with_tensorboard(tmp_path: Path) -> None:
    succeeded(airfl("run", DEMO, *QUICK, "--out", tmp_path / "r", "--tensorboard"))
    (events,) = (tmp_path / "r" / "tensorboard").iterdir()
    assert events.stat().st_size > 500
    (tmp_path / "r" / "trace.h5").unlink()
    with pytest.raises(UserError, match="is not an empty folder"):
        runs.run(DEMO, out=tmp_path / "r", tensorboard=True)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"to": "npz", "out": "x"}, "DIR is missing; airfl export DIR --to mat|sigmf|tfrecord|csv|npz|channel|bundle"),
        ({"folder": "compared", "out": "x"}, "--to is missing"),
        ({"folder": "compared", "to": "npz"}, "--out is missing"),
        ({"folder": "compared", "to": "sigmaf", "out": "x"}, "did you mean sigmf?"),
        ({"folder": "compared", "to": "sigmf", "out": "x"}, "trace.signals=true"),
        ({"folder": "empty", "to": "csv", "out": "x"}, "no run (trace.h5) in this folder"),
        ({"folder": "nowhere", "to": "csv", "out": "x"}, "nowhere: no such file or folder"),
    ],
)
def test_what_cannot_be_exported_is_a_line(compared: Path, tmp_path: Path, given: dict[str, str], message: str) -> None:
    (tmp_path / "empty").mkdir()
    places = {"compared": compared, "empty": tmp_path / "empty", "nowhere": tmp_path / "nowhere", "x": tmp_path / "out"}
    with pytest.raises(UserError) as raised:
        export(places.get(given.get("folder", "")), to=given.get("to"), out=places.get(given.get("out", "")))
    assert message in str(raised.value)
    assert "\n" not in str(raised.value)
    assert not (tmp_path / "out").exists()


def test_a_typo_is_told_without_any_heavy_import() -> None:
    code = (
        "import sys\nsys.argv = ['airfl', 'export', 'x', '--to', 'cvs', '--out', 'y']\nfrom airfl.cli import main\n"
        "try: main()\nexcept SystemExit: pass\n"
        "print([name for name in ('torch', 'xarray', 'h5py', 'scipy') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout.strip() == "[]"
    assert "did you mean csv?" in done.stderr


def test_the_script_exports_looks_and_replays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    small = [*QUICK, "run.rounds=3", "trace.signals=[0]", "privacy.epsilon=inf"]
    monkeypatch.setattr(sys, "argv", [str(SCRIPT), "--out", str(tmp_path), *small])
    runpy.run_path(str(SCRIPT), run_name="__main__")
    said = capsys.readouterr().out
    names = {file.name for file in (tmp_path / "exports").iterdir()}
    assert {"trace.mat", "trace.npz", "devices.csv", "rx.sigmf-meta", "tx.sigmf-data", "channel.h5"} <= names
    assert "wfl-p over that channel: the same fades" in said
    with open_trace(tmp_path / "run") as trace, open_trace(tmp_path / "wfl-p") as other:
        np.testing.assert_array_equal(trace["channel_gain"].values, other["channel_gain"].values)
        beta, error = (trace[name].values for name in ("alignment_coefficient", "aggregation_error"))
        expected = np.corrcoef(np.log(beta), np.log(error))[0, 1]
    assert f"in dB: {expected:.3f}" in said
    for name in ("trace.npz", "devices.csv", "tx.sigmf-meta"):  # the page's snippets, in this folder
        (snippet,) = (one for one in SNIPPETS if f'/{name}"' in one)
        monkeypatch.chdir(tmp_path / "exports")
        exec(compile(re.sub(r"runs/first-[a-z]+/", "", snippet), name, "exec"), {})
    monkeypatch.setattr(sys, "argv", [str(SCRIPT), "--out", str(tmp_path)])
    with pytest.raises(SystemExit, match="already contains a run"):
        runpy.run_path(str(SCRIPT), run_name="__main__")


def test_beta_that_is_always_the_same_is_correlated_with_nothing(compared: Path) -> None:
    script = runpy.run_path(str(SCRIPT))
    with open_trace(compared / "pfels" / "seed-0") as trace:
        assert trace["privacy_bound_binding"].values.all()
    assert np.isnan(script["correlation"](compared / "pfels" / "seed-0"))


def test_the_page_lists_every_format() -> None:
    rows = dict(re.findall(r"^\| `(\w+)` \| ([^|]*) \|", PAGE, flags=re.MULTILINE))
    assert list(rows) == sorted(FORMATS, key=list(rows).index)
    for name, files in rows.items():
        written = importlib.import_module(FORMATS[name]).FORMAT.files
        assert all(f"`{file}`" in files for file in written), name
