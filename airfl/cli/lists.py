"""Commands that say what there is."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from airfl.cli.app import AsJson, MaybeConfig, Overrides, Plugins, print_list
from airfl.errors import UserError
from airfl.schemes.scheme import Scheme
from channels.part import parameters_of


def schemes(as_json: AsJson = False) -> None:
    """The schemes: name, link, paper."""
    from airfl.schemes.names import SCHEMES

    entries = list(SCHEMES.values())
    listing = [
        {
            "name": e.name,
            "title": e.title,
            "link": e.links[0],
            "links": list(e.links),
            "parameters": [one.name for one in parameters_of(e) if one.name != "link"],
            "file": _file_of(e),
            "paper": e.paper,
        }
        for e in entries
    ]
    print_list(listing, as_json)


def models(as_json: AsJson = False) -> None:
    """The models: name, parameters, input shape, classes."""
    from airfl.tasks.models import MODELS

    listing = [
        {
            "name": name,
            "parameters": m.parameters,
            "input_shape": list(m.input_shape),
            "classes": m.classes,
            "text": m.text,
        }
        for name, m in MODELS.items()
    ]
    print_list(listing, as_json)


def datasets(as_json: AsJson = False) -> None:
    """The data sets: name, input shape, classes, licence."""
    from airfl.tasks.datasets import DATASETS

    listing = [
        {
            "name": name,
            "input_shape": list(d.input_shape),
            "classes": d.classes,
            "text": d.text,
            "licence": d.licence,
        }
        for name, d in DATASETS.items()
    ]
    print_list(listing, as_json)


def configs(as_json: AsJson = False) -> None:
    """The settings files that come with airfl: name, what it is."""
    from airfl.shipped import configurations, title

    listing = [{"name": name, "text": title(file), "file": str(file)} for name, file in configurations().items()]
    print_list(listing, as_json)


def config(
    path: MaybeConfig = None,
    overrides: Overrides = None,
    *,
    as_toml: Annotated[bool, typer.Option("--toml", help="as a settings file to be edited, its rows included")] = False,
    schema: Annotated[bool, typer.Option("--schema", help="the JSON schema of all settings")] = False,
    plugins: Plugins = False,
) -> None:
    """Check settings and print them with defaults, or their schema."""
    from airfl.config import Settings, load_settings, to_json
    from airfl.config.load import settings_file

    if schema:
        typer.echo(to_json(Settings.model_json_schema(), indent=2))
        return
    if path is None:
        raise UserError("config: a settings file or --schema is wanted")
    if as_toml:
        typer.echo(settings_file(path, overrides or []), nl=False)
        return
    typer.echo(to_json(load_settings(path, overrides or []).model_dump(), indent=2))


def _file_of(scheme: type[Scheme]) -> str:
    """Where its class stands: below the package for those that come with it, in full for a user's own."""
    home = scheme.__module__
    return f"{home.replace('.', '/')}.py" if home.startswith("airfl.") else str(sys.modules[home].__file__)
