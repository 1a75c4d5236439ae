r"""
How well must a device know its channel?
========================================

To arrive with the amplitude that all devices have agreed on, a device divides its message by its channel. It
divides by what it knows of the channel, :math:`\hat h`, and the air multiplies by the true channel, :math:`h`. Its
update arrives multiplied by

.. math:: g = \mathrm{Re}(h / \hat h)

If the device knows its channel, :math:`g = 1`. This tutorial compares three errors of the same size in what a device
knows, reads :math:`g` from the traces of runs, and asks what each error does to learning.
"""

# %%
# Three ways to be wrong
# ----------------------
#
# The channels are Rayleigh with mean power 1. We measure how wrong a device is by the mean square error of its
# knowledge, :math:`q = \mathrm{E}|h - \hat h|^2`. The error can have three causes:
#
# - **Estimation.** The channel is measured with noisy pilots, and estimated with the least mean square error. With
#   noise of variance :math:`v` on the measurement, :math:`q = v / (1 + v)`.
# - **Ageing.** The estimate was exact, but the device has moved since. The channel keeps the correlation
#   :math:`\rho = J_0(2 \pi f_D \tau)` with the old one, and :math:`q = 2 (1 - \rho)`.
# - **Phase.** The oscillators have drifted apart by :math:`\phi \sim N(0, s^2)`, and :math:`q = 2 (1 -
#   e^{-s^2/2})`.
#
# We solve each of these for the setting that leads to a given :math:`q`.

import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import brentq
from scipy.special import j0

import airfl
from channels.fading import Rayleigh

WRONG = np.array([0.05, 0.2, 0.5, 0.8])
CARRIER_HZ, DELAY_S = 3.5e9, 1e-3


def estimated(q):
    """Pilots with the noise v = q/(1 - q); a pilot's SNR counts the real part, which has half of it."""
    return {"csi": airfl.Csi(estimation="mmse", pilot_snr_db=10 * np.log10(2 * (1 - q) / q))}


def aged(q):
    """A millisecond at the speed that leaves the correlation 1 - q/2."""
    turns = brentq(lambda x: j0(2 * np.pi * x) - (1 - q / 2), 0, 0.38)
    return {"csi": airfl.Csi(delay_s=DELAY_S), "speed_m_s": turns / DELAY_S * 299_792_458.0 / CARRIER_HZ}


def turned(q):
    """The standard deviation of the phase, in rad."""
    return {"csi": airfl.Csi(phase_std_rad=np.sqrt(-2 * np.log(1 - q / 2)))}


KINDS = {"estimation": estimated, "ageing": aged, "phase": turned}

# %%
# Each of them in a run
# ---------------------
#
# A hundred devices train a softmax regression on nine thousand images for 20 rounds. In every round, 20 devices are
# selected among those whose channel appears to be at least 0.3, since the power that inverts a channel has no bound
# as the channel comes close to zero. The trace stores the true channel and the one that was known, for each device
# and round.


def experiment(seed=0, **wrong):
    """Return the settings of a run, with an error in what the devices know."""
    return airfl.Experiment(
        scheme=airfl.schemes.WflP(),
        task=airfl.NamedTask(dataset="fashion-mnist-sample", model="softmax"),
        local=airfl.LocalSgd(epochs=1, learning_rate=0.05, clip_norm=1.0),
        radio=airfl.Radio(
            fading=Rayleigh(),
            mean_gain=np.sqrt(np.pi) / 2,  # so that the mean power is 1
            min_gain=1e-9,
            max_gain=1e9,
            carrier_hz=CARRIER_HZ,
            max_snr_db=10.0,
            **wrong,
        ),
        selection=airfl.Selection(kind="threshold", min_gain=0.3),
        rounds=20,
        evaluate_every=20,
        devices=100,
        selected=20,
        seed=seed,
    )


def observe(seed=0, **wrong):
    """Return g of each message, the size of the channel that its device knew, and the accuracy."""
    run = airfl.run(experiment(seed, **wrong))
    with run.trace() as trace:
        sent = trace["active"].values == 1
        known = trace["channel_estimate"].values[sent]
        arrived = (trace["channel_gain"].values[sent] / known).real
    return arrived, np.abs(known), run.summary().test_accuracy


exact, _, best = observe()
seen = {name: [observe(**make(q)) for q in WRONG] for name, make in KINDS.items()}

# %%
# What theory says
# ----------------
#
# Given the estimate, :math:`g` has a mean and a spread. The mean is the same for all devices, so that it acts as a
# smaller step of the server: the decoded update is shorter. The spread differs from device to device and from
# round to round, and acts as noise. With :math:`s_e^2 = q` for estimation and :math:`1 - \rho^2` for ageing:
#
# ========== ==================== =============================================
# kind       mean of :math:`g`    variance of :math:`g`
# ========== ==================== =============================================
# estimation 1                    :math:`s_e^2 / (2 |\hat h|^2)`
# ageing     :math:`1 - q/2`      :math:`s_e^2 / (2 |\hat h|^2)`
# phase      :math:`1 - q/2`      :math:`(1 + (1 - q/2)^4)/2 - (1 - q/2)^2`
# ========== ==================== =============================================


