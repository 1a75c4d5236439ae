"""User-defined channels: channels given by a function, and checks of what user-defined fading returns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from channels.draws import Array
from channels.fading.kinds import ChannelRequest, Fading, OwnChannel
from channels.fading.law import ALMOST_ONE, FadingLaw
from channels.fading.registry import FADINGS
from channels.part import parameter

SHARES = np.array([1e-6, 1e-3, 0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99, 1 - 1e-6])
"""Probabilities at which the cdf and quantile of a law are compared."""
ACCURACY = 1e-6
MOMENT_ACCURACY = 1e-3


class FunctionChannel(OwnChannel):
    """A channel given by a function: request -> H [devices, antennas, blocks, subcarriers].

    A function passed as `channel.fading` is wrapped automatically, with `selective = True`.
    """

    name = "function"

    function: Callable[[ChannelRequest], NDArray[Any]] = parameter(description="function request -> H")
    selective: bool = parameter(default=True, description="whether H differs between subcarriers")
    moves: bool = parameter(default=False, description="whether H differs between the blocks of a round")
    power: float | None = parameter(
        default=None, gt=0, description="E|H|^2 of every device; default the mean over rounds of the run"
    )

    def __repr__(self) -> str:
        where = self.function if hasattr(self.function, "__qualname__") else type(self.function)
        return f"the function {where.__qualname__}"

    def response(self, request: ChannelRequest) -> NDArray[Any]:
        """Return the result of the function."""
        return self.function(request)

    def mean_power(self, devices: int) -> Array | None:
        """Return `power` for every device, None if it is not set."""
        return None if self.power is None else np.full(devices, self.power)


def fading_of(given: object) -> Fading:
    """Build fading from a part, a name, a table of a name and parameters, or a function of a request.

    Raises PartError for anything else.
    """
    if callable(given) and not isinstance(given, (type, Fading)):
        return FunctionChannel(function=given)
    return FADINGS.build(given)  # type: ignore[arg-type]


def check_response(response: object, request: ChannelRequest, channel: OwnChannel) -> NDArray[np.complex128]:
    """Return H of a user-defined channel, broadcast to its full shape.

    Raises ValueError for a wrong type or shape, and for values that are not finite.
    """
    frame, devices = request.frame, len(request.devices)
    full = (
        devices,
        request.antennas,
        frame.blocks if channel.moves else 1,
        frame.subcarriers if channel.selective else 1,
    )
    values = np.asarray(response)
    if values.dtype.kind not in "iufc":
        raise ValueError(f"{channel!r} must return complex numbers, got {values.dtype}")
    fits = values.ndim == 4 and all(
        length in (1, expected) for length, expected in zip(values.shape[2:], full[2:], strict=True)
    )
    if not fits or values.shape[:2] != full[:2]:
        raise ValueError(
            f"{channel!r} must return H of shape [devices, antennas, blocks, subcarriers] = {full}, the last two 1 if "
            f"constant, got {values.shape} in round {request.round_index}"
        )
    wrong = ~np.isfinite(values)
    if wrong.any():
        place = np.argwhere(wrong)[0]
        raise ValueError(
            f"{channel!r} returned H that is not finite in round {request.round_index}, at device "
            f"{request.devices[place[0]]}, antenna {place[1]}, block {place[2]}, subcarrier {place[3]}"
        )
    return np.array(np.broadcast_to(values, full), dtype=np.complex128)


def check_law(law: FadingLaw, name: str) -> None:
    """Check that a law is a distribution of gains with mean 1 and the declared mean square.

    Raises ValueError if it is no such law, if its cdf or quantile is invalid, if they are not inverse to each other, or
    if a moment is wrong.
    """
    _check_fields(law, name)
    gains = _evaluated(law.quantile, SHARES, f"the quantile of {name}")
    if gains.shape != SHARES.shape or not (np.isfinite(gains).all() and (gains >= 0).all()):
        raise ValueError(
            f"the quantile of {name} must return finite gains of at least 0 in the shape of the probabilities, "
            f"{SHARES.shape}, got {_first(gains)}"
        )
    if (np.diff(gains) < 0).any():
        raise ValueError(
            f"the quantile of {name} must not decrease, but it does before probability "
            f"{SHARES[1:][np.diff(gains) < 0][0]:g}"
        )
    shares = _evaluated(law.cdf, gains, f"the cdf of {name}")
    if shares.shape != SHARES.shape or not ((shares >= 0) & (shares <= 1)).all():
        raise ValueError(
            f"the cdf of {name} must return probabilities from 0 to 1 in the shape of the gains, got {_first(shares)}"
        )
    # At an atom, the cdf is the largest of the probabilities that map to it.
    off = shares < SHARES - ACCURACY if law.constant or law.atoms else np.abs(shares - SHARES) > ACCURACY
    if off.any():
        raise ValueError(
            f"cdf and quantile of {name} are not inverse to each other: cdf(quantile({SHARES[off][0]:g})) is "
            f"{shares[off][0]:.6g}"
        )
    for order, declared, what in ((1, law.mean, "mean"), (2, law.mean_square, "mean_square")):
        moment = _moment(law, order)
        if abs(moment - declared) > MOMENT_ACCURACY * abs(declared):
            raise ValueError(
                f"the {what} of |h| under {name} must be {declared:.6g}, but its quantile gives {moment:.6g}"
            )


def _check_fields(law: object, name: str) -> None:
    """Raise ValueError unless a law is one whose numbers are numbers, and whose functions can be called."""
    if not isinstance(law, FadingLaw):
        raise ValueError(f"law() of {name} must return a FadingLaw, got {type(law).__name__}")
    for field in ("mean_square", "mean", "least", "most", "line_of_sight"):
        value = getattr(law, field)
        if not isinstance(value, int | float | np.floating) or isinstance(value, bool) or not value >= 0:
            raise ValueError(f"{field} of the law of {name} must be a number of at least 0, got {value!r}")
    for field in ("cdf", "quantile"):
        if not callable(getattr(law, field)):
            raise ValueError(f"{field} of the law of {name} must be a function, got {getattr(law, field)!r}")


def _evaluated(function: Callable[[Array], Array], at: Array, what: str) -> NDArray[Any]:
    """Return the values of a law's function as real numbers; ValueError if it raises an error or returns no numbers."""
    try:
        values = np.asarray(function(at.copy()))
    except Exception as error:
        raise ValueError(f"{what} raised {type(error).__name__}: {' '.join(str(error).split())}") from error
    if values.dtype.kind not in "iuf":
        raise ValueError(f"{what} must return real numbers, got {values.dtype}")
    return values


def _moment(law: FadingLaw, order: int) -> float:
    """E|h|^order: the quantile integrated over probabilities 1 - e^(-s), which resolves both ends."""
    nodes, weights = np.polynomial.legendre.leggauss(64)
    edges = np.array([0.0, 1e-4, 1e-2, 0.1, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 36.0])
    middle, half = (edges[1:] + edges[:-1]) / 2, np.diff(edges) / 2
    points = (middle[:, None] + half[:, None] * nodes).ravel()
    shares = np.minimum(-np.expm1(-points), ALMOST_ONE)
    values = np.asarray(law.quantile(shares)) ** order * np.exp(-points)
    return float(((half[:, None] * weights).ravel() * values).sum())


def _first(values: NDArray[Any]) -> str:
    """Describe values by their shape if it is wrong, else by the first and last ones."""
    return (
        f"shape {values.shape}" if values.shape != SHARES.shape else np.array2string(values, threshold=4, precision=4)
    )
