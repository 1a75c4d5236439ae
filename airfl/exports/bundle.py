"""Exports to a bundle: bundle.zip with all runs of a folder, which another machine can repeat and compare.

It is an RO-Crate 1.1. Of each run it has the resolved settings, the versions and the processor, a SHA-256 of every
variable of the trace, and the tables of `airfl.exports.csv`, whose values are exact; `airfl.exports.verify` reads it.
"""

from __future__ import annotations

import dataclasses
import hashlib
import io
import json
import tempfile
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from csv import writer as csv_writer
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airfl.config import Settings, to_json
from airfl.config.load import recorded, settings_file
from airfl.core.checkpoint.fingerprint import digest_of, recorded_files
from airfl.core.summary import summarise
from airfl.errors import UserError
from airfl.exports import csv
from airfl.exports.format import Format, signals_left_out, state_of, under_true_names
from airfl.exports.recorded_files import check_recorded
from airfl.runtime.text import inert
from airfl.storage.bundle import BUNDLE_NAME, CRATE, MANIFEST, RUNS, SCHEMA, digests, writing
from airfl.storage.trace import open_trace
from airfl.version import __version__

if TYPE_CHECKING:
    import xarray

ALONE = "run"
"""Name in the bundle of a run that is exported by itself."""
SETTINGS = "settings.toml"
SUMMARY, READ_ME = "runs.csv", "README.md"
OWN_TABLES = ("comparison.csv", "results.csv")
"""Tables that `airfl compare` and `airfl sweep` write beside the runs, which are copied."""
OWN_PARTS, OWN_TASK = "own_parts", "task"
"""Attributes of traces whose runs use code of the user's."""
CONTEXT = "https://w3id.org/ro/crate/1.1/context"
TERMS = {"sha256": "https://schema.org/sha256"}
"""Terms beyond those of RO-Crate 1.1."""
CONFORMS = "https://w3id.org/ro/crate/1.1"
PROCESS = "https://w3id.org/ro/wfrun/process/0.5"
KINDS = {".toml": "application/toml", ".csv": "text/csv", ".json": "application/json", ".md": "text/markdown"}
HOW = """# Runs of airfl {version}

This bundle holds {count}. These commands repeat {them}:

    pip install airfl=={version}
    airfl verify {bundle}

`airfl verify` runs the settings of this bundle and compares every variable of the traces: bit for bit where versions
and processor agree, and otherwise within a tolerance of each variable, which it prints.

After unpacking, a single run is repeated by itself, without a comparison:

    airfl run {example} --out again
{also}
- `{manifest}`: versions, processor, seed and command of each run, and a SHA-256 of each variable of its trace
- `{summary}`: one line per run with the settings in which the runs differ, and its figures
- `{runs}/.../{settings}`: all settings of a run, without automatic values
- `{runs}/.../rounds.csv`, `devices.csv`, `population.csv`: its trace as tables, described in `about.json`
- `{crate}`: the same as linked data (RO-Crate 1.1)
"""


def left_out(trace: xarray.Dataset) -> str | None:
    """Name the signals and the recorded files of a run, which a bundle does not hold."""
    files = recorded_files(_settings(trace))
    missing = f"{', '.join(files)} is not in the bundle, and the run depends on it; publish it as well" if files else ""
    return "; ".join(filter(None, (signals_left_out(trace, "the tables"), missing))) or None


def check(trace: xarray.Dataset) -> None:
    """Raise UserError for a run that another machine cannot repeat from its settings."""
    source, status = trace.encoding["source"], trace.attrs["status"]
    if status != "complete":
        raise UserError(
            f"{source}: the run is {state_of(status)}, and a bundle holds complete runs; finish it with "
            "--resume, or use --to csv"
        )
    own = [trace.attrs[OWN_TASK]] if OWN_TASK in trace.attrs else list(json.loads(trace.attrs.get(OWN_PARTS, "{}")))
    if own:
        raise UserError(
            f"{source}: the run uses code of your own ({', '.join(map(str, own))}), which a bundle does not hold; use "
            "--to csv, and publish the code beside it"
        )
    check_recorded(trace, _settings(trace))


