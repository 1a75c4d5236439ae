"""A reconfigurable surface: mean power, coherent gain, loss by the resolution of phases, the search for phases against
all choices, what is aligned, pilots, links and refusals."""

import itertools
import math

import numpy as np
import pytest

from airfl.core.round_plan import plan_round
from airfl.errors import UserError
from channels.draws import Draw
from channels.surface import (
    Alignment,
    Objective,
    Surface,
    WeakestGain,
    cascaded,
    configured,
    starts_of,
    towards_base,
    towards_devices,
)
from tests.conftest import small_settings
from tests.laws.decoding import built, everybody, planned, send
from tests.laws.samples import Array, Complex, assert_mean, gaussian

RAYLEIGH = ("channel.fading=rayleigh", "channel.min_gain=1e-9", "channel.max_gain=1e9", "privacy.epsilon=inf")
MEAN_POWER = 0.02**2 * 4 / math.pi
"""E|h|^2 of the direct path at the default mean gain."""


def numbers(*seed: int, rows: int = 1) -> Draw:
    """Uniform numbers of these rows."""
    return lambda count: np.random.default_rng(seed).random((rows, count))


@pytest.mark.parametrize("k_factor", [0.0, 3.0, 1e6])
def test_hops_have_unit_mean_power_and_their_k_factor(k_factor: float) -> None:
    of_round, of_run = numbers(3, 1, rows=4000), numbers(3, 2, rows=4000)
    hop = towards_devices(5, k_factor, "independent", of_round, of_run, 0.0, np.zeros(1))[..., 0]
    base = np.array([towards_base(16, 3, k_factor, numbers(seed))[seed % 3, seed % 16] for seed in range(2000)])
    share = k_factor / (k_factor + 1)
    for gains in (hop, base):
        assert_mean(np.abs(gains) ** 2, 1.0, rounding=1e-3 if k_factor == 1e6 else 1e-12)
        assert_mean(gains, 0.0)
        # E|h|^4 of a Rician gain: 1 + (1 - s^2) for the share s of the line of sight.
        assert_mean(np.abs(gains) ** 4, 2 - share**2, rounding=1e-3 if k_factor == 1e6 else 1e-12)


def test_the_paths_to_the_antennas_hold_for_the_run() -> None:
    """Their line of sight has rank one. Over one element, without a direct path or fading towards the device, |h| is
    that of the path to the antenna, in every round."""
    base = towards_base(16, 4, 1e6, numbers(5))
    sizes = np.linalg.svd(base, compute_uv=False)
    assert sizes[0] == pytest.approx(math.sqrt(16 * 4), rel=1e-2)
    assert sizes[1] < 0.02 * sizes[0]
    given = ("surface.elements=1", "surface.direct_loss_db=200", "surface.device_k=1e6", "surface.base_k=0")
    rounds = [np.abs(of_round(*given, "antennas.count=3", t=t))[:, :, 0, 0] for t in range(3)]
    np.testing.assert_allclose(rounds[0], rounds[2], rtol=1e-2)
    assert (np.ptp(rounds[0], axis=0) < 1e-2 * rounds[0][0]).all()
    assert np.ptp(rounds[0][0]) > 0.1 * rounds[0][0].mean()


def test_random_phases_add_powers() -> None:
    """E|h|^2 = lambda + M rho times that of the direct path, which the radio states, and MMSE and policies use."""
    given = ("surface.elements=20", "surface.element_gain_db=-10", "surface.direct_loss_db=3")
    scenario = built(64, *everybody(12), *RAYLEIGH, *given, "surface.configuration=random")
    expected = MEAN_POWER * (10**-0.3 + 20 * 0.1)
    np.testing.assert_allclose(scenario.radio.mean_power, expected, rtol=1e-12)
    powers = [np.abs(planned(scenario, t).channel.response) ** 2 for t in range(60)]
    assert_mean(np.array(powers) / expected, 1.0)


def test_devices_with_their_own_k_factors_have_the_same_factor() -> None:
    """E|h|^2 = (lambda + M rho) times the path gain, also if devices in and out of sight have different K factors."""
    given = ("surface.elements=50", "surface.element_gain_db=-10", "surface.direct_loss_db=3")
    cell = ("channel.units=physical", "topology.kind=disc", "topology.path_loss=uma", "channel.fading=rician")
    scenario = built(
        64, *everybody(12), *cell, "channel.rician_k=tr38901", *given, "surface.configuration=random",
        "privacy.epsilon=inf",
    )  # fmt: skip
    radio = scenario.radio
    assert radio.k_factors is not None
    assert radio.drop is not None
    np.testing.assert_allclose(radio.mean_power, radio.drop.amplitude**2 * (10**-0.3 + 50 * 0.1), rtol=1e-12)
    powers = [np.abs(planned(scenario, t).channel.response[:, 0, 0, 0]) ** 2 for t in range(60)]
    assert_mean(np.array(powers) / radio.mean_power, 1.0)


