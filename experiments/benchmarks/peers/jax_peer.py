"""Run a workload as somebody who knows JAX would: all clients of a round in one jitted function.

python experiments/benchmarks/peers/jax_peer.py WORKLOAD [vmap|scan]

The clients are computed together (vmap over them) or one after another (lax.scan), the steps of a client by lax.scan.
Without the second argument the faster of the two is taken, after a round of each.
"""

# mypy: disable-error-code="import-not-found"
from __future__ import annotations

import functools
import sys
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from workload import WORKLOADS, Workload, time_rounds, use_all_cores

LEAST_S = 3.0
Arrays = tuple[Any, ...]


def linear(inputs: Any, weight: Any, bias: Any) -> Any:
    """Return x W' + b."""
    return inputs @ weight.T + bias


def convolution(inputs: Any, weight: Any, bias: Any, padding: str) -> Any:
    """Return a convolution of images [batch, channels, height, width]."""
    order = ("NCHW", "OIHW", "NCHW")
    return lax.conv_general_dilated(inputs, weight, (1, 1), padding, dimension_numbers=order) + bias[:, None, None]


def pooled(inputs: Any) -> Any:
    """Return the maximum over 2 x 2 pixels."""
    return lax.reduce_window(inputs, -jnp.inf, lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")


def perceptron(p: Arrays, inputs: Any) -> Any:
    """Return the logits of `workload.perceptron`."""
    return linear(jax.nn.relu(linear(inputs, *p[:2])), *p[2:])


def cnn(p: Arrays, inputs: Any, padding: str) -> Any:
    """Return the logits of `workload.small_cnn` ("VALID") or `workload.large_cnn` ("SAME")."""
    maps = jax.nn.relu(pooled(convolution(inputs, *p[:2], padding)))
    maps = jax.nn.relu(pooled(convolution(maps, *p[2:4], padding)))
    hidden = jax.nn.relu(linear(maps.reshape(len(maps), -1), *p[4:6]))
    return linear(hidden, *p[6:])


def recurrent(p: Arrays, inputs: Any) -> Any:
    """Return the logits of `workload.NextCharacter`."""
    embedding, first, second, dense = p[0], p[1:5], p[5:9], p[9:]
    values = jnp.swapaxes(embedding[inputs], 0, 1)
    for weight, recurrence, bias, other in (first, second):

        def step(state: Arrays, gates: Any, recurrence: Any = recurrence) -> tuple[Arrays, Any]:
            hidden, cell = state
            i, f, g, o = jnp.split(gates + hidden @ recurrence.T, 4, axis=1)
            cell = jax.nn.sigmoid(f) * cell + jax.nn.sigmoid(i) * jnp.tanh(g)
            hidden = jax.nn.sigmoid(o) * jnp.tanh(cell)
            return (hidden, cell), hidden

        start = jnp.zeros((values.shape[1], recurrence.shape[1]))
        _, values = lax.scan(step, (start, start), values @ weight.T + (bias + other))
    return linear(values[-1], *dense)


MODELS: dict[str, Callable[[Arrays, Any], Any]] = {
    "digits-mlp": perceptron,
    "mnist-cnn": functools.partial(cnn, padding="VALID"),
    "fmnist-cnn": functools.partial(cnn, padding="SAME"),
    "text-lstm": recurrent,
}


def local_training(work: Workload) -> Callable[..., Arrays]:
    """Return train(parameters, inputs, labels, key) -> the update of a client after some epochs."""
    model, batches = MODELS[work.name], work.epochs * work.samples // work.batch

    def loss(p: Arrays, inputs: Any, labels: Any) -> Any:
        chosen = jnp.take_along_axis(jax.nn.log_softmax(model(p, inputs)), labels[:, None], 1)
        return -jnp.mean(chosen)

    def train(start: Arrays, inputs: Any, labels: Any, key: Any) -> Arrays:
        orders = jax.vmap(lambda key: jax.random.permutation(key, work.samples))(jax.random.split(key, work.epochs))

        def step(state: tuple[Arrays, Arrays], rows: Any) -> tuple[tuple[Arrays, Arrays], None]:
            p, velocity = state
            gradient = jax.grad(loss)(p, inputs[rows], labels[rows])
            velocity = jax.tree.map(lambda v, g: work.momentum * v + g, velocity, gradient)
            return (jax.tree.map(lambda x, v: x - work.learning_rate * v, p, velocity), velocity), None

        begin = (start, jax.tree.map(jnp.zeros_like, start))
        (trained, _), _ = lax.scan(step, begin, orders.reshape(batches, work.batch))
        return jax.tree.map(jnp.subtract, trained, start)

    return train


def round_of(work: Workload, way: str) -> Callable[..., Arrays]:
    """Return the jitted round (parameters, inputs, labels, key) -> parameters."""
    train = local_training(work)

    def clipped(*given: Any) -> Arrays:
        update = train(*given)
        norm = jnp.sqrt(sum(jnp.sum(part * part) for part in jax.tree.leaves(update)))
        return jax.tree.map(lambda part: part * jnp.minimum(1.0, work.clip_norm / norm), update)

    @jax.jit
    def one_round(p: Arrays, inputs: Any, labels: Any, key: Any) -> Arrays:
        choice, batches, noise = jax.random.split(key, 3)
        clients = jax.random.choice(choice, work.devices, (work.selected,), replace=False)
        keys = jax.random.split(batches, work.selected)
        if way == "vmap":
            updates = jax.vmap(clipped, (None, 0, 0, 0))(p, inputs[clients], labels[clients], keys)
            total = jax.tree.map(lambda part: part.sum(0), updates)
        else:

            def add(total: Arrays, one: tuple[Any, Any]) -> tuple[Arrays, None]:
                client, key = one
                return jax.tree.map(jnp.add, total, clipped(p, inputs[client], labels[client], key)), None

            total, _ = lax.scan(add, jax.tree.map(jnp.zeros_like, p), (clients, keys))
        noises = jax.random.split(noise, len(p))
        noisy = (t + work.noise_std * jax.random.normal(key, t.shape) for t, key in zip(total, noises, strict=True))
        return tuple(part + mean / work.selected for part, mean in zip(p, noisy, strict=True))

    return one_round


def seconds_of(step: Callable[[], None]) -> float:
    """Return the time of a call after one that compiles."""
    step()
    begin = time.perf_counter()
    step()
    return time.perf_counter() - begin


def main() -> None:
    """Print the rate."""
    work = WORKLOADS[sys.argv[1]]
    use_all_cores()
    torch_inputs, torch_labels = work.data()
    inputs, labels = jnp.asarray(torch_inputs.numpy()), jnp.asarray(torch_labels.numpy())
    parameters = tuple(jnp.asarray(part.detach().numpy()) for part in work.model().parameters())
    root = jax.random.key(0)

    def stepper(way: str) -> Callable[[], None]:
        step, state, count = round_of(work, way), parameters, 0

        def one_round() -> None:
            nonlocal state, count
            state, count = step(state, inputs, labels, jax.random.fold_in(root, count)), count + 1
            jax.block_until_ready(state)

        return one_round

    ways = {way: stepper(way) for way in sys.argv[2:] or ("vmap", "scan")}
    times = {way: seconds_of(step) for way, step in ways.items()}
    way = min(times, key=times.__getitem__)
    time_rounds("jax", work, ways[way], LEAST_S, f"jax {jax.__version__}, clients by {way}").print()


if __name__ == "__main__":
    main()
