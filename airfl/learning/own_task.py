"""User-defined tasks: model, data, partition, loss and metrics, for `airfl.run(settings, task=...)`."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, final

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils import data as torch_data

from airfl.config import Settings
from airfl.config.part_keys import NamedPart
from airfl.config.parts import error_text
from airfl.config.task import DATASET, MODEL, OWN, PARTITION, TaskSettings
from airfl.errors import UserError, unknown_name
from airfl.learning.fingerprint import fingerprint, of_code, of_tensors, path_of
from airfl.learning.flat import FlatModel, Loss
from airfl.learning.promises import SAMPLES, check_model, check_targets, takes, try_out
from airfl.learning.samples import Samples, TaskIdentity, seeded
from airfl.learning.sgd import normalise
from airfl.learning.tasks import check_shapes, display_name
from airfl.learning.tasks.datasets.dataset import Dataset
from airfl.learning.tasks.datasets.raw import RawData
from airfl.learning.tasks.models.model import Model
from airfl.learning.tasks.partitions.own import Shares, checked_shares, shares_of
from airfl.learning.tasks.partitions.registry import PARTITIONS
from airfl.learning.tasks.partitions.rule import PartitionRule
from airfl.runtime.streams import Streams
from airfl.storage.fingerprint import fingerprint as of_part
from airfl.storage.fingerprint import functions_of, is_own
from airfl.storage.trace.schema import METRIC_NAME, MOST_METRICS
from channels.part import Part, PartError

LONGEST_NAME, LONGEST_MODEL = 80, 10_000
"""Most characters of a task's name, and of the printed model."""
Partitioning = (
    str | PartitionRule | np.ndarray | Tensor | Sequence[Any] | Callable[[np.ndarray, int, np.random.Generator], Any]
)


