"""User-defined models, data sets and partitions in settings, and combined with built-in ones in a task."""

import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import nn

import airfl
from airfl.core.building import build_scenario
from airfl.learning.chosen_task import dimension_of
from airfl.learning.division import divide
from airfl.learning.fingerprint import path_of
from airfl.learning.tasks.datasets import DATASETS, Dataset, RawData, load_dataset
from airfl.learning.tasks.models import MODELS, Model
from airfl.learning.tasks.partitions import PARTITIONS, Partition, PartitionRule, Pool
from airfl.runtime.streams import Streams
from airfl.study.check import check_part
from airfl.study.sweeps.points import SweepPlan, build_points
from channels.part import parameter
from tests import small_data
from tests.conftest import small_settings
from tests.refusals import one_line

SAMPLE = "fashion-mnist-sample"


class Wide(Model):
    """As mlp, of any width."""

    name = "wide"
    input_shape = (1, 28, 28)
    classes = 10

    width: int = parameter(default=32, ge=1, description="hidden units")

    def build(self) -> nn.Module:
        return nn.Sequential(nn.Flatten(), nn.Linear(784, self.width), nn.ReLU(), nn.Linear(self.width, 10))


class Lines(Dataset):
    """Numbers of a file, a row a sample, its class the last one; the last row is the test set."""

    name = "lines"
    input_shape = (2,)
    classes = 3
    cached = True

    scale: float = parameter(default=1.0, gt=0, description="what they are multiplied by")

    def load(self, folder: Path) -> RawData:
        rows = np.loadtxt(folder / "rows.txt")
        inputs, labels = self.scale * rows[:, :2], rows[:, 2].astype(int)
        return RawData(inputs[:-1], labels[:-1], inputs[-1:], labels[-1:], 3, (), ())


class Alternating(PartitionRule):
    """Sample i of the pool goes to device i modulo N."""

    name = "alternating"

    def divide(self, pool: Pool, generator: np.random.Generator) -> Partition:
        return Partition.of([pool.samples[device :: pool.devices] for device in range(pool.devices)])


@pytest.fixture
def registered() -> Iterator[None]:
    for part in (Wide, Lines, Alternating):
        airfl.register(part)
    yield
    for registry, part in ((MODELS, Wide), (DATASETS, Lines), (PARTITIONS, Alternating)):
        del registry._registered[part.name]


@pytest.fixture
def lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data folder with `Lines` in it, and an empty cache."""
    (tmp_path / "data" / "lines").mkdir(parents=True)
    rows = [[0.1 * row, 1.0, row % 3] for row in range(61)]
    np.savetxt(tmp_path / "data" / "lines" / "rows.txt", rows)
    monkeypatch.setenv("AIRFL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("AIRFL_DATA", str(tmp_path / "data"))
    return tmp_path / "data"


@pytest.fixture(scope="module")
def named() -> airfl.Run:
    """Of parts that settings name."""
    return small_data.run(small_settings("task.partition=dirichlet", "task.dirichlet_alpha=0.3"))


@pytest.mark.parametrize(
    ("task", "says"),
    [
        ({"model": "mlp", "data": SAMPLE}, ("mlp", SAMPLE)),
        ({"model": lambda: Wide().build(), "data": SAMPLE}, ("own", SAMPLE)),
        ({"model": Wide, "data": airfl.datasets.FashionMnistSample()}, (Wide(), SAMPLE)),
    ],
)
def test_named_and_own_parts_mix(task: dict[str, Any], says: tuple[Any, ...], named: airfl.Run) -> None:
    """And give the run of the names, bit for bit: normalised, divided and initialised alike."""
    own = airfl.Task(**task, partition=airfl.partitions.Dirichlet(alpha=0.3))
    mixed = airfl.run(small_settings(), data=small_data.few_samples(), task=own)
    of = mixed.settings.task
    assert (of.model, of.dataset, of.partition, of.dirichlet_alpha) == (*says, "dirichlet", 0.3)
    assert mixed.parameters.equal(named.parameters)
    with mixed.trace() as one, named.trace() as other:
        assert one.load().equals(other.load())
    assert [part.shape for part in mixed.model().parameters()] == [part.shape for part in named.model().parameters()]


def own_task(samples: int = 60, **parts: Any) -> airfl.Task:
    """Of data of one's own for mlp."""
    inputs, labels = torch.randn(samples, 1, 28, 28), torch.arange(samples) % 10
    return airfl.Task("mlp", (inputs, labels), (inputs[:9], labels[:9]), **parts)


