"""Power control across cells: the shares of power against closed forms, grids and conditions of optimality, and what a
run makes of them: beta, interference, privacy, records, and refusals."""

import math
from typing import get_args

import numpy as np
import pytest

from airfl.core.scenario import Scenario
from airfl.errors import UserError
from airfl.uplinks import LinkReport
from channels.power.across_cells import AcrossCells, errors, power_shares
from tests.laws.decoding import built, everybody, planned, send
from tests.laws.samples import Array, assert_mean
from tests.laws.test_neighbouring_cells import BESIDE, CELL, ENTRIES, TWO, at, path_gain

BOTH = tuple(one for one in get_args(AcrossCells) if one != "none")
EXACT = 1e-9


def random_cells(cells: int, seed: int) -> tuple[Array, Array]:
    """Errors alone, and what crosses, over some decades."""
    generator = np.random.default_rng(seed)
    alone = 10 ** generator.uniform(-3, 0, cells)
    crossing = alone[:, None] * 10 ** generator.uniform(-1.5, 2.5, (cells, cells))
    np.fill_diagonal(crossing, 0.0)
    return alone, crossing


def objective(minimise: str, alone: Array, crossing: Array, shares: Array) -> Array:
    """Of shares [..., cells], from the definition of the errors alone."""
    found = (alone + np.einsum("lc,...c->...l", crossing, shares)) / shares
    return np.asarray(found.sum(axis=-1) if minimise == "sum" else (found / alone).max(axis=-1))


# --- the shares of power ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("minimise", BOTH)
@pytest.mark.parametrize("cells", [2, 3, 5, 10])
def test_symmetric_cells_send_at_full_power(minimise: AcrossCells, cells: int) -> None:
    """Less power would lower what crosses as much as the signal, and leave the noise. Rounding takes nothing off, so
    that their power limits still count as binding."""
    for coupling in (0.06, 30.0):
        shares = power_shares(np.full(cells, 0.2), coupling * (1 - np.eye(cells)), minimise)
        assert list(shares) == [1.0] * cells


def test_two_cells_that_minimise_the_sum() -> None:
    """The second one at full power, the first at sqrt((n_1 + v_12)/v_21), where the derivative of the sum
    (n_1 + v_12)/x + n_2 + v_21 x is 0; without noise, the sum is 2 sqrt(v_12 v_21)."""
    alone, crossing = np.array([0.3, 0.1]), np.array([[0.0, 2.0], [50.0, 0.0]])
    shares = power_shares(alone, crossing, "sum")
    np.testing.assert_allclose(shares, [math.sqrt(2.3 / 50), 1.0], rtol=EXACT)
    quiet = errors(alone * 1e-9, crossing, power_shares(alone * 1e-9, crossing, "sum"))
    assert quiet.sum() == pytest.approx(2 * math.sqrt(2.0 * 50.0), rel=1e-6)


def test_two_cells_with_the_same_loss() -> None:
    """The positive root of v x^2 + x - (1 + w) = 0, with w what the other one suffers, both over their errors alone:
    then (1 + w)/x = 1 + v x."""
    alone, crossing = np.array([0.5, 0.1]), np.array([[0.0, 1.0], [4.0, 0.0]])
    loss_first, loss_second = 1.0 / 0.5, 4.0 / 0.1
    root = (-1 + math.sqrt(1 + 4 * loss_second * (1 + loss_first))) / (2 * loss_second)
    shares = power_shares(alone, crossing, "min-max")
    np.testing.assert_allclose(shares, [root, 1.0], rtol=EXACT)
    losses = errors(alone, crossing, shares) / alone
    assert losses[0] == pytest.approx(losses[1], rel=EXACT)


@pytest.mark.parametrize("minimise", BOTH)
@pytest.mark.parametrize("cells", [2, 3])
def test_no_point_of_a_grid_is_better(minimise: AcrossCells, cells: int) -> None:
    """And the best one is next to what is found: of 300 or 80 steps in log x each, over four decades."""
    steps = {2: 300, 3: 80}[cells]
    axis = np.logspace(-4, 0, steps)
    grid = np.stack(np.meshgrid(*[axis] * cells), axis=-1)
    for seed in range(6):
        alone, crossing = random_cells(cells, seed)
        shares = power_shares(alone, crossing, minimise)
        least = float(objective(minimise, alone, crossing, shares))
        everywhere = objective(minimise, alone, crossing, grid)
        assert least <= everywhere.min() * (1 + EXACT)
        # The nearest point of the grid below is at most a step away in each log x, and so are terms by twice that.
        assert everywhere.min() <= least * math.exp(2 * math.log(1e4) / (steps - 1))
        best = grid[np.unravel_index(int(everywhere.argmin()), everywhere.shape)]
        assert np.abs(np.log(best / shares)).max() < 0.5


