"""Channel state information (CSI): the true channel, its estimate, and impairments.

To add an impairment, add a module here and a field of `Imperfections`.
"""

from channels.csi.ageing import Ageing
from channels.csi.estimation import Estimation
from channels.csi.feedback import Feedback
from channels.csi.frequency import FrequencyOffset
from channels.csi.impairment import Impairment, Surroundings
from channels.csi.imperfections import IMPAIRMENTS, Imperfections, impair
from channels.csi.information import ChannelInformation, match, perfect_csi
from channels.csi.offsets import Offsets
from channels.csi.oscillator import PhaseNoise
from channels.csi.phase import ResidualPhase
from channels.csi.state import ChannelEstimate, ChannelState, LineOfSight, Response, received_power
from channels.csi.synchronisation import SynchronisationErrors
from channels.csi.timing import TimingOffset

__all__ = [
    "IMPAIRMENTS",
    "Ageing",
    "ChannelEstimate",
    "ChannelInformation",
    "ChannelState",
    "Estimation",
    "Feedback",
    "FrequencyOffset",
    "Impairment",
    "Imperfections",
    "LineOfSight",
    "Offsets",
    "PhaseNoise",
    "ResidualPhase",
    "Response",
    "Surroundings",
    "SynchronisationErrors",
    "TimingOffset",
    "impair",
    "match",
    "perfect_csi",
    "received_power",
]