@final
@dataclass(frozen=True, eq=False)
class Task:
    """A learning task with your own model or data.

    Attributes:
        model: A `torch.nn.Module`, whose current parameters are the initial ones, or a function that returns one
            and is called under the run's seed. All parameters must be float32 and trainable. The module must have no
            buffers and no randomness in `forward`, and its output for a sample must not depend on the rest of the
            batch. A name of `airfl models` or an `airfl.models.Model` is possible too.
        train: (inputs, targets), arrays or tensors with one row per sample, or a `torch.utils.data.Dataset` of such
            pairs, which is read once. Inputs of any shape are passed to the model unchanged; floats become float32. The
            task has its own copy, so that later changes of the arrays do not affect it.
            Targets are class indices, or whatever the loss expects; integers become int64, floats float32.
        test: The test samples, in the same form.
        partition: How the training samples are divided among the devices; None, the default, leaves it to
            `task.partition`. A name of that setting ("iid", "class", "dirichlet") or an object of `airfl.partitions`;
            the device of each sample, [n], -1 for none; a list with the sample indices of each device; or a function
            (targets, devices, generator) that returns such a list, of indices into those targets.
        loss: (outputs, targets) -> per-sample losses, [batch]; None, the default, is cross-entropy.
        metrics: Name -> (outputs, targets) -> per-sample values, [batch]. Their mean over the test samples is the
            variable metric_NAME of the trace. With cross-entropy, accuracy is always recorded.
        name: Name for traces and messages; by default the model's name or class.
        data: Instead of train and test: a name of `airfl datasets` or an `airfl.datasets.Dataset`. It is located and
            loaded when a run starts, with that run's `data_dir` and AIRFL_DATA, and normalised as for other models.
        dimension: d, the number of parameters; determined from the model.
        by_pixel: Whether the model accepts images in channels-last memory format; determined from the model, for `data`
            when a run starts.

    Raises UserError for an argument that does not meet these conditions.
    """

    model: nn.Module | Callable[[], nn.Module] | Model | str
    train: Any = field(default=None, repr=False)
    test: Any = field(default=None, repr=False)
    partition: Partitioning | None = field(default=None, repr=False)
    loss: Loss | None = None
    metrics: Mapping[str, Loss] = field(default_factory=dict)
    name: str = ""
    data: Dataset | str | None = None
    dimension: int = field(init=False)
    by_pixel: bool | None = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Read the data, and check the model, loss and metrics on a few samples."""
        self._set("model", _part(self.model, MODEL, "model"))
        if not callable(self.model) and not isinstance(self.model, Model):  # modules are callable
            raise UserError(
                f"model: must be a torch.nn.Module, a function that returns one, a Model or its name, got "
                f"{_short(self.model)}"
            )
        self._set("metrics", _metrics(self.metrics))
        if self.loss is not None and not callable(self.loss):
            raise UserError(f"loss: must be a function (outputs, targets), got {_short(self.loss)}")
        if isinstance(self.model, nn.Module):
            check_model(self.model)
            self._set("model", copy.deepcopy(self.model).cpu())
        module = self._first_module()
        self._set("dimension", FlatModel(module).dimension)
        self._check_declared()
        own_name = self.model.name if isinstance(self.model, Model) else ""
        self._set("name", _name(self.name or own_name or type(module).__name__))
        self._set("by_pixel", None)
        self._set("data", _part(self.data, DATASET, "data"))
        if isinstance(self.data, Dataset):
            self._set("partition", _partition(self.partition, None))
            self._check_named(self.data, module)
            return
        if self.data is not None:
            raise UserError(f"data: must be a name of `airfl datasets` or a Dataset, got {_short(self.data)}")
        if self.train is None or self.test is None:
            raise UserError("train: missing; set train= and test=, or data= to use a data set by name")
        self._set("train", read(self.train, "train"))
        self._set("test", read(self.test, "test"))
        self._check_alike()
        self._set("partition", _partition(self.partition, len(self.samples)))
        self._set("by_pixel", self.try_on(module, self._raw()))

    @property
    def code(self) -> list[Any]:
        """The classes and functions of the task, which may be user-defined."""
        model = {type(one) for one in self.model.modules()} if isinstance(self.model, nn.Module) else {self.model}
        functions = [self.loss, *self.metrics.values(), self.partition]
        parts = [one for one in (self.model, self.data, self.partition) if isinstance(one, Part)]
        held = [value for part in parts for value in functions_of(part)]
        return [*model, *map(type, parts), *held, *(one for one in functions if callable(one))]

    @property
    def samples(self) -> Samples:
        """The training samples."""
        return Samples(*self.train)

    @property
    def raw(self) -> RawData | None:
        """The data in the form of a loader's result, without a copy; None if a data set is named."""
        return None if self.data is not None else self._raw()

    @property
    def own_keys(self) -> tuple[str, ...]:
        """Dotted keys of the settings that the task replaces."""
        return ("task.dataset", "task.model", *(() if self.partition is None else ("task.partition",)))

    @property
    def shares(self) -> Shares | None:
        """The user-defined partition; None for a name or a `PartitionRule`."""
        parts = (str, PartitionRule)
        return None if self.partition is None or isinstance(self.partition, parts) else self.partition  # type: ignore[return-value]

    def settings(self, base: Settings) -> Settings:
        """Return the settings with the task's model, data and partition; "own" for those without a name."""
        model = self.model if isinstance(self.model, Model) else OWN
        parts: dict[str, Any] = {"dataset": self.data or OWN, "model": model}
        if self.shares is not None:
            parts["partition"] = OWN
        elif self.partition is not None:
            parts |= PARTITION.flattened({"partition": self.partition}, TaskSettings.model_fields)
        return base.resolved(task=parts)

    def module(self, streams: Streams) -> nn.Module:
        """Return a model with the initial parameters of a run."""
        if isinstance(self.model, nn.Module):
            return copy.deepcopy(self.model)
        module = self._build(streams)
        if (dimension := FlatModel(module).dimension) != self.dimension:
            raise UserError(
                f"model: the function returned {dimension:,} parameters, but {self.dimension:,} at the first call"
            )
        return module

    def try_on(self, module: nn.Module, raw: RawData) -> bool:
        """Check the parts on this data (raises UserError); return whether the model accepts channels-last images."""
        inputs, targets = (torch.from_numpy(np.array(one[:SAMPLES])) for one in (raw.train_inputs, raw.train_targets))
        inputs = normalise(inputs, raw.mean, raw.std)
        by_pixel = try_out(module, inputs, targets, self.loss, self.metrics)
        if self.loss is None:
            with torch.inference_mode():
                classes = module(inputs[:1]).shape[1]
            for where, targets_there in (("train", raw.train_targets), ("test", raw.test_targets)):
                check_targets(torch.from_numpy(np.asarray(targets_there)), classes, where)
        return by_pixel

    def identity(self, module: nn.Module) -> TaskIdentity:
        """Return the identity of the task, for this model at its initial parameters."""
        initial = of_tensors(list(module.parameters()))
        parts = {
            "model": self._model(module, initial),
            "data": self._data,
            "loss": _code(self.loss, "cross-entropy"),
            "metrics": ", ".join(f"{name}: {_code(metric, '')}" for name, metric in self.metrics.items()) or "none",
            "partition": self._partition,
        }
        text = re.sub(r"0x[0-9a-f]+", "0x", repr(module))[:LONGEST_MODEL]
        return TaskIdentity(self.name, _plain(text), {name: _plain(value) for name, value in parts.items()}, initial)

    def _raw(self) -> RawData:
        train_inputs, train_targets, test_inputs, test_targets = (part.numpy() for part in (*self.train, *self.test))
        return RawData(train_inputs, train_targets, test_inputs, test_targets, classes=0, mean=(), std=())

    def _first_module(self) -> nn.Module:
        """Return a model for the checks; raises UserError if a function does not return the same one every time."""
        if isinstance(self.model, nn.Module):
            return self.model
        module = self._build(Streams(0))
        if isinstance(self.model, Model) and not is_own(self.model):
            return module
        check_model(module)
        if of_tensors(list(module.parameters())) != of_tensors(list(self._build(Streams(0)).parameters())):
            raise UserError(
                "model: the function returns different parameters under the same seed; draw them from torch's global "
                "generator only"
            )
        return module

    def _build(self, streams: Streams) -> nn.Module:
        """Call the function that returns the model, under the run's seed."""
        try:
            module = seeded(self.model.build if isinstance(self.model, Model) else self.model, streams)  # type: ignore[arg-type]
        except UserError:
            raise
        except Exception as error:
            lines = str(error).strip().splitlines()
            raise UserError(
                f"model: the function failed ({type(error).__name__}: {lines[0][:200] if lines else ''})"
            ) from error
        if not isinstance(module, nn.Module):
            raise UserError(f"model: the function must return a torch.nn.Module, got {_short(module)}")
        return module.cpu()

    def _check_declared(self) -> None:
        declared = self.model.parameters if isinstance(self.model, Model) else None
        if declared is not None and declared != self.dimension:
            raise UserError(f"model: {self.model!r} declares {declared:,} parameters but has {self.dimension:,}")

    def _check_named(self, data: Dataset, module: nn.Module) -> None:
        """Check the model against a named data set, as far as possible without the data."""
        if self.train is not None or self.test is not None:
            raise UserError("data: set either data=, or train= and test=, not both")
        if isinstance(self.model, Model) and self.loss is None:
            check_shapes(self.model, data)
        if isinstance(self.model, Model) and tuple(self.model.input_shape) != tuple(data.input_shape):
            raise UserError(_wrong_shape(self.model, f"data set {display_name(data)} has {tuple(data.input_shape)}"))
        if not is_own(data):  # the type of its inputs is known
            kind = torch.float32 if data.kind == "pixels" else torch.uint8
            takes(module, torch.zeros((2, *data.input_shape), dtype=kind))

    def _check_alike(self) -> None:
        """Check that training and test samples have the same types and shapes, which the model accepts."""
        for at, what in ((0, "inputs"), (1, "targets")):
            here, there = self.train[at], self.test[at]
            if here.shape[1:] != there.shape[1:] or here.dtype != there.dtype:
                raise UserError(
                    f"test: {what} must be {here.dtype} of shape {tuple(here.shape[1:])} each, as in train, got "
                    f"{there.dtype} of {tuple(there.shape[1:])}"
                )
        shape = tuple(self.train[0].shape[1:])
        if isinstance(self.model, Model) and shape != tuple(self.model.input_shape):
            raise UserError(_wrong_shape(self.model, f"those of train have {shape}"))

    def _model(self, module: nn.Module, initial: str) -> str:
        """Return the model as text: its origin and a fingerprint."""
        if isinstance(self.model, Model):
            if not is_own(self.model):
                return self.model.name
            return f"{path_of(type(self.model))} {fingerprint(of_code(module), of_part(self.model))}"
        fixed = isinstance(self.model, nn.Module)
        return f"{path_of(type(module))} {fingerprint(of_code(module), initial if fixed else '')}"

    @cached_property
    def fingerprint(self) -> str:
        """Fingerprint of all parts of the task, the same for every seed."""
        return self.identity(self.module(Streams(0))).fingerprint

    @cached_property
    def _data(self) -> str:
        if isinstance(self.data, Dataset):
            return f"{path_of(type(self.data))} {of_part(self.data)}" if is_own(self.data) else self.data.name
        return of_tensors([*self.train, *self.test])

    @cached_property
    def _partition(self) -> str:
        """The partition as text: a name, a rule, or a fingerprint of the function's code or of the indices."""
        if self.partition is None or isinstance(self.partition, str):
            return self.partition or "as the settings say"
        if isinstance(self.partition, PartitionRule):
            return f"{self.partition!r}{f' {of_part(self.partition)}' if is_own(self.partition) else ''}"
        if callable(self.partition):
            return _code(self.partition, "")
        return fingerprint(*(of_tensors([torch.from_numpy(one)]) for one in self.partition))

    def _set(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)


