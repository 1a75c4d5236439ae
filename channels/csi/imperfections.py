"""All CSI impairments, in the order in which they occur."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property

from channels.csi.ageing import Ageing
from channels.csi.estimation import Estimation
from channels.csi.feedback import Feedback
from channels.csi.frequency import FrequencyOffset
from channels.csi.impairment import Impairment, Surroundings
from channels.csi.information import ChannelInformation, match
from channels.csi.oscillator import PhaseNoise
from channels.csi.phase import ResidualPhase
from channels.csi.synchronisation import SynchronisationErrors, with_errors
from channels.csi.timing import TimingOffset
from channels.draws import Complex, Draw
from channels.frame import Frame


@dataclass(frozen=True)
class Imperfections:
    """The impairments of CSI. By default, CSI is perfect.

    The fields are in the order of application: the channel is estimated and fed back, and then continues to change.
    Estimation and feedback change the estimate, the others change the true channel.

    Attributes:
        estimation: Estimation from pilots.
        feedback: Quantised feedback.
        ageing: Ageing between estimation and transmission.
        phase: Residual phase of oscillators.
        timing: Symbol timing offset.
        frequency: Carrier frequency offset.
        oscillator: Phase noise of oscillators.
        synchronisation: Errors that remain after synchronisation, as measured or by their law.
    """

    estimation: Estimation = field(default_factory=Estimation)
    feedback: Feedback = field(default_factory=Feedback)
    ageing: Ageing = field(default_factory=Ageing)
    phase: ResidualPhase = field(default_factory=ResidualPhase)
    timing: TimingOffset = field(default_factory=TimingOffset)
    frequency: FrequencyOffset = field(default_factory=FrequencyOffset)
    oscillator: PhaseNoise = field(default_factory=PhaseNoise)
    synchronisation: SynchronisationErrors = field(default_factory=SynchronisationErrors)

    def __iter__(self) -> Iterator[Impairment]:
        return iter(self._in_order)

    @cached_property
    def _in_order(self) -> tuple[Impairment, ...]:
        return tuple(getattr(self, one.name) for one in fields(self))

    def present(self, around: Surroundings) -> bool:
        """Whether any impairment has an effect in these surroundings."""
        return any(one.present(around) for one in self)

    def check_within(self, around: Surroundings) -> None:
        """Raise ValueError if a parameter is invalid in these surroundings."""
        for one in self:
            one.check_within(around)

    @property
    def beside_a_waveform(self) -> Imperfections:
        """The impairments that the time-domain waveform does not already include; the others are at their defaults."""
        return replace(self, **{one.name: type(one)() for one in self if one.in_waveform})  # type: ignore[arg-type]


IMPAIRMENTS: dict[str, type[Impairment]] = {one.name: type(one) for one in Imperfections()}
"""The classes of the impairments by name."""


def impair(
    csi: ChannelInformation,
    imperfections: Imperfections,
    around: Surroundings,
    frame: Frame,
    draws: Mapping[str, Draw],
    measured: Complex | None = None,
) -> ChannelInformation:
    """Apply all impairments that have an effect, in their order.

    Args:
        csi: CSI before the impairments.
        imperfections: The impairments.
        around: Properties of channel and grid.
        frame: The resource elements of the message.
        draws: Separate random numbers for each impairment, by name, so that adding one does not change the others.
        measured: Measured residual gains of this round, complex, broadcast against the response; None if there are
            none. A file of them is read by `channels.csi.measured`.

    Raises ValueError if the response has neither the frame's blocks and subcarriers nor length 1.
    """
    match(csi.state, csi.estimate)
    blocks, subcarriers = csi.state.response.shape[2:]
    for what, length, expected in (("blocks", blocks, frame.blocks), ("subcarriers", subcarriers, frame.subcarriers)):
        if length not in (1, expected):
            raise ValueError(f"the number of {what} must be 1 or that of the frame, {expected}, got {length}")
    for one in imperfections:
        if one.present(around):
            csi = one.apply(csi, around, frame, draws[one.name])
    return csi if measured is None else with_errors(csi, measured)
