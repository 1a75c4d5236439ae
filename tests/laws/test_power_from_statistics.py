"""The errors of policies by statistics and of correlated messages, in whole rounds, and that no choice is better.

Formulas are written here; of the code are taken the plans, and in whole rounds the estimate of the mean.
"""

import math
from typing import Any

import numpy as np
import pytest
from scipy import optimize, special

from channels.fading import Exponential, Nakagami, Rayleigh, Rician, bounded, fade_statistics
from channels.fading.law import FadingLaw
from channels.power import POLICIES, PowerPlan, PowerTask
from tests.laws.decoding import built, everybody, planned, send
from tests.laws.samples import Array, assert_mean

ENTRIES = 8
# Laws, and (E|h|)^2/E|h|^2 in closed form.
LAGUERRE = special.eval_genlaguerre(0.5, 0, -3.0)  # L_1/2(-K)
KAPPA = {
    "rayleigh": (Rayleigh().law(), math.pi / 4),
    "rician": (Rician(k=3.0).law(), math.pi / 16 * LAGUERRE**2),
    "nakagami": (Nakagami(m=2.0).law(), (special.gamma(2.5) / special.gamma(2)) ** 2 / 2),
    # |h| exponential
    "exponential": (Exponential().law(), 0.5),
}
OBJECTIVES = ("unbiased", "mean-power", "least-error")
LAWS: tuple[FadingLaw, ...] = (
    Rayleigh().law(),
    Rician(k=5.0).law(),
    Nakagami(m=2.0).law(),
    bounded(Rayleigh().law(), 0.1, 2.0, "clip"),
)


def scenario_of(devices: int, *overrides: str) -> Any:
    """All devices in every round, entries of mean square 1, limits from -5 to 10 dB over the noise, sigma_0 = 1."""
    unit = (f"local.clip_norm={math.sqrt(ENTRIES)!r}", "power.max_snr_db=[-5.0, 10.0]", "channel.mean_gain=0.8")
    wide = ("channel.min_gain=1e-9", "channel.max_gain=1e9")
    return built(ENTRIES, *everybody(devices), *unit, *wide, *overrides)


def errors_of(scenario: Any, rounds: int, common_share: float = 0.0) -> Array:
    """Squared error of the sum per entry, [rounds], for Gaussian messages with this share in common."""
    rng, devices = np.random.default_rng(5), scenario.run.devices
    errors = []
    for index in range(rounds):
        own, common = rng.standard_normal((devices, ENTRIES)), rng.standard_normal(ENTRIES)
        messages = math.sqrt(common_share) * common + math.sqrt(1 - common_share) * own
        estimate = send(planned(scenario, index), messages).mean.double().numpy()
        errors.append(((devices * estimate - messages.sum(axis=0)) ** 2).mean())
    return np.array(errors)


# --- known mean powers ------------------------------------------------------------------------------------------------


