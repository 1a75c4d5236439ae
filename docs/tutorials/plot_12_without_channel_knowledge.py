r"""
What is it worth to know the channel?
=====================================

For amplitudes to add up over the air, every device has to know its channel, and knowing costs pilots. There is
another way, which needs none: a device sends *energy*. Energies of different devices add up in the mean, whatever
their phases are. This tutorial compares the two, first for a single number and then in learning.
"""

# %%
# One number, two ways
# --------------------
# Twenty devices each hold a number between -1 and 1, and the server wants their mean. Every channel is :math:`h_i
# \sim CN(0, 1)` and the noise is :math:`CN(0, N_0)`. For a number of size 1, a device spends the energy 1 in the
# mean.
#
# - **Amplitudes.** A device knows its channel, and sends its number divided by it. A channel that is nearly zero
#   would take any energy, so a device in a fade below :math:`|h|^2 = 0.1` stays silent.
# - **Energies.** A device sends the square root of the size of its number with a random phase, on one resource
#   element if the number is positive and on another one if it is negative. The server measures the energy of both,
#   on each of its antennas, and takes the difference. This is REED (Chen, Bozorgasl 2026). Elements and antennas
#   fade independently.

import matplotlib.pyplot as plt
import numpy as np
from scipy.special import exp1

import airfl

DEVICES, TRIALS, SILENT_BELOW = 20, 10_000, 0.1
rng = np.random.default_rng(0)
numbers = rng.uniform(-1, 1, DEVICES)


def gaussian(*shape):
    """Return numbers from CN(0, 1)."""
    return (rng.standard_normal(shape) + 1j * rng.standard_normal(shape)) / np.sqrt(2)


def by_amplitude(noise_power):
    """Return the means that the server decodes from amplitudes, one for each trial."""
    h = gaussian(TRIALS, DEVICES)
    sends = np.abs(h) ** 2 > SILENT_BELOW
    beta = np.sqrt(1 / exp1(SILENT_BELOW))  # so that the mean energy is 1 for numbers of size 1
    received = beta * (sends * numbers).sum(axis=1) + np.sqrt(noise_power) * gaussian(TRIALS).real
    return received / (beta * DEVICES * np.exp(-SILENT_BELOW))  # as many as are expected to send


def by_energy(noise_power, antennas):
    """Return the means that it decodes from energies on two elements, summed over antennas."""
    energies = []
    for sign in (1, -1):
        amplitudes = np.sqrt(np.maximum(sign * numbers, 0))
        phases = np.exp(2j * np.pi * rng.random((TRIALS, DEVICES)))
        heard = np.zeros(TRIALS)
        for _ in range(antennas):
            y = (gaussian(TRIALS, DEVICES) * phases * amplitudes).sum(axis=1)
            heard += np.abs(y + np.sqrt(noise_power) * gaussian(TRIALS)) ** 2
        energies.append(heard)
    return (energies[0] - energies[1]) / (antennas * DEVICES)


def energy_law(noise_power, antennas):
    """Return the variance of the mean from energies: an energy is exponential, so its deviation is its mean."""
    positive, negative = np.maximum(numbers, 0).sum(), np.maximum(-numbers, 0).sum()
    return ((positive + noise_power) ** 2 + (negative + noise_power) ** 2) / (antennas * DEVICES**2)


SNR_DB = np.arange(-10.0, 31.0, 5.0)
NOISE = 10 ** (-SNR_DB / 10)
ARRAYS = [1, 4, 16]


def error(decoded):
    """Return the mean square error."""
    return np.mean((decoded - numbers.mean()) ** 2)


amplitude_errors = np.array([error(by_amplitude(noise)) for noise in NOISE])
energy_errors = np.array([[error(by_energy(noise, antennas)) for noise in NOISE] for antennas in ARRAYS])
energy_laws = np.array([[energy_law(noise, antennas) for noise in NOISE] for antennas in ARRAYS])

# %%
# In learning
# -----------
# The configuration ``no-csi`` comes with airfl: a hundred devices, twenty of them in a round, over a
# frequency-selective Rayleigh channel. We shorten it, and train a softmax regression.
#
# - BAA aligns amplitudes, and leaves out devices in a fade. It runs twice: with a channel that is known for free, and
#   with one that is estimated from pilots on every subcarrier.
# - REED sends energies, as above.
# - FSK-MV sends energies as well, but only votes: the server takes the sign that is heard louder, entry by entry.

ROWS = {
    "BAA, channel known": {"scheme": airfl.schemes.Baa()},
    "BAA, channel estimated": {"scheme": airfl.schemes.Baa(), "csi.estimation": "ls"},
    "REED": {"scheme": airfl.schemes.Reed()},
    "FSK-MV": {"scheme": airfl.schemes.FskMv(sign_step=0.003)},
}
SHORT = {"run.rounds": 20, "run.evaluate_every": 2, "task.model": "softmax", "local.epochs": 1}

