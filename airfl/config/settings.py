"""The settings of a run: one frozen class per section, with strict types and a default for every key.

Everything that does not depend on data, model or torch is validated here. `Settings` holds the values as given. The
trace of a run holds a resolved copy, with the values used for automatic settings (threads, chunk, engine, delta ...).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from airfl.config.digital import DigitalSettings
from airfl.config.json_numbers import MaybeInfinite
from airfl.config.part_keys import NamedPart
from airfl.config.radio import (
    AntennaSettings,
    ChannelSettings,
    CsiSettings,
    GridSettings,
    PowerSettings,
    SelectionSettings,
    TopologySettings,
)
from airfl.config.radio_sections import RadioSections
from airfl.config.scheme import SCHEME, SchemePart
from airfl.config.section import Count, Fraction, NotNegative, Positive, Scale, Schedule, Section
from airfl.config.task import TaskSettings
from airfl.errors import UserError, nearest
from airfl.privacy.accountants import ACCOUNTANTS, Accountant
from airfl.selection.rule import ChannelRule
from channels.part import Part

ACCOUNTANT = NamedPart(ACCOUNTANTS, "privacy.accountant", "auto", accepts=lambda one: one.of_runs)


class RunSettings(Section):
    """Length of the run, number of devices, seed, and execution."""

    rounds: Count = Field(100, description="T, number of communication rounds")
    seed: int = Field(0, ge=0, lt=2**63, description="seed from which every random stream is derived")
    devices: Count = Field(1000, description="N, number of devices in the population")
    selected: Count = Field(32, description="r, number of devices selected per round (poisson: expected)")
    evaluate_every: Count = Field(10, description="evaluation interval in rounds; the last round is always evaluated")
    threads: int = Field(0, ge=0, le=1024, description="number of CPU threads; 0 = PyTorch's default")
    chunk: int = Field(
        0, ge=0, description="number of devices trained in one batch; 0 = the fastest that fits into memory"
    )
    checkpoint_s: NotNegative = Field(
        30.0,
        description="checkpoint interval, the work in seconds that a killed run may lose; 0 = checkpoint_every only",
    )
    checkpoint_every: int = Field(
        0,
        ge=0,
        description="checkpoint interval in rounds, in addition to checkpoint_s; both 0 = the run cannot be resumed",
    )
    non_finite: Literal["stop", "drop", "clip"] = Field(
        "stop",
        description="handling of an update that is not finite: stop = the run stops; drop = the device counts as "
        "sending zeros; clip = the update becomes the limit of clipping as its infinite entries grow (nan counts as "
        "0); it is never averaged unchanged",
    )
    tuned: bool = Field(
        False, description="states that hyperparameters were tuned for this scheme; set by `airfl tune`"
    )


class LocalSettings(Section):
    """Local training: SGD with momentum, which is reset every round."""

    epochs: int = Field(
        0, ge=0, description="number of passes over a device's data; exactly one of epochs and steps (0 = not used)"
    )
    steps: int = Field(0, ge=0, description="tau, number of SGD steps")
    batch_size: Count = Field(10, description="samples per step; the last batch of a pass may be smaller")
    learning_rate: Positive = Field(0.05, description="eta, learning rate")
    schedule: Schedule = Field(
        "constant",
        description="learning rate schedule over rounds: constant, inverse-sqrt (eta/sqrt(t + 1)), exponential (eta "
        "decay^t)",
    )
    decay: Fraction = Field(0.99, description="decay factor of schedule = exponential")
    decay_every: Count = Field(1, description="decay interval in rounds of schedule = exponential")
    momentum: float = Field(
        0.0, ge=0, lt=1, description="momentum of SGD; its buffer is zero at the start of every round"
    )
    clip_norm: Scale | None = Field(None, description="C, bound on the l2 norm of an update, which is clipped to it")
    gradient_bound: Scale | None = Field(
        None, description="C1, bound on the gradient norm; instead of clip_norm, C = learning_rate x steps x C1"
    )
    engine: Literal[
        "auto", "loop", "vmap", "compiled", "compiled-serial", "layers", "layers-serial", "layers-parallel"
    ] = Field(
        "auto",
        description="how a chunk of devices is computed; auto = the fastest, which long runs measure at the start",
    )
    measure: bool = Field(
        True,
        description="measure the fastest engine = auto and chunk = 0 in long runs; false = use defaults that are good "
        "on most machines, as the points of a sweep do",
    )
    precision: Literal["float32", "tf32", "bf16"] = Field(
        "float32",
        description="precision of matrix products, where the machine supports others; accumulation stays in float32",
    )

    @model_validator(mode="after")
    def _one_of_two(self) -> LocalSettings:
        if bool(self.epochs) == bool(self.steps):
            raise ValueError(
                f"give exactly one of local.epochs and local.steps, got {self.epochs} and {self.steps} (0 = not used)"
            )
        if (self.clip_norm is None) == (self.gradient_bound is None):
            raise ValueError(
                "give exactly one of local.clip_norm and local.gradient_bound, got "
                f"{'neither' if self.clip_norm is None else 'both'}"
            )
        if self.gradient_bound is not None and not self.steps:
            raise ValueError(
                "local.gradient_bound requires local.steps, since C = learning_rate x steps x C1; "
                "with local.epochs give local.clip_norm"
            )
        return self

    @property
    def update_bound(self) -> float:
        """C: clip_norm, or learning_rate x steps x C1 (PFELS lemma 2)."""
        if self.clip_norm is not None:
            return self.clip_norm
        assert self.gradient_bound is not None
        return self.learning_rate * self.steps * self.gradient_bound


class ServerSettings(Section):
    """Server optimizer, and weights of the mean update."""

    learning_rate: Positive = Field(1.0, description="factor by which the decoded mean update is multiplied")
    schedule: Schedule = Field("constant", description="learning rate schedule of the server, as local.schedule")
    decay: Fraction = Field(0.99, description="decay factor of schedule = exponential")
    decay_every: Count = Field(1, description="decay interval in rounds of schedule = exponential")
    beta1: Annotated[float, Field(ge=0, lt=1)] = Field(0.9, description="beta_1 of Fed-SPA's server, eq. 6")
    beta2: Annotated[float, Field(ge=0, lt=1)] = Field(0.99, description="beta_2 of Fed-SPA's server, eq. 6")
    kappa: Positive = Field(1e-3, description="kappa of Fed-SPA's server, eq. 6")
    weights: Literal["equal", "samples"] = Field(
        "equal", description="weights of the mean: equal, or n_i over the mean sample count of the population"
    )


class PrivacySettings(Section):
    """The privacy target, and its accounting."""

    epsilon: MaybeInfinite = Field(
        1.5,
        gt=0,
        description="target epsilon, per round or, if the paper's theorem covers a run, per run; with bound = "
        "accountant that of the whole run; inf = no privacy bound",
    )
    delta: float | None = Field(None, gt=0, lt=1, description="target delta; default 1/N")
    bound: Literal["paper", "accountant"] = Field(
        "paper",
        description="origin of the privacy bound on power control or on the devices' noise: paper = the theorem of the "
        "paper; accountant = the accountant, so that the whole run ends at epsilon",
    )
    accountant: Annotated[str | Accountant, ACCOUNTANT] = Field(
        "auto",
        description="accountant of the whole run's epsilon; auto = privacy loss distributions, that is pld for Poisson "
        "sampling and dominating-pair for samples of fixed size",
    )
    observer: Literal["auto", "third_party", "server"] = Field(
        "auto",
        description="adversary: third_party = observes the broadcasts, but not which devices were selected; server = "
        "knows the selection and the raw samples of all antennas; auto = third_party, or server if it receives "
        "individual messages",
    )
    gains: Literal["public", "private"] = Field(
        "public",
        description="whether a third party knows the channel gains and power limits of all devices: public = it does, "
        "and what a beta computed from the selected devices reveals about them is accounted for; private = it does "
        "not, and beta is assumed to reveal nothing about the selection, which no proof covers",
    )
    csi_error: Literal["realised", "quantile", "unbounded"] = Field(
        "realised",
        description="accounting of contributions received above beta because of imperfect CSI: realised = their actual "
        "amplitude (the observer knows the true channel); quantile = a quantile whose tail takes half of delta (mmse "
        "or ls estimates and ageing of Gaussian channels); unbounded = no bound (epsilon is inf)",
    )

    @model_validator(mode="before")
    @classmethod
    def _by_name(cls, data: Any) -> Any:
        return ACCOUNTANT.flattened(data, cls.model_fields)

    @property
    def privacy_accountant(self) -> Accountant:
        """The accountant, with its parameters."""
        return ACCOUNTANT.of(self)

    @field_validator("epsilon")
    @classmethod
    def _number(cls, value: float) -> float:
        if math.isnan(value):
            raise ValueError("must be a positive number or inf, got nan")
        return value


class ComputeSettings(Section):
    """Cost of local computation: energy kappa f^2 and time 1/f per cycle (Yang, Chen, Saad, Hong, Shikh-Bahaei 2021,
    eq. 4 and 5; Burd and Brodersen 1996)."""

    cycles_per_sample: NotNegative = Field(
        0.0, le=1e20, description="CPU cycles per sample and gradient; 0 = computation is not charged"
    )
    frequency_hz: Scale = Field(1e9, description="f, clock frequency of a device's processor")
    capacitance: Positive = Field(
        1e-28, le=1e20, description="kappa, effective switched capacitance, in J s^2 per cycle"
    )


class TraceSettings(Section):
    """Optional contents of the trace, beyond the per-round quantities."""

    signals: bool | list[Annotated[int, Field(ge=0)]] = Field(
        False,
        description="record coordinates, transmitted and received symbols of all rounds, of none, or of those listed",
    )
    gradient_norm: bool = Field(
        False,
        description="record ||grad f||^2 over all training samples, including the model's penalty, at every "
        "evaluation; this takes a pass over all samples each time",
    )

    def records_signals(self, round_index: int) -> bool:
        """Return whether the signals of this round are recorded."""
        return self.signals if isinstance(self.signals, bool) else round_index in self.signals

    @property
    def any_signals(self) -> bool:
        """Whether the signals of any round are recorded."""
        return bool(self.signals)


class Settings(Section):
    """All settings of a run.

    Attributes:
        run: Length of the run, number of devices, seed, and execution (`RunSettings`).
        task: Model, data set, and partition of the data (`TaskSettings`).
        local: Local training (`LocalSettings`).
        scheme: The scheme, with its parameters (a class of `airfl.schemes`).
        server: Server optimizer, and weights of the mean update (`ServerSettings`).
        selection: Selection of the devices of a round (`SelectionSettings`).
        channel: Fading, receiver noise and units (`ChannelSettings`).
        topology: Positions of the devices, and path loss (`TopologySettings`).
        csi: Channel state information (`CsiSettings`).
        antennas: The antennas of the receiver (`AntennaSettings`).
        power: Power limits of the devices, and power control (`PowerSettings`).
        grid: The OFDM resource grid, and the downlink (`GridSettings`).
        digital: Transmission of bits, for schemes whose link is digital (`DigitalSettings`).
        privacy: The privacy target, and its accounting (`PrivacySettings`).
        compute: Cost of local computation (`ComputeSettings`).
        trace: Optional contents of the trace (`TraceSettings`).
    """

    run: RunSettings = RunSettings()
    task: TaskSettings = TaskSettings()
    local: LocalSettings
    scheme: SchemePart = Field(default_factory=lambda: SCHEME.build({}))
    server: ServerSettings = ServerSettings()
    selection: SelectionSettings = SelectionSettings()
    channel: ChannelSettings = ChannelSettings()
    topology: TopologySettings = TopologySettings()
    csi: CsiSettings = CsiSettings()
    antennas: AntennaSettings = AntennaSettings()
    power: PowerSettings = PowerSettings()
    grid: GridSettings = GridSettings()
    digital: DigitalSettings = DigitalSettings()
    privacy: PrivacySettings = PrivacySettings()
    compute: ComputeSettings = ComputeSettings()
    trace: TraceSettings = TraceSettings()

    @model_validator(mode="after")
    def _signals_of_rounds(self) -> Settings:
        listed = self.trace.signals if isinstance(self.trace.signals, list) else []
        late = [index for index in listed if index >= self.run.rounds]
        if late:
            raise ValueError(
                f"trace.signals: rounds must be less than run.rounds = {self.run.rounds}, since they are numbered from "
                f"0, got {late[0]}"
            )
        return self

    @model_validator(mode="after")
    def _selected_of_devices(self) -> Settings:
        if self.run.selected > self.run.devices:
            raise ValueError(f"run.selected must be at most run.devices = {self.run.devices}, got {self.run.selected}")
        rule = self.selection.rule
        candidates = rule.candidates if isinstance(rule, ChannelRule) else self.selection.candidates
        if candidates and not self.run.selected <= candidates <= self.run.devices:
            raise ValueError(
                f"selection.candidates must be between run.selected = {self.run.selected} and run.devices = "
                f"{self.run.devices}, or 0 for all devices, got {candidates}"
            )
        return self

    @model_validator(mode="after")
    def _server_sees_the_true_channel(self) -> Settings:
        if self.privacy.observer == "server" and self.privacy.csi_error != "realised":
            raise ValueError(
                'privacy.csi_error must be "realised" with privacy.observer = "server", which is accounted with the '
                f"true channel, got {self.privacy.csi_error!r}"
            )
        return self

    def __repr_args__(self) -> Iterator[tuple[str, Any]]:
        """Yield the dotted keys that differ from their defaults, with their values."""
        for section, value in dict(self).items():
            if isinstance(value, Part):
                default = type(self).model_fields[section].get_default(call_default_factory=True)
                yield from [(section, value)] if value != default else []
            else:
                yield from ((f"{section}.{key}", one) for key, one in value.__repr_args__())

    @property
    def radio(self) -> RadioSections:
        """The sections that define the radio."""
        return RadioSections(**{one.name: getattr(self, one.name) for one in fields(RadioSections)})

    @property
    def delta(self) -> float:
        """The delta of the privacy guarantee: privacy.delta, or 1/N."""
        return self.privacy.delta if self.privacy.delta is not None else 1.0 / self.run.devices

    @property
    def power_limit(self) -> Literal["round_energy", "transmit_power"]:
        """What P_i bounds. In physical units, where powers are in dBm, this is always the transmit power."""
        return self.power.limit if self.channel.units == "normalised" else "transmit_power"

    @property
    def csi_tail(self) -> float:
        """The share of delta spent on quantiles of the channel error, over the whole run."""
        return self.delta / 2 if self.privacy.csi_error == "quantile" else 0.0

    def resolved(self, **changes: Any) -> Settings:
        """Return a copy with keys replaced, resolved(run={"chunk": 32}), or parts, resolved(scheme=Pfels(ratio=0.3)).

        Sections that are not named are shared with the original.

        Raises UserError for an invalid value.
        """
        data = dict(self)
        for section, values in changes.items():
            if section not in data:
                known = ", ".join(sorted(data))
                raise UserError(f"{section}: unknown section{nearest(section, data)} (allowed: {known})")
            before = data[section]
            if isinstance(before, Part) and isinstance(values, str | type):
                data[section] = {"name": values}
            elif not isinstance(values, Mapping):
                data[section] = values  # a whole part or section, or an invalid value, which validation rejects
            elif isinstance(before, Part):
                kept = {} if "name" in values else before.values()
                data[section] = {"name": type(before), **kept, **values}
            else:
                data[section] = {**dict(before), **values}
        return Settings(**data)
