"""Records of devices with different numbers of samples: everybody's epsilon, by compositions of dp-accounting."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from dp_accounting import pld

from airfl.core.accounting import build_ledger, release_event
from airfl.core.building import _of_unequal, build_scenario
from airfl.errors import UserError
from airfl.privacy.bounds import bounds
from airfl.privacy.events import Composed, repeated
from airfl.schemes.release import RecordRelease
from tests.conftest import small_settings

SIZES = np.array([40, 41, 65, 90, 122])
STEPS = ("local.batch_size=40", "local.epochs=1", "local.steps=0", "local.momentum=0.0")
DP_FED = ("scheme.name=dp-fed", "scheme.noise_multiplier=4.0", "scheme.coordinate_clip=0.01", *STEPS)
EQUAL_STEPS = (*DP_FED, "local.epochs=0", "local.steps=3")


def scenario_of(*overrides: str, sizes: np.ndarray = SIZES, rounds: int = 6):  # type: ignore[no-untyped-def, type-arg]
    settings = small_settings("run.devices=5", "run.selected=2", f"run.rounds={rounds}", *overrides)
    return build_scenario(settings, 50, np.ones(5), sizes)


def entered(scenario, rounds):  # type: ignore[no-untyped-def]
    """The figures after rounds of these devices."""
    ledger = build_ledger(scenario)
    event = release_event(scenario, 4.0)
    for devices in rounds[:-1]:
        ledger.record(event, compose=False, devices=np.array(devices, dtype=np.int64))
    return ledger.record(event, compose=True, devices=np.array(rounds[-1], dtype=np.int64), last=True)


def opposite(size: int, releases: int, multiplier: float = 4.0, batch: int = 40) -> float:
    """What a record pays that contributes c or -c where all others contribute -c, by dp-accounting."""
    rate = min(batch, size) / size
    one = pld.privacy_loss_distribution.from_gaussian_mechanism(
        multiplier / 2, sampling_prob=rate, value_discretization_interval=1e-4
    )
    return float(one.self_compose(releases).get_epsilon_for_delta(small_settings().delta))


def test_the_device_with_the_fewest_samples_need_not_be_the_worst() -> None:
    """One step for 40 samples, two of 40 for 41, and so on: 41 samples are drawn nearly as a whole, twice."""
    scenario = scenario_of(*DP_FED)
    figures = entered(scenario, [[0, 1], [2, 3]])
    paid = [opposite(size, -(-size // 40)) for size in SIZES]
    assert max(paid) > paid[0] * 1.2
    assert figures.epsilon >= max(paid) * (1 - 1e-3)
    assert figures.epsilon_round >= max(paid) * (1 - 1e-3)
    assert figures.epsilon_at_least == pytest.approx(max(paid), rel=0.01)
    assert figures.epsilon_round_at_least == pytest.approx(max(paid), rel=0.01)


def test_the_lower_bound_is_that_of_a_device_with_its_own_rounds() -> None:
    """The device with the fewest samples takes part once, another one five times."""
    figures = entered(scenario_of(*EQUAL_STEPS), [[0, 4], [3, 4], [3, 4], [2, 4], [1, 4], [1, 2]])
    times = Counter({0: 1, 1: 2, 2: 2, 3: 2, 4: 5})
    paid = [opposite(size, 3 * times[device]) for device, size in enumerate(SIZES)]
    assert figures.epsilon_at_least <= max(paid) * 1.01
    assert figures.epsilon_at_least >= max(paid) * 0.9
    assert figures.epsilon >= max(paid)


def test_a_device_that_never_takes_part_pays_for_no_round() -> None:
    """Of 40 samples all are drawn, of 122 a third; only devices with 90 and 122 take part."""
    figures = entered(scenario_of(*EQUAL_STEPS), [[3, 4], [4, 3]])
    assert figures.epsilon_round_at_least == pytest.approx(opposite(90, 3), rel=0.01)
    assert opposite(40, 3) > 1.5 * opposite(90, 3)


def test_where_nobody_takes_part_nobody_pays() -> None:
    """A Poisson sample may be empty in every round of a run."""
    figures = entered(scenario_of(*EQUAL_STEPS), [[], []])
    assert (figures.epsilon_at_least, figures.epsilon_round_at_least) == (0, 0)


def test_calibrated_noise_suffices_for_everybody() -> None:
    target = ("privacy.bound=accountant", "privacy.epsilon=2.0")
    without = [one for one in DP_FED if "noise_multiplier" not in one]
    scenario = scenario_of(*without, *target, "run.selected=5", rounds=2)
    release = scenario.recipe.release
    assert isinstance(release, RecordRelease)
    delta = scenario.statement.delta
    alone = {40: release.batches, **release.by_samples}
    paid = [bounds(repeated(Composed(each), 2), "replace_one", delta, lower=False).upper for each in alone.values()]
    assert max(paid) == pytest.approx(2.0, rel=1e-4)
    assert max(paid) <= 2.0
    assert paid[0] < 1.9


def test_with_equal_steps_the_fewest_samples_are_the_worst() -> None:
    assert scenario_of(*EQUAL_STEPS).statement.worse == ()
    assert [one.parts[0][1] for one in scenario_of(*DP_FED).statement.worse] == [2, 3, 4]


def test_devices_with_equally_many_samples_are_accounted_as_one() -> None:
    equal = scenario_of(*DP_FED, sizes=np.full(5, 90)).statement
    assert (equal.of_devices, equal.worse) == ((), ())


@pytest.mark.parametrize("scheme", ["soteriafl-sgd", "soteriafl-gd", "soteriafl-svrg", "ldp-sgd"])
def test_no_device_pays_more_than_is_said_of_estimators(scheme: str) -> None:
    """Every device's own release, as often as it took part."""
    scenario = scenario_of(f"scheme.name={scheme}", "scheme.noise_multiplier=4.0", "local.batch_size=40")
    rounds = [[0, 4], [3, 4], [3, 4], [2, 4], [1, 4], [1, 2]]
    ledger = build_ledger(scenario)
    for devices in rounds:
        figures = ledger.record(release_event(scenario, 4.0), compose=True, devices=np.array(devices), last=True)
    times = Counter(device for devices in rounds for device in devices)
    release = scenario.recipe.release
    assert isinstance(release, RecordRelease)
    alone = {40: release.batches, **release.by_samples}
    for device, size in enumerate(SIZES.tolist()):
        event = repeated(Composed(alone[size]), times[device])
        assert bounds(event, "replace_one", scenario.statement.delta).lower <= figures.epsilon * (1 + 1e-9)


