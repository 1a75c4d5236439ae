"""Everything that makes channel knowledge imperfect, in the order in which it happens."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace

from channels.csi.ageing import Ageing
from channels.csi.estimation import Estimation
from channels.csi.feedback import Feedback
from channels.csi.frequency import FrequencyOffset
from channels.csi.impairment import Impairment, Surroundings
from channels.csi.knowledge import Knowledge, match
from channels.csi.phase import ResidualPhase
from channels.csi.timing import TimingOffset
from channels.draws import Draw
from channels.frame import Frame


@dataclass(frozen=True)
class Imperfections:
    """What makes channel knowledge imperfect; the defaults leave it perfect.

    The fields are in the order in which they are applied: the channel is estimated and fed back, then goes on changing.
    Estimation and feedback change what is known, the others what is true.

    Attributes:
        estimation: From pilots.
        feedback: In a few bits.
        ageing: Between estimation and transmission.
        phase: Of oscillators.
        timing: Of arrival.
        frequency: Of carriers.
    """

    estimation: Estimation = field(default_factory=Estimation)
    feedback: Feedback = field(default_factory=Feedback)
    ageing: Ageing = field(default_factory=Ageing)
    phase: ResidualPhase = field(default_factory=ResidualPhase)
    timing: TimingOffset = field(default_factory=TimingOffset)
    frequency: FrequencyOffset = field(default_factory=FrequencyOffset)

    def __iter__(self) -> Iterator[Impairment]:
        return (getattr(self, one.name) for one in fields(self))

    def present(self, around: Surroundings) -> bool:
        """Whether any of them does anything there."""
        return any(one.present(around) for one in self)

    def check_within(self, around: Surroundings) -> None:
        """Raise ValueError, one line, where one does not go with these surroundings."""
        for one in self:
            one.check_within(around)

    @property
    def beside_a_waveform(self) -> Imperfections:
        """Those that a waveform made in time does not have in it already."""
        return replace(self, **{one.name: type(one)() for one in self if one.in_waveform})  # type: ignore[arg-type]


IMPAIRMENTS: dict[str, type[Impairment]] = {one.name: type(one) for one in Imperfections()}
"""The class of each, by its name."""


def impair(
    knowledge: Knowledge, imperfections: Imperfections, around: Surroundings, frame: Frame, draws: Mapping[str, Draw]
) -> Knowledge:
    """Put all impairments that are present upon a channel, in their order.

    Args:
        knowledge: Of the channel as it is.
        imperfections: The impairments.
        around: What they need to know of channel and grid.
        frame: The resource elements of the message.
        draws: Numbers of its own for each impairment, by name, so that adding one moves no other's numbers.

    Raises ValueError if the response fits neither the frame's blocks and subcarriers nor length 1.
    """
    match(knowledge.state, knowledge.estimate)
    blocks, subcarriers = knowledge.state.response.shape[2:]
    for what, found, wanted in (("blocks", blocks, frame.blocks), ("subcarriers", subcarriers, frame.subcarriers)):
        if found not in (1, wanted):
            raise ValueError(f"the channel has {found} {what}, the frame {wanted}: give 1 or {wanted}")
    for one in imperfections:
        if one.present(around):
            knowledge = one.apply(knowledge, around, frame, draws[one.name])
    return knowledge
