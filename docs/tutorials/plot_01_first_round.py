r"""
What happens in one round over the air?
=======================================

Eight devices train a classifier of pictures on their own data. They then send their updates at the same time on the
same frequencies, so that the radio channel adds them up. The server receives one noisy sum, and divides it by the
number of devices to obtain the mean.

This tutorial runs one such round with airfl, and computes the same round by hand in thirty lines of NumPy.
"""

# %%
# One round with airfl
# --------------------
# The data are 1,000 pictures of clothes, 50 on each of 20 devices. The model is softmax regression, a single linear
# layer, which starts at zero. A device takes one gradient step on all of its pictures. The scheme is WFL-P: every
# device inverts its channel, and all devices arrive with the largest amplitude that the weakest of them can reach.

import matplotlib.pyplot as plt
import numpy as np
import torch

import airfl

DEVICES, SELECTED, LEARNING_RATE, CLIP_NORM = 20, 8, 0.5, 1.0

data = airfl.datasets.load_dataset("fashion-mnist-sample")
pictures = data.train_inputs[:1000].reshape(1000, 784) / np.float32(255)
labels = data.train_targets[:1000]
device_of = np.arange(1000) % DEVICES  # picture n is on device n mod 20

model = torch.nn.Linear(784, 10)
for parameter in model.parameters():
    torch.nn.init.zeros_(parameter)

experiment = airfl.Experiment(
    scheme=airfl.schemes.WflP(),
    task=airfl.Task(
        model=model, train=(pictures, labels), test=(pictures, labels), partition=device_of, name="clothes"
    ),
    local=airfl.LocalSgd(steps=1, batch_size=50, learning_rate=LEARNING_RATE, clip_norm=CLIP_NORM),
    radio=airfl.Radio(max_snr_db=(30.0, 40.0)),
    trace=airfl.Trace(signals=True),  # record what is sent and received
    rounds=1,
    devices=DEVICES,
    selected=SELECTED,
)
run = airfl.run(experiment)
with run.trace() as trace:
    trace = trace.isel(round=0).load()
print(trace[["channel_gain", "power_limit", "transmit_scale", "alignment_coefficient"]])

# %%
# The same round by hand
# ----------------------
# Four things in a round are random: the devices that are selected, their channels, their energy limits, and the noise
# of the receiver. We take them from the trace, and compute everything else. The noise is what was received minus what
# was sent through the channel.

gains = np.abs(trace["channel_gain"].values.astype(np.complex128))
sent = trace["tx_symbols"].values
arrived = (trace["channel_gain"].values[:, None] * sent).real.sum(axis=0)
noise = trace["rx_symbols"].values - arrived


def update_of(device):
    """Return the clipped update of a device after one gradient step from zero."""
    inputs, targets = pictures[device_of == device], labels[device_of == device]
    guess = np.full((len(inputs), 10), 0.1)  # the softmax of zeros
    error = (guess - np.eye(10)[targets]) / len(inputs)
    update = -LEARNING_RATE * np.concatenate([(error.T @ inputs).ravel(), error.sum(axis=0)])
    return update * min(1, CLIP_NORM / np.linalg.norm(update))


updates = np.array([update_of(device) for device in trace["device_id"].values])
reach = gains * np.sqrt(trace["power_limit"].values) / CLIP_NORM  # the largest amplitude each can arrive with
beta = reach.min()  # all arrive with that of the weakest
scales = beta / gains  # each inverts its channel
received = (gains * scales) @ updates + noise  # the channel adds up
decoded = received / (SELECTED * beta)  # the server divides

# %%
# Both are the same round: the power control, the signal of every device and the new model agree up to rounding to
# single precision. The noise, which we took from the trace, has the standard deviation of the receiver, 1.

assert np.isclose(beta, trace["alignment_coefficient"])
assert np.allclose(scales, trace["transmit_scale"])
assert np.allclose(np.abs(sent), scales[:, None] * np.abs(updates), rtol=1e-3, atol=1e-3)
assert np.allclose(decoded, run.parameters, atol=1e-5)
assert abs(noise.std() - 1) < 5 / np.sqrt(2 * noise.size)