def law_of(objective: str, kappa: float, reaches: Array) -> tuple[float, float]:
    """Error of the sum of unit messages and beta, for unit noise and reaches mu_i sqrt(P_i): unbiased, r (1/kappa - 1)
    + 1/beta^2 with beta the least reach; by mean power, r (2 - 2 sqrt(kappa)) + kappa/beta^2 with that beta; and the
    sum of kappa (min(B_i/b, 1) - 1)^2 + 1 - kappa + 1/b^2 at its least over b, B_i = reach/kappa."""
    count, beta = len(reaches), float(reaches.min())
    if objective == "unbiased":
        return count * (1 / kappa - 1) + 1 / beta**2, beta
    if objective == "mean-power":
        return count * (2 - 2 * math.sqrt(kappa)) + kappa / beta**2, beta / math.sqrt(kappa)
    inverses = np.linspace(0, 4 * kappa / beta, 20_001)[1:]
    arriving = np.minimum(reaches[:, None] / kappa * inverses, 1)
    errors = (kappa * (arriving - 1) ** 2 + 1 - kappa).sum(axis=0) + inverses**2
    return float(errors.min()), float(1 / inverses[errors.argmin()])


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_the_error_of_devices_that_know_their_mean_power(objective: str) -> None:
    """In whole rounds: 150, of 12 devices in Rayleigh fading, E|h| = .8."""
    scenario = scenario_of(12, "channel.fading=rayleigh", "power.policy=statistical", f"power.objective={objective}")
    expected, beta = law_of(objective, math.pi / 4, 0.8 * np.sqrt(scenario.power_limits / ENTRIES))
    assert planned(scenario).link.link_budget().alignment_coefficient == pytest.approx(beta, rel=2e-3)
    assert_mean(errors_of(scenario, 150), expected)


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("fading", KAPPA)
def test_the_error_in_other_fading(fading: str, objective: str) -> None:
    """By the fades of 20,000 devices of four kinds in one round."""
    law, kappa = KAPPA[fading]
    statistics, rng = fade_statistics(law), np.random.default_rng(6)
    assert statistics.amplitude_ratio**2 == pytest.approx(kappa)
    mean_power, limits = np.repeat([[1.0, 0.5, 2.0, 1.0], [1.0, 3.0, 0.3, 0.2]], 5000, axis=1)
    gains = np.sqrt(mean_power / law.mean_square) * law.quantile(rng.random(20_000))
    noise = 20_000.0
    task = PowerTask(
        gains=gains[:, None, None],
        weights=np.ones((1, 1)),
        energy_limits=limits * noise,
        rms_norms=np.ones(20_000),
        noise_energy=noise,
        privacy_bound=np.inf,
        mean_power=mean_power,
        amplitude_ratio=statistics.amplitude_ratio,
    )
    plan = POLICIES["statistical"](objective=objective).plan(task)
    reaches = np.sqrt(kappa * mean_power * limits)[:: 5000 if objective != "least-error" else 1]
    beta = float(plan.coefficient[0, 0])
    received = gains * plan.amplitudes[:, 0, 0] / beta
    if objective == "least-error":  # with the noise of 20,000 entries
        relative = np.minimum(np.sqrt(mean_power * limits * noise / kappa) / beta, 1)
        assert_mean((received - 1) ** 2, float((kappa * (relative - 1) ** 2 + 1 - kappa).mean()))
        return
    expected, unit = law_of(objective, kappa, reaches)
    assert beta == pytest.approx(unit * math.sqrt(noise))
    assert_mean((received - 1) ** 2, (expected - 1 / unit**2) / 4)
    assert_mean(received, 1.0 if objective == "unbiased" else math.sqrt(kappa))


def task_of(law: FadingLaw, seed: int, noise: float, bound: float = np.inf) -> PowerTask:
    """Two to four devices with gains of the law, unequal in everything."""
    statistics, rng = fade_statistics(law), np.random.default_rng(seed)
    count = int(rng.integers(2, 5))
    mean_power = rng.exponential(size=count)
    gains = np.sqrt(mean_power / law.mean_square) * law.quantile(rng.random(count))
    return PowerTask(
        gains=gains[:, None, None],
        weights=np.ones((1, 1)),
        energy_limits=rng.exponential(size=count),
        rms_norms=rng.uniform(0.3, 2, count),
        noise_energy=noise,
        privacy_bound=bound,
        mean_power=mean_power,
        amplitude_ratio=statistics.amplitude_ratio,
        survival=statistics.survival,
        most_power=statistics.most_power,
    )


def least(error: Any, starts: Any, bounds: Any) -> float:
    """The least value of several searches by all variables at once."""
    found = (optimize.minimize(error, start, bounds=bounds, method="L-BFGS-B", tol=1e-15) for start in starts)
    return min(float(one.fun) for one in found)


