"""Inputs for settings: a small run, typical values of each key, and keys that depend on each other; used by
settings_cases.py."""

from __future__ import annotations

import math
from typing import Any

from hypothesis import strategies as st

from airfl.config.load import without_foreign

Tables = dict[str, Any]
Key = tuple[str, str]

# A run of these takes a fraction of a second.
SMALL: Tables = {
    "run": {"rounds": 2, "devices": 12, "selected": 4, "evaluate_every": 1, "threads": 1},
    "task": {"dataset": "a9a-sample", "model": "logistic", "public_samples": 50},
    "local": {"steps": 2, "clip_norm": 1.0, "engine": "loop"},
    "scheme": {"ratio": 0.5},
    "channel": {"min_gain": 1e-4},
    "power": {"max_snr_db": [25.0, 35.0]},
    "grid": {"subcarriers": 16},
}

# Numbers as a user gives them; of all other keys whatever the schema allows.
USUAL: dict[Key, st.SearchStrategy[Any]] = {
    ("run", "rounds"): st.integers(1, 2),
    ("run", "seed"): st.integers(0, 2**63 - 1),
    ("run", "devices"): st.integers(4, 30),
    ("run", "selected"): st.integers(1, 8),
    ("run", "evaluate_every"): st.integers(1, 5),
    ("run", "threads"): st.just(1),
    ("run", "chunk"): st.integers(0, 9),
    ("run", "checkpoint_s"): st.sampled_from([0.0, 1e-3, 30.0]),
    ("run", "checkpoint_every"): st.integers(0, 3),
    ("task", "dataset"): st.just("a9a-sample"),
    ("task", "model"): st.just("logistic"),
    ("task", "dirichlet_alpha"): st.sampled_from([0.01, 0.1, 0.5, 10.0, 1e6]),
    ("task", "validation_share"): st.sampled_from([0.0, 0.1, 0.5]),
    ("task", "public_samples"): st.sampled_from([0, 1, 30, 200]),
    ("local", "epochs"): st.just(0),
    ("local", "steps"): st.integers(1, 4),
    ("local", "batch_size"): st.sampled_from([1, 2, 10, 1000]),
    ("local", "learning_rate"): st.sampled_from([1e-6, 0.05, 1.0, 10.0]),
    ("local", "decay_every"): st.integers(1, 3),
    ("local", "clip_norm"): st.sampled_from([1e-3, 1.0, 50.0]),
    ("local", "gradient_bound"): st.none(),
    ("local", "engine"): st.sampled_from(["auto", "loop", "vmap"]),
    ("local", "precision"): st.just("float32"),
    ("scheme", "ratio"): st.sampled_from([1e-4, 0.01, 0.1, 0.5, 0.99, 1.0]),
    ("scheme", "noise_multiplier"): st.sampled_from([None, 0.0, 0.3, 1.0, 20.0]),
    ("scheme", "coordinate_clip"): st.sampled_from([None, 0.01, 1.0, math.inf]),
    ("scheme", "gradient_clip"): st.sampled_from([0.01, 1.0, 50.0, math.inf]),
    ("scheme", "gamma"): st.sampled_from([None, 0.0, 0.1, 1.0]),
    ("scheme", "refresh"): st.sampled_from([None, 0.01, 0.5, 1.0]),
    ("scheme", "noise_constant"): st.sampled_from([1.0, 48.0]),
    ("scheme", "levels"): st.sampled_from([2, 3, 16, 256]),
    ("scheme", "trials"): st.sampled_from([None, 1, 1000, 10**6]),
    ("scheme", "quantiser_bound"): st.sampled_from([None, 0.1, 1.0]),
    ("scheme", "sparsity"): st.sampled_from([None, 0.01, 0.3, 1.0]),
    ("scheme", "sign_step"): st.sampled_from([1e-6, 1e-3, 1.0]),
    ("scheme", "iterations"): st.integers(1, 30),
    ("server", "learning_rate"): st.sampled_from([0.1, 1.0, 3.0]),
    ("server", "decay_every"): st.integers(1, 3),
    ("server", "kappa"): st.sampled_from([1e-6, 1e-3, 1.0]),
    ("selection", "candidates"): st.sampled_from([0, 4, 8, 10]),
    ("selection", "min_gain"): st.sampled_from([0.0, 1e-3, 0.02, 0.5]),
    ("selection", "window"): st.integers(1, 100),
    ("selection", "energy_budget"): st.sampled_from([None, 1.0, 1e6, 1e12]),
    ("channel", "mean_gain"): st.sampled_from([1e-3, 0.02, 1.0]),
    ("channel", "min_gain"): st.sampled_from([1e-6, 1e-4, 0.01]),
    ("channel", "max_gain"): st.sampled_from([0.01, 0.1, 10.0]),
    ("channel", "rician_k"): st.sampled_from([0.0, 1.0, 5.0, 1e3, "tr38901"]),
    ("channel", "nakagami_m"): st.sampled_from([0.5, 1.0, 2.5, 50.0]),
    ("channel", "replay_file"): st.none(),
    ("channel", "replay_variable"): st.none(),
    ("channel", "speed_m_s"): st.sampled_from([0.0, 0.5, 3.0, 100.0]),
    ("channel", "carrier_hz"): st.sampled_from([7e8, 3.5e9, 28e9]),
    ("channel", "round_s"): st.sampled_from([1e-3, 1.0, 60.0]),
    ("channel", "delay_spread_s"): st.sampled_from([0.0, 1e-8, 1e-7, 1e-6]),
    ("channel", "taps"): st.integers(0, 12),
    ("channel", "noise_std"): st.sampled_from([1e-3, 1.0, 10.0]),
    ("channel", "noise_figure_db"): st.sampled_from([0.0, 7.0, 20.0]),
    ("channel", "temperature_k"): st.sampled_from([4.0, 290.0]),
    ("channel", "interference_to_noise_db"): st.sampled_from([None, -20.0, 0.0, 20.0]),
    ("topology", "radius_m"): st.sampled_from([50.0, 250.0, 2000.0]),
    ("topology", "min_distance_m"): st.sampled_from([None, 10.0, 35.0]),
    ("topology", "coordinates"): st.just([[20.0 + 10 * place, -35.0] for place in range(30)]),
    ("topology", "exponent"): st.sampled_from([2.0, 3.0, 4.5]),
    ("topology", "reference_loss_db"): st.sampled_from([None, 0.0, 40.0]),
    ("topology", "shadowing_std_db"): st.sampled_from([None, 0.0, 4.0, 8.0]),
    ("topology", "shadowing_correlation_m"): st.sampled_from([None, 0.0, 30.0]),
    ("topology", "base_height_m"): st.sampled_from([None, 10.0, 25.0]),
    ("topology", "device_height_m"): st.sampled_from([1.5, 10.0]),
    ("csi", "pilots"): st.integers(1, 8),
    ("csi", "pilot_snr_db"): st.sampled_from([None, -10.0, 20.0, 50.0]),
    ("csi", "delay_s"): st.sampled_from([0.0, 1e-4, 1e-2]),
    ("csi", "phase_std_rad"): st.sampled_from([0.0, 0.1, 3.0]),
    ("csi", "timing_offset_s"): st.sampled_from([0.0, 1e-7, 2e-6]),
    ("csi", "frequency_offset_hz"): st.sampled_from([0.0, 1.0, 300.0]),
    ("antennas", "count"): st.sampled_from([1, 2, 3, 8]),
    ("antennas", "rows"): st.sampled_from([1, 2]),
    ("antennas", "spacing_wavelengths"): st.sampled_from([0.1, 0.5, 3.0]),
    ("antennas", "angular_std_deg"): st.sampled_from([0.0, 2.0, 15.0, 100.0]),
    ("power", "max_snr_db"): st.sampled_from([20.0, [2.0, 15.0], [25.0, 35.0]]),
    ("power", "tx_power_dbm"): st.sampled_from([23.0, [10.0, 23.0]]),
    ("power", "threshold"): st.sampled_from([0.0, 0.01, 0.5, 2.0]),
    ("power", "participation"): st.sampled_from([None, 0.1, 0.8, 1.0]),
    ("power", "coefficient"): st.sampled_from([None, 1e-3, 1.0, 1e3]),
    ("power", "peak_db"): st.sampled_from([None, 0.0, 6.0, 20.0]),
    ("grid", "subcarriers"): st.sampled_from([1, 2, 7, 16, 64, 3300]),
    ("grid", "resource_blocks"): st.sampled_from([None, 1, 4, 273]),
    ("grid", "used"): st.sampled_from([None, [[0, 0]], [[0, 3]], [[0, 1], [4, 6]]]),
    ("grid", "spacing_hz"): st.sampled_from([15e3, 30e3, 60e3, 120e3]),
    ("grid", "symbol_duration_s"): st.sampled_from([None, 7.2e-5, 1e-4]),
    ("grid", "downlink_snr_db"): st.sampled_from([0.0, 50.0]),
    ("grid", "downlink_power_dbm"): st.sampled_from([20.0, 43.0]),
    ("grid", "clip_db"): st.sampled_from([None, 0.0, 4.0, 12.0]),
    ("digital", "gap_db"): st.sampled_from([0.0, 3.0]),
    ("digital", "block_elements"): st.sampled_from([1, 100, 1000, 10**6]),
    ("digital", "transmissions"): st.integers(1, 6),
    ("digital", "deadline_s"): st.sampled_from([math.inf, 1.0, 1e-3]),
    ("privacy", "epsilon"): st.sampled_from([0.1, 1.5, 8.0, 1e3, math.inf]),
    ("privacy", "delta"): st.sampled_from([None, 1e-9, 1e-3, 0.1]),
    ("compute", "cycles_per_sample"): st.sampled_from([0.0, 1e6]),
    ("compute", "frequency_hz"): st.sampled_from([1e8, 2e9]),
    ("compute", "capacitance"): st.sampled_from([1e-28, 2e-28]),
    ("trace", "signals"): st.sampled_from([False, True, [], [0]]),
}