def together(path: Path, traces: Sequence[tuple[Path, Path]], folder: Path) -> None:
    """Write the bundle of all runs.

    Args:
        path: Where the runs were found; tables of a comparison or a sweep there are copied.
        traces: The file of each trace, and its folder relative to `path`, which names the run.
        folder: The folder for the bundle.
    """
    entries, rows, settings = [], [], []
    with writing(folder / BUNDLE_NAME) as bundle:
        for file, relative in traces:
            with open_trace(file, cache=False) as trace:
                name = ALONE if relative == Path() else relative.as_posix()
                chosen = _settings(trace)
                entries.append(_entry(trace, name, chosen))
                settings.append(chosen)
                rows.append({"run": name, **dataclasses.asdict(summarise(trace))})
                bundle.add(f"{RUNS}/{name}/{SETTINGS}", _as_toml(chosen).encode())
                with tempfile.TemporaryDirectory(prefix="airfl-", dir=folder) as temporary:
                    csv.write(under_true_names(trace), Path(temporary))
                    for table in csv.FILES:
                        bundle.add(f"{RUNS}/{name}/{table}", Path(temporary, table))
        bundle.add(SUMMARY, _summary(rows, settings).encode())
        for name in OWN_TABLES:
            if path.is_dir() and (path / name).is_file():
                bundle.add(name, path / name)
        bundle.add(READ_ME, _read_me(entries, {str(one.task.dataset) for one in settings}).encode())
        created = max(entry["created_utc"] for entry in entries)
        manifest = {
            "schema": SCHEMA,
            "airfl_version": __version__,
            "created_utc": created,
            "verify": f"airfl verify {BUNDLE_NAME}",
            "runs": entries,
            "files": bundle.files,
        }
        text = to_json(manifest, indent=1).encode()
        bundle.describe(text, to_json(_crate(entries, bundle.files, text, created), indent=1).encode())


def _entry(trace: xarray.Dataset, name: str, settings: Settings) -> dict[str, Any]:
    """Return the description of a run in the manifest."""
    of, where = trace.attrs, f"{RUNS}/{name}/{SETTINGS}"
    return {
        "run": name,
        "scheme": str(of["scheme"]),
        "seed": settings.run.seed,
        "rounds": trace.sizes["round"],
        "stopped_early": str(of.get("stopped_early", "")),
        "created_utc": str(of["created_utc"]),
        "command": f"airfl run {where} --out again/{name}",
        "device": str(of["device"]),
        "versions": json.loads(of.get("versions", to_json({"airfl": str(of["airfl_version"])}))),
        "numerics": json.loads(of["numerics"]),
        "recorded_files": {file: digest_of(file) for file in recorded_files(settings)},
        "variables": digests(trace),
    }


def _settings(trace: xarray.Dataset) -> Settings:
    """Return the resolved settings of a trace; UserError if a settings file would not give the same."""
    try:
        settings = recorded(json.loads(trace.attrs["config"]))
        same = recorded(tomllib.loads(_as_toml(settings))).model_dump() == settings.model_dump()
    except (ValueError, UserError) as error:
        raise UserError(f"{trace.encoding['source']}: its settings cannot be read here ({error})") from None
    if not same:
        raise UserError(f"{trace.encoding['source']}: its settings cannot be written as a settings file; use --to csv")
    return settings


def _as_toml(settings: Settings) -> str:
    return settings_file(settings)


def _summary(rows: Sequence[Mapping[str, Any]], settings: Sequence[Settings]) -> str:
    """Return runs.csv: one line per run, with the settings in which the runs differ before its figures."""
    flat = [
        {f"{section}.{key}": value for section, table in one.model_dump().items() for key, value in table.items()}
        for one in settings
    ]
    keys = [key for key in dict.fromkeys(key for one in flat for key in one) if _differs(key, flat)]
    text = io.StringIO()
    table = csv_writer(text)
    table.writerow(["run", *keys, *list(rows[0])[1:]])
    for row, one in zip(rows, flat, strict=True):
        run, *figures = row.values()
        table.writerow([inert(str(run)), *(_cell(one.get(key)) for key in keys), *map(_cell, figures)])
    return text.getvalue()