@pytest.mark.parametrize("seed", range(8))
def test_no_amplitudes_from_mean_powers_are_better(seed: int) -> None:
    """Against a search over all amplitudes and 1/beta, whatever the law; with a privacy bound for the bounded one."""
    law = LAWS[seed % 4]
    task = task_of(law, seed, (0.01, 0.3, 3.0)[seed % 3], 0.2 if seed == 7 else np.inf)
    ratio, rms = law.mean / math.sqrt(law.mean_square), task.rms_norms
    largest = np.sqrt(task.energy_limits) / rms
    if seed == 7:
        largest = np.minimum(largest, 0.2 / np.sqrt(task.mean_power * 4 / law.mean_square))

    def error(amplitudes: Array, inverse: float) -> float:
        powers = amplitudes**2 * task.mean_power * inverse**2
        means = amplitudes * ratio * np.sqrt(task.mean_power) * inverse
        return float(rms**2 @ (powers - 2 * means + 1)) + task.noise_energy * inverse**2

    plan = POLICIES["statistical"](objective="least-error").plan(task)
    ours = error(plan.amplitudes[:, 0, 0], 1 / float(plan.coefficient[0, 0]))
    starts = [np.append(np.full(len(rms), share), inverse) for share in (0.3, 1.0) for inverse in (0.05, 1.0, 10.0)]
    bounds = [(0, 1)] * len(rms) + [(0, 1e3)]
    found = least(lambda v: error(v[:-1] * largest, v[-1]), starts, bounds)
    assert ours <= found * (1 + 1e-9)
    assert ours == pytest.approx(found, rel=1e-5)


# --- truncation with pre-scalers --------------------------------------------------------------------------------------


def truncation_error(law: FadingLaw, task: PowerTask, prescalers: Array, coefficient: float) -> float:
    """sum rms^2 (pi (gamma/beta - 1)^2 + 1 - pi) + noise/beta^2, with pi = P(|g| >= gamma rms/sqrt(limit))."""
    thresholds = prescalers * task.rms_norms / np.sqrt(task.energy_limits)
    shares = 1 - law.cdf(np.nextafter(thresholds * np.sqrt(law.mean_square / task.mean_power), 0))
    each = shares * (prescalers / coefficient - 1) ** 2 + 1 - shares
    return float(task.rms_norms**2 @ each + task.noise_energy / coefficient**2)


def design_of(task: PowerTask, prescalers: str) -> tuple[Array, float]:
    """The pre-scalers, which are what a device arrives with that sends: here with a gain that is always enough."""
    always = PowerTask(**{**vars(task), "gains": np.full(task.gains.shape, 1e9)})
    plan: PowerPlan = POLICIES["statistical-truncation"](prescalers=prescalers).plan(always)
    return plan.amplitudes[:, 0, 0] * 1e9, float(plan.coefficient[0, 0])


@pytest.mark.parametrize("seed", range(8))
def test_no_prescalers_are_better(seed: int) -> None:
    """Brute force: a grid over the gamma_i of two to four devices for each of many beta is exhausted, as the error is
    a sum over devices for a given beta; steps of 0.2% cost less than 1e-5 of the error."""
    law = LAWS[seed % 4]
    bound = 0.25 if seed >= 6 else np.inf
    task = task_of(law, 10 + seed, (1e-3, 0.1, 1.0)[seed % 3], bound)
    ours = truncation_error(law, task, *design_of(task, "least-error"))
    highest = np.sqrt(task.energy_limits * task.mean_power) / task.rms_norms
    betas = np.geomspace(1e-3, 300, 400)
    best = np.full(len(betas), 0.0)
    for device, scale in enumerate(highest):
        prescalers = np.append(scale * np.geomspace(1e-4, 6, 5000), min(bound, 1e9))
        prescalers = prescalers[prescalers <= bound][:, None]
        shares = 1 - law.cdf(np.nextafter(prescalers / scale * np.sqrt(law.mean_square), 0))
        errors = shares * (prescalers / betas - 1) ** 2 + 1 - shares
        best += task.rms_norms[device] ** 2 * errors.min(axis=0)
    found = (best + task.noise_energy / betas**2).min()
    assert ours <= found * (1 + 1e-6)
    assert ours == pytest.approx(found, rel=2e-3)  # beta by steps of 3%
    for other in ("unbiased", "least-noise", "least-noise-unbiased"):
        assert ours <= truncation_error(law, task, *design_of(task, other)) * (1 + 1e-6)


