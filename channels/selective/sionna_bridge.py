"""TR 38.901 link-level and system-level models through Sionna. Sionna is imported only here, when a response is needed.

Every device is a separate call with a seed from its own stream, so its fading does not depend on the other devices.
Large-scale parameters that Sionna would correlate between the devices of one call are therefore independent. The states
of all generators (torch, numpy, Python and Sionna) are restored.
"""

from __future__ import annotations

import inspect
import math
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from channels.antennas.array import AntennaArray, steering_phase
from channels.draws import Complex
from channels.selective.late import Late, late_paths, take_late
from channels.selective.parameters import Tr38901Version
from channels.selective.request import Blocked, SelectiveRequest, SelectiveResponse

if TYPE_CHECKING:
    from torch import Generator, Tensor

# The only version that Sionna before 2.1 offers.
ONLY_VERSION: Tr38901Version = "v16.1"

# Number of large-scale parameters of a device: shadowing, K, delay spread and four angle spreads.
_LARGE_SCALE = 7
_COLUMNS = (3, 4, 0, 1, 2, 5, 6)
"""Columns of Sionna's large-scale parameters in which the scores of a drop are put."""
LINES_IN_SIGHT = ("D", "E")
"""Profiles of tapped delay lines whose first path has a line-of-sight component."""

ScenarioName = Literal["UMi", "UMa", "RMa", "InF-SL", "InF-DL", "InF-SH", "InF-DH", "InF-HH"]
# Path coefficients and delays of one device, as Sionna's channel models return them.
Impulse = tuple["Tensor", "Tensor"]

# Passed to every Sionna object, so that neither a GPU nor a changed Sionna default alters a response.
PLACE: dict[str, Any] = {"precision": "single", "device": "cpu"}


def respond_tdl(
    profile: str, request: SelectiveRequest, delay_spread_s: float, version: Tr38901Version
) -> SelectiveResponse:
    """Return the response of tapped delay line A to E (TR 38.901, clause 7.7.2).

    Sionna draws the scattered parts independently for each antenna, and gives the line of sight of D and E the same
    phase at all antennas. Spatial correlation and the phases due to a device's direction are applied here. The response
    is complex64 [devices, antennas, blocks, subcarriers].
    """
    _load()
    from sionna.phy.channel.tr38901 import TDL

    @lru_cache(maxsize=64)
    def lines(speed_m_s: float, **angle: float) -> tuple[Any, Any]:
        def line() -> Any:
            return TDL(
                profile,
                delay_spread_s,
                request.carrier_hz,
                min_speed=speed_m_s,
                num_rx_ant=request.antennas,
                **angle,
                **_tables(TDL, version),
                **PLACE,
            )

        return line(), _without_line_of_sight(line()) if profile in LINES_IN_SIGHT else None

    steering, roots = _steering(request), request.spatial_roots
    speeds_m_s, angles_rad = _motion_along_the_path(request)
    if request.velocities_m_s is None:
        lines(_speed_m_s(request))  # one for all devices

    def impulse(device: int, _velocity: Tensor) -> Impulse:
        given = {"los_angle_of_arrival": angles_rad[device]} if angles_rad and profile in LINES_IN_SIGHT else {}
        model, scattered = lines(speeds_m_s[device], **given)
        times = (1, request.blocks, 1 / request.frame.block_s)
        state = model.torch_rng.get_state()
        a, tau = model(*times)
        if roots is None and (scattered is None or steering is None):
            return a, tau
        diffuse, sight = a, None
        if scattered is not None:
            model.torch_rng.set_state(state)
            diffuse = scattered(*times)[0]
            sight = a - diffuse
        if roots is not None:
            diffuse = _over_antennas("mn,bcndpqt->bcmdpqt", roots[device], diffuse)
        if sight is not None and steering is not None:
            sight = _over_antennas("m,bcmdpqt->bcmdpqt", steering[device], sight)
        return diffuse if sight is None else diffuse + sight, tau

    return _respond(request, impulse)


