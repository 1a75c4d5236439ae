"""The variables of a trace, schema airfl-trace/1. Adding a variable takes one line in a table."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

SCHEMA = "airfl-trace/1"
NAN, NOBODY = float("nan"), -1
RECORDED_FILES, RECORDED_CARRIER = "recorded_files", "recorded_carrier_hz"
"""Attributes of a trace: the SHA-256 of each recorded file of its run, in JSON; the carrier of its recorded channel."""


@dataclass(frozen=True)
class Variable:
    """One variable of a trace.

    Attributes:
        name: Its name in the file.
        dimensions: Names of its dimensions.
        dtype: numpy's type, such as "f8".
        fill: The fill value, read where nothing was written.
        units: Its unit, "1" for a number without one.
        long_name: What it means.
    """

    name: str
    dimensions: tuple[str, ...]
    dtype: str
    fill: float | int
    units: str
    long_name: str


def _per_round(name: str, units: str, long_name: str, dtype: str = "f8") -> Variable:
    return Variable(name, ("round",), dtype, _fill(dtype), units, long_name)


def _per_slot(name: str, dtype: str, units: str, long_name: str) -> Variable:
    return Variable(name, ("round", "slot"), dtype, _fill(dtype), units, long_name)


def _fill(dtype: str) -> float:
    """Return the fill value of a type; integers have no nan."""
    return NOBODY if dtype.startswith("i") else NAN


NORMALISED = "normalised"
"""The unit of energies in the papers' normalised units; `in_units` replaces it by J."""

ROUND = Variable("round", ("round",), "i8", NOBODY, "1", "communication round, counted from 0")
"""The coordinate of the dimension `round`, which the writer fills itself."""

