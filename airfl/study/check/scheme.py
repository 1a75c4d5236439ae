"""Checks of schemes in short runs, as the conformance suite makes them for built-in ones."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import pairwise
from typing import Any, get_args

import numpy as np
import xarray
from numpy.typing import NDArray
from torch import Tensor

from airfl.analysis.budget import Budget, link_budget
from airfl.core.record import record_exchange
from airfl.core.round import exchange, run_round
from airfl.core.state_size import store_bytes
from airfl.errors import UserError
from airfl.schemes.keys import SHARED, counts, uses
from airfl.schemes.release import ClientRelease
from airfl.schemes.scheme import LinkKind, Scheme
from airfl.storage.trace.schema import PER_ROUND, PER_SLOT
from airfl.study.check.artificial_updates import artificial_updates, dense, nothing, sent
from airfl.study.check.finding import Check
from airfl.study.check.reading import recording, unread
from airfl.study.check.short import ROUNDS, Changes, Short, first_state, on_its_threads
from channels.part import Part

LINKS: tuple[LinkKind, ...] = get_args(LinkKind)
OTHER: dict[str, Any] = {
    "privacy.epsilon": 0.7,
    "privacy.bound": "accountant",
    "server.beta1": 0.5,
    "server.beta2": 0.6,
    "server.kappa": 0.1,
    "local.learning_rate": 0.01,
    "local.schedule": "exponential",
    "local.decay": 0.5,
    "local.decay_every": 2,
    "local.momentum": 0.5,
    "local.steps": 3,
    "local.clip_norm": 0.3,
    "local.gradient_clip_norm": 0.05,
    "power.policy": "truncated-inversion",
    "power.threshold": 0.2,
    "power.coefficient": 0.001,
    "power.strict": True,
    "power.peak_db": 3.0,
    "power.peak": "clip",
    "digital.error_model": "finite-blocklength",
    "digital.allocation": "gain",
    "digital.secure_aggregation": "counted",
}
"""For each key that not every scheme uses, a value that differs from that of the short runs."""
SINGLE = 1e-4
"""Relative tolerance of a norm in single precision."""
OF_CHUNKS = 0.02
"""Relative tolerance of a decoded mean when training rounds differently: entries may be selected or change sign."""


def checks(part: Part, overrides: Sequence[str] = ()) -> list[Check]:
    """Return the checks of a scheme. overrides: settings of other sections for the short runs."""
    assert isinstance(part, Scheme)
    short = Short(part, tuple(overrides))
    _ = short.base  # invalid overrides are an error of the caller, not of the scheme

    def of(find: Callable[[Short], str | None], what: str, after: Iterable[str] = ("run",)) -> Check:
        return Check(find.__name__.replace("_", "-"), what, partial(on_its_threads, short, find), tuple(after))

    return [
        of(declaration, "title and paper are given, and `uses` names existing keys", ()),
        of(run, f"{ROUNDS} rounds on the demo's data succeed", ()),
        of(variables, "every variable of the trace has its shape, and losses are finite"),
        of(costs, "costs are positive and add up over devices"),
        of(clipping, "updates are clipped to local.clip_norm"),
        of(bounds, "norms and sensitivity of messages are within the bounds that the stages declare"),
        of(noise, "the devices' own noise is as large as the stages declare"),
        of(privacy, "a release without noise has an epsilon of inf"),
        of(epsilon, "epsilon never decreases from round to round"),
        of(seed, "the same seed gives the same trace, bit for bit"),
        of(chunks, "training devices in other chunks gives the same result up to rounding", ("run", "seed")),
        of(budget, "the link budget matches a run"),
        of(links, "it runs over every link that it names, and rejects the others in one line"),
        of(memory, "devices keep as much state between rounds as the stages and the local work declare"),
        of(resume, "a run that is interrupted and resumed gives the same trace", ("run", "seed")),
        of(parameters, "every parameter is read"),
        of(unused, "settings that `uses` does not name have no effect", ("run", "seed")),
    ]


def declaration(short: Short) -> str | None:
    """Check the class attributes title, paper and uses; links are checked when the scheme is created."""
    kind = type(short.scheme)
    for name in ("title", "paper"):
        if not getattr(kind, name).strip():
            return f"{name} is empty; give {'the name for tables' if name == 'title' else 'its source'}"
    unknown = sorted((kind.uses or frozenset()) - SHARED)
    if unknown:
        return f"uses must name keys among {', '.join(sorted(SHARED))}, got {unknown[0]!r}"
    return None


def run(short: Short) -> str | None:
    """Check that a run completes; an error of the run is reported as the finding."""
    return None if short.trace.attrs["status"] == "complete" else f"the run is {short.trace.attrs['status']}"


def variables(short: Short) -> str | None:
    """Check the shapes of all variables, and that losses are finite."""
    trace = short.trace
    sizes = {"round": ROUNDS, "slot": trace.sizes["slot"]}
    for one in (*PER_ROUND, *PER_SLOT):
        expected = tuple(sizes[name] for name in one.dimensions)
        if one.name not in trace or trace[one.name].shape != expected:
            shape = trace[one.name].shape if one.name in trace else "nothing"
            return f"{one.name} must have shape {expected}, got {shape}"
    evaluated = ~np.isnan(trace["test_accuracy"].values)
    for name in ("test_loss", "train_loss"):
        if not np.isfinite(trace[name].values[evaluated]).all():
            return f"{name} is not finite"
    return None


def costs(short: Short) -> str | None:
    """Check energy, resource elements and bits."""
    trace = short.trace
    for name in ("energy_j", "resource_elements", "update_norm", "gradient_evaluations"):
        if not (trace[name].values > 0).all():
            return f"{name} must be positive, got {trace[name].values.min():g}"
    for each, total in (("transmit_energy_j", "energy_j"), ("bits", "uplink_bits"), ("active", "heard")):
        of_slots, of_round = trace[each].sum("slot").values, trace[total].values
        if not np.allclose(of_slots, of_round, rtol=1e-9, atol=0):
            return f"{each} adds up to {of_slots[0]:g} over devices, but {total} is {of_round[0]:g}"
    return None


def clipping(short: Short) -> str | None:
    """Check that a scheme whose `uses` names local.clip_norm sends the same for updates of any length."""
    world = short.world()
    if not (world.scenario.recipe.local.clips_update and uses(type(short.scheme), "local.clip_norm")):
        return None
    limit = world.update_bound
    largest = float(short.trace["update_norm"].max())
    if largest > limit * (1 + SINGLE):
        return f"an update has norm {largest:.4g}, but local.clip_norm is {limit:g}"
    one, other = (_largest(sent(world, 1, dense, scale).messages) for scale in (1.0, 1e3))
    if other > one * (1 + 1e-2):
        return (
            f"for an update a thousand times longer a message is {other / one:.4g} times longer; add "
            "Clip(settings.local.update_bound) to the stages, or remove local.clip_norm from `uses`"
        )
    return None


def bounds(short: Short) -> str | None:
    """Check the bounds that the stages declare, on which power control and the privacy ledger rely."""
    world = short.world()
    bound, of_clients = world.scenario.bound, isinstance(world.scenario.recipe.release, ClientRelease)
    # The devices' own noise with the same random numbers, subtracted from messages to obtain the part from updates.
    silence = sent(world, 3, nothing).messages if of_clients and bound.noise_std else 0.0
    for name, update in artificial_updates(world).items():
        messages = sent(world, 3, update).messages
        squares = messages.square().sum(dim=1)
        longest = _largest(messages)
        if longest > bound.peak * (1 + SINGLE):
            return (
                f"a message has norm {longest:.4g} (update {name}), but the stages declare a peak of {bound.peak:.4g}"
            )
        mean, spread = float(squares.mean()), 5 * float(squares.std()) / math.sqrt(len(squares))
        # The mean square of the noise entries in 24 messages is accurate to a percent.
        if math.sqrt(max(mean - spread, 0.0)) > bound.rms * 1.015:
            return (
                f"messages have an RMS norm of {math.sqrt(mean):.4g} (updates {name}), but the stages declare an rms "
                f"of {bound.rms:.4g}"
            )
        if not of_clients or update is None:
            continue
        moved, rounding = _largest(messages - silence), 1e-6 * bound.noise_std * math.sqrt(bound.entries)
        if moved > bound.sensitivity * (1 + SINGLE) + rounding:
            return (
                f"a device's data changes its message by {moved:.4g} (update {name}), but the stages declare a "
                f"sensitivity of {bound.sensitivity:.4g}"
            )
    return None


def noise(short: Short) -> str | None:
    """Check the noise that is sent for an update of zeros."""
    world = short.world()
    declared, recipe = world.scenario.bound.noise_std, world.scenario.recipe
    if not declared or not recipe.local.clips_update or not isinstance(recipe.release, ClientRelease):
        return None
    silent = sent(world, 3, nothing)
    expected = declared * silent.device_noise_factor
    share = float(silent.messages.square().mean() / expected.square().mean()) if float(expected.max()) else 1.0
    if share < 1 - 5 * math.sqrt(2 / silent.messages.numel()):
        return f"an entry's noise has {math.sqrt(share):.4g} times the standard deviation that the stages declare"
    return None


def privacy(short: Short) -> str | None:
    """Check the epsilon of every round alone."""
    trace = short.trace
    unprotected = trace["noise_multiplier"].values == 0
    figures = trace["epsilon_round"].values
    if np.isfinite(figures[unprotected]).any():
        return f"epsilon of a round without noise must be inf, got {figures[unprotected].min():.4g}"
    if not np.isfinite(figures[~unprotected]).all():
        return "epsilon of a round with noise must be finite"
    return None


def epsilon(short: Short) -> str | None:
    """Check the accounted epsilon after each round, and that of the paper if it holds for a run."""
    trace = short.trace
    names = ["epsilon"] + (["epsilon_paper"] if trace["epsilon_paper"].attrs["scope"] == "run" else [])
    for name in names:
        values = trace[name].values
        values = values[~np.isnan(trace["test_accuracy"].values)] if name == "epsilon" else values
        if np.isnan(values).any():
            return f"{name} is nan"
        if any(later < earlier for earlier, later in pairwise(values)):
            return f"{name} decreases: {', '.join(f'{one:.4g}' for one in values)}"
    return None


def seed(short: Short) -> str | None:
    """Compare two runs in one process."""
    again = short.again()
    with again.trace() as trace:
        return _difference(short, trace.load(), again.parameters, "in a second run of the same seed")


def chunks(short: Short) -> str | None:
    """Compare a round trained in chunks of 3 devices and of all 8."""
    decoded, all_of_them = [], short.base.run.selected
    for size in (3, all_of_them):
        world = short.world({"run": {"chunk": size}})
        exchanged = exchange(world, first_state(world))
        decoded.append((record_exchange(world.scenario, exchanged, 0), exchanged.mean_update.double()))
    (one, mean), (other, whole) = decoded
    for name in ("update_norm", "energy_j"):
        if not np.allclose(one[name], other[name], rtol=1e-4):
            return f"{name} is {np.max(one[name]):.6g} in chunks of 3 devices, but {np.max(other[name]):.6g} in one"
    off = float((mean - whole).norm() / max(float(whole.norm()), 1e-300))
    return f"the decoded mean changes by {off:.2g} of its norm" if off > OF_CHUNKS else None


def budget(short: Short) -> str | None:
    """Compare the run over the default link with its link budget."""
    return _compared(link_budget(short.settings()), short.trace)


def links(short: Short) -> str | None:
    """Check all three links."""
    kind = type(short.scheme)
    for link in LINKS:
        values = {**short.scheme.values(), "link": link}
        if link not in kind.links:
            try:
                kind(**values)
            except ValueError as error:
                if "\n" in str(error):
                    return f"the {link} link is rejected in more than one line"
                continue
            return f"the {link} link is not rejected"
        if link != kind.links[0]:
            settings = short.settings({"run": {"rounds": 1}}, link)
            try:
                planned = link_budget(settings)
                other = Short(settings.scheme, short.overrides).again({"run": {"rounds": 1}})
            except UserError as error:
                return f"the {link} link is in `links`, but a run over it fails: {error}"
            with other.trace() as trace:
                wrong = _compared(planned, trace.load())
            if wrong:
                return f"over the {link} link: {wrong}"
    return None


def memory(short: Short) -> str | None:
    """Check the size of the state after two rounds, for each device that took part."""
    world = short.world()
    declared, _ = store_bytes(world.scenario, int(world.task.partition.sizes.max()))
    state = first_state(world)
    for _ in range(2):
        state, _ = run_round(world, state)
    sizes: dict[int, int] = {}
    for rows in state.store.rows.values():
        for device, row in rows.items():
            sizes[device] = sizes.get(device, 0) + row.numel() * row.element_size()
    most = max(sizes.values(), default=0)
    return f"a device keeps {most:,} bytes, but `device_state` declares {declared:,}" if most != declared else None


def resume(short: Short) -> str | None:
    """Compare a run that is resumed in round 4 from the state after round 2."""
    trace, final = short.resumed()
    wrong = _difference(short, trace, final, "in the resumed run")
    return f"{wrong}; keep the state that one round passes to the next in the store" if wrong else None


def parameters(short: Short) -> str | None:
    """Check that a round over each link reads all parameters."""
    read: set[str] = set()
    for link in type(short.scheme).links:
        part, read_over_link = recording(short.settings(link=link).scheme)
        world = Short(part, short.overrides).world()
        run_round(world, first_state(world))
        read |= read_over_link
    idle = unread(short.scheme, read | {"link"})
    return f"{idle}; remove it, or use it in `recipe`" if idle else None


def unused(short: Short) -> str | None:
    """Change all unused settings at once, and if a result changes, find the setting that has an effect."""
    settings = short.base
    kind, tables, link = type(short.scheme), settings.model_dump(), short.scheme.carrier
    idle = [key for key in OTHER if not (counts(tables, key, link) and uses(kind, key))]
    if not idle:
        return None
    with short.again(_changed(idle)).trace() as trace:
        if _difference(short, trace.load(), None, "") is None:
            return None
    for key in idle:
        with short.again(_changed([key])).trace() as trace:
            wrong = _difference(short, trace.load(), None, f"with {key} = {OTHER[key]!r}, which `uses` does not name")
        if wrong:
            return wrong
    return f"{', '.join(idle)} together have an effect, but `uses` names none of them"


def _changed(keys: Sequence[str]) -> Changes:
    """Return the values of these keys in OTHER, by section."""
    changes: dict[str, dict[str, Any]] = {}
    for key in keys:
        section, _, name = key.partition(".")
        changes.setdefault(section, {})[name] = OTHER[key]
    return changes


def _difference(short: Short, trace: xarray.Dataset, final: Tensor | None, where: str) -> str | None:
    """Return the first difference between a trace and that of the uninterrupted run, or None."""
    for name, one in short.trace.data_vars.items():
        values, others = one.values, trace[name].values
        if values.shape != others.shape:
            return f"{name} has a different shape {where}"
        same = (values == others) | _nan(values) & _nan(others)
        if not same.all():
            index = tuple(int(at[0]) for at in np.nonzero(~same))
            return f"{name} of round {index[0]} is {others[index]:.9g} {where}, not {values[index]:.9g}"
    if final is not None and not final.equal(short.run.parameters):
        return f"the final parameters differ {where}"
    return None


def _nan(values: NDArray[Any]) -> NDArray[np.bool_]:
    """Return where values are nan, which integers never are."""
    mask: NDArray[np.bool_] = np.isnan(values) if values.dtype.kind in "fc" else np.zeros(values.shape, np.bool_)
    return mask


def _compared(planned: Budget, trace: xarray.Dataset) -> str | None:
    """Compare a link budget with a run: counts, and energies on links where these are fixed (digital, ideal)."""
    pairs: dict[str, tuple[float, float]] = {
        name: (getattr(planned, name), int(trace[name].sum())) for name in ("resource_elements", "uplink_bits")
    }
    for name, (expected, counted) in pairs.items():
        if expected != counted:
            return f"the link budget has {expected:,} {name}, but the run {counted:,}"
    energy = float(trace["energy_j"].sum())
    if trace.attrs["link"] in ("digital", "ideal") and not math.isclose(planned.energy_j, energy, rel_tol=1e-9):
        return f"the link budget has an energy of {planned.energy_j:.9g}, but the run {energy:.9g}"
    return None


def _largest(messages: Tensor) -> float:
    """Return the largest l2 norm of the rows."""
    return float(messages.norm(dim=1).max())
