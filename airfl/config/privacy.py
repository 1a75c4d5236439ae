"""The section `privacy`: the privacy target, and its accounting."""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from airfl.config.json_numbers import MaybeInfinite
from airfl.config.part_keys import NamedPart
from airfl.config.section import Section
from airfl.privacy.accountants import ACCOUNTANTS, Accountant

ACCOUNTANT = NamedPart(ACCOUNTANTS, "privacy.accountant", "auto", accepts=lambda one: one.of_runs)


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
