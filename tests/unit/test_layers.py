"""Every hand-batched layer against autograd of its module, per device and per sample.

Results of one computation in two orders differ only by rounding: about 1e-12 of the largest entry in float64, and about
1e-6 in float32, of which ten times are allowed.
"""

import inspect
import operator
from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from airfl.learning.layers import LayeredModel, logit_gradients, parameters_of, parametric
from airfl.learning.layers.recurrent import Lstm
from airfl.learning.layers.table import FUNCTIONS, METHODS, MODULES
from airfl.learning.tasks.models import MODELS
from airfl.learning.tasks.models.modules import resnet18
from tests.local_steps import Applied

TOLERANCE = {torch.float64: 1e-11, torch.float32: 1e-5}
PICTURE, SEQUENCE, FEATURES, IDS = (4, 7, 6), (5, 6), (6,), (5,)


class Call(nn.Module):
    """A call between layers, of the output of each of them."""

    def __init__(self, call: Callable[..., Any], shape: tuple[int, ...], bare: bool) -> None:
        super().__init__()
        count = len(inspect.signature(call).parameters)
        self.given = nn.ModuleList(nn.Identity() if bare else leading(shape) for _ in range(count))
        self.call, self.flat = call, nn.Flatten()

    def forward(self, inputs: Tensor) -> Tensor:
        return self.flat(self.call(*(layer(inputs) for layer in self.given)))  # type: ignore[no-any-return]


def lstm(features: int = 6, units: int = 4, **given: Any) -> nn.Module:
    """Of an LSTM the outputs."""
    return Applied(nn.LSTM(features, units, **{"batch_first": True, **given}), lambda layer, x: layer(x)[0])


# By the type of the module: examples, each with the shape of one input.
MODULE_EXAMPLES: dict[type[nn.Module], list[tuple[Callable[[], nn.Module], tuple[int, ...]]]] = {
    nn.Linear: [
        *((lambda: nn.Linear(6, 5), shape) for shape in (FEATURES, SEQUENCE)),
        *((lambda: nn.Linear(6, 5, bias=False), shape) for shape in (FEATURES, SEQUENCE)),
        (lambda: nn.Linear(64, 256), (64, 64)),  # large enough for oneDNN's product
    ],
    nn.Conv2d: [
        (lambda: nn.Conv2d(4, 6, 3), PICTURE),
        (lambda: nn.Conv2d(4, 6, 3, stride=2, padding=1, bias=False), PICTURE),
        (lambda: nn.Conv2d(4, 6, 3, padding=2, dilation=2), PICTURE),
        (lambda: nn.Conv2d(4, 6, (2, 3), stride=(2, 1), padding=(0, 1), groups=2), PICTURE),
        (lambda: nn.Conv2d(1, 3, 5), (1, 7, 6)),
        (lambda: nn.Conv2d(4, 4, 3, groups=4), PICTURE),
    ],
    nn.MaxPool2d: [
        (lambda: nn.MaxPool2d(2), PICTURE),
        (lambda: nn.MaxPool2d((3, 2), stride=(2, 1), padding=1), PICTURE),
        (lambda: nn.MaxPool2d(2, stride=2, ceil_mode=True), PICTURE),
        (lambda: nn.MaxPool2d(2, stride=1, dilation=2), PICTURE),
    ],
    nn.AdaptiveAvgPool2d: [(lambda: nn.AdaptiveAvgPool2d(1), PICTURE), (lambda: nn.AdaptiveAvgPool2d((2, 3)), PICTURE)],
    nn.GroupNorm: [(lambda: nn.GroupNorm(2, 4, eps=0.1), PICTURE), (lambda: nn.GroupNorm(1, 4), PICTURE)],
    resnet18.GroupNorm: [(lambda: resnet18.GroupNorm(64), (64, 3, 2))],
    **{kind: [(kind, PICTURE), (kind, FEATURES)] for kind in (nn.ReLU, nn.Identity)},
    **{kind: [(kind, PICTURE), (kind, SEQUENCE)] for kind in (nn.Sigmoid, nn.Tanh)},
    nn.Flatten: [(nn.Flatten, PICTURE), (nn.Flatten, SEQUENCE), (nn.Flatten, FEATURES)],
    nn.Embedding: [(lambda: nn.Embedding(3, 4), IDS)],
    nn.LSTM: [
        (lstm, SEQUENCE),
        (lambda: lstm(units=3, num_layers=3), SEQUENCE),
        (lambda: lstm(units=3, num_layers=2, bias=False), SEQUENCE),
        (lstm, (1, 6)),
    ],
}

