"""The sections `run`, `compute` and `trace`: size and execution of a run, its costs of computation, what it records."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from airfl.config.section import Count, NotNegative, Positive, Scale, Section


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