@pytest.mark.parametrize("cells", [3, 7, 19])
def test_shares_meet_the_conditions_of_optimality(cells: int) -> None:
    """Of the sum, the derivative by log x is 0 below full power and not positive at it; all losses of min-max are the
    same and one cell sends at full power, which in a problem where all reach each other is the optimum."""
    for seed in range(5):
        alone, crossing = random_cells(cells, 10 + seed)
        shares = power_shares(alone, crossing, "sum")
        pairs = crossing * shares / shares[:, None]
        slope = (pairs.sum(axis=0) - pairs.sum(axis=1) - alone / shares) / objective("sum", alone, crossing, shares)
        assert np.abs(slope[shares < 1]).max() < 1e-6
        assert slope[shares == 1].max(initial=-1.0) < 1e-6
        shares = power_shares(alone, crossing, "min-max")
        losses = errors(alone, crossing, shares) / alone
        np.testing.assert_allclose(losses, losses[0], rtol=1e-7)
        assert shares.max() == 1


@pytest.mark.parametrize("minimise", BOTH)
def test_noise_far_below_the_interference_does_not_matter(minimise: AcrossCells) -> None:
    """Then the optimum hardly depends on it, if all cells have the same: at 90 to 250 dB below."""
    for seed in range(5):
        _, crossing = random_cells(6, 20 + seed)
        one, *others = (power_shares(np.full(6, noise), crossing, minimise) for noise in (1e-9, 1e-12, 1e-16, 1e-25))
        for shares in others:
            np.testing.assert_allclose(shares, one, rtol=1e-3)


@pytest.mark.parametrize("minimise", BOTH)
def test_each_objective_is_the_least_of_its_own(minimise: AcrossCells) -> None:
    alone, crossing = random_cells(7, 3)
    found = {one: float(objective(minimise, alone, crossing, power_shares(alone, crossing, one))) for one in BOTH}
    without = float(objective(minimise, alone, crossing, power_shares(alone, crossing, "none")))
    assert min(found, key=lambda one: found[one]) == minimise
    assert found[minimise] < without


@pytest.mark.parametrize("minimise", BOTH)
def test_cells_that_do_not_meet_are_problems_of_their_own(minimise: AcrossCells) -> None:
    """A pair, a cell that nobody reaches, and one without a receiver, whatever is said to cross there."""
    alone, pair = np.array([0.3, 0.1, 0.7, 0.0]), np.array([[0.0, 2.0], [50.0, 0.0]])
    crossing: Array = np.zeros((4, 4))
    crossing[:2, :2], crossing[3, 0], crossing[0, 3] = pair, 5.0, 5.0
    shares = power_shares(alone, crossing, minimise)
    assert np.array_equal(shares[:2], power_shares(alone[:2], pair, minimise))
    assert list(shares[2:]) == [1.0, 1.0]
    assert list(power_shares(alone, np.zeros((4, 4)), minimise)) == [1.0] * 4


@pytest.mark.parametrize("minimise", BOTH)
def test_a_weak_coupling_changes_little(minimise: AcrossCells) -> None:
    """A cell with a large error does not make one that it hardly hears lower its power."""
    shares = power_shares(np.array([0.01, 5.0]), 1e-6 * np.array([[0.0, 1.0], [1.0, 0.0]]), minimise)
    np.testing.assert_allclose(shares, 1.0, atol=2e-4)


def test_numbers_that_are_no_errors_are_refused() -> None:
    for alone, crossing in (([1.0, -1.0], np.zeros((2, 2))), ([1.0, 1.0], np.full((2, 2), np.inf))):
        with pytest.raises(ValueError, match="must be finite and at least 0"):
            power_shares(np.array(alone), crossing, "sum")


# --- in a run --------------------------------------------------------------------------------------------------------