# By the function or method: what is done with one or two values, each with the shape of one input.
CALL_EXAMPLES: dict[Any, list[tuple[Callable[..., Any], tuple[int, ...]]]] = {
    operator.add: [(lambda x, y: x + y, PICTURE), (lambda x: x + x, FEATURES), (lambda x, y: y + x, SEQUENCE)],
    torch.add: [(lambda x, y: torch.add(x, y), PICTURE)],
    F.relu: [(lambda x: F.relu(x), PICTURE), (lambda x: F.relu(x, inplace=False), FEATURES)],
    torch.relu: [(lambda x: torch.relu(x), PICTURE)],
    torch.sigmoid: [(lambda x: torch.sigmoid(x), SEQUENCE)],
    torch.tanh: [(lambda x: torch.tanh(x), SEQUENCE)],
    operator.getitem: [(lambda x: x[:, -1], SEQUENCE), (lambda x: x[:, 2], SEQUENCE)],
    "long": [],  # of integers: see `test_text_model`
}


def leading(shape: tuple[int, ...]) -> nn.Module:
    """A layer with parameters that keeps a shape, whose gradients show what arrives there."""
    return nn.Conv2d(shape[0], shape[0], 1) if len(shape) == 3 else nn.Linear(shape[-1], shape[-1])


def differ(found: Tensor, wanted: Tensor) -> float:
    """Largest difference, in parts of the largest entry."""
    assert found.shape == wanted.shape
    return float((found - wanted.detach()).abs().max() / wanted.detach().abs().max().clamp(min=1e-30))


def inputs_of(module: nn.Module, shape: tuple[int, ...], devices: int, batch: int, dtype: torch.dtype) -> Tensor:
    """Normal, or integers for an embedding."""
    words = [part.num_embeddings for part in module.modules() if isinstance(part, nn.Embedding)]
    if words:
        return torch.randint(0, words[0], (devices, batch, *shape))
    return torch.randn(devices, batch, *shape, dtype=dtype)


