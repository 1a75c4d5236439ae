"""The settings of the radio: selection, channel, topology, channel knowledge, antennas, power, grid."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import ConfigDict, Field, field_validator, model_validator

from airfl.config.names import (
    ArrayName,
    CorrelationName,
    PathLossName,
    PlacementName,
    VariationName,
)
from airfl.config.part_keys import NamedPart, keys_of, parts_of, with_keys
from airfl.config.section import Count, Decibels, Scale, ScaleOrZero, Section
from airfl.selection.registry import SELECTIONS
from airfl.selection.rule import SelectionRule
from channels.antennas import COMBINERS, AntennaArray, Combiner, SpatialCorrelation
from channels.csi import IMPAIRMENTS, Imperfections
from channels.fading import FADINGS, Fading, fading_of
from channels.fading.registry import SELECTIVE_MODELS
from channels.power import POLICIES, Policy
from channels.topology import Topology

Spread = Annotated[float, Field(ge=0, le=200, allow_inf_nan=False)]  # in dB


RULE = NamedPart(SELECTIONS, "selection.kind", "uniform")


class _Selection(Section):
    """Who takes part in a round."""

    model_config = ConfigDict(defer_build=True)

    kind: Annotated[str | SelectionRule, RULE] = Field(
        "uniform",
        description="r of N without replacement, every device with probability r/N, or by the channel: threshold, "
        "best-k, proportional-fair, energy-budget",
    )

    @model_validator(mode="before")
    @classmethod
    def _by_name(cls, data: Any) -> Any:
        return RULE.flattened(data, cls.model_fields)

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        RULE.of(self)
        return self

    @property
    def rule(self) -> SelectionRule:
        """The rule itself, with its parameters."""
        return RULE.of(self)


if TYPE_CHECKING:

    class SelectionSettings(_Selection):
        """With the keys of all rules, which the part of the one that is chosen has: `rule`."""

        candidates: int = 0

else:
    SelectionSettings = with_keys(_Selection, "SelectionSettings", SELECTIONS, after="kind", places={})


FADING = NamedPart(FADINGS, "channel.fading", "exponential", fading_of)


class _Channel(Section):
    """Fading and receiver noise."""

    model_config = ConfigDict(defer_build=True)

    fading: Annotated[str | Fading, FADING] = Field(
        "exponential", description="law of |h|, or a frequency-selective model"
    )
    mean_gain: Scale = Field(
        0.02, description="mean of |h| before the bounds (selective models: its rms); a topology takes its place"
    )
    min_gain: Scale = Field(1e-4, description="smallest |h|, in normalised units")
    max_gain: Scale = Field(0.1, description="largest |h|, in normalised units")
    bounds: Literal["clip", "redraw"] = Field("clip", description="how |h| is kept within min_gain and max_gain")
    variation: VariationName = Field(
        "independent", description="from round to round: independent, constant, or jakes (J0(2 pi f_D t))"
    )
    speed_m_s: ScaleOrZero = Field(0.0, description="of the devices: f_D = speed x carrier / c")
    carrier_hz: Scale = Field(3.5e9, description="carrier frequency")
    round_s: Scale = Field(1.0, description="time from one round's transmission to the next")
    coherence: Literal["round", "slot", "symbol"] = Field(
        "round",
        description="time over which a moving device's channel is held constant within a round: a selective "
        "model's, or a flat one with variation = jakes",
    )
    units: Literal["normalised", "physical"] = Field(
        "normalised", description="the papers' (noise_std, max_snr_db), or W and J (tx_power_dbm, noise_figure_db)"
    )
    noise_std: Scale = Field(1.0, description="sigma0, of the noise on one observed real entry, in normalised units")
    noise: bool = Field(True, description="false sends z = 0 and leaves beta as it is")
    noise_figure_db: Spread = Field(7.0, description="of the receiver, in physical units")
    temperature_k: Scale = Field(290.0, description="of the receiver, in physical units")
    interference_to_noise_db: Decibels | None = Field(
        None,
        description="inter-cell interference over sigma0^2; it stays without noise, and never counts as privacy noise",
    )

    @model_validator(mode="before")
    @classmethod
    def _by_name(cls, data: Any) -> Any:
        return FADING.flattened(data, cls.model_fields)

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.min_gain > self.max_gain:
            raise ValueError(f"channel.min_gain ({self.min_gain}) is above channel.max_gain ({self.max_gain})")
        file = getattr(self, "replay_file", None)
        if (self.fading == "replay") != (file is not None):
            raise ValueError(
                f'channel.replay_file: goes with channel.fading = "replay", and only with it (fading: {self.fading!r}, '
                f"replay_file: {file!r})"
            )
        if self.variation == "jakes" and not self.speed_m_s:
            raise ValueError('channel.speed_m_s: channel.variation = "jakes" needs a speed above 0')
        FADING.of(self)
        return self

    @property
    def fading_model(self) -> Fading:
        """The fading itself, with its parameters."""
        return FADING.of(self)


if TYPE_CHECKING:

    class ChannelSettings(_Channel):
        """With the keys of all fadings, which the part of the one that is chosen has: `fading_model`."""

else:
    ChannelSettings = with_keys(
        _Channel,
        "ChannelSettings",
        FADINGS,
        after="bounds",
        places={
            key: "round_s" for key, (_, names) in keys_of(FADINGS).items() if SELECTIVE_MODELS.keys() >= set(names)
        },
    )


class _Topology(Section):
    """Where the devices are, and what distance costs. Needs channel.units = "physical"."""

    model_config = ConfigDict(defer_build=True)

    kind: PlacementName = Field("none", description="none, disc, annulus or coordinates")
    path_loss: PathLossName | None = Field(
        None,
        description="log-distance, or 3GPP TR 38.901's umi, uma and rma; default that of channel.fading where that is "
        "one of the latter, else umi",
    )

    def cell(self, *, path_loss: str, carrier_hz: float) -> Topology:
        """The cell, of a kind that is not none.

        Args:
            path_loss: The model, which may follow from the fading.
            carrier_hz: The channel's.
        """
        cell = parts_of(self, {"cell": Topology})["cell"]
        return replace(cell, kind=self.kind, path_loss=path_loss, carrier_hz=carrier_hz)


if TYPE_CHECKING:

    class TopologySettings(_Topology):
        """With the keys of `channels.topology.Topology`."""

        los: Literal["probability", "los", "nlos"] = "probability"
        base_height_m: float | None = None

else:
    TopologySettings = with_keys(
        _Topology,
        "TopologySettings",
        {"cell": Topology},
        after="path_loss",
        places=dict.fromkeys(("radius_m", "min_distance_m", "coordinates"), "kind"),
    )


class _Csi(Section):
    """What is known of the channel. The defaults know it perfectly."""

    model_config = ConfigDict(defer_build=True)

    @property
    def imperfections(self) -> Imperfections:
        """The impairments, with their parameters."""
        return Imperfections(**parts_of(self, IMPAIRMENTS))  # type: ignore[arg-type]


if TYPE_CHECKING:

    class CsiSettings(_Csi):
        """With the keys of all impairments, which `imperfections` has as parts."""

else:
    CsiSettings = with_keys(
        _Csi,
        "CsiSettings",
        IMPAIRMENTS,
        after=None,
        places={"delay_s": "pilot_snr_db", "los_doppler": "pilot_snr_db"},
    )


COMBINER = NamedPart(COMBINERS, "antennas.combining", "max-min")


class _Antennas(Section):
    """The receiver's antennas."""

    model_config = ConfigDict(defer_build=True)

    combining: Annotated[str | Combiner, COMBINER] = Field(
        "max-min", description="how they are combined; with one antenna all are the same"
    )
    array: ArrayName = Field(
        "linear", description="where they are: linear (level), rectangular (upright, in rows) or circular (level)"
    )
    angle: Literal["device", "broadside"] = Field(
        "device",
        description="direction of a device's line of sight, and of the paths that scatter around it: device = its own, "
        "from its position or drawn once for the run; broadside = straight ahead for all",
    )
    sector_deg: Annotated[float, Field(ge=0, le=360)] = Field(
        120.0, description="azimuths are drawn uniformly within half of it on either side of the broadside"
    )
    broadside_deg: Annotated[float, Field(ge=-360, le=360)] = Field(
        0.0, description="azimuth of the broadside in the cell, from the x axis towards the y axis"
    )
    correlation: CorrelationName = Field(
        "independent", description="of the diffuse part between antennas: independent, exponential or local-scattering"
    )

    @model_validator(mode="before")
    @classmethod
    def _by_name(cls, data: Any) -> Any:
        return COMBINER.flattened(data, cls.model_fields)

    @property
    def combiner(self) -> Combiner:
        """The combiner itself, with its parameters."""
        return COMBINER.of(self)

    @property
    def geometry(self) -> AntennaArray:
        """Where they are; ValueError for rows that do not divide them."""
        return replace(parts_of(self, {"array": AntennaArray})["array"], kind=self.array)

    @property
    def diffuse_correlation(self) -> SpatialCorrelation:
        """Of the diffuse part between them."""
        return replace(parts_of(self, {"correlation": SpatialCorrelation})["correlation"], kind=self.correlation)