def law(name, q, known):
    """Return the mean of g and its standard deviation, for devices that know these channels."""
    kept = 1.0 if name == "estimation" else 1 - q / 2
    if name == "phase":
        return kept, np.sqrt((1 + kept**4) / 2 - kept**2)
    unknown = q if name == "estimation" else 1 - kept**2
    return kept, np.sqrt(np.mean(unknown / (2 * known**2)))


# %%
# The figure
# ----------

plt.style.use("airfl.ieee")
figure, (means, spreads, accuracies) = plt.subplots(1, 3, figsize=(7.16, 2.4))
for number, (name, runs) in enumerate(seen.items()):
    laws = np.array([law(name, q, known) for q, (_, known, _) in zip(WRONG, runs, strict=True)])
    look = {"color": f"C{number}", "marker": "os^"[number]}
    for axes, measured, column in (
        (means, [arrived.mean() for arrived, _, _ in runs], 0),
        (spreads, [arrived.std() for arrived, _, _ in runs], 1),
    ):
        axes.plot(WRONG, laws[:, column], color=f"C{number}", marker="")
        axes.plot(WRONG, measured, linestyle="none", label=name, **look)
    accuracies.plot(WRONG, [100 * accuracy for _, _, accuracy in runs], label=name, **look)
accuracies.axhline(100 * best, color="black", linestyle=":", linewidth=0.8, label="channel known")
means.set(xlabel="error of the knowledge, $q$", ylabel="mean of $g$", ylim=(0.4, 1.2))
spreads.set(xlabel="error of the knowledge, $q$", ylabel="standard deviation of $g$", ylim=(0, None))
accuracies.set(xlabel="error of the knowledge, $q$", ylabel="test accuracy (%)", ylim=(70, 85))
means.legend()
accuracies.legend()
plt.show()

# %%
# What it shows
# -------------
#
# With a known channel every message arrives as it was meant. The mean and the spread of :math:`g` follow the laws,
# whose lines use nothing from the runs except the estimates. Each point is taken over 400 messages, and the means agree
# with the law within four standard errors.

assert np.allclose(exact, 1, atol=1e-6)
for name, runs in seen.items():
    for q, (arrived, known, _) in zip(WRONG, runs, strict=True):
        mean, deviation = law(name, q, known)
        assert len(arrived) == 400
        assert abs(arrived.mean() - mean) < 4 * deviation / np.sqrt(len(arrived))
        assert abs(arrived.std() / deviation - 1) < 0.25

# %%
# The same error :math:`q` does not do the same damage. A phase error does least: it rotates a message, so that a part
# of it falls on the imaginary axis, where it is discarded. With the other two, a device divides by an estimate that may
# be much smaller than the channel. From :math:`q = 0.5` on, estimation does most.

for q, by_estimation, by_ageing, by_phase in zip(WRONG, seen["estimation"], seen["ageing"], seen["phase"], strict=True):
    assert by_phase[0].std() < min(by_ageing[0].std(), by_estimation[0].std())
    if q >= 0.5:
        assert by_ageing[0].std() < by_estimation[0].std()

# %%
# Learning hardly minds. At :math:`q = 0.2`, accuracy is within 4 points of that with a known channel, and at
# :math:`q = 0.8` it still is within 8. Every update is a step in a useful direction, the mean over 20 devices
# averages their spread, and a shorter mean is only a smaller step. What wrong knowledge does to a privacy
# claim is another question (:doc:`privacy under channel estimation errors </channels/privacy>`).

for runs in seen.values():
    assert runs[1][2] > best - 0.04
    assert runs[-1][2] > best - 0.08

# %%
# Exercises
# ---------
#
# 1. Pack two entries on each resource element (``grid=airfl.Grid(packing="iq")`` in the radio). What a phase error
#    rotates away now falls on the other entry. Which of the three kinds suffers, and what does
#    ``aggregation_error`` in the trace say that :math:`g` does not?
# 2. Replace ``mmse`` by ``ls``, the least-squares estimate. Where does the mean of :math:`g` go, and why does its
#    spread become smaller? (:doc:`Channel estimation </channels/estimation>` has the law.)
# 3. Give each device images of few classes, ``partition=airfl.partitions.Dirichlet(alpha=0.1)`` in the task. The
#    updates of two devices now differ, and so does what a wrong weight does to their mean. How much of the accuracy
#    is lost now?