def check(module: nn.Module, inputs: Tensor, dtype: torch.dtype, singly: bool = True, by_sample: bool = False) -> None:
    """Forward pass, gradients, single samples' gradients and their norms of devices with parameters of their own.

    The gradient with respect to the output is normal, and 0 for the last of several samples, which is padding.
    """
    devices, batch = inputs.shape[:2]
    names = [name for name, _ in module.named_parameters()]
    parts = [(part.detach() + 0.3 * torch.randn(devices, *part.shape)).to(dtype) for part in module.parameters()]
    layered = LayeredModel.of(module)
    for layer in (node.layer for node in layered.nodes if isinstance(node.layer, Lstm)):
        layer.by_sample = by_sample
    with torch.no_grad():
        tape = layered.forward(parts, inputs)
    grad_output = torch.randn_like(tape.logits)
    if batch > 1:
        grad_output[:, -1] = 0
    sums, singles, squares = [{} for _ in names], [{} for _ in names], []  # type: ignore[var-annotated]

    def visit(number: int, node: Any, saved: Any, arriving: Tensor) -> None:
        layer = parametric(node)
        found = layer.gradient(saved, arriving, devices)
        for place, part in zip(node.parameter_indices, found, strict=True):
            sums[place] = part
        if singly:
            for place, part in zip(node.parameter_indices, layer.each(saved, arriving, devices), strict=True):
                singles[place] = part
            squares.append(layer.squares(saved, arriving, devices))
        for part in parameters_of(changing, node):
            part.fill_(torch.nan)  # as if a step had been made: no layer before may look at them again

    changing = parts
    kept = [part.clone() for part in parts]
    with torch.no_grad():
        layered.backward(parts, tape, grad_output, visit)
    for device in range(devices):
        mine = [part[device].requires_grad_() for part in kept]
        outputs = torch.func.functional_call(module, dict(zip(names, mine, strict=True)), (inputs[device],))
        assert differ(tape.logits[device], outputs) < TOLERANCE[dtype]
        if not names:
            continue
        wanted = torch.autograd.grad((outputs * grad_output[device]).sum(), mine, retain_graph=True)
        for place, part in enumerate(wanted):
            assert differ(sums[place][device], part) < TOLERANCE[dtype], names[place]
        for sample in range(batch if singly else 0):
            loss = (outputs[sample] * grad_output[device, sample]).sum()
            alone = torch.autograd.grad(loss, mine, retain_graph=True)
            for place, part in enumerate(alone):
                largest = wanted[place].abs().max().clamp(min=1e-30)
                difference = (singles[place][device, sample] - part).abs().max() / largest
                assert difference < TOLERANCE[dtype], names[place]
            norm = sum(part.square().sum() for part in alone)
            found = sum(part[device, sample] for part in squares)
            assert found == pytest.approx(float(norm), rel=10 * TOLERANCE[dtype], abs=1e-30)


# Of ten million parameters, each with its gradients, a gigabyte: the first layers of a kind, and how many channels.
CUT = {"vgg11": (11, 256), "resnet18": (7, 128)}
SIZES = [(1, 1), (3, 4), (3, 1), (1, 4)]
"""Devices and samples of each; two of them at a time go round both."""


def cases(examples: Mapping[Any, list[Any]]) -> list[Any]:
    return [
        pytest.param(*example, id=f"{getattr(kind, '__name__', kind)}-{number}")
        for kind, given in examples.items()
        for number, example in enumerate(given)
    ]


def test_every_line_of_the_table_has_an_example() -> None:
    assert set(MODULE_EXAMPLES) == set(MODULES)
    assert set(CALL_EXAMPLES) == {*FUNCTIONS, *METHODS}


@pytest.mark.parametrize("before", [False, True], ids=["first", "after"])
@pytest.mark.parametrize(("build", "shape"), cases(MODULE_EXAMPLES))
def test_layer_is_autograds(build: Callable[[], nn.Module], shape: tuple[int, ...], before: bool) -> None:
    torch.manual_seed(0)
    lead = before and shape is not IDS  # integers come from no layer
    module = nn.Sequential(*[leading(shape)] * lead, build(), nn.Flatten())
    sizes = SIZES[:2] if before else SIZES[2:]
    for dtype, some in ((torch.float64, sizes), (torch.float32, SIZES[1:2])):
        module.to(dtype)
        for devices, batch in some:
            check(module, inputs_of(module, shape, devices, batch, dtype), dtype)


