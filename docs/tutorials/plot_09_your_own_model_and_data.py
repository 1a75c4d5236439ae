r"""
Can devices draw a map of their own coverage?
=============================================

A device knows how strongly it hears the base station where it is, and nowhere else. Sixty of them together know
enough for a map of the whole cell, and none of them has to report where it was if they learn it over the air.

Nothing of this task comes with airfl: the data, the model, the loss and the measure of success are ours. This
tutorial makes a task of them, and runs it over an ideal link and over the air.
"""

# %%
# Your own data
# -------------
# The cell is a square of 2 km. The received power falls with the distance, and hills and houses add a smooth
# pattern, for which we take a sum of waves. Every device stays near its home and measures the power at 40 places,
# with an error of 2 dB.

import matplotlib.pyplot as plt
import numpy as np
import torch

import airfl

DEVICES, PLACES = 60, 40
BASE = np.array([0.1, -0.2])
rng = np.random.default_rng(0)

waves, phases = rng.normal(scale=1.2 * np.pi, size=(12, 2)), rng.uniform(0, 2 * np.pi, 12)


def power_db(places):
    """The received power at these places in dB, relative to that at 1 km without any hills."""
    distance = np.hypot(*(places - BASE).T) + 0.25
    shadowing = np.sqrt(6.0) * np.cos(places @ waves.T + phases).sum(axis=1)
    return -35 * np.log10(distance) + shadowing


homes = rng.uniform(-1, 1, (DEVICES, 2))
places = (homes[:, None] + 0.15 * rng.normal(size=(DEVICES, PLACES, 2))).clip(-1, 1).reshape(-1, 2)
measured = power_db(places) + 2 * rng.normal(size=len(places))
device_of = np.repeat(np.arange(DEVICES), PLACES)
test_places = rng.uniform(-1, 1, (1000, 2))

mean_db, deviation_db = measured.mean(), measured.std()


def samples(places, power):
    """Inputs and targets in single precision, with targets of mean 0 and variance 1."""
    return places.astype(np.float32), ((power - mean_db) / deviation_db).astype(np.float32)


# %%
# Your own model, loss and metric
# -------------------------------
# Any torch module that treats each sample by itself will do. The loss is a function that returns one number per
# sample, and so is every metric: here the error of the map in dB. The partition names the device of each sample.


class Map(torch.nn.Module):
    """From a place to the power there."""

    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(
            torch.nn.Linear(2, 48), torch.nn.Tanh(), torch.nn.Linear(48, 48), torch.nn.Tanh(), torch.nn.Linear(48, 1)
        )

    def forward(self, places):
        return self.layers(2 * places).squeeze(-1)


task = airfl.Task(
    model=Map,
    train=samples(places, measured),
    test=samples(test_places, power_db(test_places)),
    partition=device_of,
    loss=lambda outputs, targets: (outputs - targets).square(),
    metrics={"error_db": lambda outputs, targets: (outputs - targets).abs() * float(deviation_db)},
    name="coverage",
)

# %%
# Running it
# ----------
# From here on, everything is as with any task. We name the engine of local training, which airfl would otherwise
# choose, so that it does not spend more time on compiling so small a model than on training it. Twenty devices take
# part in each of 60 rounds: over a link that loses nothing, and over the air with WFL-P at two power limits.


def experiment(scheme, seed=0, max_snr_db=40.0):
    """A run of the task."""
    return airfl.Experiment(
        scheme=scheme,
        task=task,
        local=airfl.LocalSgd(epochs=5, batch_size=20, learning_rate=0.03, momentum=0.9, clip_norm=1.0, engine="vmap"),
        radio=airfl.Radio(max_snr_db=max_snr_db),
        rounds=60,
        devices=DEVICES,
        selected=20,
        evaluate_every=3,
        seed=seed,
    )


runs = {
    "ideal link": airfl.run(experiment(airfl.schemes.FedAvg())),
    "over the air, 40 dB": airfl.run(experiment(airfl.schemes.WflP())),
    "over the air, 25 dB": airfl.run(experiment(airfl.schemes.WflP(), max_snr_db=25.0)),
}
errors = {}
for label, run in runs.items():
    with run.trace() as trace:
        errors[label] = trace["metric_error_db"].dropna("round").to_series()

