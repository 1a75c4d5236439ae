"""The settings of a reconfigurable intelligent surface."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import ConfigDict

from airfl.config.part_keys import parts_of, with_keys
from airfl.config.section import Section
from channels.surface import Surface


class _Surface(Section):
    """A reconfigurable intelligent surface between the devices and the base station. By default there is none."""

    model_config = ConfigDict(defer_build=True)

    @property
    def surface(self) -> Surface:
        """The surface, with its parameters."""
        return parts_of(self, {"surface": Surface})["surface"]


if TYPE_CHECKING:

    class SurfaceSettings(_Surface):
        """The section, with the keys of `channels.surface.Surface`; `surface` holds them as a part."""

        elements: int = 0

else:
    SurfaceSettings = with_keys(_Surface, "SurfaceSettings", {"surface": Surface}, after=None, places={})
