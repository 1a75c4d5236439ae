"""The settings of the radio: selection, channel, topology, CSI, antennas, power and grid."""

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
from airfl.errors import shown_value
from airfl.selection.registry import SELECTIONS
from airfl.selection.rule import SelectionRule
from channels.antennas import COMBINERS, AntennaArray, Combiner, SpatialCorrelation
from channels.csi import IMPAIRMENTS, Imperfections
from channels.fading import FADINGS, Fading, fading_of
from channels.fading.registry import SELECTIVE_MODELS
from channels.interference import INTERFERENCES, Interference
from channels.power import POLICIES, Policy
from channels.power.across_cells import AcrossCells
from channels.topology import Topology

Spread = Annotated[float, Field(ge=0, le=200, allow_inf_nan=False)]  # in dB


RULE = NamedPart(SELECTIONS, "selection.kind", "uniform")


class _Selection(Section):
    """Selection of the devices that take part in a round."""

    model_config = ConfigDict(defer_build=True)

    kind: Annotated[str | SelectionRule, RULE] = Field(
        "uniform",
        description="selection rule: uniform (r of N without replacement), poisson (each device with probability r/N), "
        "or by the channel: threshold, best-k, proportional-fair, energy-budget",
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
        """The selection rule, with its parameters."""
        return RULE.of(self)


if TYPE_CHECKING:

    class SelectionSettings(_Selection):
        """The section, with the keys of all rules; `rule` is the chosen one with its parameters."""

        candidates: int = 0

else:
    SelectionSettings = with_keys(_Selection, "SelectionSettings", SELECTIONS, after="kind", places={})


FADING = NamedPart(FADINGS, "channel.fading", "exponential", fading_of)
INTERFERENCE = NamedPart(INTERFERENCES, "channel.interference", "gaussian")


class _Channel(Section):
    """Fading and receiver noise."""

    model_config = ConfigDict(defer_build=True)

    fading: Annotated[str | Fading, FADING] = Field(
        "exponential", description="fading law of |h|, or a frequency-selective model"
    )
    mean_gain: Scale = Field(
        0.02, description="mean of |h| before the bounds (selective models: rms of |h|); unused with a topology"
    )
    min_gain: Scale = Field(1e-4, description="smallest |h|, in normalised units")
    max_gain: Scale = Field(0.1, description="largest |h|, in normalised units")
    bounds: Literal["clip", "redraw"] = Field("clip", description="how |h| is kept within min_gain and max_gain")
    variation: VariationName = Field(
        "independent",
        description="variation from round to round: independent, constant, or jakes (correlation J0(2 pi f_D t))",
    )
    speed_m_s: ScaleOrZero = Field(0.0, description="speed of the devices; f_D = speed x carrier / c")
    carrier_hz: Scale = Field(3.5e9, description="carrier frequency")
    round_s: Scale = Field(1.0, description="time between the transmissions of two rounds")
    coherence: Literal["round", "slot", "symbol"] = Field(
        "round",
        description="time over which a moving device's channel is constant within a round, for selective models and "
        "for flat ones with variation = jakes",
    )
    units: Literal["normalised", "physical"] = Field(
        "normalised",
        description="normalised = the papers' units (noise_std, max_snr_db); physical = W and J (tx_power_dbm, "
        "noise_figure_db)",
    )
    noise_std: Scale = Field(
        1.0, description="sigma0, standard deviation of the noise on one received real entry, in normalised units"
    )
    noise: bool = Field(True, description="false sets the noise z to 0 and leaves beta unchanged")
    noise_figure_db: Spread = Field(7.0, description="noise figure of the receiver, in physical units")
    temperature_k: Scale = Field(290.0, description="noise temperature of the receiver, in physical units")
    interference_to_noise_db: Decibels | None = Field(
        None,
        description="inter-cell interference over sigma0^2; it remains with noise = false, and never counts as privacy "
        "noise; default none",
    )
    interference: Annotated[str | Interference, INTERFERENCE] = Field(
        "gaussian",
        description="law of the interference: gaussian, alpha-stable (heavy tails; its level is that of the Gaussian "
        "of equal dispersion, 2 gamma^2/sigma0^2) or bernoulli-gaussian (bursts)",
    )

    @model_validator(mode="before")
    @classmethod
    def _by_name(cls, data: Any) -> Any:
        return INTERFERENCE.flattened(FADING.flattened(data, cls.model_fields), cls.model_fields)

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.min_gain > self.max_gain:
            raise ValueError(
                f"channel.min_gain must be at most channel.max_gain = {self.max_gain}, got {self.min_gain}"
            )
        file = getattr(self, "replay_file", None)
        if self.fading == "replay" and file is None:
            raise ValueError('channel.replay_file is missing; channel.fading = "replay" needs it')
        if self.fading != "replay" and file is not None:
            raise ValueError(f'channel.replay_file = {file} needs channel.fading = "replay", got {self.fading!r}')
        if self.variation == "jakes" and not self.speed_m_s:
            raise ValueError('channel.speed_m_s must be positive with channel.variation = "jakes", got 0')
        FADING.of(self)
        INTERFERENCE.of(self)
        return self

    @property
    def interference_model(self) -> Interference:
        """The law of the interference, with its parameters."""
        return INTERFERENCE.of(self)

    @property
    def fading_model(self) -> Fading:
        """The fading, with its parameters."""
        return FADING.of(self)


if TYPE_CHECKING:

    class ChannelSettings(_Channel):
        """The section, with the keys of all fadings; `fading_model` is the chosen one with its parameters."""

else:
    ChannelSettings = with_keys(
        _Channel,
        "ChannelSettings",
        (FADINGS, INTERFERENCES),
        after="bounds",
        places={
            **{key: "round_s" for key, (_, names) in keys_of(FADINGS).items() if SELECTIVE_MODELS.keys() >= set(names)},
            **dict.fromkeys(keys_of(INTERFERENCES), "interference"),
        },
    )


class _Topology(Section):
    """Positions of the devices and path loss. Requires channel.units = "physical"."""

    model_config = ConfigDict(defer_build=True)

    kind: PlacementName = Field("none", description="placement of the devices: none, disc, annulus or coordinates")
    path_loss: PathLossName | None = Field(
        None,
        description="path loss model: log-distance, or umi, uma, rma, inf-sl, inf-dl, inf-sh, inf-dh or inf-hh of "
        "3GPP TR 38.901; default that of channel.fading if it is one of the latter, else umi",
    )

    @property
    def points(self) -> int:
        """Number of access points, 1 without a topology."""
        return 1 if self.kind == "none" else len(getattr(self, "access_points", ()))

    @property
    def neighbour_positions(self) -> tuple[tuple[float, float], ...]:
        """Positions of the base stations of neighbouring cells in m; none without a topology."""
        return () if self.kind == "none" else tuple(getattr(self, "neighbours", ()))

    def cell(self, *, path_loss: str, carrier_hz: float) -> Topology:
        """Return the cell, for kinds other than none.

        Args:
            path_loss: The path loss model, which may follow from the fading.
            carrier_hz: The carrier frequency of the channel, in Hz.
        """
        cell = parts_of(self, {"cell": Topology})["cell"]
        return replace(cell, kind=self.kind, path_loss=path_loss, carrier_hz=carrier_hz)


if TYPE_CHECKING:

    class TopologySettings(_Topology):
        """The section, with the keys of `channels.topology.Topology`."""

        motion: Literal["none", "straight", "waypoint", "file"] = "none"
        motion_file: str | None = None
        los: Literal["probability", "los", "nlos"] = "probability"
        base_height_m: float | None = None
        hall_m: tuple[float, float, float] | None = None

else:
    TopologySettings = with_keys(
        _Topology,
        "TopologySettings",
        {"cell": Topology},
        after="path_loss",
        places=dict.fromkeys(
            (
                "motion",
                "motion_file",
                "motion_end",
                "motion_start_s",
                "radius_m",
                "min_distance_m",
                "coordinates",
                "access_points",
                "neighbours",
            ),
            "kind",
        ),
    )


class _Csi(Section):
    """Channel state information (CSI). The defaults are perfect CSI."""

    model_config = ConfigDict(defer_build=True)

    @property
    def imperfections(self) -> Imperfections:
        """The impairments of the CSI, with their parameters."""
        return Imperfections(**parts_of(self, IMPAIRMENTS))  # type: ignore[arg-type]


if TYPE_CHECKING:

    class CsiSettings(_Csi):
        """The section, with the keys of all impairments; `imperfections` holds them as parts."""

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
    """The antennas of the receiver."""

    model_config = ConfigDict(defer_build=True)

    combining: Annotated[str | Combiner, COMBINER] = Field(
        "max-min", description="how the antennas are combined; without effect if there is one antenna"
    )
    array: ArrayName = Field(
        "linear",
        description="array geometry: linear (horizontal), rectangular (vertical, in rows) or circular (horizontal)",
    )
    angle: Literal["device", "broadside"] = Field(
        "device",
        description="direction of a device's line of sight and of the paths scattered around it: device = from its "
        "position, or drawn once per run; broadside = the broadside direction for all devices",
    )
    sector_deg: Annotated[float, Field(ge=0, le=360)] = Field(
        120.0, description="width of the sector around the broadside in which azimuths are drawn uniformly"
    )
    broadside_deg: Annotated[float, Field(ge=-360, le=360)] = Field(
        0.0, description="azimuth of the broadside in the cell, from the x axis towards the y axis"
    )
    correlation: CorrelationName = Field(
        "independent",
        description="correlation of the diffuse part between antennas: independent, exponential or local-scattering",
    )

    median_clip: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = Field(
        None,
        description="median-anchored clipping of what an analog link decodes: largest distance of an entry from the "
        "median of all, in median absolute deviations; default no clipping",
    )

    @model_validator(mode="before")
    @classmethod
    def _by_name(cls, data: Any) -> Any:
        return COMBINER.flattened(data, cls.model_fields)

    @property
    def combiner(self) -> Combiner:
        """The combiner, with its parameters."""
        return COMBINER.of(self)

    @property
    def geometry(self) -> AntennaArray:
        """The array geometry. Raises ValueError if the number of rows does not divide the number of antennas."""
        return replace(parts_of(self, {"array": AntennaArray})["array"], kind=self.array)

    @property
    def diffuse_correlation(self) -> SpatialCorrelation:
        """The spatial correlation of the diffuse part between antennas."""
        return replace(parts_of(self, {"correlation": SpatialCorrelation})["correlation"], kind=self.correlation)


if TYPE_CHECKING:

    class AntennaSettings(_Antennas):
        """The section, with the keys of `AntennaArray` and `SpatialCorrelation`."""

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
    """Power limits of the devices, and power control."""

    model_config = ConfigDict(defer_build=True)

    max_snr_db: Decibels | list[Decibels] = Field(
        [2.0, 15.0], description="P_i/(d sigma0^2) in dB, a number or [low, high]; in normalised units"
    )
    tx_power_dbm: Decibels | list[Decibels] = Field(
        23.0,
        description="transmit power of a device over the used subcarriers, a number or [low, high]; in physical units",
    )
    spacing: Literal["linear", "db"] = Field(
        "linear", description="scale in which [low, high] is uniform: linear = the ratio, db = dB"
    )
    spread: Literal["band", "message"] = Field(
        "band",
        description="in physical units, for messages that are aggregated coherently and have fewer resource elements "
        "than used subcarriers: band = each element has 1/K of the power, where K is the number of used subcarriers "
        "or, if smaller, of elements of a whole update; message = the elements of the message share all of the power",
    )
    limit: Literal["round_energy", "transmit_power"] = Field(
        "round_energy",
        description="what P_i bounds: round_energy = the energy of a round; transmit_power = the power of each entry, "
        "as always in physical units",
    )
    strict: bool = Field(False, description="clip the masked update to sqrt(p) C, so that no round exceeds P_i")
    policy: Annotated[str | Policy, POLICY] = Field("pfels", description="power control policy of analog schemes")
    participation: Annotated[float, Field(gt=0, le=1)] | None = Field(
        None, description="share of channel states in which a device transmits; instead of threshold"
    )
    alignment: Literal["auto", "sample", "population", "schedule"] = Field(
        "auto",
        description="what determines beta: sample = the smallest beta that the selected devices can reach (PFELS, "
        "eq. 36), which reveals the selection to an observer who knows the gains; population = the smallest that all N "
        "devices can reach, all of which send pilots; schedule = power.coefficient, or else the privacy bound, in "
        "every round, and a device that cannot reach it does not transmit; auto = sample, unless privacy.bound = "
        "accountant, the observer is assumed to know the selection, and another one "
        "has a signal-to-noise ratio that is over 10% higher",
    )
    divide_by: Literal["selected", "expected", "active"] = Field(
        "selected",
        description="divisor of the sum: the number of selected devices, of expected transmitters, or of actual ones",
    )
    peak_db: Decibels | None = Field(
        None,
        description="peak limit: largest energy of a resource element over its mean at the power limit, in dB; default "
        "no peak limit",
    )
    peak: Literal["back-off", "clip"] = Field(
        "back-off",
        description="how the peak limit is met: back-off = by a smaller beta; clip = by clipping elements, whose "
        "number is recorded",
    )
    across_cells: AcrossCells = Field(
        "none",
        description="power control across this cell and topology.neighbours: none = each cell for itself; sum = "
        "minimise the sum of the cells' errors; min-max = minimise the largest ratio of a cell's error to its error "
        "without the others",
    )

    @model_validator(mode="before")
    @classmethod
    def _by_name(cls, data: Any) -> Any:
        return POLICY.flattened(data, cls.model_fields)

    @field_validator("max_snr_db", "tx_power_dbm")
    @classmethod
    def _pair(cls, value: float | list[float]) -> float | list[float]:
        if isinstance(value, list) and (len(value) != 2 or value[0] > value[1]):
            raise ValueError(f"must be a number or a pair [low, high] with low <= high, got {shown_value(value)}")
        return value

    @model_validator(mode="after")
    def _one_threshold(self) -> Self:
        threshold = getattr(self, "threshold", 0.0) or self.power_policy.least_power
        if threshold and self.participation is not None:
            raise ValueError(
                f"power.participation and power.threshold exclude each other, got {self.participation} and "
                f"{threshold}; give one of the two"
            )
        return self

    @property
    def power_policy(self) -> Policy:
        """The power policy, with its parameters."""
        return POLICY.of(self)


if TYPE_CHECKING:

    class PowerSettings(_Power):
        """The section, with the keys of all policies; `power_policy` is the chosen one with its parameters."""

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
    """The OFDM resource grid, and the downlink."""

    subcarriers: Annotated[int, Field(ge=1, le=1_000_000)] = Field(3300, description="K, number of subcarriers")
    resource_blocks: Count | None = Field(
        None, description="number of resource blocks of 12 subcarriers; instead of subcarriers"
    )
    used: list[Annotated[list[Annotated[int, Field(ge=0)]], Field(min_length=2, max_length=2)]] | None = Field(
        None, description="ranges [[first, last], ...], inclusive, of the subcarriers that carry updates; default all"
    )
    spacing_hz: Scale = Field(15000.0, description="subcarrier spacing")
    prefix: Literal["mean", "normal", "extended"] = Field(
        "mean",
        description="cyclic prefix: mean = the mean over the symbols of a slot; normal, extended = that of each symbol "
        "in TS 38.211 (15, 30, 60, 120 kHz)",
    )
    packing: Literal["real", "iq"] = Field(
        "real", description="entries per resource element: real = one, on the real part; iq = two, one on each part"
    )
    symbol_duration_s: Scale | None = Field(
        None, description="duration of a symbol with its prefix; default 15/(14 spacing), 71.43 us at 15 kHz"
    )
    downlink: bool = Field(False, description="charge the broadcast of the model, the mask seed and beta")
    downlink_snr_db: Decibels = Field(
        50.0, description="energy of the downlink per resource element over sigma0^2, in normalised units"
    )
    downlink_power_dbm: Decibels = Field(43.0, description="transmit power of the base station, in physical units")
    waveform: bool = Field(
        False, description="simulate the OFDM waveform in the time domain: IFFT, prefix, multipath, FFT"
    )
    clip_db: Decibels | None = Field(
        None,
        description="clipping level of the transmitted waveform over its rms, for waveform = true; default no clipping",
    )

    @model_validator(mode="after")
    def _consistent(self) -> GridSettings:
        if self.resource_blocks is not None and self.subcarriers not in (3300, 12 * self.resource_blocks):
            raise ValueError(
                f"grid.resource_blocks: {self.resource_blocks} are {12 * self.resource_blocks} subcarriers, but "
                f"grid.subcarriers = {self.subcarriers}; give one of the two"
            )
        if self.clip_db is not None and not self.waveform:
            raise ValueError("grid.clip_db requires grid.waveform = true")
        if self.prefix != "mean" and self.symbol_duration_s is not None:
            raise ValueError(
                f'grid.symbol_duration_s: grid.prefix = "{self.prefix}" determines it; give one of the two'
            )
        return self


def path_loss_of(channel: ChannelSettings, topology: TopologySettings) -> str:
    """Return the name of the path loss model: the configured one, or that of the fading's own cell, or UMi."""
    fading = channel.fading_model
    return topology.path_loss or (fading.name if fading.own_path_loss else "umi")
