"""The papers' models, layer by layer, since equal parameter counts could hide two mistakes."""

from itertools import pairwise

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from airfl.errors import UserError
from airfl.learning.chosen_task import check_fit
from airfl.learning.engines.choose import _activations
from airfl.learning.flat import FlatModel
from airfl.learning.layers import LayeredModel
from airfl.learning.tasks import build_model, check_engine
from airfl.learning.tasks.models import MODELS
from airfl.learning.tasks.models.modules.resnet18 import GroupNorm
from tests.conftest import small_settings
from tests.refusals import one_line


def shapes(model: nn.Module, kind: type[nn.Module]) -> list[tuple[int, ...]]:
    """Weight shapes of all modules of that kind, in order."""
    return [tuple(module.weight.shape) for module in model.modules() if isinstance(module, kind)]


def has_bias(model: nn.Module, kind: type[nn.Module]) -> set[bool]:
    return {module.bias is not None for module in model.modules() if isinstance(module, kind)}


def test_vgg11_is_configuration_a_with_a_small_head() -> None:
    model = MODELS["vgg11"]().build()
    widths = [3, 64, 128, 256, 256, 512, 512, 512, 512]
    assert shapes(model, nn.Conv2d) == [(after, before, 3, 3) for before, after in pairwise(widths)]
    assert shapes(model, nn.Linear) == [(512, 512), (512, 512), (10, 512)]
    assert has_bias(model, nn.Conv2d) == {True}
    kinds = {nn.Sequential, nn.Conv2d, nn.ReLU, nn.MaxPool2d, nn.Flatten, nn.Linear}
    assert {type(module) for module in model.modules()} == kinds


