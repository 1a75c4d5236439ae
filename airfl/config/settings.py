"""The settings of a run: one frozen class a section, strict types, every key with a default.

What can be said without data, model or torch is checked here. `Settings` holds what was given; a run's trace holds the
resolved copy, in which automatic values (threads, chunk, engine, delta ...) are those that were used.
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

ACCOUNTANT = NamedPart(ACCOUNTANTS, "privacy.accountant", "auto", fits=lambda one: one.of_runs)


class RunSettings(Section):
    """How long, how many, from which seed."""

    rounds: Count = Field(100, description="T, communication rounds")
    seed: int = Field(0, ge=0, lt=2**63, description="root of every random stream; 0 is a seed")
    devices: Count = Field(1000, description="N, the population")
    selected: Count = Field(32, description="r, devices a round")
    evaluate_every: Count = Field(10, description="rounds between evaluations; the last round is always evaluated")
    threads: int = Field(0, ge=0, le=1024, description="CPU threads; 0 = as many as torch takes")
    chunk: int = Field(0, ge=0, description="devices trained in one batched computation; 0 = the fastest that fits")
    checkpoint_s: NotNegative = Field(
        30.0, description="seconds of work that a killed run may lose; 0 = by run.checkpoint_every alone"
    )
    checkpoint_every: int = Field(
        0, ge=0, description="rounds between checkpoints, beside those by time; both 0 = the run cannot be resumed"
    )
    non_finite: Literal["stop", "drop", "clip"] = Field(
        "stop",
        description="what is done about a device whose update is not finite: the run stops, the device counts as "
        "sending zeros, or its update is clipped as one without bound would be (nan as 0); it is never averaged as it "
        "is",
    )
    tuned: bool = Field(
        False, description="says that step size and the like were chosen for this scheme; `airfl tune` writes it"
    )


class LocalSettings(Section):
    """Local training: SGD with momentum, started afresh every round."""

    epochs: int = Field(
        0, ge=0, description="passes over a device's data; exactly one of epochs and steps (0 = not used)"
    )
    steps: int = Field(0, ge=0, description="tau, SGD steps")
    batch_size: Count = Field(10, description="samples a step; a pass's last batch may be smaller")
    learning_rate: Positive = Field(0.05, description="eta")
    schedule: Schedule = Field(
        "constant",
        description="of eta over rounds: constant, inverse-sqrt (eta/sqrt(t + 1)), exponential (eta decay^t)",
    )
    decay: Fraction = Field(0.99, description="of schedule = exponential")
    decay_every: Count = Field(1, description="rounds between decays of schedule = exponential")
    momentum: float = Field(0.0, ge=0, lt=1, description="0 at the start of every round")
    clip_norm: Scale | None = Field(None, description="C, bound on the l2 norm of an update")
    gradient_bound: Scale | None = Field(None, description="C1; instead of clip_norm: C = learning_rate x steps x C1")
    engine: Literal[
        "auto", "loop", "vmap", "compiled", "compiled-serial", "layers", "layers-serial", "layers-parallel"
    ] = Field(
        "auto",
        description="how a chunk of devices is computed; auto = the fastest, measured once for a long run",
    )
    measure: bool = Field(
        True,
        description="whether engine = auto and chunk = 0 of a long run are measured; false takes what is good on most "
        "machines, as every point of a sweep does",
    )
    precision: Literal["float32", "tf32", "bf16"] = Field(
        "float32", description="of products of matrices inside, where the machine has others; sums stay float32"
    )

    @model_validator(mode="after")
    def _one_of_two(self) -> LocalSettings:
        if bool(self.epochs) == bool(self.steps):
            raise ValueError(
                "give exactly one of local.epochs and local.steps "
                f"(given: {self.epochs} and {self.steps}; 0 = not used)"
            )
        if (self.clip_norm is None) == (self.gradient_bound is None):
            raise ValueError(
                "give exactly one of local.clip_norm and local.gradient_bound "
                f"(given: {self.clip_norm} and {self.gradient_bound})"
            )
        if self.gradient_bound is not None and not self.steps:
            raise ValueError(
                "local.gradient_bound needs local.steps, for C = learning_rate x steps x C1; "
                "with local.epochs give local.clip_norm"
            )
        return self

    @property
    def update_bound(self) -> float:
        """C: given, or learning_rate x steps x C1 (PFELS lemma 2)."""
        if self.clip_norm is not None:
            return self.clip_norm
        assert self.gradient_bound is not None
        return self.learning_rate * self.steps * self.gradient_bound


class ServerSettings(Section):
    """What the server does with the decoded mean update."""

    learning_rate: Positive = Field(1.0, description="what the decoded mean update is multiplied by")
    schedule: Schedule = Field("constant", description="of the server's learning rate; as local.schedule")
    decay: Fraction = Field(0.99, description="of schedule = exponential")
    decay_every: Count = Field(1, description="rounds between decays of schedule = exponential")
    beta1: Annotated[float, Field(ge=0, lt=1)] = Field(0.9, description="beta_1 of Fed-SPA's server, eq. 6")
    beta2: Annotated[float, Field(ge=0, lt=1)] = Field(0.99, description="beta_2 of Fed-SPA's server, eq. 6")
    kappa: Positive = Field(1e-3, description="kappa of Fed-SPA's server, eq. 6")
    weights: Literal["equal", "samples"] = Field(
        "equal", description="of the mean: equal, or n_i over the population's mean sample count"
    )


class PrivacySettings(Section):
    """What is claimed, and how power control keeps to it."""

    epsilon: MaybeInfinite = Field(
        1.5,
        gt=0,
        description="claimed per round, or by theorems on runs for the run; of the run with bound = "
        "accountant; inf drops the bound",
    )
    delta: float | None = Field(None, gt=0, lt=1, description="default 1/N")
    bound: Literal["paper", "accountant"] = Field(
        "paper",
        description="where power control, or the devices' noise, takes its privacy bound from: the paper's own "
        "theorem, or the accountant, so that the whole run really ends at epsilon",
    )
    accountant: Annotated[str | Accountant, ACCOUNTANT] = Field(
        "auto",
        description="of the whole run's epsilon: auto = loss distributions, that is pld for Poisson samples, "
        "dominating-pair for samples of fixed size",
    )
    observer: Literal["auto", "third_party", "server"] = Field(
        "auto",
        description="from whom a client is protected: third_party sees what is broadcast, not who took part; server "
        "asked them and sees the raw samples of all antennas; auto = third_party, or server where it sees single "
        "messages",
    )
    gains: Literal["public", "private"] = Field(
        "public",
        description="whether a third party knows the channel gains and power limits of all devices: public = it does, "
        "so that a beta which follows from the selected devices tells of them, which is accounted; private = it does "
        "not, and beta is taken to tell nothing of who was selected, which no proof covers",
    )
    csi_error: Literal["realised", "quantile", "unbounded"] = Field(
        "realised",
        description="how a contribution that arrives stronger than beta, the channel being known imperfectly, counts: "
        "as it was (the observer is granted the true channel), by a quantile whose tail is paid out of half of delta "
        "(mmse or ls estimates and ageing of Gaussian channels), or not at all (epsilon is inf)",
    )

    @model_validator(mode="before")
    @classmethod
    def _by_name(cls, data: Any) -> Any:
        return ACCOUNTANT.flattened(data, cls.model_fields)

    @property
    def privacy_accountant(self) -> Accountant:
        """The accountant itself, with its parameters."""
        return ACCOUNTANT.of(self)

    @field_validator("epsilon")
    @classmethod
    def _number(cls, value: float) -> float:
        if math.isnan(value):
            raise ValueError("a positive number or inf is wanted, not nan")
        return value


class ComputeSettings(Section):
    """What local computation costs: energy kappa f^2 a cycle, time 1/f a cycle (Yang, Chen, Saad, Hong, Shikh-Bahaei
    2021, eq. 4 and 5; Burd and Brodersen 1996)."""

    cycles_per_sample: NotNegative = Field(
        0.0, le=1e20, description="CPU cycles for one sample's gradient; 0 charges nothing"
    )
    frequency_hz: Scale = Field(1e9, description="f, of a device's processor")
    capacitance: Positive = Field(1e-28, le=1e20, description="kappa, effective switched capacitance, J s^2 a cycle")


class TraceSettings(Section):
    """What the trace holds beyond the per-round figures."""

    signals: bool | list[Annotated[int, Field(ge=0)]] = Field(
        False,
        description="record coordinates, transmitted and received symbols: of all rounds, none, or those listed",
    )
    gradient_norm: bool = Field(
        False,
        description="record ||grad f||^2 over all training samples, the model's penalty included, wherever a round is "
        "evaluated: a pass over all of them each time",
    )

    def records_signals(self, round_index: int) -> bool:
        """Whether this round's signals go into the trace."""
        return self.signals if isinstance(self.signals, bool) else round_index in self.signals

    @property
    def any_signals(self) -> bool:
        """Whether any round's signals do."""
        return bool(self.signals)


