"""Which settings a scheme has: what it says itself of the keys that not every scheme uses, and what its link does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airfl.config.without_effect import BELONGS_TO, LINK
from airfl.schemes.names import SCHEMES
from airfl.schemes.scheme import Scheme
from channels.part import parameters_of

Tables = Mapping[str, Mapping[str, Any]]
"""Settings as plain tables, by section."""


STEP = frozenset(f"local.{name}" for name in ("learning_rate", "schedule", "decay", "decay_every"))
"""Of schemes whose devices send a gradient: the step that is made of it."""
LOCAL_STEPS = STEP | {"local.epochs", "local.steps", "local.momentum"}
"""Of schemes whose devices take several steps a round."""
LOCAL_SGD = LOCAL_STEPS | {"local.clip_norm", "local.gradient_bound"}
"""Of schemes whose devices clip what they have learned."""
PRIVACY = frozenset(("privacy.epsilon", "privacy.bound"))
"""Of schemes that keep to an epsilon."""
ADAPTIVE = frozenset(("server.beta1", "server.beta2", "server.kappa"))
SHARED = LOCAL_SGD | PRIVACY | ADAPTIVE
"""Keys of other sections that not every scheme uses; whatever else is there is for all of them."""


def has_setting(settings: Tables, key: str, link: str) -> bool:
    """Whether a dotted key says anything of a run with these settings over this link: "analog", "digital", "ideal"."""
    if not counts(settings, key, link):
        return False
    name = str(settings.get("scheme", {}).get("name"))
    if name not in SCHEMES:  # what another version, or another user, can run
        return True
    return uses(SCHEMES[name], key)


def counts(settings: Tables, key: str, link: str) -> bool:
    """Whether what a dotted key belongs to is chosen, whatever the scheme."""

    def value_of(owner: str) -> str | None:
        return link if owner == LINK else _text(settings, owner)

    return all(needs.met_by(value_of, key) for needs in BELONGS_TO.get(key, ()))


def uses(scheme: type[Scheme], key: str) -> bool:
    """Whether a scheme has a use for a dotted key: its own parameters, and of those that not every scheme uses the ones
    that it names."""
    section, _, parameter = key.partition(".")
    if section == "scheme":
        return parameter in ("name", *(one.name for one in parameters_of(scheme)))
    return key not in SHARED or scheme.uses is None or key in scheme.uses


def _text(settings: Tables, key: str) -> str | None:
    """A key's value as text; None where the tables have none."""
    section, _, name = key.partition(".")
    table = settings.get(section, {})
    return str(table[name]) if name in table else None