def test_prescalers_in_rayleigh_fading() -> None:
    """Closed forms: alpha = gamma exp(-gamma^2/s^2), s = sqrt(E|g|^2 P)/rms, is largest at gamma = s/sqrt(2), where it
    is s/sqrt(2 e). The best threshold u = gamma/s for beta solves (1 - x) = u^2 (2 - x), x = gamma/beta."""
    law = Rayleigh().law()
    task = task_of(law, 3, 0.2)
    scales = np.sqrt(task.mean_power * task.energy_limits) / task.rms_norms
    prescalers, beta = design_of(task, "least-noise")
    np.testing.assert_allclose(prescalers, scales / math.sqrt(2), rtol=1e-5)
    strengths = scales / math.sqrt(2 * math.e)
    assert beta == pytest.approx(task.rms_norms @ strengths / task.rms_norms.sum())
    prescalers, beta = design_of(task, "least-noise-unbiased")
    assert beta == pytest.approx(strengths.min(), rel=1e-6)
    np.testing.assert_allclose(prescalers * np.exp(-((prescalers / scales) ** 2)), beta, rtol=1e-6)
    assert np.all(prescalers <= scales / math.sqrt(2))
    prescalers, beta = design_of(task, "least-error")
    arriving, thresholds = prescalers / beta, prescalers / scales
    np.testing.assert_allclose(1 - arriving, thresholds**2 * (2 - arriving), rtol=1e-4)


@pytest.mark.parametrize("seed", range(4))
def test_no_unbiased_prescalers_are_better(seed: int) -> None:
    """Equal strengths, of which none has a smaller error: 2,000 values of a strength, thresholds by Brent's method."""
    law = LAWS[seed]
    task = task_of(law, 20 + seed, 0.05)
    scales = np.sqrt(task.mean_power * task.energy_limits) / task.rms_norms
    prescalers, beta = design_of(task, "unbiased")

    def share(threshold: Any) -> Any:
        return 1 - law.cdf(np.nextafter(threshold * math.sqrt(law.mean_square), 0))

    np.testing.assert_allclose(prescalers * share(prescalers / scales), beta, rtol=1e-5)
    grid = np.linspace(0, 3, 30_001)
    top = float((grid * share(grid)).max())
    end = float(grid[np.argmax(grid * share(grid))])
    errors = []
    for strength in np.linspace(0.02, 1, 200) * top * scales.min():
        found = [optimize.brentq(lambda u, s=s: s * u * share(u) - strength, 0, end) for s in scales]  # noqa: B023
        errors.append(truncation_error(law, task, scales * found, strength))
    assert truncation_error(law, task, prescalers, beta) == pytest.approx(min(errors), rel=2e-3)


@pytest.mark.parametrize("prescalers", ["least-error", "unbiased", "least-noise"])
def test_the_error_of_truncation_in_whole_rounds(prescalers: str) -> None:
    """150 rounds of 12 devices, Rayleigh: bias, silent devices and noise, from the designed strengths alone."""
    scenario = scenario_of(
        12, "channel.fading=rayleigh", "power.policy=statistical-truncation", f"power.prescalers={prescalers}"
    )
    mean_power = 0.8**2 * 4 / math.pi
    law = Rayleigh().law()
    statistics = fade_statistics(law)
    task = PowerTask(
        np.ones((12, 1, 1)), np.ones((1, 1)), scenario.power_limits, np.full(12, math.sqrt(ENTRIES)), float(ENTRIES),
        np.inf, np.full(12, mean_power), survival=statistics.survival,
    )  # fmt: skip
    expected = truncation_error(law, task, *design_of(task, prescalers)) / ENTRIES
    assert_mean(errors_of(scenario, 150), expected)