def test_a_release_that_tells_only_of_the_fewest_samples_has_no_lower_bound() -> None:
    scenario = scenario_of(*DP_FED)
    assert isinstance(scenario.recipe.release, RecordRelease)
    alone = replace(scenario.recipe, release=RecordRelease(scenario.recipe.release.batches))
    statement = replace(scenario.statement, of_devices=(), worse=())
    assert _of_unequal(statement, alone, SIZES).attained is False
    assert _of_unequal(statement, alone, np.full(5, 40)).attained


def test_noise_that_would_be_dropped_with_an_update_is_refused() -> None:
    with pytest.raises(UserError, match=r"run\.non_finite: in scheme 'dp-fed' the noise that hides a record is part"):
        scenario_of(*DP_FED, "run.non_finite=drop")
    scenario_of(*DP_FED, "run.non_finite=drop", "scheme.noise_multiplier=0.0")
    scenario_of("scheme.name=dp-fedavg", "run.non_finite=drop")


def test_where_the_selection_is_only_granted_no_lower_bound_is_known() -> None:
    calibrated = ("scheme.name=wfl-pdp", "privacy.bound=accountant", "privacy.epsilon=3.0", "power.alignment=sample")
    settings = small_settings(*calibrated)
    statement = build_scenario(settings, 50, np.ones(settings.run.devices)).statement
    assert (statement.granted, statement.attained) == (True, False)
    server = small_settings(*calibrated, "privacy.observer=server")  # which knows whom it has selected
    assert build_scenario(server, 50, np.ones(server.run.devices)).statement.attained
