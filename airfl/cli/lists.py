"""Commands that list schemes, models, data sets and configurations, and print settings."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from airfl.cli.app import AsJson, MaybeConfig, Overrides, Plugins, print_list
from airfl.errors import UserError
from airfl.schemes.scheme import Scheme
from channels.part import REQUIRED, Part, Registry, parameters_of

if TYPE_CHECKING:
    from airfl.learning.tasks.datasets.dataset import Dataset
    from airfl.learning.tasks.models.model import Model

P = TypeVar("P", bound=Part)


def schemes(as_json: AsJson = False) -> None:
    """List the schemes: name, link, paper."""
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
    """List the models: name, parameters, input shape, classes."""
    from airfl.learning.tasks.models import MODELS

    listing = [
        {
            "name": name,
            "parameters": m.parameters,
            "input_shape": list(m.input_shape),
            "classes": m.classes,
            "text": text_of(m),
        }
        for name, m in _instances(MODELS)
    ]
    print_list(listing, as_json)


def datasets(as_json: AsJson = False) -> None:
    """List the data sets: name, input shape, classes, licence."""
    from airfl.learning.tasks.datasets import DATASETS

    listing = [
        {
            "name": name,
            "input_shape": list(d.input_shape),
            "classes": d.classes,
            "text": text_of(d),
            "licence": d.licence,
        }
        for name, d in _instances(DATASETS)
    ]
    print_list(listing, as_json)


def configs(as_json: AsJson = False) -> None:
    """List the settings files that come with airfl."""
    from airfl.storage.resources import configurations, title

    listing = [{"name": name, "text": title(file), "file": str(file)} for name, file in configurations().items()]
    print_list(listing, as_json)


def config(
    path: MaybeConfig = None,
    overrides: Overrides = None,
    *,
    as_toml: Annotated[bool, typer.Option("--toml", help="print as a settings file, including its rows")] = False,
    schema: Annotated[bool, typer.Option("--schema", help="print the JSON schema of all settings")] = False,
    plugins: Plugins = False,
) -> None:
    """Check settings and print them, or their schema."""
    from airfl.config import Settings, load_settings, to_json
    from airfl.config.load import settings_file

    if schema:
        typer.echo(to_json(Settings.model_json_schema(), indent=2))
        return
    if path is None:
        raise UserError("config: CONFIG is missing; give a settings file or --schema")
    if as_toml:
        typer.echo(settings_file(path, overrides or []), nl=False)
        return
    typer.echo(to_json(load_settings(path, overrides or []).model_dump(), indent=2))


def _instances(registry: Registry[P]) -> Iterator[tuple[str, P]]:
    """Yield the parts of a registry with default parameters, except those with a required parameter."""
    for name, part in registry.items():
        if all(one.default is not REQUIRED for one in parameters_of(part)):
            yield name, part()


def text_of(part: Model | Dataset) -> str:
    """Return a description of one line."""
    return part.text or (type(part).__doc__ or "").partition("\n")[0]


def _file_of(scheme: type[Scheme]) -> str:
    """Return the source file of a scheme: relative for built-in ones, the full path for user-defined ones."""
    module = scheme.__module__
    return f"{module.replace('.', '/')}.py" if module.startswith("airfl.") else str(sys.modules[module].__file__)
