"""The registry of schemes. A new scheme needs one file in this folder and one line here; user-defined schemes need no
line.

Only the location of each class is listed, so that settings can be read without importing a scheme's dependencies.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from channels.part import Registry

if TYPE_CHECKING:
    from airfl.schemes.scheme import Scheme

SCHEMES: Registry[Scheme] = Registry(
    "scheme",
    "airfl.schemes.scheme:Scheme",
    {
        "fedavg": "airfl.schemes.fedavg:FedAvg",
        # PFELS
        "pfels": "airfl.schemes.pfels:Pfels",
        "wfl-p": "airfl.schemes.wfl_p:WflP",
        "wfl-pdp": "airfl.schemes.wfl_pdp:WflPdp",
        "dp-fedavg": "airfl.schemes.dp_fedavg:DpFedAvg",
        # Fed-SMP
        "fedavg-randk": "airfl.schemes.fedavg_randk:FedAvgRandK",
        "fedavg-topk": "airfl.schemes.fedavg_topk:FedAvgTopK",
        "fed-smp-randk": "airfl.schemes.fed_smp_randk:FedSmpRandK",
        "fed-smp-topk": "airfl.schemes.fed_smp_topk:FedSmpTopK",
        # Fed-SPA
        "dp-fed": "airfl.schemes.dp_fed:DpFed",
        "fed-spa": "airfl.schemes.fed_spa:FedSpa",
        "cpsgd": "airfl.schemes.cpsgd:CpSgd",
        # SoteriaFL
        "cdp-sgd": "airfl.schemes.cdp_sgd:CdpSgd",
        "soteriafl-gd": "airfl.schemes.soteriafl_gd:SoteriaFLGd",
        "soteriafl-sgd": "airfl.schemes.soteriafl_sgd:SoteriaFLSgd",
        "soteriafl-svrg": "airfl.schemes.soteriafl_svrg:SoteriaFLSvrg",
        "soteriafl-saga": "airfl.schemes.soteriafl_saga:SoteriaFLSaga",
        "ldp-sgd": "airfl.schemes.ldp_sgd:LdpSgd",
        "ldp-svrg": "airfl.schemes.ldp_svrg:LdpSvrg",
        # Baselines from the literature
        "cotaf": "airfl.schemes.cotaf:Cotaf",
        "baa": "airfl.schemes.baa:Baa",
        "obda": "airfl.schemes.obda:Obda",
        "blind": "airfl.schemes.blind:Blind",
        "age-topk": "airfl.schemes.age_topk:AgeTopK",
        "a-dsgd": "airfl.schemes.a_dsgd:ADsgd",
        # Digital over the air
        "md-aircomp": "airfl.schemes.md_aircomp:MdAirComp",
        # Non-coherent
        "fsk-mv": "airfl.schemes.fsk_mv:FskMv",
        "reed": "airfl.schemes.reed:Reed",
        "ncairfl": "airfl.schemes.ncairfl:NcAirFL",
        "affine-oac": "airfl.schemes.affine_oac:AffineOac",
        "balanced-digits": "airfl.schemes.balanced_digits:BalancedNumbers",
    },
    group="airfl.schemes",
)
