"""The tables of checks in docs/extending/index.md match the checks that `airfl check` makes."""

import re
from typing import Any

import pytest

from airfl.learning.tasks.datasets import Mnist
from airfl.learning.tasks.models import Mlp
from airfl.learning.tasks.partitions import Iid
from airfl.privacy.accountants import Auto
from airfl.schemes import FedAvg
from airfl.selection import Poisson, ProportionalFair
from airfl.study.check import EVERY_PART, OF_KIND, _load, registry_of
from channels import antennas, digital, fading, interference, power
from channels.part import Part
from tests.documentation.blocks import DOCS

PAGE = (DOCS / "extending" / "index.md").read_text()
OF_EVERY_SCHEME = {"name", "transport", "parameters"}


class Silent(fading.OwnChannel):
    """Nobody is heard."""

    name = "silent"

    def response(self, request: fading.ChannelRequest) -> Any:
        """No H."""
        raise NotImplementedError


TABLES: dict[str, tuple[Part, ...]] = {
    "scheme": (FedAvg(),),
    "combiner": (antennas.First(),),
    "interference model": (interference.Gaussian(),),
    "fading law or channel": (fading.Rician(), Silent(), fading.TappedLine()),
    "allocation": (digital.Equal(),),
    "error model": (digital.Capacity(),),
    "power policy": (power.Pfels(),),
    "selection rule": (Poisson(), ProportionalFair()),
    "partition": (Iid(),),
    "model": (Mlp(),),
    "data set": (Mnist(),),
    "accountant": (Auto(),),
}


def rows_of(what: str) -> dict[str, str]:
    """Name of a check -> what holds, as the page has them."""
    table = re.search(rf"\| check of an? {what} \| what holds \|\n\|.*\n((?:\|.*\n)+)", PAGE)
    assert table, what
    found = {}
    for line in table[1].splitlines():
        names, says = [cell.strip() for cell in line.strip("|").replace("`", "").split("|")]
        found |= dict.fromkeys(names.split(", "), says)
    return found


@pytest.mark.parametrize("what", TABLES)
def test_the_checks_of_a_kind_are_those_of_the_page(what: str) -> None:
    made = {
        check.name: check.what
        for part in TABLES[what]
        for home in (EVERY_PART, OF_KIND[registry_of(type(part)).kind])
        for check in _load(home)(part, ())
    }
    told = rows_of(what)
    assert made.keys() == told.keys()
    for name, says in told.items():
        if what == "scheme" or name not in OF_EVERY_SCHEME:
            assert made[name].replace("`", "") in says, name
        else:
            assert says == "as for a scheme", name


def test_every_kind_that_has_checks_has_a_table() -> None:
    assert {registry_of(type(part)).kind for parts in TABLES.values() for part in parts} == OF_KIND.keys()
