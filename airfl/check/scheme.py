"""What a scheme has to hold: what the conformance suite of airfl's own schemes holds, in short runs."""

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

from airfl.budget import Budget, link_budget
from airfl.check.finding import Check
from airfl.check.planted import dense, nothing, plants, sent
from airfl.check.reading import recording
from airfl.check.short import ROUNDS, Changes, Short, first_state, on_its_threads
from airfl.errors import UserError
from airfl.memory import store_bytes
from airfl.privacy.release import ClientRelease
from airfl.record import record_exchange
from airfl.round import exchange, run_round
from airfl.schemes.keys import SHARED, counts, uses
from airfl.schemes.scheme import LinkKind, Scheme
from airfl.trace.schema import PER_ROUND, PER_SLOT
from channels.part import Part, parameters_of

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
"""A value of each key that not every run has a use for, which is not that of the short runs."""
SINGLE = 1e-4
"""By how much a norm in single precision may be off."""
OF_CHUNKS = 0.02
"""By how much a decoded mean may move with the rounding of training: an entry on the edge of being kept, or of a sign,
falls to the other side."""


def checks(part: Part, overrides: Sequence[str] = ()) -> list[Check]:
    """Of one scheme. overrides: settings of other sections for the short runs."""
    assert isinstance(part, Scheme)
    short = Short(part, tuple(overrides))
    _ = short.base  # overrides that are no settings are the caller's fault, not the scheme's

    def of(find: Callable[[Short], str | None], what: str, after: Iterable[str] = ("run",)) -> Check:
        return Check(find.__name__.replace("_", "-"), what, partial(on_its_threads, short, find), tuple(after))

    return [
        of(declaration, "title, paper and links are said, and `uses` names keys that there are", ()),
        of(run, f"{ROUNDS} rounds on the demo's data end well", ()),
        of(variables, "every variable of the trace has its shape, and losses are finite"),
        of(costs, "costs are positive and add up over devices"),
        of(clipping, "updates are clipped to local.clip_norm"),
        of(bounds, "no message is longer, or tells more of a device, than its stages state"),
        of(noise, "the devices' own noise is as large as the stages state"),
        of(privacy, "what is released without noise has an epsilon of inf"),
        of(epsilon, "epsilon never falls from round to round"),
        of(seed, "the same seed gives the same trace, bit for bit"),
        of(chunks, "devices trained in other chunks give the same up to rounding", ("run", "seed")),
        of(budget, "the link budget counts what a run counts"),
        of(links, "every link that it names carries it, the others refuse it in one line"),
        of(memory, "devices keep between rounds what the stages and the local work state"),
        of(resume, "a run that is cut off and gone on with is the run that was not", ("run", "seed")),
        of(parameters, "every parameter is read"),
        of(unused, "settings that `uses` does not name change no number", ("run", "seed")),
    ]


def declaration(short: Short) -> str | None:
    """What the class says of itself."""
    kind = type(short.scheme)
    for name in ("title", "paper"):
        if not getattr(kind, name).strip():
            return f"{name} is empty; say {'what tables call it' if name == 'title' else 'where it is from'}"
    if not kind.links or not set(kind.links) <= set(LINKS) or len(set(kind.links)) < len(kind.links):
        return f"links must be some of {', '.join(LINKS)}, each once, got {kind.links!r}"
    unknown = sorted((kind.uses or frozenset()) - SHARED)
    if unknown:
        return f"uses names {unknown[0]!r}, which is none of {', '.join(sorted(SHARED))}"
    return None


def run(short: Short) -> str | None:
    """An error of a run is what is found."""
    return None if short.trace.attrs["status"] == "complete" else f"the run is {short.trace.attrs['status']}"


def variables(short: Short) -> str | None:
    """Shapes, accuracies and losses."""
    trace = short.trace
    sizes = {"round": ROUNDS, "slot": trace.sizes["slot"]}
    for one in (*PER_ROUND, *PER_SLOT):
        wanted = tuple(sizes[name] for name in one.dimensions)
        if one.name not in trace or trace[one.name].shape != wanted:
            shape = trace[one.name].shape if one.name in trace else "nothing"
            return f"{one.name} has the shape {shape}, {wanted} is wanted"
    evaluated = ~np.isnan(trace["test_accuracy"].values)
    for name in ("test_loss", "train_loss"):
        if not np.isfinite(trace[name].values[evaluated]).all():
            return f"{name} is not finite"
    return None


def costs(short: Short) -> str | None:
    """Energy, elements, bits."""
    trace = short.trace
    for name in ("energy_j", "resource_elements", "update_norm", "gradient_evaluations"):
        if not (trace[name].values > 0).all():
            return f"{name} is {trace[name].values.min():g} somewhere, it must be positive"
    for each, total in (("transmit_energy_j", "energy_j"), ("bits", "uplink_bits"), ("active", "heard")):
        of_slots, of_round = trace[each].sum("slot").values, trace[total].values
        if not np.allclose(of_slots, of_round, rtol=1e-9, atol=0):
            return f"{each} of the devices adds up to {of_slots[0]:g}, {total} is {of_round[0]:g}"
    return None


