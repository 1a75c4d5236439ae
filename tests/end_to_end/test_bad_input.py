"""Commands refuse invalid input in one line that states the given value and what is allowed, and write nothing."""

from pathlib import Path

import pytest
import torch

from tests.conftest import DEMO, ROOT, SMALL
from tests.processes import airfl, refused, script

HELD_OUT = " ".join((*SMALL, "task.validation_share=0.1 task.public_samples=0 local.measure=false"))
RATE = "local.learning_rate"
NOISE = "--noise-multiplier 1"
BARE = f"{NOISE} --sampling-rate 0.032 --rounds 2000 --delta 1e-3"
TO_OUT = ("run", "compare", "plot", "sweep", "tune")

# Words, places in capitals, without the --out of TO_OUT -> what the line says, with anything where " ... " stands.
REFUSED = f"""
run DEMO run.devics=3 -> run.devics ... did you mean devices?
run DEMO run.selected=1001 -> run.selected ... 1001 ... 1000
run DEMO --device tpu -> --device ... tpu ... cpu
run DEMO --device cuda -> --device ... cuda
run DEMO --device cuda:1 -> --device: no cuda device found on this machine
run DEMO --device cuda:x -> --device: unknown value 'cuda:x' ... (allowed: cpu, cuda, cuda:0, cuda:1, ...)
run none.toml -> none.toml
run DEMO --out DEMO -> demo.toml ... is a file
run DEMO run.devices=20000 -> run.devices ... 10,000
run DEMO privacy.delta=0.5 -> privacy.delta ... 0.04
run DEMO task.partition=writer -> task.partition
compare DEMO privacy.delta=0.5 -> privacy.delta ... 0.04
compare DEMO --schemes pfels,fedavgg -> fedavgg ... did you mean fedavg?
compare DEMO --seeds 0 -> --seeds
plot nowhere -> nowhere ... no such folder
plot TESTS -> holds no run
config -> --schema
rnu -> rnu
run DEMO --rounds 3 -> No such option: --rounds ... did you mean run.rounds=...?
run DEMO --out= -> --out is empty; give a path
plot TESTS --style foo -> airfl: Invalid value for '--style': 'foo' is not one of
results DEMO -> demo.toml: a file, not a folder
bench -> bench: CONFIG is missing
bench DEMO run.rounds=none -> run.rounds
bench DEMO --rounds 0 -> --rounds must be at least 1, got 0
bench DEMO --device gpu -> --device: unknown value 'gpu'
sweep DEMO scheme.ration=0.1,0.2 -> scheme.ration: scheme 'pfels' has no ration; did you mean ratio
sweep DEMO scheme.ratio=1:0:0.5 -> the range 1:0:0.5 is empty
sweep DEMO scheme.ratio=0.1:0.5:0 -> the step of the range 0.1:0.5:0 must not be 0
sweep DEMO scheme.ratio=0.1:0.5:0.2 scheme.ratio=0.1 -> scheme.ratio: is given twice, 0.1:0.5:0.2 and 0.1
sweep DEMO scheme.ratio=0.1,2 -> scheme.ratio
sweep DEMO scheme.ratio=0.1,0.2 --jobs 2 --cluster tcp://127.0.0.1:1 -> give only one
sweep DEMO scheme.ratio=0.1,0.2 --jobs -1 -> --jobs
sweep DEMO scheme.ratio=0.1,0.2 --zip scheme.ratio,run.seed -> --zip: run.seed is not swept over
sweep DEMO task.dataset=mnist task.model=logistic,mlp -> 'logistic' takes inputs of shape (123,)
tune DEMO {" ".join(SMALL)} {RATE}=0.1,0.2 -> task.validation_share: must be positive
tune DEMO {HELD_OUT} -> nothing to tune
tune DEMO {HELD_OUT} {RATE}=0.1:0.2:log -> search it with --trials
tune DEMO {HELD_OUT} {RATE}=0.2:0.1:log --trials 2 -> an interval must have lo < hi
tune DEMO {HELD_OUT} {RATE}=0.1,0.2 --prune median -> --prune: is for a search; give --trials too
tune DEMO {HELD_OUT} {RATE}=0.1,0.2 --trials 2 --prune medain -> --prune: unknown value 'medain'; did you mean median?
tune DEMO {HELD_OUT} {RATE}=0.1,0.2 --trials 2 --prune median -> --prune: no evaluation ... run.evaluate_every = 2
tune DEMO {HELD_OUT} {RATE}=0.1,0.2 --trials 2 --storage nowhere/trials -> --storage: nowhere is not a folder
tune DEMO {HELD_OUT} {RATE}=0.1,0.2 --trials 2 --storage DEMO -> demo.toml is not a journal of Optuna
tune DEMO {HELD_OUT} {RATE}=0.1,0.2 --trials 2 --study mine -> --study: names a study in a storage
tune DEMO {HELD_OUT} scheme.ratio=0.5:2:linear --schemes pfels --trials 2 -> scheme.ratio
tune DEMO {HELD_OUT} local.learning_rte=0.1,0.2 -> did you mean learning_rate
tune DEMO {HELD_OUT} {RATE}=0.1,0.2 --schemes pfelz -> did you mean pfels
privacy -> exactly one of --noise-multiplier and --epsilon
privacy {BARE} --epsilon 1 -> exactly one of --noise-multiplier and --epsilon
privacy --noise-multiplier -1 --delta 1e-3 -> --noise-multiplier must be at least 0, got -1
privacy --noise-multiplier 1e-200 --delta 1e-5 -> must be at least 1e-10, or 0 for no noise, got 1e-200
privacy {NOISE} -> --delta is missing
privacy {NOISE} --delta 2 -> --delta must be between 0 and 1, got 2
privacy {NOISE} --delta 1e-3 --sampling-rate 1.5 -> --sampling-rate must be above 0 and at most 1, got 1.5
privacy {NOISE} --delta 1e-3 --rounds 0 -> --rounds must be at least 1, got 0
privacy {BARE} --sampling none -> --sampling none
privacy {BARE} --accountant pdl -> did you mean pld?
privacy {BARE} --sampling without_replacement --accountant pld -> use rdp or dominating-pair
privacy {BARE} --adjacency replace_one -> no bound for a Poisson sample under replace-one
privacy --epsilon 1e-12 --delta 1e-12 --rounds 1000000 -> --epsilon: no noise multiplier
privacy {BARE} --plot somewhere -> need CONFIG
privacy DEMO --rounds 5 -> give run.rounds=... instead
privacy DEMO {NOISE} -> leave it out, as scheme 'pfels' has no such parameter
privacy DEMO scheme.name=dp-fedavg {NOISE} -> give scheme.noise_multiplier=... instead
privacy DEMO --accountant rdp -> give privacy.accountant=... instead
privacy DEMO privacy.accountant=pld -> privacy.accountant: accountant 'pld' has no bound for a sample of fixed
privacy nothing.toml -> no such settings file
data get femnist --data-dir OUT -> preprocess.sh
data get cifar --data-dir OUT -> did you mean cifar10
data get ../evil --data-dir OUT -> unknown value
"""
CASES = [line.split(" -> ") for line in REFUSED.strip().splitlines()]