runs = {label: airfl.run("no-csi", overrides={**SHORT, "run.seed": 0, **row}) for label, row in ROWS.items()}
totals = {label: run.summary() for label, run in runs.items()}
for label, total in totals.items():
    print(f"{label:24}{total.test_accuracy:8.1%}{total.resource_elements:12,} elements, energy {total.energy:.1e}")

# %%
# The figure
# ----------

plt.style.use("airfl.ieee")
figure, (left, right) = plt.subplots(1, 2, figsize=(7.16, 2.8))
left.plot(SNR_DB, amplitude_errors, label="amplitudes, 1 antenna")
for number, antennas in enumerate(ARRAYS, start=1):
    name = "antenna" if antennas == 1 else "antennas"
    look = {"color": f"C{number}", "marker": "os^D"[number]}
    left.plot(SNR_DB, energy_laws[number - 1], color=f"C{number}", marker="")
    left.plot(SNR_DB, energy_errors[number - 1], linestyle="none", label=f"energies, {antennas} {name}", **look)
for label, run in runs.items():
    with run.trace() as trace:
        evaluated = trace["test_accuracy"].notnull()
        elements = trace["resource_elements"].cumsum()[evaluated]
        right.plot(elements, 100 * trace["test_accuracy"][evaluated], label=label)
left.set(xlabel="SNR (dB)", ylabel="mean square error", yscale="log")
right.set(xlabel="resource elements so far", ylabel="test accuracy (%)", xscale="log", ylim=(0, 90))
left.legend()
right.legend()
plt.show()

# %%
# What it shows
# -------------
# **Energies have no bias, but a noise of their own.** The energy of a sum over Rayleigh channels is exponential,
# so that its standard deviation equals its mean. The variance of the decoded mean is
#
# .. math:: \frac{(U^+ + N_0)^2 + (U^- + N_0)^2}{A r^2}
#
# with the sums :math:`U^{\pm}` of the positive and of the negative numbers, and :math:`A` antennas.

assert np.allclose(energy_errors, energy_laws, rtol=0.1)

# %%
# **No power removes that noise.** Beyond 10 dB, more power hardly helps: another 20 dB take off less than a tenth.
# Sixteen antennas divide the error by sixteen. Amplitudes are better at every SNR and with a single antenna, by
# more than ten times. Their own floor comes from the devices that stay silent.

assert np.all(energy_laws[:, -1] > 0.9 * energy_laws[:, SNR_DB == 10.0].T)
assert np.allclose(energy_laws[0] / energy_laws[2], 16)
assert np.all(amplitude_errors < energy_errors[0] / 10)

# %%
# **Learning does not mind that noise**, since it averages over rounds. REED ends within 3 points of BAA with a
# known channel. Only the votes, which throw away the sizes, lose more than 5 points.

accuracy = {label: total.test_accuracy for label, total in totals.items()}
assert abs(accuracy["REED"] - accuracy["BAA, channel known"]) < 0.03
assert accuracy["FSK-MV"] < accuracy["REED"] - 0.05

# %%
# **What knowledge costs is paid in pilots.** REED takes two elements for an entry, twice as many as BAA would take
# if it knew the channel for free. As soon as BAA has to estimate it, it takes more than four times the elements of
# REED, and more than twice its energy, for no more than 2 points of accuracy. The more entries a round has, the
# less the pilots matter: this model has 7,850.

elements = {label: total.resource_elements for label, total in totals.items()}
assert elements["REED"] == 2 * elements["BAA, channel known"]
assert elements["BAA, channel estimated"] > 4 * elements["REED"]
assert totals["BAA, channel estimated"].energy > 2 * totals["REED"].energy
assert accuracy["BAA, channel estimated"] < accuracy["REED"] + 0.02

# %%
# Exercises
# ---------
# 1. Give REED sixteen antennas, ``"antennas.count": 16``. The noise of its energies falls to a sixteenth. What does
#    accuracy gain, and after how many rounds?
# 2. How many entries must a model have for BAA's pilots to cost fewer elements than the second element of REED?
#    Work it out from ``pilot_elements`` in the trace, and check it with ``airfl.link_budget`` and
#    ``"task.model": "cnn-fashion"``.
# 3. Let other cells disturb: ``"channel.interference": "alpha-stable"`` with ``"channel.interference_to_noise_db":
#    10.0``. Which of the schemes survive single strong impulses, and why is it not REED? (:doc:`With and without
#    channel knowledge </schemes/no-csi>` has the answer.)
