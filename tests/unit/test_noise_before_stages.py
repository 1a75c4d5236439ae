"""Noise that devices add, and what the stages behind it leave of it.

The laws of sums of messages are computed here, by convolutions on a grid or in closed form, with numpy and scipy alone.
"""

import importlib
import math
import pkgutil
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.stats import binom, norm

from airfl.analysis.calculator import privacy_of
from airfl.core.building import build_scenario
from airfl.errors import UserError
from airfl.privacy.gaussian import gaussian_epsilon
from airfl.runtime.store import Store
from airfl.runtime.streams import Streams
from airfl.schemes.names import SCHEMES
from airfl.schemes.recipe import Problem, Recipe
from airfl.schemes.release import ClientRelease
from airfl.uplinks import DeviceUse, LinkReport, stages
from airfl.uplinks.stages import (
    AgeAwareTopK,
    Batch,
    Clip,
    Coder,
    ErrorFeedback,
    GaussianNoise,
    MessageBound,
    PerDeviceRandK,
    PerDeviceTopK,
    PublicTopK,
    RandK,
    Round,
    ShiftedCompression,
    Stage,
    bound_after,
)
from airfl.uplinks.stages.balanced_digits import BalancedDigits
from airfl.uplinks.stages.clamp import Clamp
from airfl.uplinks.stages.projection import Projection
from airfl.uplinks.stages.quantise import BinomialNoise, StochasticQuantise
from airfl.uplinks.stages.rotation import Rotation
from airfl.uplinks.stages.sign import SignMajority
from channels.grid import GridUse
from tests.conftest import small_settings
from tests.refusals import one_line

D, DEVICES, DELTA = 8, 8, 1e-4
NOISE, CLIP = GaussianNoise(1.5), Clip(1.0)
LINEAR: list[Stage] = [
    RandK(D, 3, amplify=True),
    RandK(D, 3),
    PublicTopK(D, 3),
    AgeAwareTopK(D, 3, 5),
    Rotation(D),
    Projection(D, 5),
]


def multiplier(*chain: Stage, protection: float = 0.0) -> float:
    """The noise multiplier of a round in which the messages of all devices arrive."""
    ones = np.ones(DEVICES)
    devices = DeviceUse(ones, ones, ones.astype(np.int64), ones.astype(np.int8), ones)
    report = LinkReport(0.0, 1.0, True, False, protection, GridUse(1, 1, 1, 1.0), devices, noisy_devices=DEVICES)
    return ClientRelease().noise_multiplier(bound_after(chain, D), 1.0, report)


def smallest(delta_at: Callable[[float], float]) -> float:
    """The smallest epsilon of a release with this delta(epsilon)."""
    return float(brentq(lambda epsilon: delta_at(epsilon) - DELTA, 0.0, 100.0))


def clipped_to(limit: float, data: float, cells: int = 100) -> NDArray[np.float64]:
    """The law of an entry with noise of 1.5 that is clipped to the limit, on a grid of 2 cells + 1 values."""
    values = np.linspace(-limit, limit, 2 * cells + 1)
    edges = (values[1:] + values[:-1]) / 2
    return np.diff(norm.cdf(edges, data, 1.5), prepend=0.0, append=1.0)


@pytest.mark.parametrize("limit", [0.1, 0.5])
def test_noise_in_front_of_a_clip_counts_for_each_message_alone(limit: float) -> None:
    """Eight messages of one entry, of which one has 1 or -1 and the others 0."""
    others = [1.0]
    for _ in range(DEVICES - 1):
        others = np.convolve(others, clipped_to(limit, 0.0))
    one, other = (np.convolve(others, clipped_to(limit, data)) for data in (1.0, -1.0))
    paid = smallest(lambda epsilon: float(np.maximum(one - math.exp(epsilon) * other, 0).sum()))
    found = gaussian_epsilon(DELTA, 2 / multiplier(CLIP, NOISE, Clip(limit)))
    assert multiplier(CLIP, NOISE, Clip(limit)) == pytest.approx(1.5)
    assert paid <= found
    as_on_a_sum = gaussian_epsilon(DELTA, 2 / (1.5 * math.sqrt(DEVICES) / limit))
    assert paid > 1.5 * as_on_a_sum


def test_noise_in_front_of_a_mask_of_each_device_covers_only_what_that_device_sends() -> None:
    """A single entry of +-1, which its device sends with probability 1/4, as every other does with its noise on it."""
    shares = binom(DEVICES - 1, 0.25).pmf(np.arange(DEVICES))

    def delta_at(epsilon: float) -> float:
        mu = 2 / (1.5 * np.sqrt(1 + np.arange(DEVICES)))
        gaussian = norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu)
        return 0.25 * float(shares @ gaussian)

    masked = CLIP, NOISE, PerDeviceRandK(D, 2, rescale=False)
    as_on_a_sum = gaussian_epsilon(DELTA, 2 / (1.5 * math.sqrt(DEVICES)))
    assert 1.2 * as_on_a_sum < smallest(delta_at) <= gaussian_epsilon(DELTA, 2 / multiplier(*masked))
    assert not bound_after(masked, D).attained