@pytest.mark.parametrize(("command", "said"), CASES, ids=[f"{words.split()[0]}-{said}" for words, said in CASES])
def test_one_line_says_what_is_wrong_and_nothing_is_written(command: str, said: str, tmp_path: Path) -> None:
    if "cuda" in command and torch.cuda.is_available():
        pytest.skip("there is a cuda device here")
    out = tmp_path / "out"
    places = {"DEMO": DEMO, "TESTS": ROOT / "tests", "OUT": out}
    words = [places.get(word, word) for word in command.split()]
    if words[0] in TO_OUT and not {"--out", "--out="} & set(words):
        words += ["--out", out]
    line = refused(airfl(*words))
    for part in said.split(" ... "):
        assert part in line
    assert not out.exists()


def test_a_run_wants_to_be_told_where() -> None:
    assert "--out" in refused(airfl("run", DEMO))


@pytest.mark.parametrize("command", ["run", "compare", "run task.model=vgg11 run.rounds=1"])
def test_a_model_that_does_not_fit_is_refused_before_any_data_is_read(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that fits is told how to get the data, which is nowhere."""
    monkeypatch.delenv("AIRFL_DATA", raising=False)
    name, *more = command.split()
    line = refused(airfl(name, DEMO, "task.dataset=cifar10", *more, "--out", tmp_path / "out", cwd=tmp_path))
    if more:
        assert "airfl data get cifar10" in line
    else:
        assert line.startswith("airfl: task.model: 'mlp' takes inputs of shape (1, 28, 28)")
        assert "fit: cnn-cifar10, lenet-cifar10, vgg11" in line


def test_wrong_data_is_one_line_and_leaves_nothing(tmp_path: Path) -> None:
    sample = tmp_path / "data" / "fashion-mnist-sample"
    sample.mkdir(parents=True)
    for file in (ROOT / "data" / "fashion-mnist-sample").iterdir():
        (sample / file.name).write_bytes(file.read_bytes())
    images = sample / "train-images-idx3-ubyte.gz"
    run = ("run", DEMO, *SMALL, "--out", tmp_path / "out")
    images.write_bytes(images.read_bytes()[:100_000])
    assert images.name in refused(airfl(*run, AIRFL_DATA=str(tmp_path / "data")))
    images.unlink()
    assert images.name in refused(airfl(*run, AIRFL_DATA=str(tmp_path / "data")))
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", ["sweep_snr_ratio", "compare_schemes"])
def test_a_script_answers_in_one_line_too(name: str, tmp_path: Path) -> None:
    done = script(ROOT / "experiments" / f"{name}.py", "run.round=2", "--out", tmp_path / "out")
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].count("run.round: unknown key; did you mean rounds") == 1
    assert "Traceback" not in done.stderr
