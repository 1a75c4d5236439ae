"""The registry of accountants. A new one is one file and one line here; a user-defined one needs no line.

Only the locations are registered, so that reading settings does not import the accountants.
"""

from __future__ import annotations

from airfl.privacy.accountants.accountant import Accountant
from channels.part import Registry

HOME = "airfl.privacy.accountants"
ACCOUNTANTS: Registry[Accountant] = Registry(
    "accountant",
    Accountant,
    {
        "auto": f"{HOME}.tight:Auto",
        "pld": f"{HOME}.pld:Pld",
        "rdp": f"{HOME}.renyi:Rdp",
        "dominating-pair": f"{HOME}.dominating_pair:DominatingPair",
        "closed-form": f"{HOME}.closed_form:ClosedForm",
        "gaussian": f"{HOME}.closed_form:UnsampledGaussian",
        "sum": f"{HOME}.closed_form:BasicComposition",
        "cpsgd": f"{HOME}.cpsgd:CpSgd",
    },
    group="airfl.accountants",
)
