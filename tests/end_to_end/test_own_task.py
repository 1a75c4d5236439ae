"""Runs with user-defined models and data: against closed forms and built-in ones, resumed, reloaded and refused."""

import logging
import pickle
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import torch
import torch.nn.functional as F
import xarray
from torch import Tensor, nn
from torch.utils.data import Dataset, IterableDataset, TensorDataset

import airfl
from airfl.analysis.budget import scenario_of
from airfl.analysis.calculator import privacy_of
from airfl.analysis.results.digest import digest_of, keep
from airfl.config import Row, Settings
from airfl.exports import export
from airfl.learning.dense.library import load_library
from airfl.learning.engines.loop import LoopEngine
from airfl.learning.engines.table import ENGINES
from airfl.learning.sgd import normalise
from airfl.learning.tasks.models import MODELS
from airfl.study.compare import compare
from tests import small_data
from tests.conftest import small_settings
from tests.refusals import one_line
from tests.resuming import assert_same_trace, interrupted

ROWS, FEATURES, CLASSES, DEVICES = 60, 3, 4, 10
GENERATOR = np.random.default_rng(5)
X = GENERATOR.normal(size=(ROWS, FEATURES))
LABELS = GENERATOR.integers(CLASSES, size=ROWS)
VALUES = X @ np.array([[1.0, -2.0], [0.5, 0.0], [3.0, 1.0]]) + 0.1 * GENERATOR.normal(size=(ROWS, 2))

USUAL = "layers" if load_library() is None else "dense"


def squares(outputs: Tensor, targets: Tensor) -> Tensor:
    return (outputs - targets).square().mean(dim=1)


def worst(outputs: Tensor, targets: Tensor) -> Tensor:
    return (outputs - targets).abs().amax(dim=1)


def classifier(between: Callable[[], nn.Module] = nn.ReLU) -> nn.Module:
    return nn.Sequential(nn.Linear(FEATURES, 5), between(), nn.Linear(5, CLASSES))


class Own(nn.Module):
    """A layer, used as a function says."""

    def __init__(self, scores: Callable[[nn.Module, Tensor], Tensor]) -> None:
        super().__init__()
        self.layer, self.scores = nn.Linear(FEATURES, CLASSES), scores

    def forward(self, inputs: Tensor) -> Tensor:
        return self.scores(self.layer, inputs)


def branching() -> nn.Module:
    """Which way the data go is decided while the model computes."""
    return Own(lambda layer, inputs: layer(inputs) if bool(inputs.isfinite().all()) else -layer(inputs))


def settings(*overrides: str) -> Settings:
    """Everybody every round, over an ideal link, and little of everything."""
    ideal = ("scheme.name=fedavg", "scheme.link=ideal", f"run.devices={DEVICES}", f"run.selected={DEVICES}")
    return small_settings(*ideal, "local.engine=auto", "local.clip_norm=1e6", "task.public_samples=0", *overrides)


def classes(**parts: Any) -> airfl.Task:
    return airfl.Task(**{"model": classifier, "train": (X, LABELS), "test": (X[:20], LABELS[:20]), **parts})


def regression(**parts: Any) -> airfl.Task:
    parts = {"model": lambda: nn.Linear(FEATURES, 2), "loss": squares, **parts}
    return airfl.Task(**{"train": (X, VALUES), "test": (X[:20], VALUES[:20]), **parts})


@pytest.mark.parametrize("engine", ["loop", "vmap"])
def test_full_participation_in_one_whole_step_is_gradient_descent(engine: str) -> None:
    """Shares of 6 of the 60 samples: the mean of the devices' gradients is that of all. float32: 1e-5."""
    start = nn.Linear(FEATURES, 2)
    one_step = ("local.steps=1", "local.batch_size=60", "local.learning_rate=0.2", "local.momentum=0")
    rounds = ("run.rounds=4", "run.evaluate_every=1")
    done = airfl.run(settings(*one_step, *rounds, f"local.engine={engine}"), task=regression(model=start))
    weight, bias = (part.detach().numpy().astype(np.float64) for part in start.parameters())
    losses = []
    for _ in range(4):
        slope = (X @ weight.T + bias - VALUES) * 2 / 2 / ROWS  # the mean over two outputs and all samples
        weight, bias = weight - 0.2 * slope.T @ X, bias - 0.2 * slope.sum(axis=0)
        losses.append(np.mean((X @ weight.T + bias - VALUES) ** 2))
    found = [part.detach().numpy() for part in done.model().parameters()]
    np.testing.assert_allclose(found[0], weight, atol=1e-5)
    np.testing.assert_allclose(found[1], bias, atol=1e-5)
    with done.trace() as trace:
        np.testing.assert_allclose(trace["train_loss"], losses, rtol=1e-5)
        assert np.isnan(trace["test_accuracy"]).all()


