"""Tab completion: by the completion functions that shells call, and by bash itself."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from airfl.cli import completion
from airfl.exports import FORMATS
from airfl.report.paper.figures import FIGURES
from airfl.schemes.names import SCHEMES
from tests.conftest import ROOT
from tests.processes import script

FULL = pytest.mark.full


@pytest.fixture(scope="module")
def tool(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An `airfl` to be run by a shell, or forked."""
    file = tmp_path_factory.mktemp("bin") / "airfl"
    file.write_text(f"#!{sys.executable}\nfrom airfl.cli import main\nmain()\n")
    file.chmod(0o755)
    return file


def answer(shell: str, tool: Path, line: str) -> list[str]:
    """What airfl answers a shell's script that asks about a line; to bash as if its words were whole."""
    asked = {
        "bash": {"COMP_WORDS": line.replace(" ", "\n"), "COMP_CWORD": str(line.count(" "))},
        "zsh": {"_TYPER_COMPLETE_ARGS": line},
        "fish": {"_TYPER_COMPLETE_ARGS": line, "_TYPER_COMPLETE_FISH_ACTION": "get-args"},
    }[shell]
    done = script(tool, _AIRFL_COMPLETE=f"complete_{shell}", **asked)
    assert done.stderr == ""
    return done.stdout.splitlines()


def words(found: list[tuple[str, str]]) -> list[str]:
    return [word for word, _ in found]


def test_a_setting_is_completed_step_by_step() -> None:
    assert {"run.", "task.", "scheme.", "channel."} <= set(words(completion.settings("")))
    assert words(completion.settings("ch")) == words(completion.settings("channel."))
    assert "channel.fading=" in words(completion.settings("channel."))
    assert words(completion.settings("channel.fading=ric")) == ["channel.fading=rician"]
    assert words(completion.settings("scheme.name=")) == [f"scheme.name={name}" for name in sorted(SCHEMES)]
    assert words(completion.settings("power.strict=")) == ["power.strict=true", "power.strict=false"]
    assert words(completion.settings("local.eng")) == words(completion.settings("local.engine="))
    for wrong in ("nonsense", "run.nonsense", "run.nonsense=", "=", ".", "scheme.name=pfels=x"):
        assert completion.settings(wrong) == []


def test_a_key_alone_is_never_the_only_candidate() -> None:
    """Shells put a space behind the only one, and what follows `run.rounds=` would be another word."""
    assert words(completion.settings("run.rou")) == ["run.rounds=", "run.rounds=100"]
    assert words(completion.settings("privacy.del")) == ["privacy.delta=", "privacy.delta=..."]
    every = completion.keys()
    assert len(every) > 100
    for key in every:
        found = words(completion.settings(key))
        assert len([word for word in found if word.startswith(key)]) == len(found) > 1, key


def test_keys_come_with_what_they_mean() -> None:
    assert dict(completion.settings("run.rou"))["run.rounds="] == "T, number of communication rounds"
    # In a shell's list brackets would be rich's styles.
    assert dict(completion.settings("topology.coord"))["topology.coordinates="].startswith(r"\[\[x, y], ...]")


def test_a_sweep_takes_several_values() -> None:
    assert "scheme.name=pfels,fedavg" in words(completion.axes("scheme.name=pfels,fed"))
    assert "scheme.name=pfels,pfels" not in words(completion.axes("scheme.name=pfels,"))
    assert completion.settings("scheme.name=pfels,fed") == []


def test_a_config_is_a_name_a_file_or_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for folder in ("deep/deeper", ".hidden", "empty"):
        Path(folder).mkdir(parents=True)
    for file in ("deep/deeper/mine.toml", "deep/deeper/notes.txt", "demolition.toml"):
        Path(file).touch()
    assert words(completion.configurations("dem")) == ["demo", "demolition.toml"]
    assert words(completion.configurations("deep")) == ["deep/deeper/mine.toml"]
    assert words(completion.configurations(f"{tmp_path}/dem")) == [f"{tmp_path}/demolition.toml"]
    assert ".hidden/" not in words(completion.configurations(""))
    assert {"demo", "all-schemes", "pfels-cifar10", "deep/"} <= set(words(completion.configurations("")))
    assert completion.configurations("empty") == completion.configurations("nowhere/x") == []