# %%
# The trained module comes back by ``run.model()``, and draws the map.

steps = np.linspace(-1, 1, 81)
grid = np.stack(np.meshgrid(steps, steps), axis=-1).reshape(-1, 2)
with torch.no_grad():
    drawn = runs["over the air, 40 dB"].model()(torch.from_numpy(grid.astype(np.float32)))
learned_map = mean_db + deviation_db * drawn.numpy()

# %%
# The figure
# ----------

plt.style.use("airfl.ieee")
figure, (truth, learned, curves) = plt.subplots(1, 3, figsize=(7.16, 2.4), width_ratios=(1, 1, 1.25))
for axes, values, title in (
    (truth, power_db(grid), "true power"),
    (learned, learned_map, "learned over the air, 40 dB"),
):
    image = axes.imshow(values.reshape(81, 81), origin="lower", extent=(-1, 1, -1, 1), vmin=-16, vmax=16)
    axes.set(title=title, xlabel="x (km)", xticks=(-1, 0, 1), yticks=(-1, 0, 1))
    axes.grid(visible=False)
truth.plot(*homes.T, ".", color="white", markersize=2)
truth.set_ylabel("y (km)")
figure.colorbar(image, ax=(truth, learned), label="dB", shrink=0.8)
for label, error in errors.items():
    curves.plot(1 + error.index, error, label=label, markevery=3)
curves.set(xlabel="rounds", ylabel="mean error of the map (dB)", yscale="log")
curves.minorticks_off()
curves.set_yticks([2, 5, 10, 20, 40], ["2", "5", "10", "20", "40"])
curves.legend()
plt.show()

# %%
# What it shows
# -------------
# **Together the devices have a map of the whole cell.** The best single number for the whole cell is the median of
# the power, and its mean error is the mean absolute deviation of the power. The error of the map is less than four
# fifths of it, over the ideal link and over the air at 40 dB alike, in the mean over the second half of the rounds.
# The two are within 1.5 dB of each other.

true = power_db(test_places)
constant = np.abs(true - np.median(true)).mean()
second_half = {label: error[error.index >= 30].mean() for label, error in errors.items()}
print(
    f"a single number: {constant:.1f} dB,",
    ", ".join(f"{label}: {error:.1f} dB" for label, error in second_half.items()),
)
assert second_half["ideal link"] < 0.8 * constant
assert second_half["over the air, 40 dB"] < 0.8 * constant
assert abs(second_half["over the air, 40 dB"] - second_half["ideal link"]) < 1.5

# %%
# **Power decides whether there is a map at all.** With 15 dB less, the noise on a decoded update is more than five
# times as large, and is added to the model in each of 60 rounds. The result is worse than the single number.

assert second_half["over the air, 25 dB"] > constant
with runs["over the air, 40 dB"].trace() as strong, runs["over the air, 25 dB"].trace() as weak:
    assert np.allclose(weak["noise_std"] / strong["noise_std"], 10**0.75, rtol=1e-3)

# %%
# **The costs need no training.** The link budget takes the same experiment, and gives the energy of the run for
# updates at the norm bound, and the resource elements that it uses.

budget = airfl.link_budget(experiment(airfl.schemes.WflP()))
total = runs["over the air, 40 dB"].summary()
print(budget)
assert budget.resource_elements == total.resource_elements
assert budget.energy_j >= total.energy

# %%
# Exercises
# ---------
# 1. Give the server a smaller step, ``server=airfl.Server(learning_rate=0.3)``. The noise is multiplied by it too.
#    Is there a map at 25 dB now, and how many rounds does it take?
# 2. Let all devices measure all over the cell: shuffle ``device_of``. How much of the error came from the fact that
#    every device knows only its own neighbourhood?
# 3. Add a second output, the uncertainty of the map, and a loss that rewards an honest one (the negative
#    log-likelihood of a normal distribution). What has to change in the task? (:doc:`Your own model and data
#    </own-task>` lists what a task accepts.)
