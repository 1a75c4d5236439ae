"""TR 38.901's link and system models through Sionna; the only file that imports it, when a response is asked for.

Every device is a call of its own, with a seed from its own stream, so its fade does not depend on who else is there;
what Sionna would correlate between devices of one call (large-scale parameters of neighbours) is independent here.
No generator is left changed: not torch's, numpy's or Python's, and not Sionna's own.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from channels.selective.request import SelectiveRequest, SelectiveResponse

if TYPE_CHECKING:
    from torch import Generator, Tensor

Scenario = Literal["UMi", "UMa", "RMa"]
# (path coefficients, delays) as Sionna's channel models return them, for one device.
Impulse = tuple["Tensor", "Tensor"]

# Said to every object, so that neither a GPU nor a changed default of Sionna's changes a response.
PLACE: dict[str, Any] = {"precision": "single", "device": "cpu"}


def respond_tdl(profile: str, request: SelectiveRequest) -> SelectiveResponse:
    """Tapped delay line A to E (TR 38.901, clause 7.7.2): complex64 [devices, antennas, blocks, subcarriers].

    The antennas' scattered parts are independent; the line of sight of D and E has one phase at all of them.
    """
    _load()
    from sionna.phy.channel.tr38901 import TDL

    model = TDL(
        profile,
        request.delay_spread_s,
        request.carrier_hz,
        min_speed=_speed_m_s(request),
        num_rx_ant=request.antennas,
        **PLACE,
    )
    return _respond(request, lambda _device, _velocity: model(1, request.blocks, 1 / request.frame.block_s))


def respond_cdl(profile: str, request: SelectiveRequest) -> SelectiveResponse:
    """Clustered delay line A to E (TR 38.901, clause 7.7.1), uplink, to a horizontal half-wavelength array of
    vertically polarised omnidirectional antennas: complex64 [devices, antennas, blocks, subcarriers].

    The clusters' angles are the table's, the same for every device; so is the phase of D's and E's line of sight.
    """
    _load()
    from sionna.phy.channel.tr38901 import CDL

    def impulse(_device: int, velocity: Tensor) -> Impulse:
        model = CDL(
            profile,
            request.delay_spread_s,
            request.carrier_hz,
            ut_array=_array(request, 1),
            bs_array=_array(request, request.antennas),
            direction="uplink",
            ut_velocity=velocity,
            **PLACE,
        )
        a, tau = model(1, request.blocks, 1 / request.frame.block_s)
        return a, tau

    return _respond(request, impulse)


def respond_scenario(name: Scenario, request: SelectiveRequest) -> SelectiveResponse:
    """Urban micro, urban macro or rural macro cell (TR 38.901, clause 7.5), uplink, devices outdoors, array
    as for the clustered lines: complex64 [devices, antennas, blocks, subcarriers].

    Path loss and shadowing are off: they are charged where devices are placed. Delay and angle spreads, K factor and
    (unless the request says it) line of sight are drawn with each fade; `request.delay_spread_s` is not used.
    Raises ValueError if positions or line of sight are not there for every device.
    """
    positions_m, line_of_sight = _places(request)
    _load()
    import torch
    from sionna.phy.channel import tr38901

    outdoors = torch.zeros((1, 1), dtype=torch.bool, device="cpu")
    level = torch.zeros((1, 1, 3), device="cpu")
    base = torch.tensor([[[0.0, 0.0, request.base_height_m]]], dtype=torch.float32, device="cpu")

    def impulse(device: int, velocity: Tensor) -> Impulse:
        # A new object a device: one that is used again keeps random numbers of the device before.
        model = getattr(tr38901, name)(
            request.carrier_hz,
            **({} if name == "RMa" else {"o2i_model": "low"}),
            ut_array=_array(request, 1),
            bs_array=_array(request, request.antennas),
            direction="uplink",
            enable_pathloss=False,
            enable_shadow_fading=False,
            **PLACE,
        )
        model.set_topology(
            ut_loc=torch.tensor(positions_m[device], dtype=torch.float32, device="cpu").reshape(1, 1, 3),
            bs_loc=base,
            ut_orientations=level,
            bs_orientations=level,
            ut_velocities=velocity.reshape(1, 1, 3),
            in_state=outdoors,
            los="random" if line_of_sight is None else bool(line_of_sight[device]),
        )
        a, tau = model(request.blocks, 1 / request.frame.block_s)
        return a, tau

    return _respond(request, impulse)


def device_seeds(request: SelectiveRequest) -> list[int]:
    """Sionna's seed for every device: the first number of its stream as 32 bits; torch's CPU generator uses no more."""
    return [int(number * 2**32) for number in request.draw(1)[:, 0]]


def device_velocities_m_s(request: SelectiveRequest) -> np.ndarray:
    """Velocity of every device, [devices, 3]: level, in the direction that the second number of its stream says."""
    direction = 2 * np.pi * request.draw(2)[:, 1]
    level = np.stack([np.cos(direction), np.sin(direction), np.zeros_like(direction)], axis=1)
    return _speed_m_s(request) * level


def _respond(request: SelectiveRequest, impulse: Callable[[int, Tensor], Impulse]) -> SelectiveResponse:
    """Every device's impulse response under its own seed, taken to the subcarriers."""
    import torch
    from sionna.phy.channel import cir_to_ofdm_channel

    frequencies = torch.tensor(request.frame.frequencies_hz, dtype=torch.float32, device="cpu")
    velocities = torch.tensor(device_velocities_m_s(request), dtype=torch.float32, device="cpu")
    seeds = device_seeds(request)
    response = np.empty((len(seeds), request.antennas, request.blocks, request.frame.subcarriers), np.complex64)
    with torch.no_grad(), _sionna_generator() as generator:
        for device, seed in enumerate(seeds):
            generator.manual_seed(seed)
            a, tau = impulse(device, velocities[device])
            # [1, receiver, its antennas, transmitter, its antenna, blocks, subcarriers]
            response[device] = cir_to_ofdm_channel(frequencies, a, tau)[0, 0, :, 0, 0].numpy()
    return response