@pytest.mark.parametrize(("call", "shape"), cases(CALL_EXAMPLES))
def test_call_is_autograds(call: Callable[..., Any], shape: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    for bare in (False, True):
        module = Call(call, shape, bare).double()
        for devices, batch in SIZES[2:] if bare else SIZES[:2]:
            check(module, inputs_of(module, shape, devices, batch, torch.float64), torch.float64)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("by_sample", [False, True])
def test_text_model(dtype: torch.dtype, by_sample: bool) -> None:
    torch.manual_seed(2)
    spelled = nn.Sequential(nn.Embedding(9, 4), lstm(4, 3, num_layers=2), nn.Linear(3, 5))
    module = Applied(spelled, lambda layers, x: layers[2](layers[1](layers[0](x.long()))[:, -1])).to(dtype)
    for devices, batch in SIZES:
        check(module, torch.randint(0, 9, (devices, batch, 6), dtype=torch.uint8), dtype, by_sample=by_sample)


def test_way_of_an_lstm() -> None:
    ways = ((torch.float32, False, True), (torch.float32, True, False), (torch.float64, False, False))
    for dtype, by_sample, fused in ways:
        layer = Lstm(STATEFUL)
        layer.by_sample = by_sample
        parts = tuple(torch.zeros(1, *shape, dtype=dtype) for shape in ((16, 6), (16, 4), (16,), (16,)))
        _, (level,) = layer.forward(parts, (torch.zeros(1, 2, 5, 6, dtype=dtype),), 1)
        assert (level.fused is not None) == fused


def test_no_autograd_is_wanted_nor_left() -> None:
    torch.manual_seed(4)
    module, values = lstm(), torch.randn(1, 2, 5, 6)
    layered, parts = LayeredModel.of(module), [part.detach()[None] for part in module.parameters()]
    with torch.inference_mode():
        frozen = layered.forward(parts, values).logits
    free = layered.forward(parts, values).logits
    assert torch.equal(frozen, free)
    assert not free.requires_grad


def test_gradient_of_logits_is_cross_entropys() -> None:
    torch.manual_seed(5)
    logits = torch.randn(3, 4, 5, dtype=torch.float64, requires_grad=True)
    targets = torch.randint(0, 5, (3, 4))
    weights = torch.rand(3, 4, dtype=torch.float64)
    weights[1, 2:] = 0
    loss = (F.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="none") * weights.flatten()).sum()
    (wanted,) = torch.autograd.grad(loss, logits)
    found = logit_gradients(logits.detach(), targets, weights)
    assert differ(found, wanted) < 1e-14
    assert not found[1, 2:].any()


@pytest.mark.parametrize("name", [name for name in MODELS if MODELS[name].layered])
def test_models_of_the_table(name: str) -> None:
    torch.manual_seed(7)
    entry = MODELS[name]()
    module = entry.build()
    assert LayeredModel.of(module) is not None
    if name in CUT:
        count, channels = CUT[name]
        module = nn.Sequential(*list(module)[:count], nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 9))
    for part in module.parameters():
        part.data *= 0.7  # what is added in `check` is then not all there is
    dtype = torch.float32 if name == "lstm" else torch.float64
    wide = name in (*CUT, "cnn-svhn", "cnn-fashion")
    shape = (2, 1 if wide else 2, *entry.input_shape)
    inputs = torch.randint(0, 90, shape) if name == "lstm" else torch.randn(shape, dtype=dtype)
    check(module.to(dtype), inputs, dtype, singly=not wide)


class Penalised(nn.Sequential):
    """A model with a term of the loss of its own."""

    def penalty(self, parameters: dict[str, Tensor]) -> Tensor:
        return parameters["0.weight"].sum()


class Pair(Applied):
    """A model of two inputs."""

    def forward(self, inputs: Tensor, other: Tensor) -> Tensor:  # type: ignore[override]
        return self.module(self.call(inputs, other))  # type: ignore[no-any-return]


def two(tied: bool = False) -> nn.Sequential:
    """Two layers, which may have one weight."""
    layers = nn.Sequential(nn.Linear(6, 6), nn.Linear(6, 6))
    if tied:
        layers[1].weight = layers[0].weight
    return layers