class Settings(Section):
    """Everything a run is made from.

    Attributes:
        run: How long, how many, from which seed (`RunSettings`).
        task: What is learned, from which data, divided how (`TaskSettings`).
        local: Local training (`LocalSettings`).
        scheme: The scheme, with its own parameters (a class of `airfl.schemes`).
        server: What the server does with the decoded mean update (`ServerSettings`).
        selection: Who is asked (`SelectionSettings`).
        channel: Fading, noise, units (`ChannelSettings`).
        topology: Where devices are, and what is lost on the way (`TopologySettings`).
        csi: What is known of the channel (`CsiSettings`).
        antennas: Of the server (`AntennaSettings`).
        power: What devices may send (`PowerSettings`).
        grid: Resource elements, and the downlink (`GridSettings`).
        digital: Links that carry bits (`DigitalSettings`).
        privacy: What is claimed, and how power control keeps to it (`PrivacySettings`).
        compute: What local computation costs (`ComputeSettings`).
        trace: What the trace holds beyond the per-round figures (`TraceSettings`).
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
                f"trace.signals: there is no round {late[0]}; run.rounds = {self.run.rounds} are numbered from 0"
            )
        return self

    @model_validator(mode="after")
    def _selected_of_devices(self) -> Settings:
        if self.run.selected > self.run.devices:
            raise ValueError(
                f"run.selected ({self.run.selected}) is above run.devices ({self.run.devices}); "
                "select at most all of them"
            )
        rule = self.selection.rule
        candidates = rule.candidates if isinstance(rule, ChannelRule) else self.selection.candidates
        if candidates and not self.run.selected <= candidates <= self.run.devices:
            raise ValueError(
                f"selection.candidates ({candidates}) lies outside run.selected = {self.run.selected} to run.devices = "
                f"{self.run.devices}; 0 takes all devices"
            )
        return self

    @model_validator(mode="after")
    def _server_sees_the_true_channel(self) -> Settings:
        if self.privacy.observer == "server" and self.privacy.csi_error != "realised":
            raise ValueError(
                "privacy.csi_error: what the server sees on its antennas is accounted with the true channel; take "
                f'"realised" (given: {self.privacy.csi_error!r})'
            )
        return self

    def __repr_args__(self) -> Iterator[tuple[str, Any]]:
        """What is not at its default, by dotted key."""
        for section, value in dict(self).items():
            if isinstance(value, Part):
                default = type(self).model_fields[section].get_default(call_default_factory=True)
                yield from [(section, value)] if value != default else []
            else:
                yield from ((f"{section}.{key}", one) for key, one in value.__repr_args__())

    @property
    def radio(self) -> RadioSections:
        """The sections that a radio is made from."""
        return RadioSections(**{one.name: getattr(self, one.name) for one in fields(RadioSections)})

    @property
    def delta(self) -> float:
        """The delta of the privacy statement: given, or 1/N."""
        return self.privacy.delta if self.privacy.delta is not None else 1.0 / self.run.devices

    @property
    def power_limit(self) -> Literal["round_energy", "transmit_power"]:
        """What P_i bounds; a power in dBm is one of every moment."""
        return self.power.limit if self.channel.units == "normalised" else "transmit_power"

    @property
    def csi_tail(self) -> float:
        """The part of delta that pays for quantiles of the channel error, over the whole run."""
        return self.delta / 2 if self.privacy.csi_error == "quantile" else 0.0

    def resolved(self, **changes: Any) -> Settings:
        """A copy with some keys replaced, resolved(run={"chunk": 32}), or a part, resolved(scheme=Pfels(ratio=0.3)).

        What is not named stays the object it is.

        Raises UserError for a value that is not allowed.
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
                data[section] = values  # a part or a section as a whole, or what is refused
            elif isinstance(before, Part):
                kept = {} if "name" in values else before.values()
                data[section] = {"name": type(before), **kept, **values}
            else:
                data[section] = {**dict(before), **values}
        return Settings(**data)