def respond_cdl(
    profile: str, request: SelectiveRequest, delay_spread_s: float, version: Tr38901Version
) -> SelectiveResponse:
    """Return the uplink response of clustered delay line A to E (TR 38.901, clause 7.7.1).

    The receiver is a panel of vertically polarised omnidirectional antennas. The cluster angles are those of the table,
    rotated about the vertical by the device's azimuth (clause 7.7.5.1 without its scaling), because the table has the
    line of sight of D and E at the panel's broadside. Its phase is the same for every device. The response is complex64
    [devices, antennas, blocks, subcarriers].
    """
    _load()
    import torch
    from sionna.phy.channel.tr38901 import CDL

    tables = _tables(CDL, version)

    directions = request.directions if request.antennas > 1 else None

    def impulse(device: int, velocity: Tensor) -> Impulse:
        # The table has the device in the direction of the x axis.
        if request.velocities_m_s is not None and request.positions_m is not None:
            velocity = _turned(velocity, -math.atan2(request.positions_m[device, 1], request.positions_m[device, 0]))
        azimuth = 0.0 if directions is None else directions.azimuth_rad[device]
        model = CDL(
            profile,
            delay_spread_s,
            request.carrier_hz,
            ut_array=_array(request, 1),
            bs_array=_array(request, request.antennas),
            direction="uplink",
            bs_orientation=torch.tensor([-azimuth, 0.0, 0.0], dtype=torch.float32, device="cpu"),
            ut_velocity=velocity,
            **tables,
            **PLACE,
        )
        a, tau = model(1, request.blocks, 1 / request.frame.block_s)
        return a, tau

    return _respond(request, impulse)


def respond_scenario(
    name: ScenarioName, request: SelectiveRequest, version: Tr38901Version, *, of_drop: bool = False
) -> SelectiveResponse:
    """Return the uplink response in a cell of TR 38.901, clause 7.5: urban micro, urban macro, rural macro or indoor
    factory.

    Devices are outdoors, except in factories. The array is as for the clustered delay lines. Path loss and shadowing
    are disabled here, because they belong to the topology. Delay and angle spreads, the K factor and (unless the
    request sets it) the line of sight are drawn with each realisation. The response is complex64 [devices, antennas,
    blocks, subcarriers].

    of_drop: whether the K factor is that of the request's scores. Then the spreads are drawn once per run, correlated
    with the K factor and the shadowing of these scores; if the scores have their own numbers, these are taken.
    Raises ValueError if positions, line-of-sight states or, where they are needed, scores are missing for some devices,
    and as `check_large_scale` does.
    """
    positions_m, line_of_sight = _places(request)
    scores = _scores(request) if of_drop else None
    _load()
    if of_drop:
        check_large_scale()
    import torch

    scenario, own = _scenario(name, request)
    tables = _tables(scenario, version)
    inside = torch.full((1, 1), name.startswith("InF"), dtype=torch.bool, device="cpu")
    seeds = device_seeds(request)
    run_seeds = [] if scores is None else [int(number * 2**32) for number in request.per_run(3)[:, 2]]
    level = torch.zeros((1, 1, 3), device="cpu")
    bearing = request.broadside_rad if request.antennas > 1 else 0.0  # a single antenna is omnidirectional
    orientation = torch.tensor([[[bearing, 0.0, 0.0]]], dtype=torch.float32, device="cpu")
    base = torch.tensor([[[0.0, 0.0, request.base_height_m]]], dtype=torch.float32, device="cpu")

    def impulse(device: int, velocity: Tensor) -> Impulse:
        # A new object for each device, because a reused one keeps random numbers of the previous device.
        model = scenario(
            request.carrier_hz,
            **own,
            ut_array=_array(request, 1),
            bs_array=_array(request, request.antennas),
            direction="uplink",
            enable_pathloss=False,
            enable_shadow_fading=False,
            **tables,
            **PLACE,
        )
        place = {
            "ut_loc": torch.tensor(positions_m[device], dtype=torch.float32, device="cpu").reshape(1, 1, 3),
            "bs_loc": base,
            "ut_orientations": level,
            "bs_orientations": orientation,
            "ut_velocities": velocity.reshape(1, 1, 3),
            "in_state": inside,
            "los": "random" if line_of_sight is None else bool(line_of_sight[device]),
        }
        if request.blocked is not None:
            model._ray_sampler._blockage_model = _Blockage(request.blocked, device)
        if scores is None:
            model.set_topology(**place)
        else:
            with _large_scale(scores[device], run_seeds[device], seeds[device]):
                model.set_topology(**place)
        a, tau = model(request.blocks, 1 / request.frame.block_s)
        return a, tau

    return _respond(request, impulse)


