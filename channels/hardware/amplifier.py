"""Power amplifiers without memory: their complex gain by the amplitude of the input (AM/AM and AM/PM).

Amplitudes are relative to the input amplitude at which the amplifier saturates, and the gain of small signals is 1. The
input power at saturation over the mean input power is the back-off rho. With a complex Gaussian input, t = |x|^2 over
its mean is exponential with mean 1, and the amplitude relative to saturation is sqrt(t/rho).
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import erf, erfc, exp1, gamma, gammaincc

from channels.draws import Array
from channels.part import Part, parameter

Gains = NDArray[np.complex128]
# exp(rho) and the tail that it multiplies are only finite together below this; the integrals are then done numerically.
_LARGEST_EXPONENT = 500.0


@dataclass(frozen=True)
class Moments:
    """Moments of the output y of an amplifier, for a complex Gaussian input x with E|x|^2 = 1.

    Attributes:
        gain: alpha = E[y x*], the gain of the part of the output that is proportional to the input (Bussgang).
        power: E|y|^2.
        amplitude: E|y|; nan where there is no closed form.
    """

    gain: complex
    power: float
    amplitude: float = math.nan


class Amplifier(Part):
    """Base class of amplifiers.

    Attributes:
        source: Source of the model.
        largest_gain: Supremum of |gain|, inf if there is none.
    """

    source: ClassVar[str] = ""
    largest_gain: ClassVar[float] = 1.0

    @property
    @abstractmethod
    def saturation(self) -> float:
        """Largest amplitude of the output; for `Polynomial` the one at the saturation of its input."""

    @abstractmethod
    def gain(self, amplitude: Array) -> Gains:
        """Return the complex gain at these input amplitudes, elementwise; 1 at amplitude 0."""

    @abstractmethod
    def closed_form(self, back_off: float) -> Moments | None:
        """Return the moments at a back-off rho (a ratio of powers) in closed form, None if there is none."""


class SoftLimiter(Amplifier):
    """An amplifier that is linear up to saturation: what a predistorter at best makes of any amplifier."""

    name = "soft-limiter"
    source = (
        "H. Ochiai, H. Imai, Performance analysis of deliberately clipped OFDM signals, IEEE Trans. Commun. 50(1), 2002"
    )

    @property
    def saturation(self) -> float:
        """1, the limit."""
        return 1.0

    def gain(self, amplitude: Array) -> Gains:
        """Return min(1, 1/u)."""
        return np.asarray(1.0 / np.maximum(amplitude, 1.0), dtype=np.complex128)

    def closed_form(self, back_off: float) -> Moments:
        """Return alpha = 1 - e^-rho + sqrt(pi rho)/2 erfc(sqrt(rho)), E|y|^2 = 1 - e^-rho and E|y| = sqrt(pi)/2
        erf(sqrt(rho))."""
        root, below = math.sqrt(back_off), -math.expm1(-back_off)
        gain = below + math.sqrt(math.pi) / 2 * root * float(erfc(root))
        return Moments(gain, below, math.sqrt(math.pi) / 2 * float(erf(root)))


class Rapp(Amplifier):
    """A solid-state amplifier, which saturates smoothly and does not turn the phase."""

    name = "rapp"
    source = (
        "C. Rapp, Effects of HPA-nonlinearity on a 4-DPSK/OFDM-signal for a digital sound broadcasting system, "
        "ECSC-2, 1991"
    )

    smoothness: float = parameter(
        default=2.0,
        gt=0,
        le=100,
        key="smoothness",
        description="p of the Rapp model, the sharpness of the transition to saturation",
    )

    @property
    def saturation(self) -> float:
        """1, the asymptote."""
        return 1.0

    def gain(self, amplitude: Array) -> Gains:
        """Return (1 + u^2p)^(-1/2p)."""
        # As a function of log u, so that u^2p does not overflow.
        with np.errstate(divide="ignore"):
            growth = np.logaddexp(0.0, 2 * self.smoothness * np.log(amplitude))
        return np.asarray(np.exp(-growth / (2 * self.smoothness)), dtype=np.complex128)

    def closed_form(self, back_off: float) -> Moments | None:
        """Return the moments for p = 1: alpha = sqrt(rho) e^rho (Gamma(3/2, rho) - rho Gamma(1/2, rho)), E|y|^2 =
        rho (1 - rho e^rho E1(rho)); None for other p."""
        if self.smoothness != 1.0 or back_off > _LARGEST_EXPONENT:
            return None
        upper = [float(gammaincc(order, back_off) * gamma(order)) for order in (1.5, 0.5)]
        growth = math.exp(back_off)
        gain = math.sqrt(back_off) * growth * (upper[0] - back_off * upper[1])
        return Moments(gain, back_off * (1.0 - back_off * growth * float(exp1(back_off))))


class Saleh(Amplifier):
    """A travelling-wave tube, which turns the phase and whose output falls again beyond saturation.

    The gain of small signals is 1, so that the numerator of Saleh's amplitude has no parameter; the default ones of the
    others are Saleh's for the data of Berman and Mahle.
    """

    name = "saleh"
    source = (
        "A. A. M. Saleh, Frequency-independent and frequency-dependent nonlinear models of TWT amplifiers, IEEE Trans. "
        "Commun. 29(11), 1981"
    )

    beta_amplitude: float = parameter(
        default=1.1517, gt=0, le=1e3, key="beta_amplitude", description="beta_a of the Saleh model"
    )
    alpha_phase: float = parameter(
        default=4.0033,
        ge=-1e3,
        le=1e3,
        key="alpha_phase",
        description="alpha_phi of the Saleh model, in rad per unit of input power",
    )
    beta_phase: float = parameter(
        default=9.1040, ge=0, le=1e3, key="beta_phase", description="beta_phi of the Saleh model"
    )

    @property
    def saturation(self) -> float:
        """1/2, at an input amplitude of 1."""
        return 0.5

    def gain(self, amplitude: Array) -> Gains:
        """Return e^(j phi)/(1 + u^2) with phi = alpha_phi v/(1 + beta_phi v), v = u^2/beta_a."""
        power = np.asarray(amplitude**2)
        input_power = power / self.beta_amplitude
        phase = self.alpha_phase * input_power / (1.0 + self.beta_phase * input_power)
        return np.asarray(np.exp(1j * phase) / (1.0 + power))

    def closed_form(self, back_off: float) -> None:
        """Return None; its integrals have no closed form."""


class Polynomial(Amplifier):
    """An odd polynomial in the amplitude, with complex coefficients, as measurements are fitted.

    It holds up to saturation, and beyond it grows without bound: a back-off that is too small for the coefficients
    shows distortion that no amplifier has.
    """

    name = "polynomial"
    source = "T. Schenk, RF Imperfections in High-rate Wireless Systems, Springer, 2008, chapter 6"
    largest_gain = math.inf

    coefficients: tuple[float, ...] = parameter(
        default=(-0.333,),
        key="coefficients",
        description="real parts of the polynomial's coefficients of order 3, 5, ..., relative to an input amplitude of "
        "1 at saturation and a gain of 1",
    )
    coefficients_imag: tuple[float, ...] = parameter(
        default=(),
        key="coefficients_imag",
        description="imaginary parts of these coefficients; empty for an amplifier that does not turn the phase",
    )

    def check(self) -> None:
        """Raise ValueError if there are more than 6 coefficients, or other numbers of imaginary parts than of real
        ones."""
        if not 1 <= len(self.coefficients) <= 6:
            raise ValueError(f"coefficients must be 1 to 6 numbers (order 3 to 13), got {len(self.coefficients)}")
        if self.coefficients_imag and len(self.coefficients_imag) != len(self.coefficients):
            raise ValueError(
                f"coefficients_imag must be as many as coefficients, {len(self.coefficients)}, or none, got "
                f"{len(self.coefficients_imag)}"
            )
        if not all(math.isfinite(one) and abs(one) <= 1e3 for one in (*self.coefficients, *self.coefficients_imag)):
            raise ValueError("coefficients must be at most 1000 in magnitude")

    @property
    def _orders(self) -> Gains:
        """The coefficients of order 1, 3, ..., complex."""
        imaginary = np.asarray(self.coefficients_imag or (0.0,) * len(self.coefficients))
        return np.concatenate([[1.0], np.asarray(self.coefficients) + 1j * imaginary])

    @property
    def saturation(self) -> float:
        """|gain(1)|."""
        return float(np.abs(self.gain(np.ones(1)))[0])

    def gain(self, amplitude: Array) -> Gains:
        """Return 1 + c_3 u^2 + c_5 u^4 + ..."""
        return np.asarray(np.polynomial.polynomial.polyval(np.asarray(amplitude) ** 2, self._orders))

    def closed_form(self, back_off: float) -> Moments:
        """Return alpha = sum_k c_2k+1 (k + 1)! rho^-k and E|y|^2 = sum_kl c_2k+1 c_2l+1* (k + l + 1)! rho^-(k+l)."""
        scaled = self._orders * back_off ** -np.arange(len(self._orders), dtype=np.float64)
        at = range(len(scaled))
        gain = sum(complex(scaled[k]) * math.factorial(k + 1) for k in at)
        power = sum(complex(scaled[k] * scaled[n].conj()).real * math.factorial(k + n + 1) for k in at for n in at)
        return Moments(gain, power)


AMPLIFIERS: dict[str, type[Amplifier]] = {one.name: one for one in (SoftLimiter, Rapp, Saleh, Polynomial)}
"""The amplifiers by name."""
