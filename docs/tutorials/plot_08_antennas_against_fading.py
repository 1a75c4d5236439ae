"""
How many antennas make up for fading?
=====================================

A sum over the air is only as strong as its weakest term. All devices arrive with the same amplitude, so the device
with the deepest fade sets it, and the others hold back. A second antenna at the receiver rarely fades at the same
time as the first. But the antennas have to be combined with one set of weights for *all* devices, since their messages
cannot be told apart once they are added up. This tutorial asks what antennas are worth then, and how to combine them.
"""

# %%
# The weakest of sixteen
# ----------------------
#
# Sixteen devices have independent Rayleigh channels of mean power 1 to :math:`A` antennas. The receiver combines
# what it hears with weights :math:`a` of norm 1, so that the noise stays as it was, and hears device :math:`i`
# through :math:`a^H h_i`. We draw 100 such channels and keep the gain of the weakest device. Four ways to choose
# :math:`a` are compared: one antenna alone, the sum of all channels, the direction in which most power arrives, and a
# search for the weights with which the weakest device is strongest (max-min).

import matplotlib.pyplot as plt
import numpy as np

import airfl
from channels.antennas import CoherentSum, First, MaxMin, Principal, combine, upper_bound
from channels.fading import Rayleigh

ANTENNAS = [1, 2, 4, 8, 16, 32]
DEVICES, DRAWS = 16, 100
COMBINERS = {"max-min": MaxMin(), "principal": Principal(), "sum": CoherentSum(), "one antenna": First()}


def weakest_gains(seed=0):
    """Return the median gain of the weakest device in dB, by combiner, for each number of antennas."""
    rng, limits = np.random.default_rng(seed), np.ones(DEVICES)
    gains = {name: [] for name in [*COMBINERS, "upper bound"]}
    for antennas in ANTENNAS:
        # A channel has the axes [devices, antennas, blocks, subcarriers]; every draw is a block.
        shape = (DEVICES, antennas, DRAWS, 1)
        h = (rng.standard_normal(shape) + 1j * rng.standard_normal(shape)) / np.sqrt(2)
        for name, combiner in COMBINERS.items():
            heard = combine(combiner.weights(h, limits), h)  # a^H h, [devices, blocks, subcarriers]
            gains[name].append(np.median((np.abs(heard) ** 2).min(axis=0)))
        gains["upper bound"].append(np.median(upper_bound(h, limits)))
    return {name: 10 * np.log10(values) for name, values in gains.items()}


gains = weakest_gains()
for name, values in gains.items():
    print(f"{name:12}" + "".join(f"{value:7.1f} dB" for value in values))

# %%
# The same in learning
# --------------------
#
# A hundred devices train a softmax regression on nine thousand images, sixteen of them in each of 20 rounds. Their
# power is so low that the noise matters: at its limit, an entry has a hundredth of the energy of the noise.

COUNTS = [1, 2, 4, 8]


def experiment(antennas, combining, seed=0):
    """Return the settings of a short run with this number of antennas."""
    return airfl.Experiment(
        scheme=airfl.schemes.WflP(),
        task=airfl.NamedTask(dataset="fashion-mnist-sample", model="softmax"),
        local=airfl.LocalSgd(epochs=1, learning_rate=0.05, clip_norm=1.0),
        radio=airfl.Radio(
            fading=Rayleigh(),
            mean_gain=np.sqrt(np.pi) / 2,  # so that the mean power is 1
            min_gain=1e-9,
            max_gain=1e9,
            max_snr_db=-20.0,
            antennas=airfl.Antennas(count=antennas, combining=combining),
        ),
        rounds=20,
        devices=100,
        selected=DEVICES,
        evaluate_every=20,
        seed=seed,
    )


def learn(seed=0):
    """Return the summaries of runs by combiner; with one antenna there is nothing to combine."""
    single = airfl.run(experiment(1, "first", seed)).summary()
    return {
        name: [single] + [airfl.run(experiment(count, name, seed)).summary() for count in COUNTS[1:]]
        for name in ("max-min", "principal", "sum")
    }


learned = learn()

# %%
# The figure
# ----------

plt.style.use("airfl.ieee")
figure, (left, right) = plt.subplots(1, 2, figsize=(7.16, 2.6))
for name, values in gains.items():
    look = {"color": "black", "linestyle": ":", "marker": ""} if name == "upper bound" else {}
    left.plot(ANTENNAS, values, label=name, **look)
for name, runs in learned.items():
    right.plot(COUNTS, [100 * run.test_accuracy for run in runs], label=name)
for axes, counts in ((left, ANTENNAS), (right, COUNTS)):
    axes.set_xscale("log", base=2)
    axes.set_xticks(counts, [str(count) for count in counts])
    axes.set_xlabel("receive antennas $A$")
    axes.legend()
left.set_ylabel("gain of the weakest device (dB)")
right.set_ylabel("test accuracy (%)")
plt.show()

# %%
# What it shows
# -------------
#
# **One antenna.** The weakest of :math:`r` gains of mean 1 has the median :math:`\log(2)/r`, which is -13.6 dB for
# sixteen devices. Our 100 draws agree with it within four standard errors.

expected = np.log(2) / DEVICES
standard_error = 1 / (DEVICES * np.sqrt(DRAWS))  # of a median of exponential numbers of mean 1/r
assert abs(10 ** (gains["one antenna"][0] / 10) - expected) < 4 * standard_error

# %%
# **Only the search for the weakest device gains much from few antennas**: more than 6 dB from two, and more than 13 dB
# from eight. It comes within 1.5 dB of a bound that no weights can exceed. The direction of most power mostly serves
# devices that are strong already: with eight antennas its weakest device is weaker than that of the search with two.
# The same holds for the sum of all channels.

search, bound = gains["max-min"], gains["upper bound"]
assert search[1] - search[0] > 6
assert search[3] - search[0] > 13
assert np.all(search <= bound + 1e-6)
assert np.all(bound - search < 1.5)
assert max(gains["principal"][3], gains["sum"][3]) < search[1]

# %%
# **In learning, the second antenna matters most.** It adds more than 4 points of accuracy to those of a single one,
# and six more antennas add less than half as much again. Eight antennas that are combined in another way do not
# reach the accuracy of two with the search.

search_learned = [run.test_accuracy for run in learned["max-min"]]
gained = np.diff(search_learned)
assert gained[0] > 0.04
assert gained[1:].sum() < gained[0] / 2
for other in ("principal", "sum"):
    assert learned[other][-1].test_accuracy < search_learned[1]

# %%
# **Antennas do not save energy by themselves.** All devices arrive as strongly as the weakest can. When the weakest
# becomes stronger, so does everybody's amplitude: with eight antennas, the devices spend more than twice the energy
# that they spend with one. To save energy, lower the limit.

assert learned["max-min"][-1].energy > 2 * learned["max-min"][0].energy

# %%
# Exercises
# ---------
#
# 1. Lower ``max_snr_db`` at eight antennas by what the search has gained in the left panel. Is the accuracy that of
#    one antenna at -20 dB, and how much energy do the devices spend? ``airfl.link_budget`` answers the second
#    question without training.
# 2. Let the channels have a line of sight, ``Rician(k=10.0)`` from ``channels.fading``. A device's direction then
#    decides what an array hears of it. How much do eight antennas gain, and how much with ``angle="broadside"``,
#    where all stand in front?
# 3. Write a combiner of your own (:doc:`receive antennas </channels/antennas>` shows one), and draw it beside
#    these. Does it come between the search and the bound?