def check_version(version: Tr38901Version, scenario: ScenarioName | None = None) -> None:
    """Raise ValueError if the installed Sionna has no tables of that version of TR 38.901, or not the scenario. Imports
    Sionna."""
    _load()
    import sionna
    from sionna.phy.channel import tr38901

    if scenario is not None and scenario.startswith("InF") and not hasattr(tr38901, "InF"):
        raise ValueError(
            f"TR 38.901 {version}: Sionna {sionna.__version__} has no indoor factories; install Sionna 2.1 or newer"
        )
    _tables(tr38901.TDL, version)


def check_large_scale() -> None:
    """Raise ValueError if the installed Sionna cannot be given the K factor and the shadowing of a drop. Imports
    Sionna.

    Before 2.1 it multiplied by the Cholesky root in its own order, in which K depends on numbers that are not given.
    """
    _load()
    import sionna
    from sionna.phy.channel import tr38901

    if "spec_version" not in inspect.signature(tr38901.UMi).parameters:
        raise ValueError(
            f'Sionna {sionna.__version__} cannot be given the K factors of a drop; use large_scale = "redrawn", or '
            "install Sionna 2.1 or newer"
        )


def check_blockage() -> None:
    """Raise ValueError if the installed Sionna cannot be told which paths are blocked. Imports Sionna."""
    _load()
    import sionna
    from sionna.phy.channel.tr38901 import RaysGenerator

    if "blockage_model" not in inspect.signature(RaysGenerator.__init__).parameters:
        raise ValueError(
            f"Sionna {sionna.__version__} cannot be told which paths are blocked; leave blockage.model out, or install "
            "Sionna 2.2 or newer"
        )


class _Blockage:
    """What Sionna asks for the losses of one device's paths, in the place of its own blockage models (clause 7.6.4,
    between steps 9 and 10): those change neither over time nor from one call to the next in a known way."""

    def __init__(self, blocked: Blocked, device: int) -> None:
        self.requires_ray_angles = blocked.of_rays
        self._blocked, self._device = blocked, device

    def topology_updated_callback(self) -> None:
        """Do nothing: nothing is drawn here."""

    def __call__(
        self, aoa: Tensor, zoa: Tensor, los_aoa: Tensor | None = None, los_zoa: Tensor | None = None
    ) -> tuple[Tensor, Tensor | None]:
        """Return the losses in dB of all paths but the direct one, and that of the direct one, from the angles at the
        device in degrees."""
        loss = _like(aoa, self._blocked.paths_db(self._device, _double(aoa), _double(zoa)))
        if los_aoa is None or los_zoa is None:
            return loss, None
        return loss, _like(los_aoa, self._blocked.direct_db(self._device, _double(los_aoa), _double(los_zoa)))


def _double(values: Tensor) -> np.ndarray:
    return np.asarray(values.detach().cpu().numpy(), dtype=np.float64)


def _like(values: Tensor, numbers: np.ndarray) -> Tensor:
    import torch

    return torch.as_tensor(np.array(numbers), dtype=values.dtype, device=values.device)


def _scenario(name: ScenarioName, request: SelectiveRequest) -> tuple[Any, dict[str, Any]]:
    """Return Sionna's class of a scenario, and its arguments that others do not have."""
    from sionna.phy.channel import tr38901

    if name.startswith("InF"):
        return tr38901.InF, {"factory_scenario": name.removeprefix("InF-"), "hall_dimensions": request.hall_m}
    return getattr(tr38901, name), {} if name == "RMa" else {"o2i_model": "low"}


@contextmanager
def _large_scale(scores: np.ndarray, run_seed: int, seed: int) -> Iterator[None]:
    """Inside, Sionna draws a device's large-scale parameters under `run_seed`, with the first two of their normal
    numbers given, or all seven; afterwards it goes on under `seed`.

    Clause 7.5, step 4, multiplies seven numbers by the Cholesky root of their correlations, in the order SF, K, DS and
    the angle spreads, so that the others have their law given the first two. Sionna has no argument for these. They are
    put where it draws them, in its own order (DS, ASD, ASA, SF, K, ZSA, ZSD).
    """
    from importlib import import_module

    from sionna.phy import config

    module: Any = import_module("sionna.phy.channel.tr38901.lsp")
    normal, generator, given = module.normal, config.torch_rng("cpu"), []

    def with_scores(shape: tuple[int, ...], **options: Any) -> Tensor:
        numbers: Tensor = normal(shape, **options)
        if shape[-1] == _LARGE_SCALE:
            for column, score in zip(_COLUMNS, scores, strict=False):
                numbers[..., column] = float(score)
            given.append(shape)
        return numbers

    generator.manual_seed(run_seed)
    module.normal = with_scores
    try:
        yield
    finally:
        module.normal = normal
        generator.manual_seed(seed)
    if len(given) != 1:
        raise RuntimeError("the large-scale parameters of this Sionna cannot be given; install Sionna 2.2")