@pytest.mark.parametrize("stage", LINEAR)
def test_noise_in_front_of_a_linear_stage_adds_up(stage: Stage) -> None:
    """Also one that amplifies the messages, and with them the noise."""
    assert multiplier(CLIP, NOISE, stage) == pytest.approx(1.5 * math.sqrt(DEVICES))


def test_the_linear_stages_are_those_that_say_so() -> None:
    modules = (
        importlib.import_module(f"airfl.uplinks.stages.{one.name}") for one in pkgutil.iter_modules(stages.__path__)
    )
    kinds = {kind for module in modules for kind in vars(module).values() if isinstance(kind, type)}
    say_so = {kind for kind in kinds if getattr(kind, "noise_adds_up", False)}
    assert say_so == {GaussianNoise, BinomialNoise, *map(type, LINEAR)}


@pytest.mark.parametrize("stage", LINEAR)
def test_a_stage_that_is_called_linear_maps_sums_to_sums(stage: Stage) -> None:
    first, second = torch.from_numpy(np.random.default_rng(3).normal(size=(2, D)))
    updates = torch.stack((first, second, 2 * first + second))
    opened = Round(
        Streams(1), 0, torch.device("cpu"), np.arange(3), np.ones(3, dtype=np.bool_), Store(), lambda: torch.arange(8.0)
    )
    sent = stage.open(opened).encode(Batch(updates, torch.ones(3, dtype=torch.float64))).messages
    torch.testing.assert_close(sent[2], 2 * sent[0] + sent[1], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    "stage",
    [
        Clip(2.0), Clamp(1.0), PerDeviceTopK(D, 2), PerDeviceRandK(D, 2), StochasticQuantise(8, 1.0),
        SignMajority(D, 0.1), ErrorFeedback((RandK(D, 3),), D), ShiftedCompression(RandK(D, 3), 0.5, 1.0, D),
        BalancedDigits(3, 2, 1.0), BalancedDigits(3, 2, 1.0, linear=False),
    ],
)  # fmt: skip
def test_noise_in_front_of_any_other_stage_counts_for_each_message_alone(stage: Stage) -> None:
    assert multiplier(CLIP, NOISE, stage) == 1.5
    assert not bound_after((CLIP, NOISE, stage), D).attained


def test_noise_that_is_not_over_a_bounded_message_protects_nothing() -> None:
    assert multiplier(NOISE, CLIP) == 0
    assert multiplier(NOISE, CLIP, protection=4.0) == 4.0  # but the channel's does


def test_what_is_left_of_the_devices_noise_and_that_of_the_channel() -> None:
    """The larger one counts. Where noise may decide what is sent of the data, any message is a contribution."""
    assert multiplier(CLIP, NOISE, Clip(0.5), protection=0.1) == 1.5
    assert multiplier(CLIP, NOISE, Clip(0.5), protection=2.0) == 4.0
    assert multiplier(CLIP, NOISE, PerDeviceTopK(D, 2), protection=2.0) == 1.5
    assert multiplier(CLIP, NOISE, PerDeviceTopK(D, 2), Clip(4.0), protection=40.0) == 10.0
    assert multiplier(CLIP, NOISE, SignMajority(D, 0.1), protection=40.0) == 40 / math.sqrt(8)


def test_noise_moves_a_message_into_what_a_stage_leaves_without_it() -> None:
    """A soft threshold of 0.9 leaves 0.1 of updates of at most 1, and all of what data move beside noise."""

    class Soft:
        lipschitz = 1.0

        def bound(self, before: MessageBound) -> MessageBound:
            return replace(before, sensitivity=0.1)

        def open(self, opened: Round) -> Coder:
            raise NotImplementedError

    assert multiplier(CLIP, Soft(), protection=3.0) == pytest.approx(30)
    assert multiplier(CLIP, NOISE, Soft(), protection=3.0) == 3.0


