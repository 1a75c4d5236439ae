"""The table of schemes: name -> module. A new scheme is one file beside this one and one line here.

Names only, so that settings are validated without importing what a scheme needs.
"""

SCHEME_NAMES: dict[str, str] = {
    name: f"airfl.schemes.{name.replace('-', '_')}"
    for name in (
        "fedavg",
        # PFELS
        "pfels",
        "wfl-p",
        "wfl-pdp",
        "dp-fedavg",
        # Fed-SMP
        "fedavg-randk",
        "fedavg-topk",
        "fed-smp-randk",
        "fed-smp-topk",
        # Fed-SPA
        "dp-fed",
        "fed-spa",
        "cpsgd",
        # SoteriaFL
        "cdp-sgd",
        "soteriafl-gd",
        "soteriafl-sgd",
        "soteriafl-svrg",
        "soteriafl-saga",
        "ldp-sgd",
        "ldp-svrg",
        # From the field, to compare against
        "cotaf",
        "baa",
        "obda",
        "a-dsgd",
    )
}