def clipping(short: Short) -> str | None:
    """A scheme that clips, which is one that names local.clip_norm, sends the same of an update of any length."""
    world = short.world()
    if not (world.cell.recipe.local.clips_update and uses(type(short.scheme), "local.clip_norm")):
        return None
    limit = world.update_bound
    largest = float(short.trace["update_norm"].max())
    if largest > limit * (1 + SINGLE):
        return f"an update has the norm {largest:.4g}, local.clip_norm is {limit:g}"
    one, other = (_largest(sent(world, 1, dense, scale).messages) for scale in (1.0, 1e3))
    if other > one * (1 + 1e-2):
        return (
            f"of an update a thousand times longer a message is {other / one:.4g} times longer: put "
            "Clip(settings.local.update_bound) before what is sent, or leave local.clip_norm out of `uses`"
        )
    return None


def bounds(short: Short) -> str | None:
    """Power control and the ledger rest on what stages state."""
    world = short.world()
    bound, of_clients = world.cell.bound, isinstance(world.cell.recipe.release, ClientRelease)
    # The devices' own noise, by the same draws: a message less that is what its update tells.
    silence = sent(world, 3, nothing).messages if of_clients and bound.noise_std else 0.0
    for name, update in plants(world).items():
        messages = sent(world, 3, update).messages
        squares = messages.square().sum(dim=1)
        longest = _largest(messages)
        if longest > bound.peak * (1 + SINGLE):
            return f"a message has the norm {longest:.4g} (update {name}), the stages state a peak of {bound.peak:.4g}"
        mean, spread = float(squares.mean()), 5 * float(squares.std()) / math.sqrt(len(squares))
        # Entries of noise in 24 messages: their mean square is known to a percent.
        if math.sqrt(max(mean - spread, 0.0)) > bound.rms * 1.015:
            return (
                f"messages have a root mean square norm of {math.sqrt(mean):.4g} (updates {name}), the stages state "
                f"an rms of {bound.rms:.4g}"
            )
        if not of_clients or update is None:
            continue
        moved, rounding = _largest(messages - silence), 1e-6 * bound.noise_std * math.sqrt(bound.entries)
        if moved > bound.sensitivity * (1 + SINGLE) + rounding:
            return (
                f"a device's data moves its message by {moved:.4g} (update {name}), the stages state a sensitivity of "
                f"{bound.sensitivity:.4g}"
            )
    return None


def noise(short: Short) -> str | None:
    """What is sent of an update of zeros."""
    world = short.world()
    stated, recipe = world.cell.bound.noise_std, world.cell.recipe
    if not stated or not recipe.local.clips_update or not isinstance(recipe.release, ClientRelease):
        return None
    found = sent(world, 3, nothing)
    wanted = stated * found.own_noise
    share = float(found.messages.square().mean() / wanted.square().mean()) if float(wanted.max()) else 1.0
    if share < 1 - 5 * math.sqrt(2 / found.messages.numel()):
        return f"an entry's noise has {math.sqrt(share):.4g} times the standard deviation that the stages state"
    return None


def privacy(short: Short) -> str | None:
    """Of every round by itself."""
    trace = short.trace
    unprotected = trace["noise_multiplier"].values == 0
    figures = trace["epsilon_round"].values
    if np.isfinite(figures[unprotected]).any():
        return f"a round without noise has an epsilon of {figures[unprotected].min():.4g}"
    if not np.isfinite(figures[~unprotected]).all():
        return "a round with noise has no epsilon that is finite"
    return None


def epsilon(short: Short) -> str | None:
    """Of the rounds so far: accounted, and what the scheme claims of a run."""
    trace = short.trace
    names = ["epsilon"] + (["epsilon_paper"] if trace["epsilon_paper"].attrs["scope"] == "run" else [])
    for name in names:
        values = trace[name].values
        values = values[~np.isnan(trace["test_accuracy"].values)] if name == "epsilon" else values
        if np.isnan(values).any():
            return f"{name} is nan"
        if any(later < earlier for earlier, later in pairwise(values)):
            return f"{name} falls: {', '.join(f'{one:.4g}' for one in values)}"
    return None


def seed(short: Short) -> str | None:
    """Two runs in one process."""
    again = short.again()
    with again.trace() as trace:
        return _difference(short, trace.load(), again.parameters, "in a second run of the same seed")


def chunks(short: Short) -> str | None:
    """Of 3 devices, and of all 8."""
    decoded, all_of_them = [], short.base.run.selected
    for size in (3, all_of_them):
        world = short.world({"run": {"chunk": size}})
        exchanged = exchange(world, first_state(world))
        decoded.append((record_exchange(world.cell, exchanged, 0), exchanged.mean_update.double()))
    (one, mean), (other, whole) = decoded
    for name in ("update_norm", "energy_j"):
        if not np.allclose(one[name], other[name], rtol=1e-4):
            return f"{name} is {np.max(one[name]):.6g} in chunks of 3 devices, {np.max(other[name]):.6g} in one"
    off = float((mean - whole).norm() / max(float(whole.norm()), 1e-300))
    return f"the decoded mean moves by {off:.2g} of its norm" if off > OF_CHUNKS else None


