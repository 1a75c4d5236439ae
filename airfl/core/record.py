"""The record of a round: its trace variables, by the names of the schema."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from airfl.core.accounting import noise_std
from airfl.core.scenario import Scenario
from airfl.core.state import Exchange
from airfl.learning.divergence import check_losses
from airfl.learning.evaluation import Evaluation, EvaluationUnderWay
from airfl.privacy.ledger import PrivacyFigures
from airfl.storage.trace.schema import METRIC
from airfl.uplinks import LinkReport, Reception
from channels.broadcast import Broadcast
from channels.csi import ChannelEstimate
from channels.mac import energy

Record = dict[str, Any]


class KeptRecord(Record):
    """The record of a round that an earlier process ran, read back when a run is resumed."""


@dataclass(frozen=True)
class OpenRecord:
    """The record of a round whose evaluation a GPU may still be computing. Only `close` gives access to a record.

    Attributes:
        round_index: t, index of the round.
        evaluation: That of theta^(t+1); None where the round is not evaluated.
        others: All other figures of the round.
    """

    round_index: int
    evaluation: EvaluationUnderWay | None
    others: Record

    @property
    def under_way(self) -> bool:
        """Whether the CPU may have to wait for the record."""
        return self.evaluation is not None and self.evaluation.under_way

    def close(self) -> Record:
        """Return the complete record, after waiting for a GPU. Raises DivergedError if a loss is not finite."""
        evaluation = None if self.evaluation is None else self.evaluation.result()
        check_losses(evaluation, self.round_index)
        return {**record_evaluation(evaluation), **self.others}


def record_evaluation(evaluation: Evaluation | None) -> Record:
    """Return the figures of the new model, nan where the round is not evaluated."""
    nan = float("nan")
    figures = evaluation or Evaluation(nan, nan, nan, nan, nan)
    return {
        "test_accuracy": figures.test_accuracy,
        "test_loss": figures.test_loss,
        "train_loss": figures.train_loss,
        "validation_accuracy": figures.validation_accuracy,
        "validation_loss": figures.validation_loss,
        "gradient_norm_squared": figures.gradient_norm_squared,
        **{f"{METRIC}{name}": value for name, value in figures.metrics.items()},
    }


def record_reception(reception: Reception, entries: int) -> Record:
    """Return the figures and the cost of the uplink."""
    report = reception.report
    use, devices = report.use, report.devices
    record: Record = {
        "alignment_coefficient": report.alignment_coefficient,
        "power_bound_binding": report.power_bound_binding,
        "privacy_bound_binding": report.privacy_bound_binding,
        "receive_snr_db": reception.receive_snr_db,
        "message_length": entries,
        "resource_elements": use.resource_elements,
        "subcarriers": use.subcarriers,
        "ofdm_symbols": use.ofdm_symbols,
        "pilot_elements": report.pilot_elements,
        "latency_s": use.air_time_s,
        "uplink_bits": int(devices.bits.sum()),
        "fronthaul_bits": report.fronthaul_bits,
        "energy_j": float(devices.energy.sum()) + report.energy_of_others,
        "amplifier_energy_j": report.amplifier_energy,
        "heard": int(devices.active.sum()),
        "clipped_share": report.clipped_share,
        "papr_db": report.papr_db,
        "waveform_clipped_share": report.waveform_clipped_share,
        "receiver_clipped_share": report.receiver_clipped_share,
        "transmit_scale": devices.transmit_scale,
        "transmit_energy_j": devices.energy,
        "bits": devices.bits,
        "active": devices.active,
        "snr_db": devices.snr_db,
        "bits_on_air": devices.bits if devices.bits_on_air is None else devices.bits_on_air,
        "rate": or_nan(devices.rate, devices.energy),
        "device_air_time_s": or_nan(devices.air_time_s, devices.energy),
        "block_error_rate": or_nan(devices.block_error_rate, devices.energy),
    }
    if reception.signals is not None:
        record["tx_symbols"], record["rx_symbols"] = reception.signals.tx, reception.signals.rx
        record["channel_response"] = reception.signals.response
    return record


def or_nan(values: NDArray[np.float64] | None, like: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the values, or nan for a link without them."""
    return np.full_like(like, np.nan) if values is None else values