@pytest.mark.parametrize(("bits", "excess"), [(1, 0.08), (2, 0.03), (3, 0.01), (8, 1e-4)])
def test_coherent_gain_and_the_loss_of_coarse_phases(bits: int, excess: float) -> None:
    """For one device without a direct path |h| is sum_n |g_n f_n| with exact phases. With phases to within pi/2^b, it
    is 2^b sin(pi/2^b)/pi of that for a given common phase, and a little more for the best one."""
    elements, found = 64, []
    levels = Surface(elements=elements, phase_bits=bits).levels
    for seed in range(15):
        generator = np.random.default_rng([seed, bits])
        paths = gaussian(generator, 1, 1, elements)
        starts = generator.integers(0, len(levels), (1, elements))
        chosen = configured(np.zeros((1, 1), complex), paths, levels, starts, WeakestGain(np.ones(1)))
        found.append(abs((paths[0, 0] * levels[chosen]).sum()) / np.abs(paths).sum())
    loss = 2**bits / math.pi * math.sin(math.pi / 2**bits)
    assert max(found) <= 1 + 1e-12
    assert -1e-5 < np.mean(found) - loss < excess


def of_all(channels: Complex, paths: Complex, levels: Complex, objective: Objective) -> float:
    """The largest objective over all choices of levels."""
    choices = np.array(list(itertools.product(range(len(levels)), repeat=paths.shape[-1])))
    return float(objective.score(channels + np.einsum("dan,cn->cda", paths, levels[choices]), math.inf).max())


@pytest.mark.parametrize(("devices", "antennas", "elements", "bits"), [(4, 1, 8, 1), (3, 2, 5, 2), (8, 1, 8, 1)])
@pytest.mark.parametrize("objective", ["weakest", "alignment"])
def test_the_search_against_all_choices(devices: int, antennas: int, elements: int, bits: int, objective: str) -> None:
    """On average within 5% of the best of all choices, which it reaches in most draws and never exceeds."""
    ratios = []
    for seed in range(20):
        generator = np.random.default_rng([seed, devices, elements])
        channels, paths = gaussian(generator, devices, antennas), gaussian(generator, devices, antennas, elements)
        levels = Surface(elements=elements, phase_bits=bits).levels
        wanted: Objective = (
            WeakestGain(generator.uniform(0.5, 2, devices)) if objective == "weakest" else Alignment(0.1)
        )
        starts = generator.integers(0, len(levels), (starts_of(elements), elements))
        chosen = configured(channels, paths, levels, starts, wanted)
        reached = float(wanted.score((channels + paths @ levels[chosen])[None], math.inf)[0])
        ratios.append(reached / of_all(channels, paths, levels, wanted))
    assert max(ratios) <= 1 + 1e-9
    assert np.mean(ratios) > 0.95
    assert np.mean(np.array(ratios) > 1 - 1e-9) > 0.5


def test_the_objective_of_alignment_is_the_inverse_error() -> None:
    """1/(error + r), with the error of decoding by hand: sum_i |a^H h_i/c - 1|^2 + N/c^2."""
    generator = np.random.default_rng(1)
    channels = gaussian(generator, 6, 3) + 1
    total = channels.sum(axis=0)
    combined = channels @ (total / np.linalg.norm(total)).conj()
    scale = np.linalg.norm(total) / 6
    assert combined.mean() == pytest.approx(scale)
    error = float((np.abs(combined / scale - 1) ** 2).sum() + 0.7 / scale**2)
    assert Alignment(0.7).score(channels[None], math.inf)[0] == pytest.approx(1 / (error + 6), rel=1e-12)


def of_round(*given: str, t: int = 0) -> Complex:
    return planned(built(64, *everybody(12), *RAYLEIGH, *given), t).channel.response


def test_phases_raise_the_weakest_device() -> None:
    """More elements raise min_i |h_i|, and the phases are those of a search over the channels as they are."""
    weakest = [
        np.mean([np.abs(of_round(f"surface.elements={count}", t=t)).min() for t in range(6)]) for count in (0, 16, 64)
    ]
    assert weakest[0] < 0.5 * weakest[1] < 0.5 * 0.8 * weakest[2]
    rounds = [of_round("surface.elements=16", "surface.configuration=random", t=t) for t in range(2)]
    assert not np.allclose(rounds[0], rounds[1])