def budget(short: Short) -> str | None:
    """Over the usual link."""
    return _beside(short, link_budget(short.settings()), short.trace)


def links(short: Short) -> str | None:
    """Each of the three."""
    kind = type(short.scheme)
    for link in LINKS:
        values = {**short.scheme.values(), "link": link}
        if link not in kind.links:
            try:
                kind(**values)
            except ValueError as error:
                if "\n" in str(error):
                    return f"the {link} link is refused in more than one line"
                continue
            return f"the {link} link is not refused"
        if link != kind.links[0]:
            settings = short.settings({"run": {"rounds": 1}}, link)
            try:
                found = link_budget(settings)
                other = Short(settings.scheme, short.overrides).again({"run": {"rounds": 1}})
            except UserError as error:
                return f"the {link} link is among `links` and does not carry it: {error}"
            with other.trace() as trace:
                wrong = _beside(short, found, trace.load())
            if wrong:
                return f"over the {link} link: {wrong}"
    return None


def memory(short: Short) -> str | None:
    """After two rounds, of each device that was in them."""
    world = short.world()
    stated, _ = store_bytes(world.cell, int(world.task.partition.sizes.max()))
    state = first_state(world)
    for _ in range(2):
        state, _ = run_round(world, state)
    kept: dict[int, int] = {}
    for rows in state.store.rows.values():
        for device, row in rows.items():
            kept[device] = kept.get(device, 0) + row.numel() * row.element_size()
    most = max(kept.values(), default=0)
    return f"a device keeps {most:,} bytes, stated (`kept`) are {stated:,}" if most != stated else None


def resume(short: Short) -> str | None:
    """From what was saved after round 2, in round 4."""
    trace, final = short.resumed()
    wrong = _difference(short, trace, final, "where it was gone on with")
    return f"{wrong}; what a round hands to the next belongs in the store" if wrong else None


def parameters(short: Short) -> str | None:
    """In a round over each link."""
    read: set[str] = set()
    for link in type(short.scheme).links:
        part, found = recording(short.settings(link=link).scheme)
        world = Short(part, short.overrides).world()
        run_round(world, first_state(world))
        read |= found
    idle = [one.name for one in parameters_of(type(short.scheme)) if one.name not in read | {"link"}]
    return f"nothing reads {', '.join(idle)}; leave it out, or use it in `recipe`" if idle else None


def unused(short: Short) -> str | None:
    """All of them at once; where a number changes, which of them it was."""
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
            wrong = _difference(short, trace.load(), None, f"under {key} = {OTHER[key]!r}, which `uses` does not name")
        if wrong:
            return wrong
    return f"{', '.join(idle)} together change a number, and `uses` names none of them"


def _changed(keys: Sequence[str]) -> Changes:
    """These keys at their other values, by section."""
    found: dict[str, dict[str, Any]] = {}
    for key in keys:
        section, _, name = key.partition(".")
        found.setdefault(section, {})[name] = OTHER[key]
    return found


def _difference(short: Short, trace: xarray.Dataset, final: Tensor | None, where: str) -> str | None:
    """The first number that is not that of the whole run."""
    for name, one in short.trace.data_vars.items():
        values, others = one.values, trace[name].values
        if values.shape != others.shape:
            return f"{name} has another shape {where}"
        same = (values == others) | _nan(values) & _nan(others)
        if not same.all():
            index = tuple(int(at[0]) for at in np.nonzero(~same))
            return f"{name} of round {index[0]} is {others[index]:.9g} {where}, not {values[index]:.9g}"
    if final is not None and not final.equal(short.run.parameters):
        return f"the final parameters are others {where}"
    return None


def _nan(values: NDArray[Any]) -> NDArray[np.bool_]:
    """Where there is no number; whole numbers always are."""
    found: NDArray[np.bool_] = np.isnan(values) if values.dtype.kind in "fc" else np.zeros(values.shape, np.bool_)
    return found


def _beside(short: Short, planned: Budget, trace: xarray.Dataset) -> str | None:
    """A link budget beside a run: counts exactly, and the energies of bits, which do not depend on what is sent."""
    pairs: dict[str, tuple[float, float]] = {
        name: (getattr(planned, name), int(trace[name].sum())) for name in ("resource_elements", "uplink_bits")
    }
    for name, (told, counted) in pairs.items():
        if told != counted:
            return f"the link budget counts {told:,} {name}, the run {counted:,}"
    energy = float(trace["energy_j"].sum())
    if trace.attrs["link"] != "analog" and not math.isclose(planned.energy_j, energy, rel_tol=1e-9):
        return f"the link budget's energy is {planned.energy_j:.9g}, the run's {energy:.9g}"
    return None


def _largest(messages: Tensor) -> float:
    """l2 norm of the longest row."""
    return float(messages.norm(dim=1).max())