def _known_gains(scenario: Scenario, estimate: ChannelEstimate) -> NDArray[np.complex128]:
    """Return the estimates of the devices' own channels, nan if the receiver estimated only the sum of them."""
    only_sum = scenario.radio.pilots_at_once and scenario.radio.imperfections.estimation.method != "perfect"
    return np.full_like(estimate.gains, np.nan) if only_sum else estimate.gains


def record_exchange(scenario: Scenario, exchanged: Exchange, round_index: int) -> Record:
    """Return the selected devices and their channels, the figures and cost of both links, and the aggregation error."""
    plan, encoder, reception = exchanged.plan, exchanged.encoder, exchanged.reception
    devices = plan.devices
    record = {
        **record_reception(reception, scenario.bound.entries),
        **record_downlink(plan.broadcast),
        "noise_std": noise_std(scenario, reception.report) * encoder.noise_gain,
        "interference_std": reception.report.interference_std * encoder.noise_gain,
        "aggregation_error": energy(exchanged.mean_update, exchanged.reference),
        "unreachable": plan.unreachable,
        "device_id": devices,
        "channel_gain": plan.channel.gains,
        "channel_estimate": _known_gains(scenario, plan.estimate),
        "power_limit": scenario.power_limits[devices] * scenario.radio.energy_unit,
        "update_norm": exchanged.update_norms,
        "non_finite": exchanged.non_finite,
    }
    drop = None if scenario.radio.moving is None else scenario.radio.at(round_index).drop
    if drop is not None:
        record |= {"distance_m": drop.distance_m[devices], "path_loss_db": drop.path_loss_db[devices]}
    if scenario.trace.records_signals(round_index):
        everything = np.arange(scenario.bound.entries)
        record["coordinates"] = everything if encoder.coordinates is None else encoder.coordinates
    return record


def record_downlink(broadcast: Broadcast | None) -> Record:
    """Return the cost of the broadcast, zero for an ideal downlink."""
    return {
        "downlink_elements": broadcast.resource_elements if broadcast else 0,
        "downlink_latency_s": broadcast.air_time_s if broadcast else 0.0,
        "downlink_energy_j": broadcast.energy if broadcast else 0.0,
    }


def record_privacy(
    scenario: Scenario, report: LinkReport, privacy: PrivacyFigures, multiplier: float, rounds: int
) -> Record:
    """Return claimed and accounted privacy figures after this many rounds."""
    claim = scenario.recipe.claim
    return {
        "noise_multiplier": multiplier,
        "epsilon_paper": claim.epsilon(report, rounds) if claim else float("nan"),
        "epsilon_round": privacy.epsilon_round,
        **record_composed(
            scenario,
            (
                privacy.epsilon,
                privacy.epsilon_as_poisson,
                privacy.epsilon_at_least,
                privacy.epsilon_round_at_least,
            ),
            rounds,
        ),
    }


def record_composed(scenario: Scenario, figures: tuple[float, float, float, float], rounds: int) -> Record:
    """Return the figures of so many rounds together, nan where they are not composed; figures: as by the ledger's
    `end`."""
    epsilon, as_poisson, at_least, round_at_least = figures
    claim, composed = scenario.recipe.claim, not math.isnan(epsilon)
    return {
        "epsilon_paper_tables": claim.in_tables(rounds) if claim and claim.in_tables and composed else float("nan"),
        "epsilon": epsilon,
        "epsilon_as_poisson": as_poisson,
        "epsilon_at_least": at_least,
        "epsilon_round_at_least": round_at_least,
    }
