"""Every effect on every link: it changes what a round costs or what is decoded, or is refused in one line."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from airfl.building import build_cell
from airfl.errors import UserError
from airfl.opening import open_round
from tests.conformance.channel_cases import messages_of, send
from tests.conftest import small_settings

Array = NDArray[np.float64]

ENTRIES, ROUNDS = 600, 3
BASE = (
    "run.devices=12",
    "run.selected=6",
    "grid.subcarriers=24",
    "channel.fading=rayleigh",
    "channel.mean_gain=1.0",
    "channel.min_gain=0.3",
    "channel.max_gain=10",
    "power.max_snr_db=20",
    "local.clip_norm=1.0",
)
EFFECTS = {
    "interference": ("channel.interference_to_noise_db=10",),
    "timing": ("csi.timing_offset_s=2e-5",),
    "frequency": ("csi.frequency_offset_hz=4000",),
}
LINKS = {
    "analog": ("scheme.name=wfl-p",),
    "analog iq": ("scheme.name=wfl-p", "grid.packing=iq"),
    "analog waveform": ("scheme.name=wfl-p", "grid.waveform=true"),
    **{
        f"digital {model}": ("scheme.name=fedavg", "scheme.link=digital", f"digital.error_model={model}")
        for model in ("capacity", "finite-blocklength", "nr")
    },
    "ideal": ("scheme.name=fedavg", "scheme.link=ideal"),
    "downlink": ("scheme.name=fedavg", "scheme.link=ideal", "grid.downlink=true"),
}
# Said in one line: nothing on these links is made in time, where a waveform has its offsets.
REFUSED = {
    "digital": ("scheme.name=fedavg", "scheme.link=digital", "grid.waveform=true"),
    "ideal": ("scheme.name=fedavg", "scheme.link=ideal", "grid.waveform=true"),
    "downlink": ("scheme.name=wfl-p", "grid.waveform=true", "grid.downlink=true"),
}


def price(link: str, effect: tuple[str, ...]) -> tuple[float, float]:
    """Of some rounds: resource elements, and what is decoded wrongly over the power of the mean, a lost message
    included. The downlink's is that of the broadcast alone."""
    settings = small_settings(*BASE, *LINKS[link], *effect)
    cell = build_cell(settings, ENTRIES, np.ones(settings.run.devices))
    elements = error = 0.0
    for t in range(ROUNDS):
        opening = open_round(cell, t, cell.memory)
        if link == "downlink":
            assert opening.broadcast is not None
            elements += opening.broadcast.resource_elements
            continue
        messages = messages_of(opening, cell)
        reception = send(opening.link, messages)
        mean = messages.mean(dim=0)
        elements += reception.report.use.resource_elements
        error += float(((reception.mean - mean) ** 2).sum() / (mean**2).sum())
    return elements, error


@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize("effect", EFFECTS)
def test_an_effect_costs_something_on_every_link(effect: str, link: str) -> None:
    plain, disturbed = price(link, ()), price(link, EFFECTS[effect])
    assert disturbed[0] >= plain[0]  # of offsets that are known no retransmission is saved
    assert disturbed[0] > 1.01 * plain[0] or disturbed[1] > 1.01 * plain[1]


@pytest.mark.parametrize("link", LINKS)
def test_paths_beyond_the_prefix_cost_something_on_every_link(link: str) -> None:
    """Against the same paths within a prefix that is longer than they are late."""
    delays = ("channel.fading=tapped-line", "channel.delay_spread_s=5e-6")
    within, late = price(link, (*delays, "grid.symbol_duration_s=1.3e-4")), price(link, delays)
    assert late[0] > 1.01 * within[0] or late[1] > 1.01 * within[1]


@pytest.mark.parametrize("effect", ["timing", "frequency"])
@pytest.mark.parametrize("link", REFUSED)
def test_offsets_that_a_waveform_would_keep_from_a_link_are_refused(link: str, effect: str) -> None:
    settings = small_settings(*BASE, *REFUSED[link], *EFFECTS[effect])
    with pytest.raises(UserError, match=f"^grid.waveform: .*{link}.*; ") as refused:
        build_cell(settings, ENTRIES, np.ones(settings.run.devices))
    assert "\n" not in str(refused.value)
