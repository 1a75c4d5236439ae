"""The settings of a scheme: which, over which link, and what single schemes add."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from airfl.config.names import SchemeName
from airfl.config.section import Count, Fraction, NotNegative, Scale, ScaleOrInfinite, ScaleOrZero, Section


class SchemeSettings(Section):
    """Which scheme, and how it compresses and perturbs. A key that a scheme has no use for is ignored."""

    name: SchemeName = Field("pfels", description="a name of `airfl schemes`")
    link: Literal["auto", "analog", "digital", "ideal"] = Field(
        "auto", description="what carries the messages; auto = the first of the links that `airfl schemes` gives"
    )
    ratio: Fraction = Field(1.0, description="p; k = floor(p d), at least 1; ignored by schemes that keep all")
    rescale: bool = Field(False, description="divide the decoded update by p, which makes rand-k unbiased")
    error_feedback: bool = Field(
        False, description="keep what was not sent and add it to the next update (pfels, fedavg-randk, fedavg-topk)"
    )
    noise_multiplier: ScaleOrZero | None = Field(
        None,
        description="noise over the largest contribution of a device (client level) or of a record (record level), in "
        "what is released; default: what the paper's own theorem asks for at privacy.epsilon over the whole run",
    )
    coordinate_clip: ScaleOrInfinite | None = Field(
        None,
        description="G/sqrt(d), bound on a coordinate of a record's gradient (fed-spa, dp-fed), inf for none; default: "
        "the median over an initial round",
    )
    gradient_clip: ScaleOrInfinite = Field(
        1.0, description="G, bound on the l2 norm of a gradient (soteriafl and kin); inf = no clipping"
    )
    clip: Literal["sample", "batch"] = Field(
        "sample",
        description="what gradient_clip bounds: every record's gradient, or the mini-batch's mean as SoteriaFL's "
        "public code does, which costs a sensitivity of 2G instead of 2G/b",
    )
    gamma: NotNegative | None = Field(None, description="shift step of SoteriaFL; default that of its theorem 3")
    refresh: Fraction | None = Field(None, description="probability that SVRG moves its snapshot; default b/m")
    noise_constant: Scale = Field(48.0, description="c of SoteriaFL's eq. 4; its public code amounts to 48")
    levels: int = Field(256, ge=2, description="k, quantisation levels of cpsgd")
    trials: int | None = Field(
        None, ge=1, description="m, trials of a device's binomial noise in cpsgd; default: the fewest with a guarantee"
    )
    rotation: bool = Field(False, description="random rotation before quantising, in cpsgd")
    quantiser_bound: Scale | None = Field(None, description="X_max of cpsgd's quantiser; default by its theorems")
    sparsity: Fraction | None = Field(
        None, description="share of coordinates that a-dsgd keeps before projecting; default a quarter of ratio"
    )
    sign_step: Scale = Field(1e-3, description="what obda moves a parameter by for a majority vote")
    iterations: Count = Field(25, description="of a-dsgd's decoder")