# --- messages with a part in common -----------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(12))
def test_no_amplitudes_of_correlated_messages_are_better(seed: int) -> None:
    """Against searches over all arrivals x_i and y = 1/beta, x_i <= a_i y: two to four devices, privacy bounds; and for
    two devices against all points of a grid."""
    task = task_of(LAWS[0], 40 + seed, (0.01, 0.3, 3.0)[seed % 3], 0.3 if seed % 4 == 3 else np.inf)
    share, rms = (0.0, 0.2, 0.6, 0.95)[seed % 4], task.rms_norms
    reaches = np.minimum(task.gains[:, 0, 0] * np.sqrt(task.energy_limits) / rms, task.privacy_bound)

    def error(amplitudes: Array, inverse: Any) -> Any:
        missing = rms * (amplitudes * inverse - 1)
        own = (1 - share) * (missing**2).sum(-1)
        return share * missing.sum(-1) ** 2 + own + task.noise_energy * inverse[..., 0] ** 2

    plan = POLICIES["correlated"](common_share=share).plan(task)
    arriving, inverse = (plan.amplitudes * task.gains)[:, 0, 0], 1 / plan.coefficient[0]
    ours = float(error(arriving, inverse))
    count = len(rms)
    starts = [np.append(np.full(count, used), inverse) for used in (0.3, 1.0) for inverse in (0.05, 1.0, 10.0)]
    found = least(lambda v: float(error(v[:-1] * reaches, v[-1:])), starts, [(0, 1)] * count + [(0, 1e3)])
    assert ours <= found * (1 + 1e-9)
    assert ours == pytest.approx(found, rel=1e-4)
    used = np.stack(np.meshgrid(*[np.linspace(0, 1, 21)] * count, indexing="ij"), axis=-1)
    for inverse in np.geomspace(0.1, 10, 25) / float(plan.coefficient[0, 0]):
        assert ours <= error(used * reaches, np.array([inverse])).min() * (1 + 1e-12)


@pytest.mark.parametrize("seed", range(10))
def test_without_a_common_part_it_is_the_policy_of_cao(seed: int) -> None:
    task = task_of(LAWS[seed % 4], 60 + seed, 0.3)
    ours, cao = (
        POLICIES[name](**given).plan(task) for name, given in (("correlated", {"common_share": 0.0}), ("cao", {}))
    )
    np.testing.assert_allclose(ours.coefficient, cao.coefficient, rtol=1e-9)
    np.testing.assert_allclose(ours.amplitudes, cao.amplitudes, rtol=1e-9)


def test_a_strong_device_speaks_up_for_a_weak_one() -> None:
    """Two devices, unit messages, c = .5, hardly any noise, reaches 1 and 100. At beta = 1/y device 1 arrives with y:
    e_1 = y - 1, and t = -e_1/2 for device 2. The error is .5 (e_1 + t)^2 + .5 (e_1^2 + t^2) = .75 e_1^2, to which noise
    adds .01 y^2: y = .75/.76. Cao's device 2 stays at 1."""
    task = PowerTask(
        np.array([1.0, 100.0])[:, None, None], np.ones((1, 1)), np.ones(2), np.ones(2), 0.01, np.inf, np.ones(2)
    )
    plan = POLICIES["correlated"](common_share=0.5).plan(task)
    inverse = 0.75 / 0.76
    np.testing.assert_allclose(plan.coefficient, [[1 / inverse]])
    np.testing.assert_allclose((plan.amplitudes * task.gains)[:, 0, 0] * inverse, [inverse, 1 + (1 - inverse) / 2])


def test_the_error_of_correlated_messages_in_whole_rounds() -> None:
    """100 rounds of 4 devices, half of the power in common: the error of the round's plan, averaged, and below that of
    Cao's plans for the same fades."""
    share, sums = 0.5, {}
    for name in ("correlated", "cao"):
        scenario = scenario_of(4, "channel.fading=rayleigh", f"power.policy={name}")
        expected = []
        for index in range(100):
            plan = planned(scenario, index)
            budget = plan.link.link_budget()
            missing = np.abs(plan.channel.gains) * budget.devices.transmit_scale / budget.alignment_coefficient - 1
            own = (1 - share) * (missing**2).sum()
            expected.append(share * missing.sum() ** 2 + own + budget.alignment_coefficient**-2)
        errors = errors_of(scenario, 100, share)
        assert_mean(errors - expected, 0.0)
        sums[name] = float(np.sum(expected))
    assert sums["correlated"] < sums["cao"]
