r"""
How strongly should a device with a weak channel send?
======================================================

Messages that are to add up in the air should arrive with the same amplitude. A device in a deep fade cannot reach the
amplitude of the others within its power. Should all others send more weakly, should it be silent, or should it send
what it can?

Two papers give two answers. X. Cao, G. Zhu, J. Xu and K. Huang (*Optimized power control for over-the-air computation
in fading channels*, IEEE Transactions on Wireless Communications 19(11), 2020) find the policy with the least error for
static channels. G. Zhu, Y. Wang and K. Huang (*Broadband analog aggregation for low-latency federated edge learning*,
IEEE Transactions on Wireless Communications 19(1), 2020) leave out devices below a threshold, and derive what that
costs: the tradeoff between the receive SNR and the share of the updates that is left out. This tutorial reproduces
both.
"""

# %%
# One round of power control
# --------------------------
# A policy gets the gains of the devices and their limits, and plans the amplitudes and :math:`\beta`, by which the
# server divides. Here 20 devices have Rayleigh fading of unit power, messages of unit variance and the power :math:`P`,
# and the noise has the variance 1. Besides the two policies of airfl we write a third by hand: everybody sends at full
# power, and the server divides by the :math:`\beta` that is best for that.

import matplotlib.pyplot as plt
import numpy as np
from scipy.special import exp1

from channels.power import Cao, FullInversion, PowerPlan, PowerTask, TruncatedInversion, mse

DEVICES, DRAWS = 20, 500
rng = np.random.default_rng(0)


def task_of(gains, power):
    """Return the inputs of a policy, for gains |h| of any number of devices."""
    each = np.ones(len(gains))
    return PowerTask(
        gains=gains[:, None, None],  # [devices, blocks, subcarriers]
        weights=np.ones((1, 1)),
        energy_limits=power * each,
        rms_norms=each,
        noise_energy=1.0,
        privacy_bound=np.inf,
        mean_power=each,
        inverse_power=exp1,  # E[1/|h|^2; |h|^2 >= t] of Rayleigh fading
    )


def full_power(task):
    """Return the plan in which every device sends at its limit."""
    amplitudes = np.sqrt(task.energy_limits)[:, None, None]
    arriving = amplitudes * task.gains
    beta = (np.sum(arriving**2) + task.noise_energy) / np.sum(arriving)
    return PowerPlan(amplitudes, np.full((1, 1), beta), power_bound_binding=True, privacy_bound_binding=False)


# %%
# Cao et al.: the least error
# ---------------------------
# The error of the mean is that of the sum over :math:`K^2`, for :math:`K` devices. We take its median over 500 draws of
# the channels: the expected error of channel inversion is infinite in Rayleigh fading, because of draws in which one
# device hardly has a channel.

POLICIES = {"Cao et al.": Cao().plan, "channel inversion": FullInversion().plan, "full power": full_power}
LEVELS_DB = np.arange(-10, 31, 5)

fades = rng.rayleigh(scale=np.sqrt(0.5), size=(DRAWS, DEVICES))  # E|h|^2 = 1
errors = {name: np.empty((len(LEVELS_DB), DRAWS)) for name in POLICIES}
for row, level in enumerate(LEVELS_DB):
    for column, fade in enumerate(fades):
        task = task_of(fade, power=10 ** (level / 10))
        for name, plan in POLICIES.items():
            errors[name][row, column] = mse(task, plan(task)) / DEVICES**2

example = task_of(np.sort(fades[0]), power=1.0)
optimum = Cao().plan(example)
quality = (example.energy_limits * example.gains[:, 0, 0] ** 2).ravel()
used = optimum.amplitudes[:, 0, 0] ** 2 / example.energy_limits
threshold = float(optimum.coefficient[0, 0]) ** 2

# %%
# Zhu et al.: the tradeoff
# ------------------------
# The limit holds on average over the fades, so that :math:`\beta` is the same in every round. With Rayleigh fading a
# threshold :math:`g` on :math:`|h|^2` leaves out the share :math:`1 - e^{-g}`, and the receive SNR of a device is
# :math:`\beta^2 / \sigma^2 = P / (\sigma^2 E_1(g))`, with the exponential integral.

THRESHOLDS = np.geomspace(0.003, 1.5, 12)
many = rng.rayleigh(scale=np.sqrt(0.5), size=200_000)
left_out, snr_db, mean_power = [], [], []
for threshold_of_zhu in THRESHOLDS:
    plan = TruncatedInversion(threshold=threshold_of_zhu, average_over="fading").plan(task_of(many, power=10.0))
    left_out.append(1 - plan.active.mean())
    snr_db.append(20 * np.log10(plan.coefficient[0, 0]))
    mean_power.append((plan.amplitudes**2).mean())