PER_ROUND = (
    _per_round("test_accuracy", "1", "share of the test set classified rightly; nan where not evaluated"),
    _per_round("test_loss", "1", "mean cross-entropy on the test set; nan where not evaluated"),
    _per_round(
        "train_loss", "1", "mean cross-entropy on the devices' samples, at most 10,000; nan where not evaluated"
    ),
    _per_round("validation_accuracy", "1", "share of the held-out training data classified rightly; nan without any"),
    _per_round("validation_loss", "1", "mean cross-entropy on the held-out training data; nan without any"),
    _per_round(
        "gradient_norm_squared",
        "1",
        "squared l2 norm of the whole objective's gradient; nan where not evaluated, and without trace.gradient_norm",
    ),
    _per_round(
        "alignment_coefficient",
        "1",
        "beta: amplitude at which every aligned message arrives; nan for digital",
    ),
    _per_round("power_bound_binding", "1", "1 where the power limits set beta", "i1"),
    _per_round("privacy_bound_binding", "1", "1 where the privacy bound set beta", "i1"),
    _per_round(
        "noise_std",
        "1",
        "standard deviation of the noise on one (sent) entry of the decoded mean update, of antennas that are "
        "summed and before the receiver clips it",
    ),
    _per_round(
        "aggregation_error",
        "1",
        "squared l2 distance of the decoded mean update to the mean of the clipped updates",
    ),
    _per_round(
        "receive_snr_db",
        "dB",
        "||sum_i h_i x_i||^2 over m sigma0^2 on the observed real entries; inf without noise",
    ),
    _per_round(
        "interference_std",
        "1",
        "standard deviation on one (sent) entry of what is neither signal nor receiver noise; inf for alpha-stable",
    ),
    _per_round("message_length", "1", "m: entries a device sends", "i8"),
    _per_round("resource_elements", "1", "subcarrier x OFDM symbol uses of the uplink", "i8"),
    _per_round("subcarriers", "1", "occupied subcarriers", "i8"),
    _per_round("ofdm_symbols", "1", "occupied OFDM symbols", "i8"),
    _per_round("pilot_elements", "1", "of the resource elements, those of channel estimation", "i8"),
    _per_round("latency_s", "s", "uplink air time"),
    _per_round("downlink_elements", "1", "resource elements of the broadcast; 0 where the downlink is ideal", "i8"),
    _per_round("downlink_latency_s", "s", "air time of the broadcast"),
    _per_round("downlink_energy_j", NORMALISED, "transmit energy of the base station"),
    _per_round("uplink_bits", "bit", "bits of all devices' messages; 0 for analog", "i8"),
    _per_round("fronthaul_bits", "bit", "from the antennas to where they are combined; 0 if exact", "i8"),
    _per_round("compute_energy_j", "J", "of local computation, all devices; 0 where it is not charged"),
    _per_round("compute_time_s", "s", "of local computation, the slowest device; 0 where it is not charged"),
    _per_round("energy_j", NORMALISED, "transmit energy of all devices"),
    _per_round(
        "amplifier_energy_j", NORMALISED, "drawn by the power amplifiers of all devices; 0 where none is modelled"
    ),
    _per_round("heard", "1", "devices whose message arrived", "i8"),
    _per_round(
        "unreachable",
        "1",
        "devices without a path, in outage, or that missed the trigger, of those selected, or of the candidates of a "
        "rule by channel; they take no part",
        "i8",
    ),
    _per_round("clipped_share", "1", "of the resource elements of all devices, those cut to the peak limit"),
    _per_round("papr_db", "dB", "largest peak-to-average power ratio of a waveform symbol; nan where none is made"),
    _per_round("waveform_clipped_share", "1", "of the waveforms' samples, those clipped"),
    _per_round("receiver_clipped_share", "1", "of the decoded entries, those that median-anchored clipping changed"),
    _per_round(
        "noise_multiplier",
        "1",
        "noise over one device's largest contribution in the released aggregate; 0: none",
    ),
    _per_round(
        "epsilon_paper",
        "1",
        "what the scheme's paper claims, by its own formula; nan where nothing is claimed",
    ),
    _per_round(
        "epsilon_paper_tables",
        "1",
        "what the paper's tables print, where that is by another formula; nan elsewhere, and where not evaluated",
    ),
    _per_round("epsilon_round", "1", "upper bound on epsilon of this round alone, tight without a random mask"),
    _per_round("epsilon", "1", "epsilon up to this round for the sampler that ran; nan where not evaluated"),
    _per_round(
        "epsilon_as_poisson",
        "1",
        "the same accounted as Poisson sampling, add/remove; nan where not evaluated",
    ),
    _per_round(
        "epsilon_at_least",
        "1",
        "what a pair of neighbours really pays for the sampler that ran, a lower bound; nan but after the last round",
    ),
    _per_round(
        "epsilon_round_at_least",
        "1",
        "the same for the worst of the rounds alone; nan but after the last round",
    ),
)

PER_SLOT = (
    _per_slot("device_id", "i4", "1", "selected device; -1 where the slot is not used"),
    _per_slot("channel_gain", "c8", "1", "true channel gain h"),
    _per_slot(
        "channel_estimate",
        "c8",
        "1",
        "channel gain as known to server and device; nan if only the sum of the channels was estimated",
    ),
    _per_slot("power_limit", "f8", NORMALISED, "P: energy limit of a whole update"),
    _per_slot("transmit_scale", "f8", "1", "alpha: amplitude a unit of the message is sent with"),
    _per_slot("transmit_energy_j", "f8", NORMALISED, "transmit energy"),
    _per_slot("bits", "i8", "bit", "bits of the message; 0 for analog"),
    _per_slot("bits_on_air", "i8", "bit", "bits sent, with what was sent again"),
    _per_slot("rate", "f8", "bit", "bits a resource element, first transmission; nan on analog links"),
    _per_slot("device_air_time_s", "f8", "s", "air time of the device; nan but for digital links"),
    _per_slot("block_error_rate", "f8", "1", "of a block's first transmission; nan but for digital links"),
    _per_slot("gradient_evaluations", "i8", "1", "gradients of single samples that the device computed"),
    _per_slot("active", "i1", "1", "1 where the device took part after truncation or outage"),
    _per_slot("update_norm", "f8", "1", "l2 norm of what the device has computed, after clipping where C bounds it"),
    _per_slot("non_finite", "i1", "1", "1 where the update was not finite, and so was dropped or clipped"),
    _per_slot(
        "snr_db",
        "f8",
        "dB",
        "receive SNR of the device alone, over sigma0^2 on analog links, N0 = 2 sigma0^2 on others; inf without noise",
    ),
)