def test_a_named_model_learns_data_of_ones_own() -> None:
    task, settings = own_task(120), small_settings("task.public_samples=0")
    done = airfl.run(settings, task=task)
    assert (done.settings.task.model, done.settings.task.dataset) == ("mlp", "own")
    assert task.dimension == airfl.link_budget(settings, task=task).dimension == 25_450


@pytest.mark.usefixtures("registered")
@pytest.mark.parametrize(
    ("key", "value", "parts"),
    [
        ("task.model", "cnn", {}),
        ("task.model.width", 4, {}),
        ("task.dataset", "mnist", {}),
        ("task.partition", "dirichlet", {"partition": "iid"}),
    ],
)
@pytest.mark.parametrize(
    "call", ["run", "experiment", "budget", "privacy", "theory", "axes", "points", "rows", "file", "compare"]
)
def test_what_the_task_brings_is_fixed(key: str, value: Any, parts: dict[str, Any], call: str, tmp_path: Path) -> None:
    """An override or a swept value would be without effect, and the row of a table would say it."""
    task = own_task(**parts)
    given, changed = small_settings("task.model={ name = 'wide', width = 8 }", "local.engine=auto"), {key: value}
    file = {**given.model_dump(), "compare": [{"label": "one"}, {"label": "two", **changed}]}
    out = tmp_path / "out"
    calls: dict[str, Callable[[], object]] = {
        "run": lambda: airfl.run(given, out, overrides=changed, task=task),
        "experiment": lambda: airfl.Experiment.load(airfl.Experiment.of(given, task), changed),
        "budget": lambda: airfl.link_budget(given, overrides=changed, task=task),
        "privacy": lambda: airfl.privacy(given, overrides=changed, task=task),
        "theory": lambda: airfl.theory_of(given, overrides=changed, task=task),
        "axes": lambda: build_points(given, (), SweepPlan(axes={key: [value]}), task=task),
        "points": lambda: build_points(given, (), SweepPlan(points=[changed]), task=task),
        "rows": lambda: build_points(given, (), SweepPlan(rows={"one": changed}), task=task),
        "file": lambda: airfl.compare(file, out=out, task=task),
        "compare": lambda: airfl.compare(given, out=out, rows={"one": {}, "two": changed}, task=task),
    }
    with pytest.raises(airfl.UserError, match=one_line(key.removesuffix(".width"))):
        calls[call]()
    assert not out.exists()


def test_what_the_task_leaves_to_the_settings_is_overridden() -> None:
    held = {"task.public_samples": 5, "task.partition": "class"}
    done = airfl.run(small_settings(), overrides={**held, "run.devices": 10, "run.selected": 2}, task=own_task())
    assert (done.settings.task.public_samples, done.settings.task.partition) == (5, "class")


@pytest.mark.usefixtures("registered", "lines")
def test_own_parts_are_named_in_settings_with_their_parameters(tmp_path: Path) -> None:
    own = ("task.model={ name = 'wide', width = 8 }", "task.partition=alternating", "task.public_samples=0")
    settings = small_settings(*own, "local.engine=auto")
    assert (settings.task.model, settings.task.partition) == (Wide(width=8), Alternating())
    assert airfl.load_settings(settings, ["task.model.width=4"]).task.model == Wide(width=4)
    assert dimension_of(settings.task) == 784 * 8 + 8 + 80 + 10
    done = airfl.run(settings, tmp_path / "run", data=small_data.few_samples())
    assert sum(part.numel() for part in done.model().parameters()) == 6370
    with done.trace() as trace:
        config = json.loads(trace.attrs["config"])["task"]
        assert (config["model"], config["partition"]) == ({"name": "wide", "width": 8}, {"name": "alternating"})
        assert set(json.loads(trace.attrs["own_parts"])) == {"task.model", "task.partition"}
        assert trace.attrs["task"] == "wide"
    with pytest.raises(airfl.UserError, match=r"task\.dataset\.scale must be positive"):
        small_settings("task.dataset={ name = 'lines', scale = 0 }")
    with pytest.raises(airfl.UserError, match=one_line("Wide() takes inputs of shape", "Lines")):
        airfl.run(small_settings("task.model=wide", "task.dataset=lines", "task.public_samples=0", "run.devices=9"))


