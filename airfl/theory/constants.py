"""The constants of the theorems, estimated on a task: at a few points of the descent from theta^0, on a few devices.

For a quadratic objective with all devices taken, dissimilarity and variance do not depend on the point, and are exact
up to rounding, as is smoothness up to the residual at which the iteration ends. Otherwise they are suprema over all
points, and what is found at a few points is at most that: a bound computed with them can be too low. The initial gap is
no estimate but a bound: f_inf is taken as 0, which no mean of non-negative losses falls below.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from airfl.errors import UserError
from airfl.learning.evaluation import BATCH, gradient_norm_squared
from airfl.learning.flat import FlatModel
from airfl.learning.per_sample import SampleGradients, samples_of
from airfl.learning.task import DividedTask
from airfl.theory.bound import Constants

DEVICES, POINTS, WALK = 32, 5, 40
"""Most devices, points, and steps of gradient descent from the first to the last point."""
LARGE, FEW_DEVICES, FEW_POINTS = 1_000_000, 8, 2
"""Number of parameters above which fewer devices and points are taken, and how many."""
SAMPLES = 4
"""Samples of a device whose own Hessian is looked at, if smoothness is that of samples."""
ITERATIONS, ACCURACY = 200, 1e-6
"""Most products with a Hessian H, and the norm of H v - lambda v over |lambda| at which (lambda, v) is found."""
BASIS, FEW_VECTORS, KEPT = 20, 6, 0.3
"""Most vectors of the subspace that v is looked for in, that number above LARGE, and the share that a restart keeps."""
NUMBERS = 1 << 24
"""Most numbers of per-sample gradients at once."""


@dataclass(frozen=True)
class Sought:
    """Which constants a theorem means.

    Attributes:
        of_samples: Whether smoothness and gradient bound are those of every sample (SoteriaFL) and not of devices.
        batch: b, samples of a mini-batch.
        step: Local learning rate, the step of the descent that the points are on.
        kept: Maps (theta, t) to the coordinates that the public data selects in round t, int64 [k]; None where it
            selects none.
    """

    of_samples: bool
    batch: int
    step: float
    kept: Callable[[Tensor, int], Tensor] | None = None


@dataclass(frozen=True)
class _Device:
    """Gradients of one device at one point.

    Attributes:
        mean: grad f_i, float64 [d].
        variance: E||g - grad f_i||^2 of a mini-batch of b of its m samples without replacement.
        largest: Largest l2 norm of a sample's gradient.
        coordinate: Largest absolute value of a coordinate of a sample's gradient.
    """

    mean: Tensor
    variance: float
    largest: float
    coordinate: float


def estimate(model: FlatModel, task: DividedTask, sought: Sought) -> Constants:
    """Estimate the constants of the task.

    Args:
        model: The model, at its initial parameters.
        task: The data, divided among the devices.
        sought: Which constants the theorem means.

    Raises UserError if the initial loss is negative, so that 0 is no lower bound, or not finite.
    """
    devices, first = chosen_devices(task, model.dimension), model.initial()
    gradients = SampleGradients.of(model, task, "auto")
    points = list(points_of(model, task, devices, sought.step))
    smoothness = dissimilarity = variance = largest = coordinate = shift = 0.0
    for index, point in enumerate(points):
        found = [_gradients_of(gradients, task, device, point, sought.batch) for device in devices.tolist()]
        squares = math.fsum(float(one.mean.square().sum()) for one in found) / len(found)
        mean = sum((one.mean for one in found), torch.zeros_like(found[0].mean)) / len(found)
        # (n/(n - 1)) (N - 1)/N: unbiased for the population where a part of the devices was taken.
        scale = _population_factor(len(found), len(task.partition.sizes))
        dissimilarity = max(dissimilarity, scale * (squares - float(mean.square().sum())))
        variance = max(variance, math.fsum(one.variance for one in found) / len(found))
        whole = not sought.of_samples and sought.batch >= int(task.partition.sizes.max())
        norms = [float(one.mean.norm()) if whole else one.largest for one in found]
        largest, coordinate = max(largest, *norms), max(coordinate, *(one.coordinate for one in found))
        smoothness = max(smoothness, *(_smoothness(model, task, one, point, sought) for one in devices.tolist()))
        shift = squares if index == 0 else shift
    share = math.nan if sought.kept is None else kept_share(model, task, points, sought.kept)
    gap = initial_loss(model, task)
    if not math.isfinite(gap) or gap < 0:
        raise UserError(f"the loss at theta^0 is {gap:g}: f_inf = 0 is a lower bound of non-negative losses alone")
    some = f"{len(devices)} of {len(task.partition.sizes)} devices"
    where = f"estimated from below: largest at {len(points)} points of a descent from theta^0, {some}"
    of_share = f"estimated from above: least at {len(points)} points of the descent, all devices"
    who = f", {SAMPLES} samples each" if sought.of_samples else ""
    return Constants(
        smoothness=smoothness,
        gradient_bound=largest,
        dissimilarity=max(dissimilarity, 0.0),
        variance=variance,
        initial_gap=gap,
        initial_shift=shift,
        initial_gradient=gradient_norm_squared(model, first, task),
        coordinate_bound=coordinate,
        kept_share=share,
        how={
            "smoothness": f"Lanczos method on the Hessian, {where}{who}",
            "gradient_bound": where,
            "dissimilarity": where,
            "variance": where,
            **({} if sought.kept is None else {"kept_share": of_share}),
            "initial_shift": f"at theta^0, {some}",
            "initial_gap": "f(theta^0) - f_inf with f_inf = 0, which no mean of non-negative losses falls below",
        },
    )


def kept_share(
    model: FlatModel, task: DividedTask, points: Sequence[Tensor], kept: Callable[[Tensor, int], Tensor]
) -> float:
    """Return the least share of ||grad f||^2 on the coordinates that are kept, over points theta^0, theta^1 ...

    A point without a gradient is left out; nan if there is no other.
    """
    rows, least = torch.from_numpy(np.asarray(task.partition.indices)), math.nan
    for index, point in enumerate(points):
        squares = gradient(model, task, rows, point).square()
        if float(squares.sum()):
            share = float(squares[kept(point, index)].sum() / squares.sum())
            least = share if math.isnan(least) else min(least, share)
    return least


def chosen_devices(task: DividedTask, dimension: int) -> NDArray[np.int64]:
    """Return the ids of the devices on which the constants are estimated, evenly spaced, [at most DEVICES]."""
    most = DEVICES if dimension <= LARGE else FEW_DEVICES
    population = len(task.partition.sizes)
    return np.unique(np.linspace(0, population - 1, min(most, population)).round().astype(np.int64))


def points_of(model: FlatModel, task: DividedTask, devices: NDArray[np.int64], step: float) -> Iterator[Tensor]:
    """Yield points of gradient descent on the samples of these devices from theta^0, [d] each; none that is not
    finite."""
    count = POINTS if model.dimension <= LARGE else FEW_POINTS
    rows, point = torch.cat([rows_of(task, device) for device in devices.tolist()]), model.initial()
    yield point
    for _ in range(count - 1):
        for _ in range(WALK // (count - 1)):
            point = point - step * gradient(model, task, rows, point).to(point.dtype)
        if not bool(torch.isfinite(point).all()):
            return
        yield point


def rows_of(task: DividedTask, device: int) -> Tensor:
    """Return the rows of the training data of a device, [m]."""
    offsets = task.partition.offsets
    return torch.from_numpy(task.partition.indices[offsets[device] : offsets[device + 1]])


def gradient(model: FlatModel, task: DividedTask, rows: Tensor, point: Tensor) -> Tensor:
    """Return the gradient of the mean loss over these rows, float64 [d]."""
    at = point.detach().clone().requires_grad_()
    total = torch.zeros_like(at, dtype=torch.float64)
    for some in torch.split(rows, BATCH["cpu"]):
        inputs, targets = samples_of(task, some)
        total += torch.autograd.grad(model.losses(model.split(at), inputs, targets).sum(), at)[0]
    return total / len(rows)


def initial_loss(model: FlatModel, task: DividedTask) -> float:
    """Return f(theta^0), the mean loss over all training samples of all devices, penalty included."""
    total, parts = 0.0, model.split(model.initial())
    rows = torch.from_numpy(np.asarray(task.partition.indices))
    with torch.no_grad():
        for some in torch.split(rows, BATCH["cpu"]):
            total += float(model.losses(parts, *samples_of(task, some)).sum(dtype=torch.float64))
    return total / len(rows)


def _population_factor(taken: int, population: int) -> float:
    if taken == population or taken == 1:
        return 1.0
    return taken / (taken - 1) * (population - 1) / population


def _gradients_of(gradients: SampleGradients, task: DividedTask, device: int, point: Tensor, batch: int) -> _Device:
    """Return what is needed of a device's gradients at a point, its samples' gradients in pieces."""
    rows = rows_of(task, device)
    size, total = len(rows), torch.zeros_like(point, dtype=torch.float64)
    squares = largest = coordinate = 0.0
    for some in torch.split(rows, max(1, NUMBERS // len(point))):
        each = gradients.each(point, some).double()
        norms = each.square().sum(dim=1)
        total += each.sum(dim=0)
        squares += float(norms.sum())
        largest, coordinate = max(largest, float(norms.max().sqrt())), max(coordinate, float(each.abs().max()))
    mean, own = total / size, min(batch, size)
    spread = max(squares / size - float(mean.square().sum()), 0.0)
    share = (size - own) / (own * (size - 1)) if size > 1 else 0.0
    return _Device(mean, share * spread, largest, coordinate)


def _smoothness(model: FlatModel, task: DividedTask, device: int, point: Tensor, sought: Sought) -> float:
    """Return the largest absolute eigenvalue of the Hessian of a device, or of the first of its samples."""
    rows = rows_of(task, device)
    if not sought.of_samples:
        return hessian_norm(lambda at: _mean_loss(model, task, rows, at), point)
    one_by_one = [rows[[index]] for index in range(min(SAMPLES, len(rows)))]
    return max(hessian_norm(lambda at, some=some: _mean_loss(model, task, some, at), point) for some in one_by_one)  # type: ignore[misc]


def _mean_loss(model: FlatModel, task: DividedTask, rows: Tensor, point: Tensor) -> Tensor:
    return model.losses(model.split(point), *samples_of(task, rows)).mean()


def hessian_norm(loss: Callable[[Tensor], Tensor], point: Tensor) -> float:
    """Return the l2 norm of the Hessian of a loss at a point [d], its largest absolute eigenvalue, from below.

    The Lanczos method starts from the gradient and a vector of cosines, which no symmetry of a model shares, so that
    nothing is drawn. All vectors are kept orthogonal, and a full basis restarts from its best vectors.
    """
    at = point.detach().clone().requires_grad_()
    (slope,) = torch.autograd.grad(loss(at), at, create_graph=True)
    if not slope.requires_grad:
        return 0.0

    def product(vector: Tensor) -> Tensor:
        return torch.autograd.grad(slope, at, vector.to(slope.dtype), retain_graph=True)[0].double()

    start = torch.cos(torch.arange(1.0, len(point) + 1, device=point.device, dtype=torch.float64))
    steepest = slope.detach().double()
    return _largest_eigenvalue(product, start / start.norm() + steepest / steepest.norm().clamp_min(1e-30))


def _largest_eigenvalue(product: Callable[[Tensor], Tensor], start: Tensor) -> float:
    """Return the largest absolute eigenvalue of a symmetric matrix H from below; inf if it is not finite.

    Args:
        product: v -> H v, float64 [d].
        start: Where the search starts, not 0, float64 [d].
    """
    most = min(BASIS if len(start) <= LARGE else FEW_VECTORS, len(start))
    basis, products = start.new_empty((most, len(start))), start.new_empty((most, len(start)))
    basis[0], size, value = start / start.norm(), 1, 0.0
    for _ in range(ITERATIONS):
        products[size - 1] = product(basis[size - 1])
        small = basis[:size] @ products[:size].T
        if not bool(torch.isfinite(small).all()):
            return math.inf
        values, vectors = torch.linalg.eigh((small + small.T) / 2)
        order = values.abs().argsort(descending=True)
        value, vector = float(values[order[0]].abs()), vectors[:, order[0]]
        residual = vector @ products[:size] - values[order[0]] * (vector @ basis[:size])
        if float(residual.norm()) <= ACCURACY * value or size == len(start):
            break
        if size == most:
            size = max(1, round(KEPT * most))
            best = vectors[:, order[:size]].T
            basis[:size], products[:size] = best @ basis, best @ products
        for _ in range(2):  # twice is enough for orthogonality
            residual = residual - (basis[:size] @ residual) @ basis[:size]
        norm = float(residual.norm())
        if not norm:
            break
        basis[size], size = residual / norm, size + 1
    return value