print(f"beta: {beta:.4f} by hand, {trace['alignment_coefficient'].item():.4f} by airfl")
print(f"largest difference of the two models: {np.abs(decoded - run.parameters.numpy()).max():.1e}")
print(f"standard deviation of the noise: {noise.std():.3f}")

# %%
# What was sent, and what arrived
# -------------------------------
# On the left are the amplitudes of the eight devices. On the right is the part of the update that belongs to the class
# "trouser", which is itself a picture.

figure = plt.figure(figsize=(10, 3.2), layout="constrained")
left, right = figure.subfigures(1, 2, width_ratios=(1, 1.8))
axes = left.subplots()
slots = np.arange(SELECTED)
axes.plot(slots, scales, "s", color="tab:orange", label="sends with")
axes.plot(slots, reach, "^", color="tab:gray", label="could arrive with")
axes.plot(slots, scales * gains, "o", color="tab:blue", label="arrives with: β")
axes.set(yscale="log", xlabel="selected device", ylabel="amplitude", xticks=slots)
axes.set_ylim(top=1e6)
axes.legend(fontsize=8, loc="upper left", ncols=2)

shown = {"mean of the updates": updates.mean(axis=0), "decoded by hand": decoded, "decoded by airfl": run.parameters}
for panel, (name, values) in zip(right.subplots(1, 3), shown.items(), strict=True):
    trouser = np.asarray(values)[784:1568].reshape(28, 28)
    panel.imshow(trouser, cmap="RdBu", vmin=-0.06, vmax=0.06)
    panel.set(title=name, xticks=[], yticks=[])
plt.show()

# %%
# What it shows
# -------------
# **All devices arrive with one amplitude** :math:`\beta`, that of the device with the weakest reach, which sends with
# all of its energy. The others hold back: the strongest could have arrived with more than ten times that amplitude.
# That is the price of a sum without distortion.

used = (scales * CLIP_NORM) ** 2 / trace["power_limit"].values  # share of the limit, for an update of the largest norm
assert np.argmax(used) == np.argmin(reach)
assert np.isclose(used.max(), 1)
assert reach.max() > 10 * beta
assert np.allclose(trace["transmit_energy_j"], (scales * np.linalg.norm(updates, axis=1)) ** 2, rtol=1e-4)

# %%
# **The server never sees a single update**, only their sum with noise. The noise on an entry of the mean has the
# standard deviation :math:`\sigma_0 / (r \beta)`. Over all entries it is larger than the mean update here, and the
# trouser is visible nevertheless.

noise_in_mean = decoded - updates.mean(axis=0)
assert np.isclose(noise_in_mean.std(), 1 / (SELECTED * beta), rtol=5 / np.sqrt(2 * noise.size))
assert np.linalg.norm(noise_in_mean) > np.linalg.norm(updates.mean(axis=0))
print(f"norm of the mean update: {np.linalg.norm(updates.mean(axis=0)):.2f}")
print(f"norm of the noise in the decoded mean: {np.linalg.norm(noise_in_mean):.2f}")

# %%
# **How much noise there is depends on one device**, the weakest of the round. With other seeds, that is other devices
# and other channels, the noise differs by more than a factor of ten.

norms = []
for seed in range(10):
    (beta_of_seed,) = airfl.link_budget(experiment.replace(seed=seed)).alignment_coefficient
    norms.append(np.sqrt(noise.size) / (SELECTED * beta_of_seed))
print("norm of the noise, ten seeds:", np.round(norms, 2))
assert max(norms) > 10 * min(norms)

# %%
# Exercises
# ---------
# 1. Switch the noise off with ``airfl.Radio(noise=False)``. Does :math:`\beta` change? Check that the decoded mean is
#    now the mean of the updates.
# 2. Leave the weakest device out of the sum by hand, and let the others arrive with the largest amplitude that the
#    second weakest can reach. How much smaller is the noise, and how far is the mean from that of all eight devices?
#    The scheme ``airfl.schemes.Baa()`` leaves out devices in a deep fade; which of the eight does it leave out?
# 3. Send a third of the entries, chosen at random, as ``airfl.schemes.Pfels(ratio=1 / 3)`` does; the trace has them as
#    ``coordinates``. By what factor may :math:`\beta` grow within the same energy? Check it with
#    ``privacy=airfl.Privacy(epsilon=float("inf"))``, so that no privacy bound limits :math:`\beta`.
