"""User-defined allocations and error models, and built-in ones as objects and tables."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import airfl
from airfl.config import Settings
from airfl.uplinks.radio.visibility import may_be_lost
from channels import digital
from channels.digital import Allocation, Demand, DigitalTask, ErrorModel
from channels.part import parameter
from tests.conftest import small_settings
from tests.refusals import one_line
from tests.small_data import traced

SHARES: dict[str, Callable[[Any], Any]] = {
    "plain": lambda shares: shares,
    "few": lambda shares: shares - (np.arange(len(shares)) == 0),
    "none": lambda shares: shares * 0,
    "parts": lambda shares: shares * 1.0,
    "short": lambda shares: shares[1:],
}
DEMANDS: dict[str, Callable[[Demand], Any]] = {
    "plain": lambda demand: demand,
    "nan": lambda demand: replace(demand, rate=demand.rate * np.nan),
    "error": lambda demand: replace(demand, block_error_rate=demand.block_error_rate + 1.5),
    "decoded": lambda demand: replace(demand, decoded=demand.decoded * 1.0),
    "half": lambda demand: replace(demand, resource_elements=demand.resource_elements + 0.5),
    "lost": lambda demand: replace(demand, decoded=demand.decoded & (np.arange(len(demand.decoded)) > 0)),
    "short": lambda demand: replace(demand, bits_on_air=demand.bits_on_air[1:]),
    "none": lambda demand: None,
}


class Mine(Allocation):
    """Equal shares, changed in one way."""

    name = "mine"

    how: str = parameter(default="plain", description="what is changed")

    def shares(self, task: DigitalTask, sharing: slice) -> Any:
        return SHARES[self.how](digital.Equal().shares(task, sharing))


class Own(ErrorModel):
    """At capacity, changed in one way."""

    name = "own"
    certain = True

    how: str = parameter(default="plain", description="what is changed")

    def send(self, task: DigitalTask, own: Any) -> Any:
        return DEMANDS[self.how](digital.Capacity().send(task, own))


class Unsure(Own):
    """The same, of which nothing is said."""

    name = "unsure"
    certain = False


def over_bits(*overrides: str, **parts: Any) -> Settings:
    return small_settings("scheme.name=fedavg", "scheme.link=digital", *overrides).resolved(digital=parts)


def test_own_ones_that_are_ours_give_the_same_trace() -> None:
    """Bit for bit. An own error model that does not say that it is certain may lose messages."""
    settings = over_bits(allocation=Mine(), error_model=Own())
    found, attributes = traced(settings)
    assert found == traced(over_bits())[0]
    assert json.loads(attributes["config"])["digital"]["allocation"] == {"name": "mine", "how": "plain"}
    assert "digital.error_model" in attributes["own_parts"]
    assert may_be_lost(over_bits(error_model=Unsure()).radio, "digital")
    assert not may_be_lost(settings.radio, "digital")


def test_tables_and_objects_are_the_keys_of_the_section() -> None:
    """But for a gap that only one of the two is given."""
    assert over_bits(error_model=digital.Nr(mcs_table=2)) == over_bits("digital.error_model=nr", "digital.mcs_table=2")
    table = over_bits("digital.error_model={ name = 'finite-blocklength', block_elements = 50 }").digital
    assert (table.error_model, table.block_elements) == ("finite-blocklength", 50)
    assert table.link_errors == digital.FiniteBlocklength(block_elements=50)
    for parts, gaps in (
        ({"allocation": "rate-fair", "gap_db": 3.0}, (3.0, 3.0)),
        ({"allocation": digital.RateFair(gap_db=3.0)}, (3.0, 0.0)),
        ({"allocation": "rate-fair", "error_model": digital.Capacity(gap_db=3.0)}, (0.0, 3.0)),
        ({"allocation": digital.RateFair(gap_db=1.0), "error_model": digital.Capacity(gap_db=3.0)}, (1.0, 3.0)),
    ):
        found = over_bits(**parts).digital
        assert (found.allocation_rule.gap_db, found.link_errors.gap_db) == gaps  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("part", "said"),
    [
        (Mine(how="few"), "shares with sum 3300, got 3299"),
        (Mine(how="none"), "shares of at least 1 subcarrier, got 0"),
        (Mine(how="parts"), "must return integer shares of shape (8,), got float64"),
        (Mine(how="short"), "integer shares of shape (8,), got int64 of shape (7,)"),
        (Own(how="nan"), "must return rate finite and at least 0, got nan"),
        (Own(how="error"), "must return block_error_rate from 0 to 1, got 1.5"),
        (Own(how="decoded"), "must return decoded true or false, got 1.0"),
        (Own(how="half"), "must return whole numbers of resource_elements, got"),
        (Own(how="short"), "must return bits_on_air of shape (8,), got (7,)"),
        (Own(how="lost"), "declares `certain`, but loses a message"),
        (Own(how="none"), "must return a Demand, got NoneType"),
    ],
    ids=repr,
)
def test_a_part_that_breaks_its_promise_is_named(part: Any, said: str) -> None:
    slot = "allocation" if isinstance(part, Allocation) else "error_model"
    with pytest.raises(airfl.UserError, match=one_line("digital: round 0: ", repr(part), said)):
        airfl.link_budget(over_bits(**{slot: part}))