if TYPE_CHECKING:

    class AntennaSettings(_Antennas):
        """With the keys of `AntennaArray` and `SpatialCorrelation`."""

        count: int = 1

else:
    AntennaSettings = with_keys(
        _Antennas,
        "AntennaSettings",
        {"array": AntennaArray, "correlation": SpatialCorrelation},
        after=None,
        places={
            **dict.fromkeys(("rows", "spacing_wavelengths"), "array"),
            **dict.fromkeys(("correlation_coefficient", "angular_std_deg", "angular_distribution"), "correlation"),
        },
    )


POLICY = NamedPart(POLICIES, "power.policy", "pfels")


class _Power(Section):
    """What a device may spend, and how it spends it."""

    model_config = ConfigDict(defer_build=True)

    max_snr_db: Decibels | list[Decibels] = Field(
        [2.0, 15.0], description="P_i/(d sigma0^2) in dB: a number, or [low, high]; in normalised units"
    )
    tx_power_dbm: Decibels | list[Decibels] = Field(
        23.0, description="of a device over the used subcarriers: a number, or [low, high]; in physical units"
    )
    spacing: Literal["linear", "db"] = Field("linear", description="[low, high] is uniform in the ratio, or in dB")
    spread: Literal["band", "message"] = Field(
        "band",
        description="in physical units, for analog messages with fewer resource elements than used subcarriers: band = "
        "each element has 1/K of the power; message = the message's elements share all of it",
    )
    limit: Literal["round_energy", "transmit_power"] = Field(
        "round_energy",
        description="P_i bounds a round's energy whatever is sent, or the power of each entry (as in physical units)",
    )
    strict: bool = Field(False, description="clip the masked update to sqrt(p) C, so that no single round exceeds P_i")
    policy: Annotated[str | Policy, POLICY] = Field(
        "pfels", description="how power follows the channel, in analog schemes"
    )
    participation: Annotated[float, Field(gt=0, le=1)] | None = Field(
        None, description="share of fades in which a device is to send; instead of threshold"
    )
    alignment: Literal["auto", "sample", "population", "schedule"] = Field(
        "auto",
        description="what settles beta: sample = the least reach of the selected devices (PFELS, eq. 36), which tells "
        "an observer who knows the gains who was selected; population = the least reach of all N devices, all of which "
        "send pilots; schedule = power.coefficient, or else the privacy bound, in every round, and a device that "
        "cannot reach it is silent; auto = sample, but under privacy.bound = accountant whichever of them delivers the "
        "most signal over noise",
    )
    divide_by: Literal["selected", "expected", "active"] = Field(
        "selected", description="the sum is divided by the selected, the expected senders, or those that send"
    )
    peak_db: Decibels | None = Field(
        None,
        description="largest energy of a resource element over its mean at the limit, in dB; default no peak limit",
    )
    peak: Literal["back-off", "clip"] = Field(
        "back-off", description="keep to the peak limit by a smaller beta, or clip elements (and record how many)"
    )

    @model_validator(mode="before")
    @classmethod
    def _by_name(cls, data: Any) -> Any:
        return POLICY.flattened(data, cls.model_fields)

    @field_validator("max_snr_db", "tx_power_dbm")
    @classmethod
    def _pair(cls, value: float | list[float]) -> float | list[float]:
        if isinstance(value, list) and (len(value) != 2 or value[0] > value[1]):
            raise ValueError(f"a number or a pair [low, high] with low <= high is wanted, not {value}")
        return value

    @model_validator(mode="after")
    def _one_threshold(self) -> Self:
        threshold = getattr(self, "threshold", 0.0) or self.power_policy.least_power
        if threshold and self.participation is not None:
            raise ValueError(
                f"power.participation: give it or power.threshold, not both ({self.participation} and {threshold})"
            )
        return self

    @property
    def power_policy(self) -> Policy:
        """The policy itself, with its parameters."""
        return POLICY.of(self)