@pytest.mark.parametrize(
    ("model", "overrides"),
    [
        ("mlp", ("local.engine=layers",)),
        ("mlp", ("local.engine=vmap", "task.partition=dirichlet", "task.validation_share=0.1")),
        ("cnn", ("local.engine=loop", "run.rounds=1", "run.selected=2")),
        ("mlp", ("scheme.name=fed-spa", "scheme.ratio=0.5")),
        # The server, too, trains it, on public data.
        ("mlp", ("scheme.name=fed-smp-topk", "scheme.noise_multiplier=1.0", "task.public_samples=40")),
    ],
)
def test_a_model_of_the_table_brought_along_gives_the_tables_run(model: str, overrides: tuple[str, ...]) -> None:
    raw = small_data.few_samples()
    given = small_settings(f"task.model={model}", *overrides)

    def floats(inputs: np.ndarray) -> Tensor:
        return normalise(torch.from_numpy(inputs), raw.mean, raw.std)

    train, test = (floats(raw.train_inputs), raw.train_targets), (floats(raw.test_inputs), raw.test_targets)
    own = airfl.run(given, task=airfl.Task(MODELS[model]().build, train, test))
    table = small_data.run(given)
    assert own.parameters.equal(table.parameters)
    with own.trace() as one, table.trace() as other:
        xarray.testing.assert_equal(one.load(), other.load())
        assert other.attrs.keys() == one.attrs.keys() - {
            *("task", "task_model", "task_parts", "task_fingerprint", "task_initial")
        }


def test_the_model_is_left_as_it_was_and_the_runs_is_given_back() -> None:
    net = classifier().eval()
    before = [part.clone() for part in net.parameters()]
    task = classes(model=net)
    for part in net.parameters():
        part.data.zero_()  # what is done with it afterwards is nothing to the task
    first, again = airfl.run(settings(), task=task), airfl.run(settings(), task=task)
    assert first.parameters.equal(again.parameters)
    assert all(a.equal(b) for a, b in zip(before, task.model.parameters(), strict=True))  # type: ignore[union-attr]
    trained = first.model()
    assert not trained.training
    assert torch.nn.utils.parameters_to_vector(trained.parameters()).equal(first.parameters)