def _tables(model: type, version: Tr38901Version) -> dict[str, str]:
    """Return the argument that selects the version of TR 38.901 in a Sionna model; it is never left to the default."""
    if "spec_version" in inspect.signature(model).parameters:
        return {"spec_version": version.removeprefix("v")}
    if version != ONLY_VERSION:
        import sionna

        raise ValueError(
            f"TR 38.901 {version}: Sionna {sionna.__version__} only has {ONLY_VERSION}; use {ONLY_VERSION}, or install "
            "Sionna 2.1 or newer"
        )
    return {}


def device_seeds(request: SelectiveRequest) -> list[int]:
    """Return a 32-bit Sionna seed for every device, from the first number of its stream.

    torch's CPU generator uses no more than 32 bits.
    """
    return [int(number * 2**32) for number in request.draw(1)[:, 0]]


def device_velocities_m_s(request: SelectiveRequest) -> np.ndarray:
    """Return velocities, [devices, 3]: those of the request, or horizontal ones with directions from the second number
    of each device's stream."""
    if request.velocities_m_s is not None:
        return request.velocities_m_s if request.moves else np.zeros_like(request.velocities_m_s)
    direction = 2 * np.pi * request.draw(2)[:, 1]
    level = np.stack([np.cos(direction), np.sin(direction), np.zeros_like(direction)], axis=1)
    return _speed_m_s(request) * level


def _respond(request: SelectiveRequest, impulse: Callable[[int, Tensor], Impulse]) -> SelectiveResponse:
    """Generate each device's impulse response under its own seed, and transform it to the subcarriers."""
    import torch
    from sionna.phy.channel import cir_to_ofdm_channel

    frequencies = torch.tensor(request.frame.frequencies_hz, dtype=torch.float32, device="cpu")
    velocities = torch.tensor(device_velocities_m_s(request), dtype=torch.float32, device="cpu")
    seeds = device_seeds(request)
    response = np.empty((len(seeds), request.antennas, request.blocks, request.frame.subcarriers), np.complex64)
    late: list[Late | None] = []
    with torch.no_grad(), _sionna_generator() as generator:
        for device, seed in enumerate(seeds):
            generator.manual_seed(seed)
            a, tau = impulse(device, velocities[device])
            # [1, receiver, its antennas, transmitter, its antenna, blocks, subcarriers]
            response[device] = cir_to_ofdm_channel(frequencies, a, tau)[0, 0, :, 0, 0].numpy()
            paths = np.moveaxis(a[0, 0, :, 0, 0].numpy(), 1, 2)  # from [antennas, paths, blocks]
            late.append(late_paths(paths, tau[0, 0, 0].numpy(), request))
    return SelectiveResponse(response, take_late(response, late))


def _load() -> None:
    """Import Sionna without side effects: the first import reseeds torch's global generators on every device."""
    import torch

    python, legacy = random.getstate(), np.random.get_state()  # noqa: NPY002
    with torch.random.fork_rng(devices=range(torch.cuda.device_count())):
        import sionna.phy  # noqa: F401
    random.setstate(python)
    np.random.set_state(legacy)  # noqa: NPY002


@contextmanager
def _sionna_generator() -> Iterator[Generator]:
    """Yield the generator that Sionna's CPU models draw from, and restore its state afterwards.

    Seeding it has the effect of `sionna.phy.config.seed`, which would also reseed torch's global generator.
    """
    from sionna.phy import config

    generator = config.torch_rng("cpu")
    state = generator.get_state()
    try:
        yield generator
    finally:
        generator.set_state(state)