def test_vgg11_keeps_its_signal_at_the_start() -> None:
    """He initialisation: the features of unit inputs have about unit size after eight convolutions, not 10^-2."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = MODELS["vgg11"]().build()
        inputs = torch.randn(8, 3, 32, 32)
    flat = next(place for place, module in enumerate(model) if isinstance(module, nn.Flatten))
    with torch.no_grad():
        features = model[: flat + 1](inputs)
    assert features.shape == (8, 512)
    assert 0.3 < float(features.square().mean().sqrt()) < 10


def test_resnet18_has_the_layers_of_he_et_al() -> None:
    model = MODELS["resnet18"]().build()
    convolutions = shapes(model, nn.Conv2d)
    assert (convolutions[0], sum(shape[2:] == (3, 3) for shape in convolutions)) == ((64, 1, 7, 7), 16)
    shortcuts = [shape[:2] for shape in convolutions if shape[2:] == (1, 1)]
    assert shortcuts == [(128, 64), (256, 128), (512, 256)]
    assert shapes(model, nn.Linear) == [(62, 512)]
    assert has_bias(model, nn.Conv2d) == {False}
    assert not list(model.buffers())  # a batch norm would have some
    # One norm a convolution, one affine pair a group of 32 channels.
    assert [shape[0] for shape in shapes(model, GroupNorm)] == [shape[0] // 32 for shape in convolutions]
    # 28 -> 14 by the stem, 7 by the pool, 4, 2, 1 by the stages.
    assert model[:-3](torch.zeros(2, 1, 28, 28)).shape == (2, 512, 1, 1)


def test_group_norm_normalises_each_group_and_scales_it() -> None:
    norm = GroupNorm(96)
    assert norm.groups == 3
    with torch.no_grad():
        norm.weight.copy_(torch.tensor([1.0, 2.0, 3.0]))
        norm.bias.copy_(torch.tensor([0.0, 10.0, 20.0]))
    inputs = 5 + 7 * torch.randn(4, 96, 6, 6, generator=torch.Generator().manual_seed(0))
    outputs = norm(inputs).detach()
    groups = outputs.reshape(4, 3, -1)
    torch.testing.assert_close(groups.mean(dim=2), norm.bias.detach().expand(4, 3), atol=1e-4, rtol=0)
    torch.testing.assert_close(groups.std(dim=2, correction=0), norm.weight.detach().expand(4, 3), atol=1e-3, rtol=0)
    torch.testing.assert_close(outputs[:, :32], F.group_norm(inputs, 3)[:, :32])


@pytest.mark.parametrize(
    ("name", "convolutions", "dense"),
    [
        ("cnn-cifar10", [(64, 3, 3, 3), (128, 64, 3, 3), (256, 128, 3, 3)], [(128, 1024), (256, 128), (10, 256)]),
        ("cnn-fashion", [(32, 1, 5, 5), (64, 32, 5, 5)], [(512, 3136), (10, 512)]),
        ("cnn-svhn", [(64, 3, 5, 5), (128, 64, 5, 5)], [(384, 8192), (192, 384), (10, 192)]),
        ("cnn-femnist", [(10, 1, 5, 5), (20, 10, 5, 5)], [(50, 320), (62, 50)]),
        ("lenet-cifar10", [(6, 3, 5, 5), (16, 6, 5, 5)], [(120, 400), (84, 120), (10, 84)]),
        ("mlp-sigmoid", [], [(64, 784), (10, 64)]),
    ],
)
def test_the_other_models(name: str, convolutions: list[tuple[int, ...]], dense: list[tuple[int, ...]]) -> None:
    model = MODELS[name]().build()
    assert (shapes(model, nn.Conv2d), shapes(model, nn.Linear)) == (convolutions, dense)
    assert any(isinstance(module, nn.Sigmoid) for module in model.modules()) == (name == "mlp-sigmoid")


@pytest.mark.parametrize("name", MODELS)
def test_every_model_takes_what_its_data_set_gives(name: str) -> None:
    """Bytes where inputs are neither pixels nor generated; exact counts."""
    entry, module = MODELS[name](), MODELS[name]().build()
    assert sum(parameter.numel() for parameter in module.parameters()) == entry.parameters
    floats = len(entry.input_shape) == 3 or name == "softmax"
    inputs = torch.zeros(3, *entry.input_shape, dtype=torch.float32 if floats else torch.uint8)
    logits = module(inputs)
    assert (logits.shape, logits.dtype) == ((3, entry.classes), torch.float32)
    assert _activations(module, inputs[:1]) >= entry.classes
    # vmap knows no recurrent layers.
    assert entry.batched == (not any(isinstance(part, nn.RNNBase) for part in module.modules()))
    assert entry.layered == (LayeredModel.of(module) is not None)


def test_the_lstm_is_two_layers_of_256_on_an_embedding_of_8() -> None:
    model = MODELS["lstm"]().build()
    assert shapes(model, nn.Embedding) == [(90, 8)]
    assert shapes(model, nn.Linear) == [(90, 256)]
    [lstm] = [part for part in model.modules() if isinstance(part, nn.LSTM)]
    assert (lstm.input_size, lstm.hidden_size, lstm.num_layers, lstm.bidirectional) == (8, 256, 2, False)


def test_the_lstm_tells_the_next_character_from_all_before() -> None:
    """Against the cells' equations step by step; the first character matters, and so does the order."""
    model = MODELS["lstm"]().build()
    [lstm] = [part for part in model.modules() if isinstance(part, nn.LSTM)]
    text = torch.randint(90, (2, 80), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    named = dict(model.named_parameters())
    steps = F.embedding(text.long(), named["embedding.weight"])
    for layer in range(lstm.num_layers):
        hidden = cell = torch.zeros(2, 256)
        outputs = []
        for step in steps.unbind(dim=1):
            gates = F.linear(step, *(getattr(lstm, f"{kind}_ih_l{layer}") for kind in ("weight", "bias")))
            gates = gates + F.linear(hidden, *(getattr(lstm, f"{kind}_hh_l{layer}") for kind in ("weight", "bias")))
            enter, forget, new, out = gates.chunk(4, dim=1)
            cell = forget.sigmoid() * cell + enter.sigmoid() * new.tanh()
            hidden = out.sigmoid() * cell.tanh()
            outputs.append(hidden)
        steps = torch.stack(outputs, dim=1)
    expected = F.linear(steps[:, -1], named["dense.weight"], named["dense.bias"])
    torch.testing.assert_close(model(text), expected, atol=1e-5, rtol=1e-4)


def test_the_lstm_is_computed_under_the_parameters_it_is_given() -> None:
    """Recurrent layers hold their weights twice: a flat view must replace both, and gradients must reach it."""
    module, other = MODELS["lstm"]().build(), MODELS["lstm"]().build()
    model, text = FlatModel(module), torch.arange(80, dtype=torch.uint8).repeat(4, 1)
    vector = FlatModel(other).initial().requires_grad_()
    losses = model.losses(model.split(vector), text, torch.tensor([1, 2, 3, 4]))
    torch.testing.assert_close(losses, F.cross_entropy(other(text), torch.tensor([1, 2, 3, 4]), reduction="none"))
    losses.sum().backward()
    assert all(part.abs().sum() > 0 for part in model.split(vector.grad))


@pytest.mark.parametrize(
    ("model", "engine"),
    [("lstm", "vmap"), ("logistic", "layers-serial"), ("logistic", "layers"), ("logistic", "layers-parallel")],
)
def test_an_engine_that_does_not_know_the_model_is_refused(model: str, engine: str) -> None:
    dataset = {"lstm": "shakespeare-plays", "logistic": "a9a"}[model]
    settings = small_settings(f"task.dataset={dataset}", f"task.model={model}", f"local.engine={engine}")
    for check in (lambda given: check_engine(given.local.engine, given.task.model_part), check_fit):
        with pytest.raises(UserError, match=one_line(f"{model!r}", begins=f"local.engine: {engine!r}")):
            check(settings)
    check_engine(engine, MODELS["mlp"]())


def test_a_model_must_take_what_the_data_set_has() -> None:
    with pytest.raises(UserError, match=r"'mlp' takes inputs of shape \(1, 28, 28\).*\(123,\) in 2.*fit: logistic"):
        check_fit(small_settings("task.dataset=a9a"))


def test_activations_of_recurrent_layers_are_counted() -> None:
    """Embedding 80 x 8; 80 x 256 outputs beside two layers' last states; 90 logits, of the dense layer and of all."""
    text = torch.zeros(1, 80, dtype=torch.uint8)
    assert _activations(MODELS["lstm"]().build(), text) == 80 * 8 + 80 * 256 + 2 * 2 * 256 + 90 + 90
    assert _activations(MODELS["mlp"]().build(), torch.zeros(1, 1, 28, 28)) == 784 + 32 + 32 + 10 + 10


@pytest.mark.parametrize(("name", "dimension"), [("logistic", 123), ("logistic-bias", 124)])
def test_logistic_regression_has_the_papers_loss_and_gradient(name: str, dimension: int) -> None:
    """SoteriaFL appendix A.1: log(1 + exp(-b a.x)) + 0.2 sum x^2 / (1 + x^2), and its derivative by hand. With a bias,
    a has a constant feature of 1."""
    model = FlatModel(MODELS[name]().build())
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(dimension, generator=generator).requires_grad_()
    a = torch.randint(2, (50, 123), dtype=torch.uint8, generator=generator)
    targets = torch.randint(2, (50,), generator=generator)
    losses = model.losses(model.split(x), a, targets)
    signs, features, point = 2 * targets - 1, torch.ones(50, dimension).double(), x.detach().double()
    features[:, :123] = a
    margins, penalty = signs * (features @ point), 0.2 * (point**2 / (1 + point**2)).sum()
    torch.testing.assert_close(losses.double(), torch.log1p(torch.exp(-margins)) + penalty, atol=1e-4, rtol=1e-4)
    losses.sum().backward()
    wanted = -(signs / (1 + torch.exp(margins))) @ features + 50 * 0.2 * 2 * point / (1 + point**2) ** 2
    torch.testing.assert_close(x.grad.double(), wanted, atol=1e-3, rtol=1e-4)


@pytest.mark.parametrize(("name", "dimension"), [("logistic", 123), ("logistic-bias", 124)])
def test_logistic_regression_begins_at_log_2_and_can_be_batched(name: str, dimension: int) -> None:
    model = FlatModel(MODELS[name]().build())
    assert model.initial().tolist() == [0] * dimension
    a, targets = torch.ones(2, 7, 123, dtype=torch.uint8), torch.ones(2, 7, dtype=torch.long)
    losses = torch.func.vmap(lambda x, a, b: model.losses((x,), a, b))(torch.zeros(2, dimension), a, targets)
    torch.testing.assert_close(losses, torch.full((2, 7), 2.0).log())


def test_a_model_is_built_by_its_name() -> None:
    assert sum(part.numel() for part in build_model("mlp").parameters()) == MODELS["mlp"]().dimension
    with pytest.raises(UserError, match=r"mlpp.*did you mean mlp"):
        build_model("mlpp")