if TYPE_CHECKING:

    class PowerSettings(_Power):
        """With the keys of all policies, which the part of the one that is chosen has: `power_policy`."""

        threshold: float = 0.0
        coefficient: float | None = None
        average_over: Literal["round", "fading"] = "round"

else:
    PowerSettings = with_keys(
        _Power,
        "PowerSettings",
        POLICIES,
        after="policy",
        places={"coefficient": "participation", "average_over": "alignment"},
    )


class GridSettings(Section):
    """The OFDMA grid."""

    subcarriers: Annotated[int, Field(ge=1, le=1_000_000)] = Field(3300, description="K")
    resource_blocks: Count | None = Field(None, description="instead of subcarriers: 12 each")
    used: list[Annotated[list[Annotated[int, Field(ge=0)]], Field(min_length=2, max_length=2)]] | None = Field(
        None, description="[[first, last], ...], inclusive: the subcarriers that carry updates; default all"
    )
    spacing_hz: Scale = Field(15000.0, description="subcarrier spacing")
    prefix: Literal["mean", "normal", "extended"] = Field(
        "mean",
        description="cyclic prefix: the mean of a slot's symbols, or each as TS 38.211 has it (15, 30, 60, 120 kHz)",
    )
    packing: Literal["real", "iq"] = Field(
        "real", description="entries on the real part, or on both parts, of an element"
    )
    symbol_duration_s: Scale | None = Field(
        None, description="with prefix; default 15/(14 spacing): 71.43 us at 15 kHz"
    )
    downlink: bool = Field(False, description="charge the broadcast of model, mask seed and beta")
    downlink_snr_db: Decibels = Field(50.0, description="its energy an element over sigma0^2, in normalised units")
    downlink_power_dbm: Decibels = Field(43.0, description="of the base station, in physical units")
    waveform: bool = Field(False, description="send the entries as OFDM in time: IFFT, prefix, multipath, FFT")
    clip_db: Decibels | None = Field(
        None, description="clip the transmitted waveform that far above its rms; with waveform = true"
    )

    @model_validator(mode="after")
    def _consistent(self) -> GridSettings:
        if self.resource_blocks is not None and self.subcarriers not in (3300, 12 * self.resource_blocks):
            raise ValueError(
                f"grid.resource_blocks: {self.resource_blocks} are {12 * self.resource_blocks} subcarriers, not "
                f"grid.subcarriers = {self.subcarriers}; give one of the two"
            )
        if self.clip_db is not None and not self.waveform:
            raise ValueError("grid.clip_db: needs grid.waveform = true")
        if self.prefix != "mean" and self.symbol_duration_s is not None:
            raise ValueError(f'grid.symbol_duration_s: follows from grid.prefix = "{self.prefix}"; give one of the two')
        return self
