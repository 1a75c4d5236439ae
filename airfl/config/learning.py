"""The sections `local` and `server`: training on the devices, and the step of the server."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from airfl.config.section import Count, Fraction, Positive, Scale, Schedule, Section


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
    gradient_clip_norm: Scale | None = Field(
        None,
        description="C1, to which the gradient of every step, a mean over its samples, is clipped as well (PFELS "
        "assumption 1); without it, only the update is clipped",
    )
    engine: Literal[
        "auto",
        "loop",
        "vmap",
        "compiled",
        "compiled-serial",
        "graphed",
        "layers",
        "layers-serial",
        "layers-parallel",
        "dense",
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
