r"""
Who holds a street back?
========================

In a laboratory of formulas all devices fade alike. In a street, some see the base station and others stand behind a
corner. A sum over the air has one amplitude for all, so that the corner decides about the street. This tutorial uses a
channel that was computed by following rays through a street canyon, which comes with airfl, and asks which devices hold
the others back, who pays for it, and what it is worth to leave some of them out.
"""

# %%
# The street
# ----------
#
# The recorded channel holds the paths from 200 positions to a base station on a roof, at 3.5 GHz: a complex amplitude
# and a delay for each path (:doc:`how it was made </channels/street>`). On subcarrier :math:`f`, the channel of device
# :math:`i` is :math:`H_i(f) = \sum_l a_l e^{-2 \pi j f \tau_l}`.

import h5py
import matplotlib.pyplot as plt
import numpy as np

import airfl
from airfl.storage.resources import data_folder

STREET = data_folder() / "street-canyon"
SELECTED, ROUNDS = 20, 20

with h5py.File(STREET / "channel.h5") as file:
    amplitudes, delays = file["a"][0, :, 0], file["tau_s"][0]
    places, base = file["position_m"][0], file["base_position_m"][()]
buildings = np.genfromtxt(STREET / "buildings.csv", delimiter=",", skip_header=1, dtype=str)
power_db = 10 * np.log10((np.abs(amplitudes) ** 2).sum(axis=1))
print(f"mean power of the devices: {power_db.min():.0f} to {power_db.max():.0f} dB")

# %%
# A few rounds over it
# --------------------
#
# Twenty of the 200 devices take part in each round. Every device inverts its channel on every subcarrier, and all
# arrive with the amplitude :math:`\beta` of the weakest. Nobody moves, so that the one recorded round is replayed again
# and again, with other devices.


def experiment_over(selected=SELECTED, **changes):
    """The settings of a short run over the street, as overrides of the demo."""
    return {
        "scheme.name": "wfl-p",
        "task.model": "softmax",
        "channel.fading": "replay",
        "channel.replay_file": str(STREET / "channel.h5"),
        "channel.replay_rounds": "wrap",
        "channel.units": "physical",
        "power.tx_power_dbm": 0.0,
        "grid.resource_blocks": 51,
        "grid.spacing_hz": 30000.0,
        "run.devices": 200,
        "run.selected": selected,
        "run.rounds": ROUNDS,
        "run.evaluate_every": ROUNDS,
        **changes,
    }


run = airfl.run("demo", overrides=experiment_over())
with run.trace() as trace:
    devices, beta = trace["device_id"].values, trace["alignment_coefficient"].values
    energy = trace["transmit_energy_j"].values

# %%
# By hand
# -------
#
# To arrive with :math:`\beta` on every subcarrier, a device spends the energy :math:`\beta^2 / |H_i(f)|^2` on each
# entry. The largest amplitude that device :math:`i` can reach is therefore proportional to
# :math:`g_i = (\sum_f w_f / |H_i(f)|^2)^{-1/2}`, where :math:`w_f` is the share of the entries on subcarrier :math:`f`:
# the 7,850 entries of the model fill twelve OFDM symbols of 612 subcarriers, and part of a thirteenth.

subcarriers = (np.arange(612) - 306) * 30e3  # 51 resource blocks of 12 subcarriers around the carrier, in Hz
share = np.where(np.arange(612) < 7850 % 612, 13, 12) / 7850
phases = np.exp(-2j * np.pi * subcarriers[:, None] * delays[:, None, :])  # [devices, subcarriers, paths]
response = (phases * amplitudes[:, None, :]).sum(axis=2)
reach = (share / np.abs(response) ** 2).sum(axis=1) ** -0.5
weakest = np.array([reach[group].min() for group in devices])

# %%
# The figure
# ----------
#
# On the left, the street from above: how much weaker each device is than the strongest. On the right, the devices in
# the order of their reach, and how much of the energy of all rounds those of each tenth have spent.

spent = np.zeros(200)
np.add.at(spent, devices.ravel(), energy.ravel())
tenths = np.argsort(reach).reshape(10, 20)
relative_db = 20 * np.log10(reach / reach.max())

plt.style.use("airfl.ieee")
figure, (left, right) = plt.subplots(1, 2, figsize=(7.16, 2.6), width_ratios=(1.4, 1))
for name in np.unique(buildings[:, 0]):
    corners = buildings[buildings[:, 0] == name, 2:].astype(float)
    left.fill(*corners.T, facecolor="0.9", edgecolor="0.4", linestyle="-")
seen = left.scatter(*places[:, :2].T, c=relative_db, s=8, marker="o", cmap="viridis")
left.plot(*base[:2], "^", color="white", markeredgecolor="black", markersize=7, label="base station")
left.set_aspect("equal")
left.set_xlabel("x (m)")
left.set_ylabel("y (m)")
figure.colorbar(seen, ax=left, label="reach (dB)")
right.bar(range(1, 11), 100 * spent[tenths].sum(axis=1) / spent.sum())
right.set_xlabel("tenth of the devices, weakest first")
right.set_ylabel("share of the energy (%)")
right.set_xticks(range(1, 11))
plt.show()

# %%
# What it shows
# -------------
#
# **The hand finds the same weakest device in every round.** :math:`\beta` of airfl is proportional to the least reach
# of the twenty selected devices, up to rounding.

factor = beta / weakest
assert np.ptp(factor) < 1e-3 * factor.mean()

# %%
# **The spread is enormous.** Between the strongest and the weakest device lie more than 40 dB, and half of the devices
# are within 15 dB of the strongest. In this street, it is the place that decides, and not luck.

assert relative_db.min() < -40
assert np.median(relative_db) > -15

# %%
# **The weak pay.** A device that is selected spends :math:`(\beta / g_i)^2` of what it may, so that only the weakest of
# the round spends all of it. The weakest tenth of the devices has spent more than half of the energy of all rounds.

assert spent[tenths[0]].sum() > 0.5 * spent.sum()

# %%
# **Leaving out the weakest tenth lifts the sum of everybody else.** Without them, the least reach of a round is more
# than 10 dB higher in the median.

others = [group[np.isin(group, tenths[0], invert=True)] for group in devices]
lifted_db = 20 * np.log10([reach[group].min() for group in others] / weakest)
assert np.median(lifted_db) > 10
print(f"beta without the weakest tenth: {np.median(lifted_db):.1f} dB higher in the median round")

# %%
# Exercises
# ---------
#
# 1. Let airfl leave out weak devices by ``"selection.kind": "threshold"`` with ``"selection.min_gain"``. Which devices
#    never take part then, and what does that do to the classes of which they hold samples?
# 2. Give the base station eight antennas, ``"antennas.count": 8`` and ``"antennas.broadside_deg": -45.0``. The array
#    receives every path from its recorded direction. Does :math:`\beta` gain more than 10 dB?
# 3. Send bits in place of sums, ``"scheme.name": "fedavg"`` with ``"scheme.link": "digital"``. A weak device then
#    only slows itself down. What do the rounds cost in energy and resource elements? :doc:`The street
#    </channels/street>` has the answer for this base station.
