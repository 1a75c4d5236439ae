"""The table of schemes: name -> module. A new scheme is one file beside this one and one line here.

Names only, so that settings are validated without importing what a scheme needs.
"""

SCHEME_NAMES: dict[str, str] = {
    "fedavg": "airfl.schemes.fedavg",
    "pfels": "airfl.schemes.pfels",
    "wfl-p": "airfl.schemes.wfl_p",
    "wfl-pdp": "airfl.schemes.wfl_pdp",
}