def test_noise_inside_of_error_feedback_is_taken_back_by_the_next_message() -> None:
    """The sum of two messages has the noise of the second alone, so that noise does not add up over rounds either."""
    stage, store, update = ErrorFeedback((NOISE,), D), Store(), torch.zeros(2000, D, dtype=torch.float64)
    sums = torch.zeros_like(update)
    for index in range(2):
        opened = Round(
            Streams(1),
            index,
            torch.device("cpu"),
            np.arange(2000),
            np.ones(2000, dtype=np.bool_),
            store,
            lambda: update[0],
        )
        sums += stage.open(opened).encode(Batch(update, torch.ones(2000, dtype=torch.float64))).messages
    assert float(sums.std()) == pytest.approx(1.5, rel=0.05)  # and not 1.5 sqrt(2)
    within = ErrorFeedback((CLIP, NOISE), D)
    assert multiplier(within) == 1.5
    assert not bound_after((within,), D).attained
    assert multiplier(ErrorFeedback((CLIP,), D), NOISE) == pytest.approx(1.5 * math.sqrt(DEVICES))


def test_a_mask_behind_noise_and_a_clip_is_not_counted() -> None:
    """What it leaves of a message that was clipped with its noise depends on all of it."""
    assert bound_after((CLIP, RandK(D, 2), NOISE, CLIP), D).seen == 0.25
    assert bound_after((CLIP, NOISE, RandK(D, 2)), D).seen == 0.25
    assert bound_after((CLIP, NOISE, Clip(0.5), RandK(D, 2)), D).seen == 1
    assert bound_after((CLIP, NOISE, PerDeviceRandK(D, 2)), D).seen == 1


def test_shifts_are_subtracted_from_what_was_clipped() -> None:
    """A device whose update turns round sends more than the clip allows, so that no noise covers it."""
    stage, store, update = ShiftedCompression(RandK(D, D), 1.0, 1.0, D), Store(), torch.zeros(1, D)
    update[0, 0] = 1.0
    norms = []
    for index, sign in enumerate((1.0, -1.0)):
        opened = Round(
            Streams(1), index, torch.device("cpu"), np.arange(1), np.ones(1, dtype=np.bool_), store, lambda: update[0]
        )
        norms.append(float(stage.open(opened).encode(Batch(sign * update, torch.ones(1))).norms))
    assert norms == [1.0, 2.0]
    assert multiplier(CLIP, stage, protection=3.0) == 0
    assert multiplier(CLIP, replace(stage, gamma=0.0), protection=3.0) == 3


def test_shifts_that_stay_0_are_no_state() -> None:
    assert bound_after((CLIP, ShiftedCompression(RandK(D, D), 0.5, 1.0, D)), D).device_state
    assert not bound_after((CLIP, ShiftedCompression(RandK(D, D), 0.0, 1.0, D)), D).device_state


@pytest.mark.parametrize("behind", [(), (Clip(0.5),)])
def test_what_nobody_observes_costs_nothing(behind: tuple[Stage, ...]) -> None:
    """Also where a message has no bound."""
    assert multiplier(CLIP, NOISE, *behind, protection=math.inf) == math.inf
    assert multiplier(ErrorFeedback((RandK(D, 3),), D), protection=math.inf) == math.inf


def test_noise_of_a_mask_of_its_own_has_the_power_of_what_is_sent() -> None:
    masked = CLIP, NOISE, PerDeviceRandK(D, 2)
    silent = torch.zeros(4000, D, dtype=torch.float64)
    opened = Round(
        Streams(1), 0, torch.device("cpu"), np.arange(4000), np.ones(4000, dtype=np.bool_), Store(), lambda: silent[0]
    )
    batch = Batch(silent, torch.ones(4000, dtype=torch.float64))
    for stage in masked:
        batch = stage.open(opened).encode(batch)
    power = float(batch.messages.square().mean())
    assert power == pytest.approx(bound_after(masked, D).noise_std ** 2, rel=0.1)  # 6 standard errors
    assert bound_after(masked, D).rms == pytest.approx(math.sqrt((1 + D * 1.5**2) * 4))


# ---------------------------------------------------------------- in a run


class Noisy(SCHEMES["wfl-p"]):  # type: ignore[misc]
    """WFL-P whose devices add noise, with stages behind it."""

    name = "wfl-noisy"
    links = ("ideal", "digital")
    behind: tuple[Stage, ...] = ()
    target: float | None = None

    def recipe(self, problem: Problem) -> Recipe:
        chain = Clip(problem.settings.local.update_bound), NOISE, *type(self).behind
        return replace(super().recipe(problem), stages=chain, noise_target=type(self).target)


def test_the_figures_of_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = small_settings("scheme.name=wfl-p", "local.clip_norm=1.0").resolved(scheme=Noisy())
    selected, last = settings.run.selected, privacy_of(settings)
    assert last.noise_multiplier_min == pytest.approx(1.5 * math.sqrt(selected))
    monkeypatch.setattr(Noisy, "behind", (Clip(0.5),))
    behind = privacy_of(settings)
    assert behind.noise_multiplier_min == 1.5
    assert behind.epsilon > 2 * last.epsilon
    assert math.isnan(behind.epsilon_at_least)


