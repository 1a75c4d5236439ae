"""The settings of a run: one frozen class per section, with strict types and a default for every key.

A section is in the module of its subject and checks its own keys. What concerns several sections is checked here.
Nothing depends on data, model or torch. `Settings` holds the values as given. The trace of a run holds a resolved copy,
with the values used for automatic settings (threads, chunk, engine, delta ...).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import Any, Literal

from pydantic import Field, model_validator

from airfl.config.blockage import BlockageSettings
from airfl.config.digital import DigitalSettings
from airfl.config.hardware import HardwareSettings
from airfl.config.learning import LocalSettings, ServerSettings
from airfl.config.privacy import PrivacySettings
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
from airfl.config.run import ComputeSettings, RunSettings, TraceSettings
from airfl.config.scheme import SCHEME, SchemePart
from airfl.config.section import Section
from airfl.config.surface import SurfaceSettings
from airfl.config.task import TaskSettings
from airfl.errors import UserError, nearest
from airfl.selection.rule import ChannelRule
from channels.part import Part


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
        blockage: Blockage of paths by people, vehicles and machines (`BlockageSettings`).
        csi: Channel state information (`CsiSettings`).
        antennas: The antennas of the receiver (`AntennaSettings`).
        surface: A reconfigurable intelligent surface (`SurfaceSettings`).
        power: Power limits of the devices, and power control (`PowerSettings`).
        grid: The OFDM resource grid, and the downlink (`GridSettings`).
        digital: Transmission of bits, for schemes whose link is digital (`DigitalSettings`).
        hardware: Hardware of the radios: power amplifiers and converter (`HardwareSettings`).
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
    blockage: BlockageSettings = BlockageSettings()
    csi: CsiSettings = CsiSettings()
    antennas: AntennaSettings = AntennaSettings()
    surface: SurfaceSettings = SurfaceSettings()
    power: PowerSettings = PowerSettings()
    grid: GridSettings = GridSettings()
    digital: DigitalSettings = DigitalSettings()
    hardware: HardwareSettings = HardwareSettings()
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
