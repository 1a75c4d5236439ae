"""Channel state and what is known of it. A new impairment is one file beside this one and one line in the table."""

from collections.abc import Mapping

from channels.csi.ageing import AGEING
from channels.csi.estimation import ESTIMATION, pilots_charged
from channels.csi.feedback import FEEDBACK
from channels.csi.frequency import FREQUENCY
from channels.csi.knowledge import CsiParameters, Impairment, Knowledge, check_csi, match, perfect_knowledge
from channels.csi.offsets import Offsets
from channels.csi.phase import PHASE
from channels.csi.state import ChannelEstimate, ChannelState, LineOfSight, Response, received_power
from channels.csi.timing import TIMING
from channels.draws import Draw
from channels.frame import Frame

# In the order in which they are applied: the channel is estimated and fed back, then goes on changing. Estimation and
# feedback change what is known, the others what is true.
IMPAIRMENTS: dict[str, Impairment] = {
    "estimation": ESTIMATION,
    "feedback": FEEDBACK,
    "ageing": AGEING,
    "phase": PHASE,
    "timing": TIMING,
    "frequency": FREQUENCY,
}


def impair(knowledge: Knowledge, parameters: CsiParameters, frame: Frame, draws: Mapping[str, Draw]) -> Knowledge:
    """All impairments that the parameters ask for, in the table's order.

    draws: one of its own for each, by name, so that adding an impairment moves no other's numbers. ValueError if the
    response fits neither the frame's blocks and subcarriers nor length 1.
    """
    match(knowledge.state, knowledge.estimate)
    blocks, subcarriers = knowledge.state.response.shape[2:]
    for what, found, wanted in (("blocks", blocks, frame.blocks), ("subcarriers", subcarriers, frame.subcarriers)):
        if found not in (1, wanted):
            raise ValueError(f"the channel has {found} {what}, the frame {wanted}: give 1 or {wanted}")
    for name, impairment in IMPAIRMENTS.items():
        if impairment.present(parameters):
            knowledge = impairment.apply(knowledge, parameters, frame, draws[name])
    return knowledge


__all__ = [
    "IMPAIRMENTS",
    "ChannelEstimate",
    "ChannelState",
    "CsiParameters",
    "Impairment",
    "Knowledge",
    "LineOfSight",
    "Offsets",
    "Response",
    "check_csi",
    "impair",
    "match",
    "perfect_knowledge",
    "pilots_charged",
    "received_power",
]