FIXED = (*at((50, 0), (-20, 30)), "channel.fading=fixed", "grid.packing=iq", "power.policy=full-inversion")
SEVERAL = ("topology.access_points=[[0,0],[70,-40]]", "antennas.count=2", "antennas.combining=first")
PLACES = np.array([(50.0, 0.0), (-20.0, 30.0)])


def report_of(scenario: Scenario, t: int = 0) -> LinkReport:
    return planned(scenario, t).link.link_budget()


def by_hand(stations: Array, noise_variance: float, power: float) -> tuple[Array, Array, Array]:
    """n and v of cells whose devices stand at `PLACES` from their base stations, over path losses alone, and the gain
    |h|^2 of the weakest device. An element of two entries has the power `power` at full power."""
    cells = len(stations)
    own = np.array([path_gain(float(np.hypot(*place))) for place in PLACES])
    squared = power / 2 * own.min()  # (beta rms)^2/m
    crossing: Array = np.zeros((cells, cells))
    for victim in range(cells):
        for sender in range(cells):
            if sender != victim:
                away = stations[sender] + PLACES - stations[victim]
                across = np.array([path_gain(float(distance)) for distance in np.hypot(*away.T)])
                crossing[victim, sender] = squared * (across / own).sum()
    return np.full(cells, noise_variance) / squared, crossing / squared, own


@pytest.mark.parametrize("receiver", [(), SEVERAL])
@pytest.mark.parametrize("minimise", BOTH)
def test_beta_and_interference_are_those_of_all_paths(minimise: AcrossCells, receiver: tuple[str, ...]) -> None:
    """Of three cells at known places without fading: gains by the distances, the optimum, and the figures of the link
    from them; also at the first of two access points, which is the only one that is used."""
    stations = np.array([(0.0, 0.0), (120.0, 0.0), (-300.0, 200.0)])
    given = (*FIXED, "topology.neighbours=[[120,0],[-300,200]]", *receiver)
    plain, lowered = (report_of(built(128, *given, f"power.across_cells={one}")) for one in ("none", minimise))
    scenario = built(128, *given)
    alone, crossing, _ = by_hand(stations, scenario.radio.noise_std**2, 10 ** ((10 - 30) / 10) / 64)
    shares = power_shares(alone, crossing, minimise)
    assert shares[0] < 0.99
    assert lowered.alignment_coefficient == pytest.approx(math.sqrt(shares[0]) * plain.alignment_coefficient, rel=1e-6)
    assert lowered.noise_std == pytest.approx(plain.noise_std / math.sqrt(shares[0]), rel=1e-6)
    over_noise = (lowered.interference_std / lowered.noise_std) ** 2
    assert over_noise == pytest.approx(float(crossing[0] @ shares / alone[0]), rel=1e-6)
    np.testing.assert_allclose(lowered.devices.energy, shares[0] * plain.devices.energy, rtol=1e-6)


@pytest.mark.parametrize("minimise", BOTH)
def test_two_symmetric_cells_keep_the_sinr_of_the_closed_form(minimise: AcrossCells) -> None:
    """P|h|^2/(N_0 + P|g|^2) on an element of two entries, at full power."""
    given = (*at((0, 50)), BESIDE, "channel.fading=fixed", "grid.packing=iq", "power.policy=full-inversion")
    scenario = built(128, *given, f"power.across_cells={minimise}")
    report, power = report_of(scenario), 10 ** ((10 - 30) / 10) / 64
    noise_energy = 2 * scenario.radio.noise_std**2
    signal = (report.alignment_coefficient * scenario.bound.rms) ** 2 / 128
    noise = (report.noise_std**2 + report.interference_std**2) / report.noise_std**2 * noise_energy / 2
    closed_form = power * path_gain(50) / (noise_energy + power * path_gain(math.hypot(400, 50)))
    assert signal / noise == pytest.approx(closed_form, rel=1e-6)


def test_the_packing_of_entries_does_not_matter() -> None:
    """One real entry on an element has all of its power, and half of what crosses falls on its part, on average over
    the phases: both twice as much as for two entries, in every round."""
    given = (*FIXED, "topology.neighbours=[[120,0]]", "power.across_cells=sum")
    squared = [
        report_of(built(entries, *given, f"grid.packing={packing}"), t).alignment_coefficient ** 2
        for entries, packing in ((128, "iq"), (64, "real"))
        for t in range(2)
    ]
    np.testing.assert_allclose(squared, squared[0], rtol=1e-6)