# What goes together, so that it is drawn together.
BUNDLES: tuple[Tables, ...] = (
    {},
    {},
    {},
    {"channel": {"units": "physical"}, "topology": {"kind": "disc"}},
    {"channel": {"units": "physical"}, "topology": {"kind": "annulus", "path_loss": "uma"}},
    {"channel": {"units": "physical", "fading": "rician", "rician_k": "tr38901"}, "topology": {"kind": "disc"}},
    {"channel": {"units": "physical"}},
    {"channel": {"units": "physical"}, "power": {"spread": "message"}},
    {"channel": {"fading": "rayleigh", "variation": "jakes", "speed_m_s": 3.0}},
    {"channel": {"fading": "tapped-line", "speed_m_s": 3.0}, "power": {"policy": "per-subcarrier"}},
    {"channel": {"fading": "rayleigh"}, "grid": {"waveform": True}},
    {"channel": {"fading": "tapped-line"}, "grid": {"waveform": True}, "csi": {"timing_offset_s": 1e-6}},
    {"channel": {"fading": "rayleigh"}, "csi": {"estimation": "mmse", "pilot_snr_db": 40.0}},
    {"channel": {"fading": "rayleigh"}, "csi": {"estimation": "ls"}, "privacy": {"csi_error": "quantile"}},
    {"selection": {"kind": "threshold", "min_gain": 0.01}},
    {"selection": {"kind": "best-k", "candidates": 10}},
    {"selection": {"kind": "energy-budget", "energy_budget": 1e7}},
    {"selection": {"kind": "poisson"}},
    {"power": {"policy": "truncated-inversion", "threshold": 0.1}},
    {"power": {"policy": "truncated-inversion", "participation": 0.8, "divide_by": "expected"}},
    {"power": {"limit": "transmit_power", "policy": "full-inversion", "divide_by": "active"}},
    {"privacy": {"bound": "accountant", "epsilon": 8.0}},
    {"antennas": {"count": 4}, "channel": {"fading": "rayleigh"}},
    {"antennas": {"count": 4, "correlation": "local-scattering"}, "channel": {"fading": "rician"}},
    {"grid": {"downlink": True, "prefix": "normal"}},
    {"local": {"steps": 0, "epochs": 1}},
    {"local": {"clip_norm": None, "gradient_bound": 1.0}},
    {"server": {"weights": "samples"}, "task": {"partition": "dirichlet"}},
)


def put(tables: Tables, changes: Tables) -> Tables:
    """The tables with single keys replaced; another scheme drops the keys of the one before that it does not have."""
    made = {name: {**tables.get(name, {}), **changes.get(name, {})} for name in {**tables, **changes}}
    own = changes.get("scheme", {})
    before = [f"scheme.{key}" for key in tables.get("scheme", {}) if key not in own]
    return without_foreign(made, before) if "name" in own else made