def _part(value: Any, slot: NamedPart[Any], what: str) -> Any:
    """Return the part that a name, table or class of parts stands for (or raise UserError); other values unchanged."""
    registry = slot.registry
    if isinstance(value, type) and issubclass(value, registry.base):
        value = {"name": value}
    if not isinstance(value, str | Mapping):
        return value
    try:
        return registry.build(value)
    except PartError as error:
        raise UserError(f"{what}: {error}" if isinstance(value, str) else error_text(error, what)) from None


def _wrong_shape(model: Model, data: str) -> str:
    return f"model: {display_name(model)} takes inputs of shape {tuple(model.input_shape)}, but {data}"


def read(samples: Any, what: str) -> tuple[Tensor, Tensor]:
    """Return inputs and targets of a pair of arrays or of a data set of pairs; raises UserError for anything else."""
    given: tuple[Any, ...] = ()
    if isinstance(samples, torch_data.TensorDataset) and len(samples.tensors) == 2:
        samples = samples.tensors
    if isinstance(samples, torch_data.Dataset):
        pair = _of_dataset(samples, what)
    elif isinstance(samples, Sequence) and not isinstance(samples, str | bytes) and len(samples) == 2:
        pair = _tensor(samples[0], f"{what}: inputs"), _tensor(samples[1], f"{what}: targets")
        given = tuple(samples)
    else:
        raise UserError(f"{what}: must be (inputs, targets) or a torch.utils.data.Dataset, got {_short(samples)}")
    inputs, targets = _checked(pair[0], f"{what}: inputs"), _checked(pair[1], f"{what}: targets")
    if not targets.is_floating_point() and not targets.is_complex():
        targets = targets.long()
    if len(inputs) != len(targets) or not len(inputs):
        raise UserError(
            f"{what}: must have one input and one target per sample, got {len(inputs):,} inputs and {len(targets):,} "
            "targets"
        )
    # Their owner may change arrays later, and the fingerprint of the task would not be that of what it trains on.
    inputs, targets = (
        one.clone() if any(_shares_memory(one, other) for other in given) else one for one in (inputs, targets)
    )
    return inputs, targets