@pytest.mark.parametrize("antennas", [1, 2])
def test_aligned_devices_need_no_channel_knowledge(antennas: int) -> None:
    """Uncorrected messages of devices whose channels are aligned are decoded without noise with the error of the
    objective, which few elements cannot make small and many can."""
    errors = []
    for elements in (4, 300):
        given = (f"surface.elements={elements}", "surface.configuration=alignment", "power.policy=blind")
        scenario = built(
            64, *everybody(6), *RAYLEIGH, *given, "antennas.combining=aligned-sum", f"antennas.count={antennas}",
            "surface.element_gain_db=-10", "channel.noise=false",
        )  # fmt: skip
        plan = planned(scenario)
        messages = np.random.default_rng(elements).standard_normal((6, 64))
        missed = send(plan, messages).mean.numpy() - messages.mean(axis=0)
        channels = plan.channel.response[:, :, 0, 0]
        total = channels.sum(axis=0)
        weights = channels @ total.conj() / np.linalg.norm(total) ** 2 * 6
        assert weights.mean() == pytest.approx(1)
        np.testing.assert_allclose(missed, ((weights.real - 1) @ messages) / 6, atol=1e-5)
        errors.append(float((np.abs(weights - 1) ** 2).sum()))
    assert errors[1] < 0.05 < 0.2 < errors[0]


def test_phases_are_for_the_selected_devices_and_follow_their_estimates() -> None:
    """The channels of a device depend on who sends with it; and on errors of the training, but little on small ones."""
    scenario = built(64, *everybody(12)[:1], "run.selected=4", "scheme.name=wfl-p", *RAYLEIGH, "surface.elements=16")
    frame, power = scenario.frame, scenario.element_power
    alone, beside = (
        scenario.radio.csi_of(0, np.array(ids), frame, power[ids]).state.response[0] for ids in ([0, 1], [0, 2])
    )
    assert not np.allclose(alone, beside)
    given = ("surface.elements=16", "csi.estimation=ls")
    exact = of_round("surface.elements=16")
    assert np.allclose(of_round(*given, "csi.pilot_snr_db=200"), exact)
    assert not np.allclose(of_round(*given, "csi.pilot_snr_db=-20"), exact)


def test_pilots_of_the_training_are_charged() -> None:
    """L (M + 1) pilots of every device for its paths over the elements and without the surface, and L with the phases
    set; random phases need the latter alone, and perfect knowledge none."""
    rest = ("surface.elements=10", "csi.pilots=2", "csi.pilot_snr_db=30")

    def elements(*given: str) -> int:
        return planned(built(64, *everybody(12), *RAYLEIGH, *rest, *given)).link.link_budget().pilot_elements

    assert elements("csi.estimation=ls") == 12 * 2 * (11 + 1)
    assert elements("csi.estimation=ls", "surface.configuration=random") == 12 * 2
    assert elements() == 0
    blind = ("power.policy=blind", "antennas.combining=aligned-sum")
    # Once the phases are set, devices that do not know their channels send their pilots at once.
    assert elements("csi.estimation=ls", *blind) == 12 * 2 * 11 + 2


def test_pilots_of_the_training_take_energy() -> None:
    """L (M + 2) pilots of every device, on every link, and also of those that then send their pilots at once."""
    given = ("surface.elements=10", "csi.pilots=2", "csi.pilot_snr_db=30", "csi.estimation=ls")
    blind = ("power.policy=blind", "antennas.combining=aligned-sum")
    bits = ("scheme.name=fedavg", "scheme.link=digital"), ("scheme.name=fedavg", "scheme.link=ideal")
    for sent in (("scheme.name=wfl-p",), ("scheme.name=wfl-p", *blind), *bits):
        scenario = built(64, *everybody(12)[:2], *RAYLEIGH, *given, *sent)
        radio, everyone = scenario.radio, np.arange(12)
        cost = radio.pilots((12, 1, 1, 1), everyone, everyone, scenario.element_power)
        np.testing.assert_allclose(cost.energy, 2 * (10 + 2) * 10**3 * radio.noise_std**2 * radio.energy_unit)
        spent = planned(scenario).link.link_budget().devices.energy
        assert (spent > cost.energy).all()


def test_without_elements_nothing_changes() -> None:
    given = ("surface.phase_bits=1", "surface.direct_loss_db=10", "surface.element_gain_db=30")
    assert np.array_equal(of_round(*given), of_round())


def test_an_observer_is_granted_the_selection_that_the_phases_depend_on() -> None:
    for given, granted in (
        (("surface.elements=8",), True),
        (("surface.elements=8", "surface.configuration=random"), False),
    ):
        assert built(64, "scheme.name=pfels", *RAYLEIGH[:-1], *given).statement.granted == granted