def owners() -> np.ndarray:
    """Device i has i % 3 + 3 samples or so; the last three samples are nobody's."""
    found = np.minimum(np.arange(ROWS) ** 2 // 300, DEVICES - 1)
    found[-3:] = -1
    return found


@pytest.mark.parametrize("kind", ["owners", "lists", "tensor", "function"])
def test_an_own_partition_is_kept_to(kind: str) -> None:
    owner = owners()
    lists = [np.flatnonzero(owner == device) for device in range(DEVICES)]
    seen: list[Any] = []

    def function(targets: np.ndarray, devices: int, generator: np.random.Generator) -> list[np.ndarray]:
        seen.append((targets, devices))
        return lists

    given = {"owners": owner, "lists": lists, "tensor": torch.from_numpy(owner), "function": function}[kind]
    with airfl.run(settings(), task=classes(partition=given)).trace() as trace:
        assert trace["device_samples"].values.tolist() == [len(one) for one in lists]
        assert '"partition": "own"' in trace.attrs["config"]
    if seen:
        assert sorted(seen[0][0]) == sorted(LABELS)
        assert seen[0][1] == DEVICES


def test_what_is_held_out_is_taken_from_the_devices() -> None:
    held = settings("task.validation_share=0.2", "task.public_samples=5", "run.devices=2", "run.selected=2")
    with airfl.run(held, task=classes(partition=np.arange(ROWS) % 2)).trace() as trace:
        assert trace["device_samples"].values.sum() == ROWS - 12 - 5


class Pairs(Dataset[Any]):
    def __len__(self) -> int:
        return ROWS

    def __getitem__(self, row: int) -> tuple[np.ndarray, int]:
        return X[row], int(LABELS[row])


class Endless(IterableDataset[Any]):
    def __iter__(self) -> Iterator[Any]:
        return iter(Pairs())


class Counted(Endless):
    def __len__(self) -> int:
        return ROWS


@pytest.mark.parametrize("given", [Pairs(), Counted(), TensorDataset(torch.from_numpy(X), torch.from_numpy(LABELS))])
def test_a_data_set_of_torch_is_its_arrays(given: Any) -> None:
    inputs, targets = classes(train=given).train
    assert inputs.equal(torch.from_numpy(X).float())
    assert targets.equal(torch.from_numpy(LABELS))


class Ragged(Pairs):
    def __getitem__(self, row: int) -> tuple[np.ndarray, int]:
        return np.zeros(FEATURES + (row == 7)), 0


class Remembering(Own):
    def forward(self, inputs: Tensor) -> Tensor:
        self.calls = getattr(self, "calls", 0) + 1
        return super().forward(inputs) * self.calls


def centred(layer: nn.Module, inputs: Tensor) -> Tensor:
    return layer(inputs) - layer(inputs).mean(dim=0) / 2


def spoiled(values: np.ndarray) -> np.ndarray:
    found = values.astype(np.float64)
    found[11] = np.nan
    return found


def frozen() -> nn.Module:
    net = classifier()
    next(net.parameters()).requires_grad_(False)
    return net


def over_the_batch(outputs: Tensor, targets: Tensor) -> Tensor:
    return squares(outputs, targets) / outputs.abs().mean()


def scrambled() -> nn.Module:
    net = nn.Linear(FEATURES, CLASSES)
    net.weight.data += float(np.random.default_rng().random())
    return net


def then(*layers: nn.Module) -> nn.Module:
    return nn.Sequential(nn.Linear(FEATURES, CLASSES), *layers)


def relu_of(value: Tensor) -> Tensor:
    return value.clamp(min=0)


def penalised(penalty: Any) -> nn.Module:
    return type("Penalised", (nn.Linear,), {"penalty": penalty})(FEATURES, CLASSES)


OF_ARGUMENT = "penalty: must use its argument, a dict of name -> tensor, instead of self.parameters()"
FIXED = torch.ones(2)

TO_CLASSES: tuple[tuple[dict[str, Any], str], ...] = (
    ({"model": 3}, "model: ... got 3 (int)"),
    ({"model": lambda: "net"}, "model: the function must return ... str"),
    ({"model": lambda: nn.Linear(-1, 2)}, "model: the function failed ... RuntimeError"),
    ({"model": scrambled}, "model: the function returns different parameters under the same seed"),
    ({"model": nn.ReLU()}, "ReLU has no parameters"),
    ({"model": frozen()}, "'0.weight' has requires_grad=False"),
    ({"model": classifier().double()}, "torch.float64 ... model.float()"),
    (
        {"model": then(nn.BatchNorm1d(CLASSES))},
        "layer '1' (BatchNorm1d) has the buffer 'running_mean' ... torch.nn.GroupNorm",
    ),
    (
        {"model": then(nn.BatchNorm1d(CLASSES, track_running_stats=False))},
        "model: layer '1' (BatchNorm1d) uses batch statistics ... torch.nn.GroupNorm",
    ),
    ({"model": then(nn.Dropout())}, "model: its outputs are random (Dropout) ... model.eval()"),
    ({"model": Own(lambda layer, inputs: layer(inputs) + torch.rand(()))}, "model: its outputs are random"),
    (
        {"model": Remembering(lambda layer, inputs: layer(inputs))},
        "model: its outputs are random, or changed by every call",
    ),
    (
        {"model": Own(lambda layer, inputs: layer(inputs.add_(1)))},
        "model: its outputs are random, or changed by every call (an in-place change of parameters or inputs)",
    ),
    ({"model": Own(lambda layer, inputs: layer(inputs) * torch.nan)}, "model: the output of sample 0 is nan"),
    ({"model": penalised(lambda self, named: sum(one.square().sum() for one in self.parameters()))}, OF_ARGUMENT),
    ({"model": penalised(lambda self, named: named["weight"].sum() * self.weight.sum())}, OF_ARGUMENT),
    ({"model": penalised(lambda self, named: relu_of(self.weight.norm() - 10))}, OF_ARGUMENT),
    ({"model": penalised(lambda self, named: FIXED.square().sum())}, OF_ARGUMENT),
    ({"model": penalised(lambda self, named: named["weight"].square())}, "penalty: must return a scalar ... (4, 3)"),
    ({"model": penalised(lambda self, named: 0)}, "penalty: must return a scalar tensor, got int"),
    ({"model": penalised(lambda self, named: named["bias"].sum() * torch.nan)}, "penalty: its value is nan"),
    ({"model": penalised(lambda self, named: named["bias"].sum() + torch.rand(()))}, "penalty: its value is random"),
    ({"model": penalised(lambda self: 0)}, "penalty: does not accept a dict of name -> tensor (TypeError"),
    ({"model": penalised(0.1)}, "penalty: must be a method penalty(parameters), got float"),
    ({"model": Own(centred)}, "for a sample depends on the other samples of the batch"),
    (
        {"model": Own(lambda layer, inputs: layer(inputs.view(4, FEATURES)))},
        "Own does not accept inputs float32 of shape (1, 3)",
    ),
    ({"model": nn.Linear(7, CLASSES)}, "Linear does not accept inputs float32 of shape"),
    ({"model": nn.Linear(FEATURES, 2)}, "train: sample ... the classes 0 to 1"),
    ({"model": then(nn.Flatten(0))}, "one row"),
    ({"train": (spoiled(X), LABELS)}, "train: inputs ... in sample 11"),
    ({"train": (X, LABELS[1:])}, "60 inputs and 59 targets"),
    ({"test": (X[:0], LABELS[:0])}, "0 inputs"),
    ({"train": X}, "train: must be (inputs, targets) ... ndarray"),
    ({"train": (["a"] * 3, [0, 1, 2])}, "train: inputs must be numbers, got list"),
    ({"test": (X[:, :2], LABELS)}, "test: inputs must be"),
    ({"train": Endless()}, "Endless has no length"),
    ({"train": Ragged()}, "train: sample 7 is ... (4,) ... (3,)"),
    ({"partition": "equal"}, "partition ... 'equal'"),
    ({"partition": "writer"}, "partition ... 'writer'"),
    ({"partition": [[0, 1], [1]]}, "devices 0 and 1 both have sample 1"),
    ({"partition": [[0], [60]]}, "from 0 to 59, got 60 for device 1"),
    ({"partition": np.zeros(3, int)}, "of shape (3,) ... 60 training samples"),
    ({"name": "two\nlines"}, "name: "),
)
TO_REGRESSION: tuple[tuple[dict[str, Any], str], ...] = (
    ({"loss": None}, "cross-entropy needs class indices ... set loss="),
    ({"loss": 2}, "loss: must be a function ... got 2 (int)"),
    ({"loss": nn.MSELoss()}, 'loss returned shape () ... reduction="none"'),
    ({"loss": nn.MSELoss(reduction="none")}, "loss returned shape (4, 2) for 4 samples"),
    ({"loss": over_the_batch}, "loss: its value for a sample depends on the other samples"),
    ({"loss": lambda o, t: t[:, 0]}, "loss: its gradient cannot be computed"),
    ({"loss": lambda o, t: squares(o, t) / 0}, "loss: the value of sample 0 is not finite"),
    ({"loss": lambda o, t: squares(o, t) * torch.nan}, "loss: the value of sample 0 is nan at the initial parameters"),
    ({"metrics": {"worst": lambda o, t: worst(o, t) * torch.nan}}, "metric 'worst': the value of sample 0 is nan"),
    (
        {"loss": lambda o, t: squares(o.sub_(t), t)},
        "loss: its values are random, or changed by every call (an in-place change of outputs or targets)",
    ),
    ({"loss": lambda o, t: squares(o, t) + torch.rand(())}, "loss: its values are random, so that"),
    ({"metrics": {"worst": lambda o, t: o.no}}, "metric 'worst': does not accept outputs ... AttributeError"),
    ({"metrics": {"worst": lambda o, t: worst(o, t).max()}}, "metric 'worst' returned shape ()"),
    ({"metrics": {"R 2": worst}}, 'metrics: names must be ... "R 2"'),
    ({"metrics": [worst]}, "metrics: must map names to functions"),
    ({"metrics": {f"m{i}": worst for i in range(17)}}, "metrics: at most 16 ... got 17"),
    ({"test": (X, spoiled(VALUES))}, "test: targets ... in sample 11"),
)


@pytest.mark.parametrize(
    ("make", "part", "said"), [(classes, *one) for one in TO_CLASSES] + [(regression, *one) for one in TO_REGRESSION]
)
def test_a_broken_promise_is_told_in_one_line(make: Callable[..., airfl.Task], part: dict[str, Any], said: str) -> None:
    with pytest.raises(airfl.UserError, match=one_line(*said.split(" ... "))):
        make(**part)


def careless(targets: np.ndarray, devices: int, generator: np.random.Generator) -> list[np.ndarray]:
    return np.array_split(np.random.default_rng().permutation(len(targets)), devices)


def failing(targets: np.ndarray, devices: int, generator: np.random.Generator) -> list[np.ndarray]:
    raise KeyError("no")


@pytest.mark.parametrize("coefficient", [0.0, 0.1])
def test_a_penalty_of_its_argument_is_accepted(coefficient: float) -> None:
    """Also one that is constant near the initial parameters, or whose factor is 0."""
    ridge = penalised(lambda self, named: coefficient * sum(one.square().sum() for one in named.values()))
    hinge = penalised(lambda self, named: 1 + relu_of(named["weight"].norm() - 10))
    for model in (ridge, hinge):
        assert classes(model=model).dimension == (FEATURES + 1) * CLASSES


def shuffled(targets: np.ndarray, devices: int, generator: np.random.Generator) -> Iterator[np.ndarray]:
    """Sorts its targets in place, and yields shares."""
    targets.sort()
    return iter(np.array_split(generator.permutation(len(targets)), devices))


def test_a_partition_may_change_its_arguments() -> None:
    with airfl.run(settings(), task=classes(partition=shuffled)).trace() as trace:
        assert trace["device_samples"].values.tolist() == [6] * DEVICES


@pytest.mark.parametrize("kind", [np.array, torch.tensor], ids=["numpy", "torch"])
def test_a_task_keeps_what_its_arrays_held(kind: Callable[..., Any]) -> None:
    """Those of the types that a task has, float32 and int64, need no conversion."""
    inputs, labels = kind(X.astype(np.float32)), kind(LABELS)
    task, before = classes(train=(inputs, labels), test=(inputs, labels)), classes(train=(X, LABELS), test=(X, LABELS))
    inputs[:], labels[:] = 0, 0
    assert task.train[0].equal(before.train[0])
    assert task.test[1].equal(before.test[1])
    assert task.fingerprint == before.fingerprint


@pytest.mark.parametrize(
    ("task", "overrides", "said"),
    [
        (classes, ("task.partition=writer",), ("does not name the writers",)),
        (regression, ("task.partition=dirichlet",), ("'dirichlet' divides by class", "float32")),
        (partial(classes, partition=np.arange(ROWS) % 4), (), ("among 4 devices", "run.devices=4")),
        (partial(classes, partition=lambda t, n, g: [[0]] * n), (), ("devices 0 and 1 both have sample 0",)),
        (partial(classes, partition=lambda t, n, g: 3), (), ("its result must be a list of index arrays, got int",)),
        (partial(classes, partition=[[0], *([[]] * 9)]), (), ("device 1 has no sample",)),
        (partial(classes, partition=careless), (), ("careless returns different samples under the same seed",)),
        (partial(classes, partition=lambda t, n: []), (), ("<lambda>(targets, devices, generator) raised TypeError",)),
        (partial(classes, partition=failing), (), ("partition: failing(", "raised KeyError: 'no'", "test_own_task.py")),
        (regression, ("local.engine=layers",), ("local.engine", "the loss is not cross-entropy")),
        (partial(classes, model=branching), ("local.engine=vmap",), ("local.engine", "Own", "vmap")),
        (None, ("task.model=own",), ("task.model: 'own' stands for an airfl.Task",)),
        (None, ("task.dataset=own",), ("task.dataset: 'own' stands for an airfl.Task",)),
        (None, ("task.partition=own", "task.public_samples=0"), ("task.partition: 'own' stands for",)),
    ],
)
def test_settings_that_do_not_go_with_it_are_refused(
    task: Callable[[], airfl.Task] | None, overrides: tuple[str, ...], said: tuple[str, ...], tmp_path: Path
) -> None:
    with pytest.raises(airfl.UserError, match=one_line(*said)):
        airfl.run(settings(*overrides), tmp_path / "out", task=task() if task else None)
    assert not (tmp_path / "out").exists()


OTHER_MODEL = partial(classifier, nn.Tanh)
PARTS: dict[str, dict[str, Any]] = {
    "another model": {"model": OTHER_MODEL},
    "other initial parameters": {
        "model": lambda: classifier().apply(lambda net: [p.data.mul_(2) for p in net.parameters()])
    },
    "other training or test data": {"test": (X[:20] + 1e-3, LABELS[:20])},
    "another loss": {"loss": partial(F.cross_entropy, reduction="none", label_smoothing=0.1)},
    "other metrics": {"metrics": {"score": lambda o, t: o.amax(dim=1) + 1}},
    "another partition": {"partition": np.arange(ROWS) % DEVICES},
}


def score(outputs: Tensor, targets: Tensor) -> Tensor:
    return outputs.amax(dim=1)


def resumable(**parts: Any) -> airfl.Task:
    same = {"loss": partial(F.cross_entropy, reduction="none"), "metrics": {"score": score}, "partition": owners()}
    return classes(**{**same, **parts})


def test_a_resumed_run_is_the_run_and_of_the_same_task(tmp_path: Path) -> None:
    given = settings("run.rounds=4", "run.checkpoint_every=1", "run.evaluate_every=2", "local.engine=loop")
    whole = airfl.run(given, tmp_path / "whole", task=resumable())
    with pytest.raises(KeyboardInterrupt):
        airfl.run(given, tmp_path / "pieces", progress=interrupted(2), task=resumable())
    for part, changed in PARTS.items():
        with pytest.raises(airfl.UserError, match=one_line(f"its run was started with {part} (")):
            airfl.run(given, tmp_path / "pieces", task=resumable(**changed), resume=True)
    pieces = airfl.run(given, tmp_path / "pieces", task=resumable(), resume=True)
    assert_same_trace(whole.path, pieces.path)
    with pytest.raises(airfl.UserError, match=one_line("contains a complete run of another task (Sequential)")):
        airfl.run(given, tmp_path / "pieces", task=resumable(**PARTS["another model"]), resume=True)


def test_metrics_are_recorded_and_read_by_everything(tmp_path: Path) -> None:
    task = regression(metrics={"worst": worst, "hit": lambda o, t: worst(o, t) < 1}, name="slopes")
    given = settings("run.rounds=4", "run.evaluate_every=2")
    done = airfl.run(given, tmp_path / "run", task=task)
    inputs, targets = task.test
    with torch.no_grad():
        outputs = done.model()(inputs)
    expected = {
        "metric_worst": float(worst(outputs, targets).mean()),
        "metric_hit": float((worst(outputs, targets) < 1).double().mean()),
    }
    with done.trace() as trace:
        assert np.isnan(trace["metric_worst"].values).tolist() == [True, False, True, False]
        assert {name: float(trace[name][-1]) for name in expected} == pytest.approx(expected, rel=1e-6)
        assert trace.attrs["task"] == "slopes"
        assert trace["test_loss"].attrs["long_name"].endswith("on the test set")
    made = keep(done.path.parent)
    assert digest_of(done.path.parent).metrics == made.metrics == pytest.approx(expected, rel=1e-6)
    line = airfl.read_results(done.path.parent).frame().iloc[0]
    assert line[list(expected)].tolist() == [made.metrics[name] for name in expected]
    assert line["test_loss"] == pytest.approx(float(squares(outputs, targets).mean()), rel=1e-6)
    export(done.path.parent, "csv", tmp_path / "csv")
    assert "metric_worst" in (tmp_path / "csv" / "rounds.csv").read_text().splitlines()[0]


def test_a_metric_of_another_kind_is_no_metric(tmp_path: Path) -> None:
    airfl.run(settings(), tmp_path / "run", task=regression(metrics={"worst": worst}))
    with h5py.File(tmp_path / "run" / "trace.h5", "r+") as file:
        del file["metric_worst"]
        file.create_dataset("metric_worst", data=np.zeros(2, dtype="i4")).dims[0].attach_scale(file["round"])
    with pytest.raises(airfl.UserError, match=one_line("not a trace: metric_worst must be float64")):
        airfl.open_trace(tmp_path / "run")


def test_a_metric_that_is_not_finite_stops_the_run() -> None:
    task = regression(metrics={"gain": lambda o, t: 1 / (t[:, 0] != float(task_value))})
    with pytest.raises(airfl.UserError, match=one_line("metric 'gain'", "got inf")):
        airfl.run(settings(), task=task)


task_value = np.float32(VALUES[15, 0])  # of a test sample that is not among the first


def test_runs_of_two_tasks_are_told_apart(tmp_path: Path) -> None:
    for name, changed in (("one", {}), ("two", {"model": OTHER_MODEL})):
        compare([Row("row", settings())], 1, tmp_path / name, task=classes(name=name, **changed))
    results = airfl.read_results([tmp_path / "one", tmp_path / "two"])
    assert results.axes == ("task.own",)
    assert [str(group.values["task.own"]).split()[0] for group in results.groups] == ["one", "two"]


def test_rows_of_a_comparison_are_of_the_task(tmp_path: Path) -> None:
    rows = [Row("few", settings("run.selected=5")), Row("all", settings())]
    found = compare(rows, 1, tmp_path, task=classes())
    assert [one.summaries[0].status for one in found] == ["complete", "complete"]
    again = compare(rows, 1, tmp_path, task=classes(), resume=True)
    assert [one.summaries for one in again] == [one.summaries for one in found]
    with pytest.raises(airfl.UserError, match="another task"):
        compare(rows, 1, tmp_path, task=classes(model=OTHER_MODEL), resume=True)


def test_costs_are_those_of_its_size() -> None:
    given = small_settings("scheme.name=soteriafl-sgd", f"run.devices={DEVICES}", "task.public_samples=0")
    task = classes(partition=owners())
    budget = airfl.link_budget(given, task=task)
    assert task.dimension == budget.dimension == 3 * 5 + 5 + 5 * 4 + 4
    assert privacy_of(settings(), task=task).devices == DEVICES
    # What protects a record hangs on the fewest samples of a device.
    assert scenario_of(given, task=task).samples == np.bincount(owners()[owners() >= 0]).min() < ROWS // DEVICES


def test_a_task_goes_to_other_processes() -> None:
    task = pickle.loads(pickle.dumps(resumable()))
    assert airfl.run(settings(), task=task).parameters.equal(airfl.run(settings(), task=resumable()).parameters)


@pytest.mark.parametrize(
    ("task", "engine", "why", "level"),
    [
        (classes, USUAL, f"engine {USUAL}", logging.INFO),
        (regression, "vmap", "not layers (the loss is not cross-entropy)", logging.INFO),
        (partial(classes, model=branching), "loop", "not vmap (", logging.WARNING),
    ],
)
def test_one_line_says_which_engine_it_is_and_why(
    task: Callable[[], airfl.Task], engine: str, why: str, level: int, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "airfl"):
        done = airfl.run(settings(), task=task())
    assert done.settings.local.engine == engine
    (line,) = [one for one in caplog.records if "trained by engine" in one.getMessage()]
    assert why in line.getMessage()
    assert "\n" not in line.getMessage()
    assert line.levelno == level


@pytest.mark.parametrize(("wrong", "others"), [("dense", {"layers"}), ("layers", {"vmap"})])
@pytest.mark.parametrize("measured", [False, True])
def test_an_engine_that_computes_something_else_is_not_taken(
    measured: bool, wrong: str, others: set[str], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    class Wrong(LoopEngine):
        def train(self, parameters: Tensor, work: Any, updates: Tensor) -> None:
            super().train(parameters, work, updates)
            updates[-1] *= 1.01

    monkeypatch.setitem(ENGINES, "dense", lambda bench: None)
    monkeypatch.setitem(ENGINES, wrong, lambda bench: Wrong(bench.model, bench.momentum))
    if measured:
        monkeypatch.setattr("airfl.learning.engines.choose.WORK_WORTH_MEASURING", 0.0)
        monkeypatch.setattr("airfl.learning.engines.choose.SECONDS_PER_CANDIDATE", 0.0)
    with caplog.at_level(logging.INFO, "airfl"):
        done = airfl.run(settings(), task=classes())
    chosen = done.settings.local.engine
    assert chosen in others or (measured and chosen != wrong)
    assert f"not {wrong} (its updates differ from the loop's by 0.0" in caplog.text