def test_what_is_kept_of_two_data_sets_of_one_name_is_not_mixed_up(lines: Path) -> None:
    """Neither parameters, nor the class's code, nor the files."""

    class Shifted(Lines):
        name = "lines"

        def load(self, folder: Path) -> RawData:
            raw = super().load(folder)
            return replace(raw, train_inputs=raw.train_inputs + 100)

    def second(dataset: Dataset) -> float:
        return float(load_dataset(dataset, [lines]).train_inputs[1, 0])

    for _ in range(2):
        found = [second(one) for one in (Lines(), Lines(scale=3.0), Shifted())]
        assert found == pytest.approx([0.1, 0.3, 100.1])
    np.savetxt(lines / "lines" / "rows.txt", [[5.0, 1.0, 0]] * 40)
    assert second(Lines()) == 5.0
    assert load_dataset(Lines(), [lines]).train_targets.dtype == np.int64
    with pytest.raises(airfl.UserError, match=one_line("no lines in the folder lines/", "AIRFL_DATA")):
        load_dataset(Lines(), [lines / "nowhere"])


BAD_DATA: dict[str, tuple[dict[str, Any], str]] = {
    "shape": ({"train_inputs": np.zeros((6, 3))}, r"train_inputs must have shape \(n, 2\).*\(6, 3\)"),
    "lengths": ({"train_targets": np.zeros(5, dtype=int)}, "6 train_inputs and 5 train_targets"),
    "labels": ({"train_targets": np.array([0, 1, 2, 3, 0, 0])}, "train_targets must be 0 to 2, got 3 for sample 3"),
    "floats": ({"train_targets": np.zeros(6)}, "train_targets must be class indices.*got float32"),
    "nan": ({"train_inputs": np.full((6, 2), np.nan)}, "train_inputs must be finite"),
    "mean": ({"mean": (0.5,), "std": (1.0,)}, r"mean and std must be \(\) unless"),
    "texts": ({"test_inputs": np.array([["a", "b"]])}, "test_inputs must be numbers, got <U1"),
    "writers": ({"train_writers": np.zeros(3, dtype=int)}, "train_writers must be one integer per sample"),
}


@pytest.mark.parametrize(("parts", "said"), BAD_DATA.values(), ids=BAD_DATA)
def test_a_data_set_that_breaks_a_promise_is_refused(parts: dict[str, Any], said: str, tmp_path: Path) -> None:
    inputs, labels = np.zeros((6, 2)), np.arange(6) % 3
    good = RawData(inputs, labels, inputs[:1], labels[:1], 3, (), ())
    found: list[Any] = [good]

    class Bad(Dataset):
        folders = None
        input_shape = (2,)
        classes = 3

        def load(self, folder: Path) -> RawData:
            return found.pop()  # type: ignore[no-any-return]

    assert load_dataset(Bad(), [tmp_path]).train_inputs.dtype == np.float32
    found.append(replace(good, **parts))
    with pytest.raises(airfl.UserError, match=rf"^task\.dataset: Bad\(\).*{said}"):
        load_dataset(Bad(), [tmp_path])
    with pytest.raises(airfl.UserError, match=r"cannot be loaded \(IndexError: pop from empty list\)"):
        load_dataset(Bad(), [tmp_path])


POOL = np.arange(12)
BAD_SHARES: dict[str, tuple[Any, str]] = {
    "no partition": ([[0], [1], [2]], "must return a Partition, such as Partition.of(shares), got list"),
    "twice": (Partition.of([POOL[:3], POOL[2:4], POOL[4:]]), "sample 2 twice"),
    "nobody": (Partition.of([POOL[:3], POOL[:0], POOL[4:]]), "device 1 no sample"),
    "too few": (Partition.of([POOL[:3], POOL[4:]]), "among 2 devices, but run.devices is 3"),
    "held out": (Partition.of([POOL[:3], POOL[4:5], np.array([99])]), "sample 99, which is held out"),
    "offsets": (Partition(POOL, np.array([0, 2, 3, 4])), "offsets from 0 to 12, got offsets from 0 to 4"),
    "floats": (Partition(POOL / 2, np.array([0, 2, 3, 12])), "got float64"),
}