def test_noise_that_cannot_be_accounted_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = small_settings("scheme.name=wfl-p", "local.clip_norm=1.0").resolved(scheme=Noisy())

    def build() -> None:
        build_scenario(settings, D, np.ones(settings.run.devices))

    monkeypatch.setattr(Noisy, "target", 1.0)
    build()
    monkeypatch.setattr(Noisy, "behind", (PerDeviceTopK(D, 2),))
    with pytest.raises(UserError, match=one_line("does not add up to noise_target")):
        build()
    monkeypatch.setattr(Noisy, "target", None)
    for binomial in (BinomialNoise(16), ErrorFeedback((BinomialNoise(16),), D)):
        monkeypatch.setattr(Noisy, "behind", (binomial,))
        with pytest.raises(UserError, match=one_line("ClientRelease accounts for Gaussian noise")):
            build()


@pytest.mark.parametrize("behind", [Clip(2.0), Clamp(1.0)])
def test_a_stage_behind_binomial_noise_is_refused(behind: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = small_settings("scheme.name=cpsgd", "privacy.epsilon=inf")
    build_scenario(settings, D, np.ones(settings.run.devices))
    recipe_of = type(settings.scheme).recipe
    monkeypatch.setattr(type(settings.scheme), "recipe", lambda self, problem: replace(
        recipe_of(self, problem), stages=(*recipe_of(self, problem).stages, behind)
    ))  # fmt: skip
    with pytest.raises(UserError, match=one_line("put BinomialNoise last")):
        build_scenario(settings, D, np.ones(settings.run.devices))


@pytest.mark.parametrize("decides", [SignMajority(D, 0.1), BalancedDigits(3, 12, 8.0, linear=False)])
def test_noise_that_a_stage_has_decided_on_still_tells_who_took_part(
    decides: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """How many there are in a Poisson sample, and by their weights which they are."""
    monkeypatch.setattr(Noisy, "behind", (decides,))
    settings = small_settings("scheme.name=wfl-p", "local.clip_norm=1.0").resolved(scheme=Noisy())
    poisson = settings.resolved(selection={"kind": "poisson"})
    with pytest.raises(UserError, match=one_line("its sum would tell how many a Poisson sample has")):
        build_scenario(poisson, D, np.ones(settings.run.devices))
    weighted = settings.resolved(server={"weights": "samples"})
    assert build_scenario(weighted, D, np.ones(settings.run.devices)).statement.granted


def test_no_beta_is_named_for_a_target_of_records() -> None:
    """They are protected by the noise of their device, whatever the link is."""

    class OverTheAir(SCHEMES["ldp-sgd"]):  # type: ignore[misc]
        name = "ldp-over-the-air"
        links = ("analog",)

        def recipe(self, problem: Problem) -> Recipe:
            return replace(super().recipe(problem), stages=(CLIP,))

    settings = small_settings("scheme.name=ldp-sgd", "scheme.gradient_clip=1.0", "privacy.epsilon=1.5")
    found = privacy_of(settings.resolved(scheme=OverTheAir(gradient_clip=1.0)))
    assert found.remedies is not None
    assert math.isnan(found.alignment_coefficient)


def test_shifts_of_a_hidden_sample_may_tell_who_took_part(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = small_settings("scheme.name=wfl-p", "local.clip_norm=1.0").resolved(scheme=Noisy())
    for gamma, remembered in ((0.5, True), (0.0, False)):
        monkeypatch.setattr(Noisy, "behind", (ShiftedCompression(RandK(D, 2), gamma, 1.0, D),))
        assert build_scenario(settings, D, np.ones(settings.run.devices)).statement.remembered == remembered


@pytest.mark.parametrize(
    ("clips", "named"),
    [
        (("power.peak_db=4.0", "power.peak=clip"), "power.peak_db: no privacy figure is known"),
        (("grid.waveform=true", "grid.clip_db=1.0"), "grid.clip_db: no privacy figure is known"),
        (("power.peak_db=4.0", "power.peak=back-off"), "has no largest norm to keep to"),
    ],
)
def test_a_clip_on_the_air_behind_the_devices_noise_is_refused(clips: tuple[str, ...], named: str) -> None:
    settings = small_settings("scheme.name=dp-fedavg", "scheme.link=analog", "scheme.noise_multiplier=0.6")
    build_scenario(settings, D, np.ones(settings.run.devices))
    clipped = small_settings("scheme.name=dp-fedavg", "scheme.link=analog", "scheme.noise_multiplier=0.6", *clips)
    with pytest.raises(UserError, match=one_line(named)):
        build_scenario(clipped, D, np.ones(settings.run.devices))