def _differs(key: str, flat: Sequence[Mapping[str, Any]]) -> bool:
    return any(one.get(key) != flat[0].get(key) for one in flat)


def _cell(value: Any) -> Any:
    """Return a value for a cell: numbers as they are, None empty, others as text that no spreadsheet takes as code."""
    if value is None or isinstance(value, int | float):
        return value
    return inert(value if isinstance(value, str) else to_json(value))


def _read_me(entries: Sequence[Mapping[str, Any]], datasets: Iterable[str]) -> str:
    files = {file: digest for entry in entries for file, digest in entry["recorded_files"].items()}
    beside = [f"    {digest}  {Path(file).name}" for file, digest in files.items()]
    also = f"\nThey need the data of {', '.join(sorted(datasets))}; `airfl data path` shows where airfl looks for it.\n"
    if beside:
        also += "\nThey also need these files beside the bundle (SHA-256 and name):\n\n" + "\n".join(beside) + "\n"
    if any(entry["stopped_early"] for entry in entries):
        also += "\nA run that a callback ended (`stopped_early`) goes on to its last round in the second command.\n"
    return HOW.format(
        version=__version__,
        bundle=BUNDLE_NAME,
        count="one run" if len(entries) == 1 else f"{len(entries)} runs",
        them="it" if len(entries) == 1 else "them",
        also=also,
        example=f"{RUNS}/{entries[0]['run']}/{SETTINGS}",
        manifest=MANIFEST,
        summary=SUMMARY,
        runs=RUNS,
        settings=SETTINGS,
        crate=CRATE,
    )


def _crate(
    entries: Sequence[Mapping[str, Any]], files: Mapping[str, Mapping[str, Any]], manifest: bytes, created: str
) -> dict[str, Any]:
    """Return the metadata of an RO-Crate 1.1: the files, and of each run the action that made its tables."""
    described = {**files, MANIFEST: {"bytes": len(manifest), "sha256": hashlib.sha256(manifest).hexdigest()}}
    runs = [
        {
            "@id": f"#{entry['run']}",
            "@type": "CreateAction",
            "name": f"{entry['scheme']}, seed {entry['seed']}, {entry['rounds']} rounds",
            "description": entry["command"],
            "startTime": entry["created_utc"],
            "instrument": {"@id": f"#airfl-{entry['versions']['airfl']}"},
            "object": {"@id": f"{RUNS}/{entry['run']}/{SETTINGS}"},
            "result": [{"@id": f"{RUNS}/{entry['run']}/{table}"} for table in csv.FILES],
        }
        for entry in entries
    ]
    versions = dict.fromkeys(entry["versions"]["airfl"] for entry in entries)
    title = "One run" if len(entries) == 1 else f"{len(entries)} runs"
    root = {
        "@id": "./",
        "@type": "Dataset",
        "name": f"{title} of airfl",
        "description": f"Settings, versions, digests and tables. Verify with: airfl verify {BUNDLE_NAME}",
        "datePublished": created,
        "conformsTo": {"@id": PROCESS},
        "hasPart": [{"@id": name} for name in described],
        "mentions": [{"@id": run["@id"]} for run in runs],
    }
    descriptor = {
        "@id": CRATE,
        "@type": "CreativeWork",
        "conformsTo": {"@id": CONFORMS},
        "about": {"@id": "./"},
    }
    software = [
        {"@id": f"#airfl-{version}", "@type": "SoftwareApplication", "name": "airfl", "softwareVersion": version}
        for version in versions
    ]
    profile = {"@id": PROCESS, "@type": "CreativeWork", "name": "Process Run Crate", "version": "0.5"}
    parts = [
        {
            "@id": name,
            "@type": "File",
            "encodingFormat": KINDS[Path(name).suffix],
            "contentSize": str(one["bytes"]),
            "sha256": one["sha256"],
        }
        for name, one in described.items()
    ]
    return {"@context": [CONTEXT, TERMS], "@graph": [descriptor, root, profile, *software, *runs, *parts]}


FORMAT = Format(files=(BUNDLE_NAME,), check=check, left_out=left_out, together=together)