closed_share = 1 - np.exp(-THRESHOLDS)
closed_snr_db = 10 * np.log10(10.0 / exp1(THRESHOLDS))

# %%
# The figure
# ----------
# Left: the optimal power of 20 devices in one draw at 0 dB. Middle: the error of three policies. Right: the tradeoff at
# 10 dB.

figure, (left, middle, right) = plt.subplots(1, 3, figsize=(12, 3.6), layout="constrained")
left.plot(quality, used, "o", label="planned")
smooth = np.geomspace(quality.min(), quality.max(), 200)
left.plot(smooth, np.minimum(1, threshold / smooth), "k-", linewidth=0.8, label="full power, then inversion")
left.axvline(threshold, color="gray", linestyle=":", label="threshold β²")
left.set(xscale="log", xlabel="quality of the device, P|h|²", ylabel="share of its power that it uses")
for (name, each), style in zip(errors.items(), ("-", "--", "-."), strict=True):
    middle.plot(LEVELS_DB, np.median(each, axis=1), style, label=name)
middle.set(xlabel="P/σ² (dB)", ylabel="error of the mean, median", yscale="log")
right.plot(100 * closed_share, closed_snr_db, "k-", linewidth=0.8, label="closed form")
right.plot(100 * np.array(left_out), snr_db, "o", label="200,000 devices")
right.set(xlabel="left out (%)", ylabel="receive SNR (dB)", xscale="log")
for axes in (left, middle, right):
    axes.legend(fontsize=8)
plt.show()

# %%
# What it shows
# -------------
# **A weak device should send with all it has.** The optimum of Cao et al. is a threshold: devices whose quality
# :math:`P |h|^2` is below :math:`\beta^2` use their full power and arrive with less than the others. Devices above it
# invert their channel, and the stronger they are the less power they use.

weak = quality < threshold
assert weak.any()
assert not weak.all()
assert np.allclose(used[weak], 1)
assert np.allclose(used[~weak], threshold / quality[~weak])

# %%
# **It is the least error in every draw**, and not only in the median. At -10 dB it is that of full power, since noise
# matters most, and channel inversion is more than twenty times worse. At 30 dB it is close to that of channel
# inversion. Full power then keeps an error that no power removes, since the channels distort the sum.

best, inversion, full = errors.values()
assert np.all(best <= np.minimum(inversion, full) * (1 + 1e-12))
best, inversion, full = (np.median(each, axis=1) for each in errors.values())
assert full[0] < 1.01 * best[0]
assert inversion[0] > 20 * best[0]
assert inversion[-1] < 1.1 * best[-1]
assert full[-1] > 0.9 * full[-3]
assert best[-1] < 0.2 * best[-3]

# %%
# We can check the optimum without the paper: for any :math:`\beta` the best amplitude of a device is
# :math:`\min(\sqrt{P}, \beta / |h|)`, and a fine grid of :math:`\beta` finds no smaller error.

betas = np.geomspace(0.01, 100, 20_000)
arriving = np.minimum(np.sqrt(quality)[:, None], betas)
found = ((arriving / betas - 1) ** 2).sum(axis=0) + 1 / betas**2
assert np.isclose(mse(example, optimum), found.min(), rtol=1e-5)

# %%
# **Leaving out few devices buys much, leaving out more buys less.** In the tradeoff of Zhu et al. a receive SNR that is
# 4 dB higher costs 8.5% of the updates instead of 0.3%, and another 5 dB cost 38%. The simulated devices lie on the
# closed form, and the limit holds on average.

gain_db = closed_snr_db[[6, 9]] - closed_snr_db[[0, 6]]
assert np.array_equal(np.round(100 * closed_share[[0, 6, 9]], 1), [0.3, 8.5, 38.4])
assert np.array_equal(np.round(gain_db), [4, 5])
assert np.allclose(snr_db, closed_snr_db)
share_error = np.sqrt(closed_share * (1 - closed_share) / len(many))
assert np.all(np.abs(left_out - closed_share) < 5 * share_error)
assert np.allclose(mean_power, 10.0, rtol=0.1)
print("left out (%):", np.round(100 * closed_share, 1))
print("receive SNR (dB):", np.round(closed_snr_db, 1))

# %%
# Exercises
# ---------
# 1. Give one of the 20 devices a limit of :math:`100 P`. What does it change for the others under channel inversion,
#    and what under the optimum?
# 2. What is the error of the mean under truncated inversion, if the sum is divided by the number of all devices, and
#    which threshold makes it least? Compare with law 3 of :doc:`power policies </channels/policies>`.
# 3. Train with both: run the demo with ``"scheme.name": "wfl-p"`` and ``"power.policy": "cao"``, and then with
#    ``"truncated-inversion"`` and ``"power.threshold": 0.1``. Is the policy with the least error also the one with the
#    highest accuracy?
