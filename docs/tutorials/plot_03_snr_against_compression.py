r"""
How many entries should a device send at a given SNR?
=====================================================

A device of PFELS sends a share :math:`p` of the entries of its update. Fewer entries cost less spectrum, and they may
be sent more strongly with the same energy. But what is not sent is missing. Where is the balance, and how does it move
with the SNR?
"""

# %%
# The error of one round
# ----------------------
# Let :math:`\Delta` be the mean of the updates, and :math:`N` the energy of the noise in the decoded mean if all
# entries are sent. A random mask loses the energy :math:`(1 - p) \lVert \Delta \rVert^2`. The entries that are sent are
# :math:`1 / \sqrt{p}` times as strong, and there are :math:`p` times as many with noise on them, so that the noise has
# the energy :math:`p^2 N`:
#
# .. math:: E(p) = (1 - p) \lVert \Delta \rVert^2 + p^2 N, \quad p^* = \min(1, \lVert \Delta \rVert^2 / (2 N))
#
# A run records the error of every round, the squared distance of what was decoded from the mean of the updates. We take
# the first round of each run, and the accuracy after the last. The model is softmax regression, and no privacy bound
# limits the power.

import matplotlib.pyplot as plt
import numpy as np

import airfl

ROUNDS, SEEDS = 20, (0, 1)
LEVELS_DB = (20.0, 30.0, 50.0)
SHARES = np.array([0.03, 0.1, 0.3, 1.0])

demo = airfl.Experiment.load(
    "demo",
    {
        "task.model": "softmax",
        "privacy.epsilon": float("inf"),
        "run.rounds": ROUNDS,
        "run.evaluate_every": ROUNDS,
        "local.measure": False,
    },
)


def run_with(share, level_db, seed):
    """Return error and noise energy of the first round, entries sent, and the accuracy in % after the last."""
    overrides = {"scheme.ratio": share, "power.max_snr_db": level_db, "run.seed": seed}
    run = airfl.run(demo, overrides=overrides)
    with run.trace() as trace:
        first = trace.isel(round=0)
        noise = float(first["message_length"] * first["noise_std"] ** 2)
        return float(first["aggregation_error"]), noise, int(first["message_length"]), 100 * run.summary().test_accuracy


cases = {level: np.array([[run_with(share, level, seed) for share in SHARES] for seed in SEEDS]) for level in LEVELS_DB}
error, noise, entries = (
    {level: values[0, :, column] for level, values in cases.items()} for column in (0, 1, 2)
)  # of the first seed
accuracy = {level: values[:, :, 3].mean(axis=0) for level, values in cases.items()}

# Without noise and with one entry of 7,850, the error is the energy of the mean update.
silent = airfl.run(
    demo, overrides={"run.rounds": 1, "run.seed": SEEDS[0], "channel.noise": False, "scheme.ratio": 1 / 7850}
)
with silent.trace() as trace:
    energy = float(trace["aggregation_error"][0]) / (1 - 1 / 7850)
print(f"energy of the mean update: {energy:.3f}")

# %%
# The figure
# ----------
# Left: the error of the first round, measured, and its closed form. Right: the test accuracy after 20 rounds.

figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.8), layout="constrained")
smooth = np.geomspace(0.01, 1, 100)
best_for_error = {}
for number, level in enumerate(LEVELS_DB):
    noise_of_all = noise[level][-1]  # N, at p = 1
    best_for_error[level] = min(1.0, energy / (2 * noise_of_all))
    left.plot(smooth, (1 - smooth) * energy + smooth**2 * noise_of_all, f"C{number}-")
    left.plot(SHARES, error[level], f"C{number}o", label=f"{level:.0f} dB")
    right.plot(SHARES, accuracy[level], f"C{number}o-", label=f"{level:.0f} dB")
    print(
        f"{level:.0f} dB: least error at p = {best_for_error[level]:.3g}; accuracy in %:", np.round(accuracy[level], 1)
    )
left.axhline(energy, color="gray", linestyle=":", label="nothing sent")
left.set(xscale="log", yscale="log", xlabel="share p of the entries", ylabel="error of the first round")
right.set(xscale="log", xlabel="share p of the entries", ylabel="test accuracy (%)")
for axes in (left, right):
    axes.legend(fontsize=8)
plt.show()

# %%
# What it shows
# -------------
# **The error follows its closed form**, at every SNR and every share. The noise that a run reports is :math:`p^2 N`.

for level in LEVELS_DB:
    assert np.allclose(noise[level], SHARES**2 * noise[level][-1], rtol=0.01)
    spread = noise[level] * np.sqrt(2 / entries[level])  # standard deviation of the noise's energy
    mask = 0.1 * (1 - SHARES) * energy  # the mask hits or misses large entries by chance
    expected = (1 - SHARES) * energy + noise[level]
    assert np.all(np.abs(error[level] - expected) < 5 * spread + mask)

# %%
# **The higher the SNR, the more entries should be sent.** At 20 dB sending everything is worse than sending three
# tenths; at 50 dB sending everything is best.

assert accuracy[20.0][-1] < accuracy[20.0][2]
assert np.argmax(accuracy[50.0]) == len(SHARES) - 1

# %%
# **The error of a round is not what decides.** At 30 dB the share with the least error in the first round is smaller
# than the share that is best for the accuracy. The noise of different rounds averages out, and a mask that keeps little
# makes every step small. At 20 dB sending three tenths or more has a larger error than sending nothing at all, and the
# model learns nevertheless.

assert best_for_error[30.0] < SHARES[np.argmax(accuracy[30.0])]
assert np.all(error[20.0][2:] > energy)
assert np.all(accuracy[20.0] > 20)  # guessing is right in 10% of all cases

# %%
# Exercises
# ---------
# 1. Divide by :math:`p`, ``scheme.rescale=True``. What does the closed form become, and which share is now the best for
#    the error at every SNR?
# 2. Give PFELS with :math:`p = 1` the server steps 0.1 and 0.3. Is sending everything still worse at 20 dB?
# 3. Plot the accuracy against the resource elements of the whole run, ``run.summary().resource_elements``. Which shares
#    are never the best choice, however many resource elements there are?
