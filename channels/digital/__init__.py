"""Digital links over orthogonal resource elements: OFDMA with its rates, errors, retransmissions and costs. A new
allocation or error model is one function or file and one line in its table."""

from channels.digital.allocation import ALLOCATIONS, Allocation
from channels.digital.error_models import ERROR_MODELS, ErrorModel
from channels.digital.mcs import mcs_rate
from channels.digital.nr_tables import nr_block_error_rate
from channels.digital.send import check_digital, send
from channels.digital.task import DigitalOutcome, DigitalParameters, DigitalTask

__all__ = [
    "ALLOCATIONS",
    "ERROR_MODELS",
    "Allocation",
    "DigitalOutcome",
    "DigitalParameters",
    "DigitalTask",
    "ErrorModel",
    "check_digital",
    "mcs_rate",
    "nr_block_error_rate",
    "send",
]
