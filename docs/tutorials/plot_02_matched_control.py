r"""
Why does PFELS look better than WFL-P?
======================================

Both schemes send updates over the air with the same limits on the energy. WFL-P sends all entries, PFELS a share
:math:`p` of them, chosen at random in every round. PFELS uses fewer resource elements, and in many experiments it is
also more accurate. What makes it more accurate: that it sends fewer entries, or something else that it does?
"""

# %%
# Two explanations and their controls
# -----------------------------------
# PFELS does not divide the decoded update by :math:`p`. On average over the masks the server therefore takes :math:`p`
# times the step of WFL-P. With :math:`p = 0.3` there are two explanations for a higher accuracy, and a control for
# each:
#
# * The smaller step is what helps. The control is WFL-P with the server step 0.3: all entries, small step.
# * The mask is what helps. The control is PFELS with ``rescale=True``, which divides by :math:`p`: few entries, full
#   step.
#
# A seed gives all four schemes the same devices, batches, channels and noise. The privacy bound on the power, which
# WFL-P does not have, is switched off.

import matplotlib.pyplot as plt
import numpy as np

import airfl

P, ROUNDS, SEEDS = 0.3, 40, (0, 1, 2)
SCHEMES = {
    "PFELS": (airfl.schemes.Pfels(ratio=P), 1.0),
    "WFL-P": (airfl.schemes.WflP(), 1.0),
    "WFL-P, server step 0.3": (airfl.schemes.WflP(), P),
    "PFELS, rescaled": (airfl.schemes.Pfels(ratio=P, rescale=True), 1.0),
}

demo = airfl.Experiment.load("demo", {"run.rounds": ROUNDS, "run.evaluate_every": 8, "privacy.epsilon": float("inf")})
accuracy = {name: [] for name in SCHEMES}
noise = {name: [] for name in SCHEMES}  # norm of the noise in the server's step, round by round
energy, elements = {}, {}
for name, (scheme, step) in SCHEMES.items():
    for seed in SEEDS:
        run = airfl.run(demo.replace(scheme=scheme, seed=seed), overrides={"server.learning_rate": step})
        with run.trace() as trace:
            evaluated = trace["test_accuracy"].dropna("round")
            accuracy[name].append(evaluated.values)
            noise[name].append(step * (trace["noise_std"] * np.sqrt(trace["message_length"])).values)
        energy.setdefault(name, []).append(run.summary().energy)
        elements[name] = run.summary().resource_elements
rounds = evaluated["round"].values + 1
accuracy = {name: 100 * np.array(values) for name, values in accuracy.items()}
final = {name: values[:, -1].mean() for name, values in accuracy.items()}
for name, values in final.items():
    print(f"{name:24s} {values:.1f}% after {ROUNDS} rounds, {elements[name]:,} resource elements")

# %%
# The figure
# ----------
# Left: the test accuracy, as the mean over three seeds and the range that they span. Right: the norm of the noise in
# the step that the server takes, in every round of the first seed.

figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.8), layout="constrained")
styles = {"PFELS": "-", "WFL-P": "-", "WFL-P, server step 0.3": "--", "PFELS, rescaled": "--"}
colours = {"PFELS": "C0", "WFL-P": "C1", "WFL-P, server step 0.3": "C2", "PFELS, rescaled": "C3"}
for name, values in accuracy.items():
    left.plot(rounds, values.mean(axis=0), styles[name], color=colours[name], label=name)
    left.fill_between(rounds, values.min(axis=0), values.max(axis=0), color=colours[name], alpha=0.12)
    right.plot(np.arange(ROUNDS) + 1, noise[name][0], styles[name], color=colours[name], label=name)
left.set(xlabel="round", ylabel="test accuracy (%)")
left.legend(fontsize=8)
right.set(xlabel="round", ylabel="norm of the noise in the step", yscale="log")
plt.show()

# %%
# What it shows
# -------------
# **The server step explains most of it.** On average over the seeds PFELS is ahead of WFL-P. WFL-P with the server step
# 0.3 is closer to PFELS than to WFL-P, although it sends all entries.

assert final["PFELS"] > final["WFL-P"]
gap = abs(final["PFELS"] - final["WFL-P, server step 0.3"])
assert gap < abs(final["WFL-P"] - final["WFL-P, server step 0.3"])

# %%
# **The mask explains little.** With the full step PFELS loses more than half of its lead over WFL-P: rescaled, it is
# behind PFELS and behind the control. The rest of the lead is smaller than the range that WFL-P spans over the seeds,
# so that three seeds cannot tell whether the mask itself helps.

assert final["PFELS, rescaled"] < min(final["PFELS"], final["WFL-P, server step 0.3"])
rest = final["PFELS, rescaled"] - final["WFL-P"]
assert rest < (final["PFELS"] - final["WFL-P"]) / 2
assert rest < np.ptp(accuracy["WFL-P"][:, -1])

# %%
# **The noise explains it.** A device that sends :math:`p` of its entries may send them :math:`1 / \sqrt{p}` times as
# strongly, and there is noise on :math:`p d` entries instead of :math:`d`. Both together make the norm of the noise
# :math:`p` times that of WFL-P, exactly as the smaller server step does. Dividing by :math:`p` undoes this. In every
# round the curves of each pair therefore coincide.

for of_pfels, of_wflp, rescaled, of_control in zip(
    noise["PFELS"], noise["WFL-P"], noise["PFELS, rescaled"], noise["WFL-P, server step 0.3"], strict=True
):
    assert np.allclose(of_pfels, P * of_wflp, rtol=1e-4)
    assert np.allclose(of_pfels, of_control, rtol=1e-4)
    assert np.allclose(rescaled, of_wflp, rtol=1e-4)

# %%
# **What the mask does save is spectrum**: PFELS uses 0.3 times the resource elements of WFL-P and of its control, for
# about the same energy. A comparison of schemes should therefore tune the server step of each, or add such a control.

assert np.isclose(elements["PFELS"], P * elements["WFL-P"], rtol=1e-4)
assert np.allclose(energy["PFELS"], energy["WFL-P"], rtol=0.1)

# %%
# Exercises
# ---------
# 1. Give WFL-P the server steps 0.1, 0.2, 0.5 and 1. Where is its best, and is it better than PFELS with the same
#    :math:`p`?
# 2. The noise is strong here. Repeat the comparison with 20 dB more power, ``power.max_snr_db=[45.0, 55.0]``. Which of
#    the four is ahead now, and why?
# 3. Switch the privacy bound on again by leaving out ``privacy.epsilon``, and compare PFELS with ``WflPdp``, whose
#    power is under the same bound. Where the bound is active, is the noise of PFELS still that of the control?