def _shares_memory(values: Tensor, given: Any) -> bool:
    """Return whether a tensor lies in the memory of what it was made from; lists were copied."""
    if isinstance(given, Tensor):
        return values.untyped_storage().data_ptr() == given.untyped_storage().data_ptr()
    return not isinstance(given, list | tuple) and np.may_share_memory(values.numpy(), np.asarray(given))


def _of_dataset(dataset: torch_data.Dataset[Any], what: str) -> tuple[Tensor, Tensor]:
    try:
        count = len(dataset)  # type: ignore[arg-type]
    except TypeError:
        raise UserError(f"{what}: {type(dataset).__name__} has no length; define __len__") from None
    items = iter(dataset) if isinstance(dataset, torch_data.IterableDataset) else (dataset[at] for at in range(count))
    arrays: list[Tensor] = []
    done = 0
    for row, sample in zip(range(count), items, strict=False):
        if not isinstance(sample, Sequence) or isinstance(sample, str | bytes) or len(sample) != 2:
            raise UserError(f"{what}: sample {row} must be a pair (input, target), got {_short(sample)}")
        pair = [_tensor(part, f"{what}: sample {row}") for part in sample]
        if not arrays:
            arrays = [part.new_empty((count, *part.shape)) for part in pair]
        for array, part in zip(arrays, pair, strict=True):
            if part.shape != array.shape[1:] or part.dtype != array.dtype:
                raise UserError(
                    f"{what}: sample {row} is {part.dtype} of shape {tuple(part.shape)}, but those before it are "
                    f"{array.dtype} of {tuple(array.shape[1:])}; all must be alike"
                )
            array[row] = part
        done = row + 1
    if not arrays or done != count:
        raise UserError(f"{what}: {type(dataset).__name__} has a length of {count:,} but yields {done:,} samples")
    return arrays[0], arrays[1]