def test_the_best_alignment_is_among_those_that_a_surface_allows() -> None:
    """ "auto" leaves out that by the channels of all devices, which have no phases set for them."""
    given = ("scheme.name=pfels", *RAYLEIGH[:-1], "surface.elements=8", "privacy.bound=accountant")
    assert built(64, *given).radio.sections.power.alignment in ("sample", "schedule")


def test_channels_over_a_surface_that_do_not_fit_are_refused() -> None:
    moving = ("channel.variation=jakes", "channel.speed_m_s=30", "channel.coherence=symbol", "grid.subcarriers=1")
    rest = (*everybody(500), *RAYLEIGH, *moving, "surface.configuration=random")
    with pytest.raises(UserError, match=r"1,024 elements, .* need .* GB, .*fewer elements"):
        built(100_000_000, *rest, "surface.elements=1024")


def test_a_moving_device_over_the_blocks_of_a_round() -> None:
    """The phases are set by the first block, and the paths go on changing."""
    moving = ("channel.variation=jakes", "channel.speed_m_s=30", "channel.coherence=symbol", "grid.subcarriers=8")
    response = of_round("surface.elements=32", *moving)
    still = of_round("surface.elements=32", "channel.variation=jakes", "channel.speed_m_s=30", "grid.subcarriers=8")
    assert response.shape[2] > 1
    np.testing.assert_allclose(response[:, :, 0], still[:, :, 0], rtol=1e-9)
    assert not np.allclose(response[:, :, -1], response[:, :, 0])


def test_rounds_are_drawn_again_alike() -> None:
    scenario = built(64, *everybody(12), *RAYLEIGH, "surface.elements=16", "csi.estimation=ls")
    first, again = (plan_round(scenario, 3, scenario.memory) for _ in range(2))
    assert np.array_equal(first.channel.response, again.channel.response)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("channel.fading=tdl-a", "surface.elements: needs a flat fading law, .*'tdl-a'"),
        ("grid.waveform=true", "surface.elements: does not support grid.waveform"),
        ("csi.delay_s=0.001 channel.speed_m_s=3", "csi.delay_s: ageing is not modelled .* 0.001 s at 3 m/s"),
        ("csi.estimation=mmse", 'csi.estimation: "mmse" needs the mean power .*"ls"'),
        ("power.policy=statistical power.objective=mean-power", "power.policy: 'statistical' needs the statistics"),
        ("power.alignment=population", 'power.alignment: "population" needs the channels of all devices'),
        ("selection.kind=best-k", "selection.kind: 'best-k' selects by the channels"),
        ("scheme.name=blind", "antennas.combining: 'sum' is for channels of independent phases"),
        ("scheme.name=reed", "surface.configuration: the noncoherent link"),
        (
            "power.policy=truncated-inversion power.participation=0.5",
            "power.participation: the fading law with a surface",
        ),
        ("surface.elements=2000", "surface.elements"),
        ("surface.phase_bits=0", "surface.phase_bits"),
        ("surface.configuration=best", "surface.configuration"),
        ("privacy.csi_error=quantile csi.estimation=ls privacy.epsilon=1.0", 'privacy.csi_error: "quantile"'),
    ],
)
def test_what_does_not_go_with_a_surface(given: str, words: str) -> None:
    with pytest.raises(UserError, match=words) as error:
        built(64, "scheme.name=wfl-p", *RAYLEIGH, "surface.elements=8", *given.split())
    assert "\n" not in str(error.value)


def test_a_policy_by_mean_powers_has_no_privacy_bound_over_a_surface() -> None:
    """Nothing bounds the gain, although the direct paths have a largest one."""
    given = ("channel.fading=rayleigh", "surface.configuration=random", "power.policy=statistical")
    rest = ("power.objective=mean-power", "scheme.name=pfels")
    with pytest.raises(UserError, match=r"no largest gain.*; use a policy .*, surface.elements = 0, or"):
        built(64, *given, *rest, "surface.elements=8")


def test_settings_of_a_surface_that_is_not_there() -> None:
    assert small_settings("surface.phase_bits=2").surface.elements == 0


def test_paths_over_elements_multiply() -> None:
    base, hop = gaussian(np.random.default_rng(1), 2, 3), gaussian(np.random.default_rng(2), 4, 3, 5)
    amplitudes: Array = np.arange(1.0, 5.0)
    paths = cascaded(base, hop, amplitudes)
    assert paths.shape == (4, 2, 3, 5)
    assert paths[2, 1, 0, 4] == pytest.approx(3 * base[1, 0] * hop[2, 0, 4])
