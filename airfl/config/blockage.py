"""The settings of blockage by people, vehicles and machines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import ConfigDict

from airfl.config.part_keys import parts_of, with_keys
from airfl.config.section import Section
from channels.blockage import Blockage


class _Blockage(Section):
    """Blockage of paths by people, vehicles and machines (TR 38.901, clause 7.6.4). By default there is none."""

    model_config = ConfigDict(defer_build=True)

    @property
    def blockage(self) -> Blockage:
        """The parameters of blockage as a part."""
        return parts_of(self, {"blockage": Blockage})["blockage"]


if TYPE_CHECKING:

    class BlockageSettings(_Blockage):
        """The section, with the keys of `channels.blockage.Blockage`; `blockage` holds them as a part."""

        model: Literal["none", "model-a", "model-b"] = "none"

else:
    BlockageSettings = with_keys(_Blockage, "BlockageSettings", {"blockage": Blockage}, after=None, places={})