def test_interference_of_a_given_level_counts_as_noise() -> None:
    """10 times the noise in all cells, beside which what crosses matters less."""
    stations, two = np.array([(0.0, 0.0), (120.0, 0.0)]), "topology.neighbours=[[120,0]]"
    found = []
    for level in ((), ("channel.interference_to_noise_db=10",)):
        scenario = built(128, *FIXED, two, "power.across_cells=sum", *level)
        variance = scenario.radio.noise_std**2 * (11 if level else 1)
        alone, crossing, own = by_hand(stations, variance, 10 ** ((10 - 30) / 10) / 64)
        share = power_shares(alone, crossing, "sum")[0]
        full = math.sqrt(10 ** ((10 - 30) / 10) / 64 * own.min() / 2 * 128) / scenario.bound.rms
        assert report_of(scenario).alignment_coefficient == pytest.approx(math.sqrt(share) * full, rel=1e-6)
        found.append(share)
    assert found[1] > 1.01 * found[0]


def test_what_is_received_is_what_the_report_says() -> None:
    """With 2 antennas and cells of fading channels; the link budget is the report of the round."""
    scenario = built(
        4096, *everybody(6), *CELL, TWO, "antennas.count=2", "antennas.combining=sum", "channel.noise=false",
        "power.across_cells=sum",
    )  # fmt: skip
    plan = planned(scenario)
    budget = plan.link.link_budget()
    messages = np.random.default_rng(1).standard_normal((6, 4096))
    reception = send(plan, messages)
    missed = reception.mean.numpy() - messages.mean(axis=0)
    assert reception.report.interference_std == budget.interference_std > 0
    assert reception.report.alignment_coefficient == budget.alignment_coefficient
    assert_mean((missed / budget.interference_std) ** 2, 1.0, rounding=1e-4)


@pytest.mark.parametrize("policy", ["pfels", "full-inversion", "truncated-inversion", "cao", "cotaf"])
def test_power_is_lowered_and_never_raised(policy: str) -> None:
    """By one factor for all devices of the cell, whatever its policy: beta, amplitudes and energies; the noise
    multiplier is that of the beta with which the cell really sends."""
    given = (*everybody(5), *CELL, TWO, f"power.policy={policy}")
    given = (*given, "power.threshold=0.2") if policy == "truncated-inversion" else given
    plain, lowered = (built(ENTRIES, *given, f"power.across_cells={one}") for one in ("none", "sum"))
    shares = []
    for t in range(8):
        before, after = report_of(plain, t), report_of(lowered, t)
        share = (after.alignment_coefficient / before.alignment_coefficient) ** 2
        assert share <= 1
        np.testing.assert_allclose(after.devices.energy, share * before.devices.energy, rtol=EXACT)
        assert after.protection == pytest.approx(before.protection / math.sqrt(share), rel=EXACT)
        assert after.noise_std == pytest.approx(before.noise_std / math.sqrt(share), rel=EXACT)
        assert np.array_equal(after.devices.active, before.devices.active)
        if share < 1:
            assert not after.power_bound_binding
            assert not after.privacy_bound_binding
        shares.append(share)
    assert min(shares) < 0.9


def test_what_is_drawn_stays_as_it_was() -> None:
    """Channels of this cell and of what crosses to it, with and without coordination; and the paths between other cells
    do not depend on how many there are."""
    given = (*everybody(3), *CELL, "power.policy=full-inversion")
    plain = built(ENTRIES, *given, TWO)
    one, two = (built(ENTRIES, *given, cells, "power.across_cells=sum") for cells in (BESIDE, TWO))
    everyone = np.arange(3)
    for t in range(2):
        assert np.array_equal(planned(plain, t).channel.response, planned(two, t).channel.response)
        for before, after in zip(plain.neighbours, two.neighbours, strict=True):
            crossed = [cell.crossing_of(t, everyone, two.frame) for cell in (before, after)]
            assert np.array_equal(*crossed)
    assert one.neighbours[0].of_this_cell is not None
    assert two.neighbours[0].of_this_cell is not None
    assert np.array_equal(one.neighbours[0].of_this_cell.mean_power, two.neighbours[0].of_this_cell.mean_power)
    powers = [
        radio.channel(0, everyone, two.frame).response
        for cell in two.neighbours
        for radio in (cell.serving, cell.crossing, *cell.elsewhere, cell.of_this_cell)
        if radio is not None
    ]
    assert len(powers) == 8
    assert len({abs(complex(power[0, 0, 0, 0])) for power in powers}) == 8


