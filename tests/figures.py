"""Sweeps for tests of figures, and the panels of the figures."""

from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from airfl.analysis.results import Results
from airfl.analysis.results.digest import keep
from airfl.analysis.results.sweep_folder import Entry, Listing, write_listing
from airfl.report.paper.figures import find_figure
from tests.conftest import fitting, small_settings
from tests.small_data import run


def sweep(root: Path, points: Sequence[Mapping[str, Any]], seeds: Sequence[int], *others: str) -> Path:
    """Run a sweep and return its folder.

    The key "label" of a point is its label. Keys that a point's scheme does not have are dropped, and a point that is
    then a duplicate is left out.
    """
    entries, there = [], []
    for place, point in enumerate(points):
        own = fitting(point.get("scheme.name", "pfels"), [f"{key}=" for key in point if key != "label"])
        values = {key: value for key, value in point.items() if f"{key}=" in own or key == "scheme.name"}
        if (point.get("label"), values) in there:
            continue
        there.append((point.get("label"), values))
        for seed in seeds:
            name, texts = f"point-{place}-{seed}", [f"{key}={value}" for key, value in values.items()]
            run(small_settings(*others, *texts, f"run.seed={seed}"), root / name)
            keep(root / name)  # cached, so that no test reads the traces again
            entries.append(Entry(name, str(point.get("label", "")), values, seed))
    write_listing(Listing(root, tuple(entries)))
    return root


def panels(name: str, results: Results) -> list[Axes]:
    """Return the panels of a paper's figure, drawn on one canvas."""
    entry = find_figure(name)
    figure = Figure(figsize=(entry.width, 2))
    import_module(f"airfl.report.paper.{entry.module}").draw(figure, results, **entry.options)
    return list(figure.axes)
