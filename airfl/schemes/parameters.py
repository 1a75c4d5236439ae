"""Parameters that several schemes share."""

from __future__ import annotations

from typing import Any

from channels.part import LEAST_SCALE, MOST_SCALE, parameter

MOST_CHIPS = 64
"""Largest number of chips, each of which is another message on the air."""


def ratio() -> Any:
    """Return the compression ratio p."""
    return parameter(1.0, gt=0, le=1, description="p, the fraction of coordinates kept; k = floor(p d), at least 1")


def rescale() -> Any:
    """Return the switch for rescaling by 1/p."""
    return parameter(False, description="divide the decoded update by p, which makes rand-k unbiased")


def error_feedback() -> Any:
    """Return the switch for error feedback."""
    return parameter(False, description="keep the residual that was not sent and add it to the next update")


def sign_step() -> Any:
    """Return the step of majority votes."""
    return parameter(
        default=1e-3, ge=LEAST_SCALE, le=MOST_SCALE, description="step by which a majority vote moves a parameter"
    )


def public_steps() -> Any:
    """Return the number of the server's steps on public data."""
    return parameter(
        None,
        ge=1,
        description="mini-batches of public data that the server trains on in a round to select coordinates; default: "
        "as many as a device with the mean number of samples",
    )


def chips() -> Any:
    """Return the number of chips of a codeword on a non-coherent link."""
    return parameter(
        1,
        ge=1,
        le=MOST_CHIPS,
        description="L, how often an energy is sent, each time with 1/L of it on another element; averages over fades",
    )


def entry_range() -> Any:
    """Return the range of the entries of an update on a non-coherent link."""
    return parameter(
        3.0,
        ge=LEAST_SCALE,
        le=MOST_SCALE,
        description="largest magnitude v of an entry that is sent, over C/sqrt(d), the rms entry for norm C",
    )


def noise_multiplier() -> Any:
    """Return the noise multiplier, noise over sensitivity."""
    return parameter(
        None,
        ge=LEAST_SCALE,
        le=MOST_SCALE,
        also=(0.0,),
        description="ratio of the noise standard deviation in the release to the largest contribution of a device "
        "(client level) or of a record (record level); default: the value that the paper's theorem requires for "
        "privacy.epsilon over the whole run",
    )


def coordinate_clip() -> Any:
    """Return the coordinate bound c = G/sqrt(d) of Fed-SPA."""
    return parameter(
        None,
        ge=LEAST_SCALE,
        le=MOST_SCALE,
        also=(float("inf"),),
        description="G/sqrt(d), bound on each coordinate of a record's gradient, inf for no bound; default: the median "
        "over an initial round",
    )


def gamma() -> Any:
    """Return the shift step gamma of SoteriaFL."""
    return parameter(
        None, ge=0, description="step size of SoteriaFL's shifts, at least 0; default: the value of its theorem 3"
    )


def replacement() -> Any:
    """Return the switch for mini-batches with replacement."""
    return parameter(
        False,
        description="draw mini-batches with replacement, as SoteriaFL's public code does; with noise only where "
        "scheme.clip = batch",
    )


def refresh() -> Any:
    """Return the refresh probability p of SVRG."""
    return parameter(None, gt=0, le=1, description="probability that SVRG refreshes its snapshot; default: b/m")