def test_without_coupling_it_is_a_cell_alone_bit_for_bit() -> None:
    """Where there is no neighbour, or none whose devices send."""
    given = (*everybody(4), *CELL)
    reports = [report_of(built(ENTRIES, *given, f"power.across_cells={one}")) for one in ("none", "sum")]
    silent = (*given, BESIDE, "power.policy=truncated-inversion", "power.threshold=1e3")
    reports += [report_of(built(ENTRIES, *silent, f"power.across_cells={one}")) for one in ("none", "min-max")]
    for plain, lowered in (reports[:2], reports[2:]):
        assert plain.alignment_coefficient == lowered.alignment_coefficient
        assert np.array_equal(plain.devices.energy, lowered.devices.energy)
        assert plain.interference_std == lowered.interference_std == 0
        assert plain.power_bound_binding == lowered.power_bound_binding


def test_a_device_beside_another_base_station_is_kept_at_the_least_distance() -> None:
    """Of devices at 100 m, and at the very place of the base station of the neighbour."""
    given = (
        *at((100, 0), (0, 100)), "topology.neighbours=[[100,0]]", "topology.min_distance_m=10", "channel.fading=fixed",
        "power.policy=full-inversion", "power.across_cells=sum",
    )  # fmt: skip
    (cell,) = built(ENTRIES, *given).neighbours
    assert cell.of_this_cell is not None
    expected = [path_gain(10), path_gain(math.hypot(100, 100))]
    np.testing.assert_allclose(cell.of_this_cell.mean_power, expected, rtol=1e-6)


def test_each_access_point_of_another_cell_has_its_distances() -> None:
    """To the devices of this cell, and to those of a third one."""
    places, points = PLACES, np.array([(0.0, 0.0), (70.0, -40.0)])
    first, second = built(128, *FIXED, TWO, *SEVERAL, "power.across_cells=sum").neighbours
    for radio, offset in (
        (first.of_this_cell, (-400, 0)),
        (second.of_this_cell, (300, -200)),
        (first.elsewhere[0], (700, -200)),
        (second.elsewhere[0], (-700, 200)),
    ):
        assert radio is not None
        away = places[:, None] + np.array(offset) - points
        expected = [[path_gain(float(one)) for one in row] for row in np.hypot(away[..., 0], away[..., 1])]
        np.testing.assert_allclose(radio.point_power, expected, rtol=1e-9)


def test_beta_then_tells_who_was_selected() -> None:
    """It follows from the channels of all cells, of which no law is known: the observer is granted the sample."""
    given = (
        "run.devices=12", "run.selected=4", "scheme.name=pfels", "selection.kind=poisson", *CELL, BESIDE,
        "power.tx_power_dbm=[5,10]", "privacy.epsilon=1.5",
    )  # fmt: skip
    plain, lowered = (built(ENTRIES, *given, f"power.across_cells={one}") for one in ("none", "sum"))
    assert plain.beta_tells == "exact"
    assert lowered.beta_tells == "granted"
    disclosure = planned(lowered).disclosure
    assert disclosure is not None
    assert set(disclosure.named) == set(planned(lowered).devices)


# --- refusals ---------------------------------------------------------------------------------------------------------

REFUSALS = {
    "power.alignment=schedule power.coefficient=1e-8": 'power.alignment: "schedule" announces beta',
    "power.policy=full-inversion power.coefficient=1e-8": "power.coefficient: sets beta, which power.across_cells",
    "power.policy=statistical": "power.policy: 'statistical' sets power without the channels of a round",
    "power.policy=blind antennas.count=8 antennas.combining=sum": "power.policy: 'blind' sets power without",
    "topology.path_loss=umi topology.base_height_m=10 topology.device_height_m=1.5 "
    "topology.neighbours=[[4e3,0],[-4e3,0]]": "topology: .* distance of .* outside",
}


@pytest.mark.parametrize("given", REFUSALS)
def test_refusals(given: str) -> None:
    with pytest.raises(UserError, match=REFUSALS[given]) as refusal:
        built(ENTRIES, *everybody(8), *CELL, BESIDE, "power.across_cells=sum", *given.split())
    assert "\n" not in str(refusal.value)