LINEAR, CONVOLUTION = nn.Linear(6, 6), nn.Conv2d(4, 4, 3, padding=1)
STATEFUL = nn.LSTM(6, 4, batch_first=True)
REFUSED: dict[str, Callable[[], nn.Module]] = {
    "shared layer": lambda: Applied(LINEAR, lambda layer, x: layer(layer(x))),
    "shared parameter": lambda: two(tied=True),
    "unused parameter": lambda: Applied(two(), lambda both, x: both[0](x)),
    "penalty": lambda: Penalised(nn.Linear(6, 6)),
    "logistic": MODELS["logistic"]().build,
    "two inputs": lambda: Pair(LINEAR, torch.add),
    "dropout": lambda: nn.Sequential(nn.Linear(6, 6), nn.Dropout()),
    "dropout function": lambda: Applied(LINEAR, lambda layer, x: F.dropout(layer(x))),
    "batch norm": lambda: nn.Sequential(nn.Conv2d(4, 4, 3), nn.BatchNorm2d(4)),
    "group norm without parameters": lambda: nn.Sequential(nn.GroupNorm(2, 4, affine=False), nn.Flatten()),
    "bidirectional": lambda: lstm(bidirectional=True),
    "dropout between levels": lambda: lstm(num_layers=2, dropout=0.5),
    "projection": lambda: lstm(proj_size=2),
    "steps first": lambda: lstm(batch_first=False),
    "given state": lambda: Applied(STATEFUL, lambda layer, x: layer(x, (x, x))[0]),
    "final state": lambda: Applied(STATEFUL, lambda layer, x: layer(x)[1][0]),
    "final states": lambda: Applied(nn.LSTM(6, 4, batch_first=True), lambda layer, x: torch.tanh(layer(x)[1])),
    "embedding with padding": lambda: nn.Embedding(3, 4, padding_idx=0),
    "embedding of a largest norm": lambda: nn.Embedding(3, 4, max_norm=1.0),
    "embedding of scaled gradients": lambda: nn.Embedding(3, 4, scale_grad_by_freq=True),
    "mirrored edges": lambda: nn.Conv2d(4, 4, 3, padding=1, padding_mode="reflect"),
    "padding by name": lambda: nn.Conv2d(4, 4, 3, padding="same"),
    "pooling to the input's size": lambda: nn.AdaptiveAvgPool2d((None, 2)),
    "flattening in part": lambda: nn.Sequential(nn.Conv2d(4, 4, 3), nn.Flatten(2)),
    "linear over pictures": lambda: nn.Sequential(CONVOLUTION, nn.Linear(6, 6)),
    "linear over pictures, further on": lambda: nn.Sequential(CONVOLUTION, nn.ReLU(), nn.Linear(6, 6)),
    "index of a picture": lambda: Applied(CONVOLUTION, lambda layer, x: layer(x)[:, 0]),
    "index of a sample": lambda: Applied(LINEAR, lambda layer, x: layer(x)[0]),
    "index of a sample's item": lambda: Applied(LINEAR, lambda layer, x: layer(x)[0, 1]),
    "slice": lambda: Applied(LINEAR, lambda layer, x: layer(x)[:, 1:]),
    "index of two dimensions": lambda: Applied(LINEAR, lambda layer, x: layer(x)[:, 1, 0]),
    "added number": lambda: Applied(LINEAR, lambda layer, x: layer(x) + 1),
    "scaled sum": lambda: Applied(LINEAR, lambda layer, x: torch.add(x, layer(x), alpha=2)),
    "in place": lambda: Applied(LINEAR, lambda layer, x: F.relu(layer(x), True)),
    "unknown function": lambda: Applied(LINEAR, lambda layer, x: torch.cat([layer(x), x])),
    "unknown method": lambda: Applied(LINEAR, lambda layer, x: layer(x).exp()),
    "parameter of its own": lambda: Applied(LINEAR, lambda layer, x: layer(x) + layer.weight),
    "branch": lambda: Applied(LINEAR, lambda layer, x: layer(x) if x.sum() > 0 else x),
    "length": lambda: Applied(LINEAR, lambda layer, x: layer(x) if len(x) > 3 else x),
    "unused layer": lambda: Applied(two(), lambda both, x: (both[0](x), both[1](x))[1]),
    "output before the last": lambda: Applied(LINEAR, lambda layer, x: (y := layer(x), torch.tanh(y))[0]),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(name: str) -> None:
    module = REFUSED[name]()  # a bare layer would be taken apart, and refused for its insides
    assert LayeredModel.of(nn.Sequential(module) if type(module) in MODULES else module) is None