def _load() -> None:
    """Import Sionna; the first time, that reseeds torch's global generators, on every device."""
    import torch

    python, legacy = random.getstate(), np.random.get_state()  # noqa: NPY002
    with torch.random.fork_rng(devices=range(torch.cuda.device_count())):
        import sionna.phy  # noqa: F401
    random.setstate(python)
    np.random.set_state(legacy)  # noqa: NPY002


@contextmanager
def _sionna_generator() -> Iterator[Generator]:
    """The generator that Sionna's models on the CPU draw from, put back afterwards.

    Seeding it gives what `sionna.phy.config.seed` would give, without reseeding torch's global generator as that does.
    """
    from sionna.phy import config

    generator = config.torch_rng("cpu")
    state = generator.get_state()
    try:
        yield generator
    finally:
        generator.set_state(state)


def _array(request: SelectiveRequest, antennas: int) -> Any:
    from sionna.phy.channel.tr38901 import PanelArray

    return PanelArray(1, antennas, "single", "V", "omni", request.carrier_hz, **PLACE)


def _speed_m_s(request: SelectiveRequest) -> float:
    return request.speed_m_s if request.moves else 0.0


def _places(request: SelectiveRequest) -> tuple[np.ndarray, np.ndarray | None]:
    """Positions and line of sight, or ValueError."""
    devices = len(request.draw(1))
    positions, sight = request.positions_m, request.line_of_sight
    if positions is None or positions.shape != (devices, 3) or not np.isfinite(positions).all():
        given = "none" if positions is None else f"shape {positions.shape}"
        raise ValueError(f"positions of devices: {given} given, need finite coordinates of shape ({devices}, 3)")
    if sight is not None and sight.shape != (devices,):
        raise ValueError(f"line of sight: shape {sight.shape} given, need one truth value a device, ({devices},)")
    return positions, sight
