r"""
Who holds a street back?
========================

In many models of fading, all devices have the same distribution of channels. In a street, some devices see the base
station and others stand behind a corner. Over the air all devices arrive with one amplitude, so that those behind the
corner set it for the whole street. This tutorial uses a channel that comes with airfl, computed by tracing rays through
a street canyon. It asks which devices hold the others back, who pays for it, and what is gained by leaving some of them
out.
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

STREET = airfl.data_folder() / "street-canyon"

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
# and again, each time with other devices selected.

SETTINGS = {
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
    "run.selected": 20,
    "run.rounds": 20,
    "run.evaluate_every": 20,
}

run = airfl.run("demo", overrides=SETTINGS)
with run.trace() as trace:
    devices, beta = trace["device_id"].values, trace["alignment_coefficient"].values
    energy, limit = trace["transmit_energy_j"].values, trace["power_limit"].values

# %%
# The reach of a device
# ---------------------
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
# On the left is the street from above, with the reach of each device relative to that of the strongest. On the right
# are the devices in the order of their reach, and the share of the energy of all rounds that each tenth of them has
# spent.

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
left.plot(*base[:2], "^", color="white", markeredgecolor="black", markersize=7)
left.annotate("base station", base[:2], (-4, 6), textcoords="offset points", ha="right", fontsize=7)
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
# **The weakest selected device sets** :math:`\beta`. In every round the :math:`\beta` of the run is proportional to the
# smallest reach of the twenty selected devices, which we have computed by hand, up to rounding.

factor = beta / weakest
assert np.ptp(factor) < 1e-3 * factor.mean()

# %%
# **The spread is enormous.** The weakest device is more than 50 dB below the strongest, and half of the devices are
# within 15 dB of the strongest. The weak ones are not spread over the street: nine tenths of those that are more than
# 30 dB below the strongest stand in the right side street, out of sight of the base station.

far = relative_db < -30
assert np.mean((places[far, 0] > 15) & (np.abs(places[far, 1]) > 8)) >= 0.9
assert relative_db.min() < -50
assert np.median(relative_db) > -15

# %%
# **The weak pay.** A selected device spends :math:`(g / g_i)^2` of its limit, where :math:`g` is the smallest reach
# of the round. The energy of a single message differs from that by up to 30%, since it depends on which entries fall
# on the weak subcarriers. Only the weakest device of a round comes near its limit. The weakest tenth of the devices
# has spent more than two thirds of the energy of all rounds.

used = energy / limit * (reach[devices] / weakest[:, None]) ** 2
assert np.all(np.abs(used - 1) < 0.3)
assert abs(np.median(used) - 1) < 0.01
assert spent[tenths[0]].sum() > 2 / 3 * spent.sum()

# %%
# **Without the weakest tenth, all others arrive more strongly.** The smallest reach of a round is then more than 10 dB
# higher in the median.

others = [group[np.isin(group, tenths[0], invert=True)] for group in devices]
lifted_db = 20 * np.log10([reach[group].min() for group in others] / weakest)
assert np.median(lifted_db) > 10
print(f"beta without the weakest tenth: {np.median(lifted_db):.1f} dB higher in the median round")

# %%
# Exercises
# ---------
#
# 1. Let airfl leave out weak devices by ``"selection.kind": "threshold"`` with ``"selection.min_gain": 5e-6``. Which
#    devices never take part then? Give each device samples of few classes with ``"task.partition": "class"``. Does
#    the accuracy gain or lose when the weak devices are left out?
# 2. Give the base station eight antennas, ``"antennas.count": 8`` and ``"antennas.broadside_deg": -45.0``. The array
#    receives every path from its recorded direction. Does :math:`\beta` gain more than 10 dB?
# 3. Let every device send its own bits, ``"scheme.name": "fedavg"`` with ``"scheme.link": "digital"``. A weak device
#    then no longer weakens the messages of the others. What do the rounds cost in energy, air time and resource
#    elements? Compare with the table of :doc:`a ray-traced street </channels/street>`, which has other settings.