@pytest.mark.parametrize(("shares", "said"), BAD_SHARES.values(), ids=BAD_SHARES)
def test_a_partition_that_breaks_a_promise_is_refused(shares: Any, said: str) -> None:
    class Bad(PartitionRule):
        def divide(self, pool: Pool, generator: np.random.Generator) -> Partition:
            return shares  # type: ignore[no-any-return]

    task = small_settings("task.public_samples=0").resolved(task={"partition": Bad()}).task
    zeros: NDArray[Any] = np.zeros(12, dtype=np.int64)
    with pytest.raises(airfl.UserError, match=one_line(said, begins="task.partition: Bad()")):
        divide(task, 3, RawData(zeros, zeros, zeros, zeros, 1, (), ()), Streams(0))


@pytest.mark.parametrize(
    ("divided", "said"),
    [
        (lambda pool, generator: np.random.default_rng().permutation(pool.samples), "another partition under the same"),
        (lambda pool, generator: pool.nothing, "divide() raised AttributeError"),
    ],
)
def test_a_rule_draws_from_its_generator_and_its_errors_are_one_line(divided: Callable[..., Any], said: str) -> None:
    zeros: NDArray[Any] = np.zeros(12, dtype=np.int64)

    def shares(divided: Callable[..., Any]) -> NDArray[Any]:
        class Cut(PartitionRule):
            def divide(self, pool: Pool, generator: np.random.Generator) -> Partition:
                return Partition.of(np.array_split(divided(pool, generator), pool.devices))

        task = small_settings("task.public_samples=0").resolved(task={"partition": Cut()}).task
        return np.asarray(divide(task, 3, RawData(zeros, zeros, zeros, zeros, 1, (), ()), Streams(0)).partition.indices)

    def in_place(pool: Pool, generator: np.random.Generator) -> NDArray[Any]:
        generator.shuffle(pool.samples)
        return pool.samples

    assert sorted(shares(in_place)) == list(range(12))
    with pytest.raises(airfl.UserError, match=one_line(said, begins="task.partition: Cut()")):
        shares(divided)


def test_devices_share_samples_if_the_rule_says_so() -> None:
    """A device has every sample at most once all the same, and records of several devices are not protected."""

    class Overlapping(PartitionRule):
        shares = True
        again = False

        def divide(self, pool: Pool, generator: np.random.Generator) -> Partition:
            first = pool.samples[[0, 1, 1]] if self.again else pool.samples[:3]
            return Partition.of([first] * pool.devices)

    settings = small_settings("task.public_samples=0", "scheme.name=fed-spa")
    settings = settings.resolved(task={"partition": Overlapping()})
    zeros: NDArray[Any] = np.zeros(12, dtype=np.int64)
    data = RawData(zeros, zeros, zeros, zeros, 1, (), ())
    indices = np.asarray(divide(settings.task, 3, data, Streams(0)).partition.indices).reshape(3, 3)
    assert (indices == indices[0]).all()
    with pytest.raises(airfl.UserError, match="protects a record of one device"):
        build_scenario(settings, 64, np.ones(settings.run.devices))
    Overlapping.again = True
    with pytest.raises(airfl.UserError, match=r"gives device 0 sample \d+ twice"):
        divide(settings.task, 3, data, Streams(0))


PIXELS, LABELS = torch.randn(9, 1, 28, 28), torch.arange(9)