@pytest.mark.parametrize(
    ("given", "at", "mended", "head"),
    [
        (["airfl", "ru"], 1, ["airfl", "ru"], ""),
        (["airfl", "run", ""], 2, ["airfl", "run", ""], ""),
        (["airfl", "run", "a", "scheme.name", "=", "pf"], 5, ["airfl", "run", "a", "pf"], "scheme.name="),
        (["airfl", "run", "a", "scheme.name", "="], 4, ["airfl", "run", "a", ""], "scheme.name="),
        (["airfl", "run", "a", "run.seed", "=", "1", "x"], 6, ["airfl", "run", "a", "run.seed=1", "x"], ""),
        (["airfl", "run", "a", "run.seed", "=", ""], 5, ["airfl", "run", "a", "run.seed=", ""], ""),
        (["airfl", "sweep", "a", "x.y", "=", "1", ":", "3"], 7, ["airfl", "sweep", "a", "3"], "x.y=1:"),
        (["airfl", "run", "--device", "=", "cu"], 4, ["airfl", "run", "--device", "cu"], ""),
        (["airfl", "figures", "--where", "=", "a.b", "=", "c"], 6, ["airfl", "figures", "--where", "c"], "a.b="),
    ],
)
def test_bashs_words_are_put_together(given: list[str], at: int, mended: list[str], head: str) -> None:
    asked = {"_AIRFL_COMPLETE": "complete_bash", "COMP_WORDS": "\n".join(given), "COMP_CWORD": str(at)}
    completion.prepare(asked)
    assert asked["COMP_WORDS"].split("\n") == mended
    assert asked["COMP_CWORD"] == str(len(mended) - 1)
    assert asked[completion.HEAD] == head


def test_other_shells_words_are_left_alone() -> None:
    asked = {"_AIRFL_COMPLETE": "complete_zsh", "COMP_WORDS": "a\n=\nb", "COMP_CWORD": "2"}
    completion.prepare(asked)
    assert (asked["COMP_WORDS"], asked["COMP_CWORD"]) == ("a\n=\nb", "2")
    nothing: dict[str, str] = {}
    completion.prepare(nothing)
    assert not nothing


@pytest.mark.parametrize(
    ("shell", "line", "expected"),
    [
        ("zsh", "run demo scheme.name=soteriafl-s", {"scheme.name=soteriafl-s" + end for end in ("gd", "vrg", "aga")}),
        ("fish", "run demo scheme.name=soteriafl-s", {"scheme.name=soteriafl-s" + end for end in ("gd", "vrg", "aga")}),
        ("zsh", "figures runs --only ", set(FIGURES)),
        ("fish", "sweep demo --zip scheme.rat", {"scheme.ratio"}),
        ("bash", "run --device c", {"cpu", "cuda"}),
        ("bash", "compare demo --schemes pfels,wfl", {"pfels,wfl-p", "pfels,wfl-pdp"}),
        ("bash", "export runs --to ", set(FORMATS)),
        ("bash", "data get fashion", {"fashion-mnist"}),
        ("bash", "audit demo --others s", {"silent"}),
    ],
)
def test_shells_are_answered(shell: str, line: str, expected: set[str], tool: Path) -> None:
    told = answer(shell, tool, f"airfl {line}")
    if shell == "zsh":
        told = [one.removeprefix("_arguments '*: :((").removesuffix("))'").split('"')[1] for one in told]
    assert {one.partition("\t")[0] for one in told} == expected


def test_every_line_about_a_setting_can_be_shown(tool: Path) -> None:
    """Zsh and fish get them through rich, which takes brackets for styles."""
    for section in ("topology.", "power.", "privacy."):
        for line in answer("fish", tool, f"airfl run demo {section}"):
            key, _, about = line.partition("\t")
            assert about == " ".join(completion.keys()[key.rstrip("=")].split())


@pytest.fixture(scope="module")
def bash_script(tool: Path) -> str:
    """What `airfl --show-completion bash` prints; typer reads the variable when the command is built, so not forked."""
    environment = {**os.environ, "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
    command = [sys.executable, str(tool), "--show-completion", "bash"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.mark.skipif(not shutil.which("bash"), reason="bash is not here")
@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (["run", "demo", "scheme.name", "=", "soteriafl-s"], {"soteriafl-sgd", "soteriafl-svrg", "soteriafl-saga"}),
        pytest.param(["run", "demo", "power.strict", "="], {"true", "false"}, marks=FULL),
        (["run", "demo", "run.rou"], {"run.rounds=", "run.rounds=100"}),
        pytest.param(["run", "dem"], {"demo"}, marks=FULL),
        pytest.param(["sweep", "demo", "scheme.name", "=", "pfels,wfl"], {"pfels,wfl-p", "pfels,wfl-pdp"}, marks=FULL),
    ],
)
def test_bash_itself(line: list[str], expected: set[str], bash_script: str, tool: Path) -> None:
    """Typer's script in a real bash, which breaks the line at its usual COMP_WORDBREAKS; the rest is tested above."""
    path = f"{tool.parent}{os.pathsep}{os.environ['PATH']}"
    press = 'COMP_WORDS=("$@"); COMP_CWORD=$(( $# - 1 )); _airfl_completion airfl; printf "%s\\n" "${COMPREPLY[@]}"'
    done = subprocess.run(
        ["bash", "--norc", "-c", f"{bash_script}\n{press}", "bash", "airfl", *line],
        env={**os.environ, "PYTHONPATH": str(ROOT), "PATH": path},
        capture_output=True, text=True, check=True, cwd=tool.parent,
    )  # fmt: skip
    assert set(done.stdout.split()) == expected