PER_DEVICE: tuple[Variable, ...] = (
    Variable("device_samples", ("population",), "i8", NOBODY, "1", "training samples of the device"),
    Variable("device_power_limit", ("population",), "f8", NAN, NORMALISED, "P: energy limit of a whole update"),
)

PER_MOVING_DEVICE: tuple[Variable, ...] = (
    _per_slot("distance_m", "f8", "m", "distance to the base station at the start of the round, antenna to antenna"),
    _per_slot("path_loss_db", "f8", "dB", "path loss at the start of the round, shadowing included"),
)
"""Of the selected devices, where devices move."""

PER_PLACED_DEVICE = (
    Variable(
        "device_distance_m",
        ("population",),
        "f8",
        NAN,
        "m",
        "distance to the base station, or to the access point of the least path loss, antenna to antenna",
    ),
    Variable(
        "device_path_loss_db",
        ("population",),
        "f8",
        NAN,
        "dB",
        "path loss to the base station, or the least to an access point, shadowing included",
    ),
)


def in_units(variables: Sequence[Variable], energy: str) -> list[Variable]:
    """Return the variables with energies in the given units.

    If these are not joules, the description of each variable whose name ends in "_j" says so.
    """
    if energy != NORMALISED:
        return [replace(one, units=energy) if one.units == NORMALISED else one for one in variables]
    return [
        replace(one, long_name=f"{one.long_name}; normalised, no joules: {name} is the same under a true name")
        if (name := true_name(one.name, one.units)) != one.name
        else one
        for one in variables
    ]


def true_name(name: str, units: str) -> str:
    """Return the name of a variable that is true to its units: energy_normalised for energy_j if not in joules."""
    return f"{name.removesuffix('_j')}_{NORMALISED}" if name.endswith("_j") and units == NORMALISED else name


METRIC = "metric_"
"""Prefix of the variables of a task's user-defined metrics."""
METRIC_NAME, MOST_METRICS = re.compile("[a-z][a-z0-9_]{0,31}"), 16
"""Pattern of a metric's name; the highest number of metrics in a trace."""


def metric_variable(name: str) -> Variable:
    """Return the variable of a task's user-defined metric."""
    return _per_round(f"{METRIC}{name}", "1", f"{name}: mean over the test set; nan where not evaluated")


def is_metric(variable: str) -> bool:
    """Whether a name is that of a metric's variable."""
    return variable.startswith(METRIC) and METRIC_NAME.fullmatch(variable.removeprefix(METRIC)) is not None


def signal_variables(packing: str) -> tuple[Variable, ...]:
    """Return the variables of signals. Under I/Q packing the elements fill the first half of dimension `coordinate`."""
    received = "c8" if packing == "iq" else "f4"
    part = "complex elements" if packing == "iq" else "the observed real part"
    return (
        Variable("coordinates", ("round", "coordinate"), "i4", NOBODY, "1", "entries of the update that were sent"),
        Variable("tx_symbols", ("round", "slot", "coordinate"), "c8", NAN, "1", "transmitted symbols x, precoded"),
        Variable("rx_symbols", ("round", "coordinate"), received, NAN, "1", f"received symbols y, {part}"),
        Variable(
            "channel_response",
            ("round", "slot", "symbol", "subcarrier", "antenna"),
            "c8",
            NAN,
            "1",
            "true channel, by block of symbols and subcarrier; length 1 where it does not differ",
        ),
    )
