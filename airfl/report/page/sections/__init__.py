"""The sections of the page, one per file. Each turns the view into the values for templates/NAME.html."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from airfl.report.page.sections.comparison import comparison
from airfl.report.page.sections.equal_cost import equal_cost
from airfl.report.page.sections.fronts import fronts
from airfl.report.page.sections.header import header
from airfl.report.page.sections.learning import learning
from airfl.report.page.sections.privacy import privacy
from airfl.report.page.sections.settings import settings
from airfl.report.page.sections.swept import swept
from airfl.report.page.view import PageView


@dataclass(frozen=True)
class PageSection:
    """A section of the page.

    Attributes:
        name: Its anchor in the page, and the name of its template.
        heading: Its heading; "" for the section at the top.
        build: Returns the values for its template, there named `it`; an empty result leaves the section out.
    """

    name: str
    heading: str
    build: Callable[[PageView], dict[str, Any]]


# In the order of the page.
SECTIONS = (
    PageSection("top", "", header),
    PageSection("comparison", "Comparison", comparison),
    PageSection("learning", "Learning", learning),
    PageSection("swept", "Swept settings", swept),
    PageSection("fronts", "Pareto fronts", fronts),
    PageSection("privacy", "Privacy, claimed and accounted", privacy),
    PageSection("equal-cost", "At equal cost", equal_cost),
    PageSection("settings", "Settings", settings),
)