def _array(request: SelectiveRequest, antennas: int) -> Any:
    """Return a panel array with the base station's rows and spacing, or a single antenna for a device.

    Raises ValueError for an array that is not a panel, and for a spatial correlation that is not due to path angles.
    """
    from sionna.phy.channel.tr38901 import PanelArray

    array = request.array or AntennaArray()
    if antennas > 1 and (array.kind not in ("linear", "rectangular") or request.spatial_roots is not None):
        what = "correlated antennas" if request.spatial_roots is not None else f"a {array.kind} array"
        raise ValueError(f"{what}: channel models with path angles support only linear and rectangular arrays")
    rows = array.rows if antennas > 1 and array.kind == "rectangular" else 1
    spacing = {f"element_{way}_spacing": array.spacing_wavelengths for way in ("vertical", "horizontal")}
    return PanelArray(rows, antennas // rows, "single", "V", "omni", request.carrier_hz, **spacing, **PLACE)


def _steering(request: SelectiveRequest) -> Complex | None:
    """Return the phase factors of each device's line of sight at the antennas, [devices, antennas]."""
    if request.directions is None or request.antennas == 1:
        return None
    array = request.array or AntennaArray(count=request.antennas)
    return np.asarray(np.exp(2j * np.pi * steering_phase(array, request.directions)))


def _without_line_of_sight(line: Any) -> Any:
    """Remove the line of sight from a tapped delay line that draws the same random numbers.

    Sionna only returns the sum of both parts and has no parameter for the power of the line of sight, so the private
    attribute is set, and a public property is used to verify the effect.
    """
    line._los_power = line._los_power * 0
    if float(line.mean_power_los):
        raise RuntimeError(
            "the line of sight of this Sionna's tapped delay lines cannot be removed; install Sionna 2.2"
        )
    return line


def _over_antennas(product: str, factors: Complex, paths: Tensor) -> Tensor:
    """Multiply factors at the antennas with paths in Sionna's layout: [1, receiver, its antennas, transmitter, its
    antenna, paths, blocks]."""
    import torch

    return torch.einsum(product, torch.from_numpy(factors.astype(np.complex64)), paths)


def _scores(request: SelectiveRequest) -> np.ndarray:
    """Return the scores of shadowing and K; raise ValueError if they do not cover every device."""
    devices, scores = len(request.draw(1)), request.scores
    if scores is None or scores.shape not in ((devices, 2), (devices, _LARGE_SCALE)):
        found = "none" if scores is None else f"shape {scores.shape}"
        raise ValueError(f'large_scale = "drop" needs scores of a drop of shape ({devices}, 2 or 7), got {found}')
    return scores


def _speed_m_s(request: SelectiveRequest) -> float:
    return request.speed_m_s if request.moves else 0.0


def _motion_along_the_path(request: SelectiveRequest) -> tuple[list[float], list[float] | None]:
    """Return the speed of each device in m/s, and the angle between its motion and the direction to the base station in
    rad; None in place of the angles if they are not known."""
    velocities, places = device_velocities_m_s(request), request.positions_m
    if request.velocities_m_s is None or places is None:
        return len(velocities) * [_speed_m_s(request)], None
    speeds = np.linalg.norm(velocities, axis=1)
    to_base = np.array([0.0, 0.0, request.base_height_m]) - places
    cosines = (velocities * to_base).sum(axis=1) / np.maximum(speeds * np.linalg.norm(to_base, axis=1), 1e-300)
    return speeds.tolist(), np.arccos(np.clip(cosines, -1.0, 1.0)).tolist()


def _turned(velocity: Tensor, angle_rad: float) -> Tensor:
    """Turn a velocity about the vertical."""
    import torch

    x, y, z = velocity.tolist()
    cosine, sine = math.cos(angle_rad), math.sin(angle_rad)
    return torch.tensor([x * cosine - y * sine, x * sine + y * cosine, z], dtype=velocity.dtype, device="cpu")


def _places(request: SelectiveRequest) -> tuple[np.ndarray, np.ndarray | None]:
    """Return positions and line-of-sight states; raise ValueError if they do not cover every device."""
    devices = len(request.draw(1))
    positions, sight = request.positions_m, request.line_of_sight
    if positions is None or positions.shape != (devices, 3) or not np.isfinite(positions).all():
        found = "none" if positions is None else f"shape {positions.shape}"
        raise ValueError(f"positions of devices must be finite coordinates of shape ({devices}, 3), got {found}")
    if sight is not None and sight.shape != (devices,):
        raise ValueError(f"line of sight must be booleans of shape ({devices},), got shape {sight.shape}")
    return positions, sight
