"""Federated learning schemes, one file each, in the order of the scheme's paper. Names are registered in names.py.

    airfl.schemes.Pfels(ratio=0.3)

The classes are available here by name and are imported on first access; `help(airfl.schemes.Pfels)` lists the
parameters. So is what a user-defined scheme is made of: `Scheme`, `Problem`, `Recipe`, the releases, and the keys that
a scheme declares.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from airfl.schemes.names import SCHEMES
from channels.part import lazily

if TYPE_CHECKING:
    # For editors and type checkers, which do not see what `__getattr__` imports.
    from airfl.schemes.a_dsgd import ADsgd as ADsgd
    from airfl.schemes.affine_oac import AffineOac as AffineOac
    from airfl.schemes.age_topk import AgeTopK as AgeTopK
    from airfl.schemes.baa import Baa as Baa
    from airfl.schemes.balanced_digits import BalancedNumbers as BalancedNumbers
    from airfl.schemes.blind import Blind as Blind
    from airfl.schemes.cdp_sgd import CdpSgd as CdpSgd
    from airfl.schemes.cotaf import Cotaf as Cotaf
    from airfl.schemes.cpsgd import CpSgd as CpSgd
    from airfl.schemes.dp_fed import DpFed as DpFed
    from airfl.schemes.dp_fedavg import DpFedAvg as DpFedAvg
    from airfl.schemes.fed_smp_randk import FedSmpRandK as FedSmpRandK
    from airfl.schemes.fed_smp_topk import FedSmpTopK as FedSmpTopK
    from airfl.schemes.fed_spa import FedSpa as FedSpa
    from airfl.schemes.fedavg import FedAvg as FedAvg
    from airfl.schemes.fedavg_randk import FedAvgRandK as FedAvgRandK
    from airfl.schemes.fedavg_topk import FedAvgTopK as FedAvgTopK
    from airfl.schemes.fsk_mv import FskMv as FskMv
    from airfl.schemes.keys import ADAPTIVE as ADAPTIVE
    from airfl.schemes.keys import LOCAL_SGD as LOCAL_SGD
    from airfl.schemes.keys import LOCAL_STEPS as LOCAL_STEPS
    from airfl.schemes.keys import PRIVACY as PRIVACY
    from airfl.schemes.keys import SHARED as SHARED
    from airfl.schemes.keys import STEP as STEP
    from airfl.schemes.ldp_sgd import LdpSgd as LdpSgd
    from airfl.schemes.ldp_svrg import LdpSvrg as LdpSvrg
    from airfl.schemes.md_aircomp import MdAirComp as MdAirComp
    from airfl.schemes.ncairfl import NcAirFL as NcAirFL
    from airfl.schemes.obda import Obda as Obda
    from airfl.schemes.pfels import Pfels as Pfels
    from airfl.schemes.recipe import Claim as Claim
    from airfl.schemes.recipe import Problem as Problem
    from airfl.schemes.recipe import Recipe as Recipe
    from airfl.schemes.reed import Reed as Reed
    from airfl.schemes.release import ClientRelease as ClientRelease
    from airfl.schemes.release import RecordRelease as RecordRelease
    from airfl.schemes.scheme import Scheme as Scheme
    from airfl.schemes.soteriafl_gd import SoteriaFLGd as SoteriaFLGd
    from airfl.schemes.soteriafl_saga import SoteriaFLSaga as SoteriaFLSaga
    from airfl.schemes.soteriafl_sgd import SoteriaFLSgd as SoteriaFLSgd
    from airfl.schemes.soteriafl_svrg import SoteriaFLSvrg as SoteriaFLSvrg
    from airfl.schemes.wfl_p import WflP as WflP
    from airfl.schemes.wfl_pdp import WflPdp as WflPdp

_HOMES = {
    **dict.fromkeys(("Claim", "Problem", "Recipe"), "recipe"),
    **dict.fromkeys(("ClientRelease", "RecordRelease"), "release"),
    **dict.fromkeys(("ADAPTIVE", "LOCAL_SGD", "LOCAL_STEPS", "PRIVACY", "SHARED", "STEP"), "keys"),
    "Scheme": "scheme",
}
"""What schemes are made of: name -> module of this package."""

_class_named, __dir__ = lazily(__name__, ("SCHEMES", *_HOMES), SCHEMES)


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    return _class_named(name)