@pytest.mark.parametrize(
    ("task", "said"),
    [
        ({"model": "mlpp", "data": SAMPLE}, "model: unknown model 'mlpp'; did you mean mlp?"),
        ({"model": "mlp", "data": "mnst"}, "data: unknown data set 'mnst'; did you mean mnist?"),
        ({"model": "mlp", "data": "cifar10"}, r"'mlp' takes inputs of shape \(1, 28, 28\).*'cifar10'.*fit: cnn-cif"),
        ({"model": "mlp", "train": (PIXELS[:, 0], LABELS), "test": (PIXELS[:, 0], LABELS)}, r"train have \(28, 28\)"),
        ({"model": "mlp", "train": (PIXELS, LABELS + 5), "test": (PIXELS, LABELS)}, "is of class 1[0-3], but the mode"),
        ({"model": "mlp"}, "train: missing; set train= and test=, or data="),
        ({"model": "mlp", "data": SAMPLE, "test": (PIXELS, LABELS)}, "data: .* train= and test=, not both"),
        ({"model": nn.Linear(4, 3), "data": SAMPLE}, r"does not accept inputs float32 of shape \(2, 1, 28, 28\)"),
        ({"model": "mlp", "data": SAMPLE, "partition": [[0], [1]]}, "partition: .*with data= use a function or a rule"),
        ({"model": "mlp", "data": SAMPLE, "partition": {"name": "dirichlet", "alpha": -1}}, "alpha must be positive"),
        ({"model": 3, "data": SAMPLE}, "model: must be .*, got 3"),
        ({"model": "mlp", "data": 3}, "data: must be .*, got 3"),
    ],
)
def test_what_does_not_go_together_in_a_task_is_refused(task: dict[str, Any], said: str) -> None:
    with pytest.raises(airfl.UserError, match=said.replace("?", r"\?")):
        airfl.Task(**task)


def test_scores_for_too_few_classes_are_refused_when_the_data_is_there() -> None:
    task = airfl.Task(nn.Sequential(nn.Flatten(), nn.Linear(784, 5)), data=SAMPLE)
    with pytest.raises(airfl.UserError, match="the model has logits for the classes 0 to 4"):
        airfl.run(small_settings(), task=task)


class Miscounted(Wide):
    """Declares one parameter too many."""

    name = "miscounted"
    parameters = 25_451


class Buffered(Wide):
    """Keeps statistics."""

    name = "buffered"

    def build(self) -> nn.Module:
        return nn.Sequential(nn.Flatten(), nn.BatchNorm1d(784), nn.Linear(784, self.width), nn.Linear(self.width, 10))


class Careless(PartitionRule):
    """Draws from a generator of its own."""

    name = "careless"
    equal = True

    def divide(self, pool: Pool, generator: np.random.Generator) -> Partition:
        devices, rest = np.arange(pool.devices), len(pool.samples) - pool.devices
        owner = np.append(devices, np.random.default_rng().integers(pool.devices, size=rest))
        return Partition.of([pool.samples[owner == device] for device in devices])


class Moody(Lines):
    """Another one each time, without its scale."""

    name = "moody"
    folders = None

    def load(self, folder: Path) -> RawData:
        inputs, labels = np.random.default_rng().random((9, 2)), np.zeros(9, dtype=int)
        return RawData(inputs, labels, 0 * inputs[:1], labels[:1], 3, (), ())


@pytest.mark.parametrize(
    ("part", "wrong"),
    [
        *((one, set()) for one in (Wide, Alternating, airfl.partitions.Writer, airfl.partitions.Dirichlet, Lines)),
        (Miscounted, {"count", "outputs"}),
        (Buffered, {"module"}),
        (Careless, {"seed", "equal"}),
        (Moody, {"same", "parameters"}),
    ],
)
@pytest.mark.usefixtures("lines")
def test_airfl_check_finds_what_is_wrong(part: type[Any], wrong: set[str]) -> None:
    found = check_part(part)
    assert len(found) > 5
    assert {one.check for one in found if one.outcome == "wrong"} == wrong, found


def test_the_classes_are_listed_and_imported_by_name() -> None:
    for room, registry in ((airfl.models, MODELS), (airfl.datasets, DATASETS), (airfl.partitions, PARTITIONS)):
        assert set(registry.classes) < set(dir(room))
        assert all(getattr(room, name).name == registry.classes[name] for name in registry.classes)
        assert sys.modules[room.__name__] is room
        with pytest.raises(AttributeError):
            room.Nothing  # noqa: B018


def test_a_plugins_class_is_known_by_its_code_wherever_its_file_lies() -> None:
    kind = type("Net", (), {"__module__": "airfl_plugin_0123_4567"})
    assert path_of(kind) == "plugin.Net"