def _tensor(values: Any, what: str) -> Tensor:
    if isinstance(values, Tensor):
        if values.layout != torch.strided:
            raise UserError(f"{what} must be dense, got a sparse tensor; call to_dense()")
        return values.detach().cpu().contiguous()
    try:
        array = np.ascontiguousarray(values) if np.ndim(values) else np.asarray(values)
        return torch.from_numpy(array if array.flags.writeable else array.copy())
    except (TypeError, ValueError) as error:
        raise UserError(f"{what} must be numbers, got {_short(values)} ({str(error)[:100]})") from None


def _checked(values: Tensor, what: str) -> Tensor:
    """Return the values with floats as float32; raises UserError if some are not finite."""
    if values.dim() == 0:
        raise UserError(f"{what} must have one row per sample, got a single number")
    if not values.is_floating_point():
        return values
    values = values.float()
    if not bool(values.isfinite().all()):
        row = int(torch.nonzero(~values.isfinite().reshape(len(values), -1).all(dim=1))[0])
        raise UserError(f"{what} are not finite in sample {row}; remove or correct such samples")
    return values


def _metrics(value: Any) -> dict[str, Loss]:
    if not isinstance(value, Mapping):
        raise UserError(f"metrics: must map names to functions, got {_short(value)}")
    for name, metric in value.items():
        if not isinstance(name, str) or not METRIC_NAME.fullmatch(name):
            raise UserError(
                f"metrics: names must be 1 to 32 lower-case letters, digits and _, starting with a letter, got "
                f"{_short(name)}"
            )
        if not callable(metric):
            raise UserError(f"metrics: {name!r} must be a function (outputs, targets), got {_short(metric)}")
    if len(value) > MOST_METRICS:
        raise UserError(f"metrics: at most {MOST_METRICS} are possible, got {len(value)}")
    return dict(value)


def _partition(value: Any, rows: int | None) -> Any:
    """Return the checked partition: None, a name, a rule, a function, or the rows of each device.

    rows: number of training samples; None if a data set is named, which is not read yet.
    """
    value = _part(value, PARTITION, "partition") if not isinstance(value, str) else value
    if value is None or callable(value) or isinstance(value, PartitionRule):
        return value
    if isinstance(value, str):
        allowed = [name for name in PARTITIONS if rows is None or not PARTITIONS[name].by_writer]
        if value not in allowed:
            raise UserError(unknown_name("partition", value, allowed))
        return value
    if rows is None:
        raise UserError("partition: lists of samples need train= and test=; with data= use a function or a rule")
    if isinstance(value, Tensor):
        value = value.detach().cpu().numpy()
    if isinstance(value, Sequence) and value and all(np.ndim(one) == 0 for one in value):
        value = np.asarray(value)
    if not isinstance(value, np.ndarray) or value.dtype == object:
        return checked_shares([one.cpu() if isinstance(one, Tensor) else one for one in value], rows, "it")
    if value.ndim == 2:
        return checked_shares(value, rows, "it")
    if value.shape != (rows,) or value.dtype.kind not in "iu" or int(value.min()) < -1:
        raise UserError(
            f"partition: must be the device of each of the {rows:,} training samples, from 0, -1 for none, got "
            f"{value.dtype} of shape {value.shape}"
        )
    return shares_of(value)


def _name(value: Any) -> str:
    if not isinstance(value, str) or not value.isprintable() or not 0 < len(value) <= LONGEST_NAME:
        raise UserError(f"name: must be one line of 1 to {LONGEST_NAME} characters, got {_short(value)}")
    return value


def _code(thing: Any, default: str) -> str:
    return default if thing is None else f"{path_of(thing)} {of_code(thing)}"


def _plain(text: str) -> str:
    """Return the text with characters replaced that cannot be encoded as UTF-8."""
    return text.encode(errors="replace").decode()


def _short(value: Any) -> str:
    kind = type(value).__name__
    return f"{json.dumps(value)[:60]} ({kind})" if isinstance(value, str | int | float | bool) else kind
