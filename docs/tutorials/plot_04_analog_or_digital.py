r"""
Analog or digital at equal joules, seconds and resource elements?
=================================================================

Over the air, all devices use the same resource elements at once, and the sum arrives with noise. On a digital uplink
every device has resource elements of its own, and its bits arrive without error or not at all. A digital round
therefore teaches more, and costs more. Which of the two is ahead for the same energy, time or spectrum?
"""

# %%
# Four schemes in one cell
# ------------------------
# 1,000 devices are spread over a cell with the path loss of an urban street (UMi of 3GPP TR 38.901). They send with 23
# dBm, and 32 of them take part in a round. Two schemes are analog: BAA leaves out devices in a deep fade, PFELS sends a
# share of the entries. Two are digital, with link adaptation and retransmissions as in 5G NR: FedAvg sends all entries
# with 32 bits, and FedAvg with top-k the largest hundredth of them, with their positions. Both links have
# perfect channel knowledge and synchronisation.

import matplotlib.pyplot as plt

import airfl

DIGITAL = {"scheme.link": "digital", "digital.error_model": "nr"}
SCHEMES = {
    "BAA, analog": {"scheme": airfl.schemes.Baa(), "run.rounds": 30},
    "PFELS, analog": {"scheme": airfl.schemes.Pfels(ratio=0.3), "run.rounds": 30},
    "FedAvg, digital": {"scheme": airfl.schemes.FedAvg(), "run.rounds": 10, **DIGITAL},
    "top-k 1%, digital": {"scheme": airfl.schemes.FedAvgTopK(ratio=0.01), "run.rounds": 10, **DIGITAL},
}
CELL = {
    "task.model": "softmax",
    "channel.units": "physical",
    "topology.kind": "disc",
    "topology.path_loss": "umi",
    "power.divide_by": "active",  # the mean of the devices that arrive
    "run.evaluate_every": 1,
    "local.measure": False,
}
COSTS = {"energy_j": "energy (J)", "latency_s": "air time (s)", "resource_elements": "resource elements"}

ENTRIES, SELECTED = 7850, 32

accuracy, spent = {}, {}
for name, overrides in SCHEMES.items():
    with airfl.run("demo", overrides={**CELL, **overrides}).trace() as trace:
        accuracy[name] = 100 * trace["test_accuracy"].values
        spent[name] = {cost: trace[cost].values.cumsum() for cost in COSTS}
        if name == "PFELS, analog":
            set_by_power = trace["power_bound_binding"].values.mean()
    first = ", ".join(f"{label} {spent[name][cost][0]:.3g}" for cost, label in COSTS.items())
    print(f"{name:18s} first round: {first}; {accuracy[name][9]:.1f}% after 10 rounds")

# %%
# The figure
# ----------
# The test accuracy against what all devices together have spent so far. A marker is a round.

figure, panels = plt.subplots(1, 3, figsize=(12, 3.8), layout="constrained", sharey=True)
for axes, (cost, label) in zip(panels, COSTS.items(), strict=True):
    for (name, values), marker in zip(accuracy.items(), "osD^", strict=True):
        axes.plot(spent[name][cost], values, marker, linestyle="-", markersize=3, label=name)
    axes.set(xscale="log", xlabel=label)
panels[0].set_ylabel("test accuracy (%)")
panels[0].legend(fontsize=8)
plt.show()

# %%
# What it shows
# -------------
# **Round by round, it matters little.** BAA adds noise to the mean, and is within ten points of digital FedAvg after
# ten rounds nevertheless.

assert abs(accuracy["BAA, analog"][9] - accuracy["FedAvg, digital"][9]) < 10

# %%
# **At equal cost, analog is far ahead.** For a tenth of the joules, of the seconds and of the resource elements of
# FedAvg's first round, BAA has finished all of its 30 rounds, and is more accurate than FedAvg is after ten. Top-k
# saves much, at a lower accuracy, and its first round still takes more joules and seconds than 30 rounds of BAA.

for cost in COSTS:
    assert spent["BAA, analog"][cost][-1] < spent["FedAvg, digital"][cost][0] / 10
    assert spent["top-k 1%, digital"][cost][0] < spent["FedAvg, digital"][cost][0] / 10
assert accuracy["BAA, analog"][-1] > accuracy["FedAvg, digital"][-1] > accuracy["top-k 1%, digital"][-1]
assert spent["BAA, analog"]["energy_j"][-1] < spent["top-k 1%, digital"]["energy_j"][0]
assert spent["BAA, analog"]["latency_s"][-1] < spent["top-k 1%, digital"]["latency_s"][0]

# %%
# **Why.** The 32 analog devices share their resource elements, and digital devices do not. Besides, an entry takes one
# element of the analog link, but its 32 bits take more than eight elements of the digital one.

assert spent["BAA, analog"]["resource_elements"][0] == ENTRIES
assert spent["FedAvg, digital"]["resource_elements"][0] > SELECTED * ENTRIES * 8

# %%
# **Analog can also fail.** PFELS costs least of all, and after 30 rounds it is less accurate than each of the others
# after ten. It lets all devices arrive as weakly as the weakest one does, and at the edge of a cell that is very weak.
# In most rounds it is the power of that device that limits :math:`\beta`, and not privacy. BAA leaves such devices out,
# and the digital links lose them.

assert accuracy["PFELS, analog"][-1] < min(values[9] for name, values in accuracy.items() if name != "PFELS, analog")
assert all(spent["PFELS, analog"][cost][0] == min(each[cost][0] for each in spent.values()) for cost in COSTS)
assert set_by_power > 0.5

# %%
# The figure leaves something out: analog needs channel knowledge at the devices, and alignment in time and phase, which
# are free here. The pages on the radio channel say what they cost.

# %%
# Exercises
# ---------
# 1. Send fewer bits with top-k, ``ratio=0.001``, and more with ``ratio=0.1``. Which of the three shares is best at 0.1
#    J?
# 2. Estimate the channels of the analog schemes with pilots, ``csi.estimation="mmse"``, whose elements and energy are
#    charged. What is left of the lead?
# 3. Take ten times as many devices in a round, ``run.selected=320``. Which costs grow on each link, and why?
