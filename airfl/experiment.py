"""Experiments as Python objects: the task, the scheme and the radio.

    experiment = airfl.Experiment(
        scheme=airfl.schemes.Pfels(ratio=0.3),
        local=airfl.LocalSgd(steps=5, clip_norm=1.0),
        radio=airfl.Radio(fading=fading.Rician(k=5.0), max_snr_db=[25.0, 35.0]),
        rounds=150,
        devices=1000,
        selected=32,
    )
    airfl.run(experiment)

`Experiment.load` creates an experiment from a settings file. If all its parts are registered by name, `Experiment.save`
writes it to a settings file, and loading that file gives an equal experiment.
"""

from __future__ import annotations

import inspect
import json
import sys
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

from airfl.config.arguments import public
from airfl.config.given import (
    RADIO_SECTIONS,
    Config,
    Configuration,
    Overrides,
    Tables,
    as_plain,
    changes_of,
    tables_from,
    task_of,
)
from airfl.config.load import load_settings, settings_file, tables_given, validate
from airfl.config.part_keys import keys_of
from airfl.config.plugins import REGISTRIES, from_plugin
from airfl.config.radio import FADING, POLICY
from airfl.config.radio_sections import RadioSections
from airfl.config.section import Section, attribute_lines, public_name
from airfl.config.settings import Settings
from airfl.errors import UserError, nearest
from airfl.learning.chosen_task import with_task
from airfl.runtime.notebook.html import html_table
from airfl.storage.fingerprint import parts_of
from airfl.storage.output_files import replace_text
from channels.part import Part

if TYPE_CHECKING:
    from airfl.learning.own_task import Task

SECTIONS: dict[str, type[Section]] = {
    name: field.annotation
    for name, field in Settings.model_fields.items()
    if isinstance(field.annotation, type) and issubclass(field.annotation, Section)
}
"""The sections of a settings file, except those that hold a single part."""
RUN_KEYS = tuple(SECTIONS["run"].model_fields)
"""The keys of [run], which are arguments of an experiment."""
REQUIRED: Tables = {"local": {"steps": 1, "clip_norm": 1.0}}
"""Settings without defaults, which validation requires in addition to a radio."""


def _radio_keys() -> dict[str, str]:
    """Return argument of a radio -> its section, for the keys of [channel] and [power] that belong to no part."""
    part_keys = {*keys_of(FADING.registry), *keys_of(POLICY.registry), "fading", "policy"}
    return {
        key: section
        for section in ("channel", "power")
        for key in SECTIONS[section].model_fields
        if key not in part_keys
    }


RADIO_KEYS = _radio_keys()


class _Keywords:
    """Base class of immutable objects with keyword arguments, which are declared in the sections of the settings."""

    def _assign(self, **attributes: Any) -> None:
        vars(self).update(attributes)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__} is immutable; create a new one")

    @classmethod
    def _signature(cls, own: Iterable[str], more: Iterable[str]) -> inspect.Signature:
        keyword = inspect.Parameter.KEYWORD_ONLY
        return inspect.Signature([inspect.Parameter(name, keyword, default=None) for name in (*own, *more)])

    @classmethod
    def _check(cls, names: Iterable[str], allowed: Iterable[str], positional: Sequence[Any] = ()) -> None:
        known = list(allowed)
        if positional:
            raise UserError(f"{cls.__name__}: takes keyword arguments only, such as {known[0]}=...")
        for name in names:
            if name not in known:
                raise UserError(
                    f"{cls.__name__}: unknown argument {name!r}{nearest(name, known)} (allowed: {', '.join(known)})"
                )


@final
class Radio(_Keywords):
    """The radio of an experiment. It takes keyword arguments only, with the defaults of settings files.

    Attributes:
        sections: The settings of the radio as sections, each of which is also an attribute.
        channel: Fading, receiver noise and units, as in the section [channel].
        power: Power limits of the devices, and power control, as in [power].
        topology: Positions of the devices, and path loss (`airfl.Topology`).
        blockage: Blockage of paths by people, vehicles and machines (`airfl.Blockage`).
        csi: Channel state information (`airfl.Csi`).
        antennas: The antennas of the receiver (`airfl.Antennas`).
        surface: A reconfigurable intelligent surface (`airfl.Surface`).
        grid: The OFDM resource grid, and the downlink (`airfl.Grid`).
        digital: Transmission of bits (`airfl.Digital`).
        hardware: Hardware of the radios (`airfl.Hardware`).
    """

    sections: RadioSections

    def __init__(self, *positional: Any, fading: Any = None, power: Any = None, **settings: Any) -> None:
        """Create a radio.

        Args:
            fading: A fading law or channel of `channels.fading`, its name, a table of its name and parameters, or a
                function that returns H.
            power: A power policy of `channels.power`, its name, or a table of its name and parameters.
            settings: Keys of [channel] and [power], such as max_snr_db, and topology, blockage, csi, antennas, surface,
                grid, digital and hardware as objects or mappings.

        Raises UserError for invalid arguments.
        """
        sections = [name for name in RADIO_SECTIONS if name not in ("channel", "power")]
        self._check(settings, ["fading", "power", *RADIO_KEYS, *sections], positional)
        tables: Tables = {"channel": {}, "power": {}}
        if fading is not None:
            tables["channel"]["fading"] = fading
        if power is not None:
            tables["power"]["policy"] = power
        for name, value in settings.items():
            if value is None:
                continue
            if name in sections:
                tables[name] = _table(name, value)
            else:
                tables[RADIO_KEYS[name]][name] = as_plain(value)
        self._assign(sections=validate({**REQUIRED, **tables}, source="Radio").radio)

    @classmethod
    def of(cls, sections: RadioSections) -> Radio:
        """Create a radio from its sections."""
        radio = object.__new__(cls)
        radio._assign(sections=sections)
        return radio

    def __getattr__(self, name: str) -> Any:
        if name in RADIO_SECTIONS:
            return getattr(self.sections, name)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __dir__(self) -> list[str]:
        return [*RADIO_SECTIONS, "sections", "of"]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Radio) and self.sections == other.sections

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        arguments = []
        for name in RADIO_SECTIONS:
            section = getattr(self.sections, name)
            changed = dict(section.__repr_args__())
            if name == "channel":
                arguments += _arguments(changed, FADING.of(section), "fading", FADING.default, FADING.registry)
            elif name == "power":
                arguments += _arguments(changed, POLICY.of(section), "policy", POLICY.default, POLICY.registry, "power")
            elif changed:
                arguments.append(f"{name}={section!r}")
        return f"Radio({', '.join(arguments)})"


def _arguments(
    changed: dict[str, Any], part: Part, slot: str, default: str, registry: Any, argument: str = ""
) -> list[str]:
    """Return the arguments of a section for `repr`: the part, and the changed keys that are not parameters of parts."""
    part_keys = {slot, *keys_of(registry)}
    is_default = part.name == default and not part.changed()
    first = [] if is_default else [f"{argument or slot}={part!r}"]
    return [*first, *(f"{key}={value!r}" for key, value in changed.items() if key not in part_keys)]


@final
class Experiment(Configuration, _Keywords):
    """A complete description of a run, as objects. It takes keyword arguments only.

    Attributes:
        scheme: The scheme (a class of `airfl.schemes`).
        task: The learning task: an `airfl.Task` of your own, or an `airfl.NamedTask`.
        local: Local training (`airfl.LocalSgd`).
        selection: Selection of the devices of a round (`airfl.Selection`).
        radio: The radio (`airfl.Radio`).
        server: Server optimizer, and weights of the mean update (`airfl.Server`).
        privacy: The privacy target, and its accounting (`airfl.Privacy`).
        compute: Cost of local computation (`airfl.Compute`).
        trace: Optional contents of the trace (`airfl.Trace`).
        settings: The same settings as the sections of a settings file.
    """

    _settings: Settings
    _own_task: Task | None

    _PARTS = ("scheme", "task", "local", "selection", "radio", "server", "privacy", "compute", "trace")

    def __init__(
        self,
        *positional: Any,
        local: Any = None,
        scheme: Any = None,
        task: Any = None,
        selection: Any = None,
        radio: Any = None,
        server: Any = None,
        privacy: Any = None,
        compute: Any = None,
        trace: Any = None,
        **run: Any,
    ) -> None:
        """Create an experiment. Arguments that are left out have the defaults of settings files.

        Args:
            local: An `airfl.LocalSgd`, or a mapping of its arguments.
            scheme: A scheme, its class, or its name.
            task: An `airfl.Task` or `airfl.NamedTask`.
            selection: An `airfl.Selection`, a selection rule, or its name.
            radio: An `airfl.Radio`, or a mapping of its arguments.
            server: An `airfl.Server`, or a mapping of its arguments.
            privacy: An `airfl.Privacy`, or a mapping of its arguments.
            compute: An `airfl.Compute`, or a mapping of its arguments.
            trace: An `airfl.Trace`, or a mapping of its arguments.
            run: Keys of [run]: rounds, devices, selected, seed, evaluate_every and the rest.

        Raises UserError for invalid arguments.
        """
        self._check(run, [*self._PARTS, *RUN_KEYS], positional)
        tables: Tables = {"run": {name: as_plain(value) for name, value in run.items() if value is not None}}
        sections = {"server": server, "privacy": privacy, "compute": compute, "trace": trace, "local": local}
        for name, value in sections.items():
            if value is not None:
                tables[name] = _table(name, value)
        if selection is not None:
            is_rule = not isinstance(selection, Mapping | Section)
            tables["selection"] = {"kind": selection} if is_rule else _table("selection", selection)
        if scheme is not None:
            tables |= tables_from({"scheme": scheme})
        if radio is not None:
            tables |= tables_given({"radio": radio})
        is_named = task is None or isinstance(task, Mapping | Section)
        if task is not None and is_named:
            tables["task"] = _table("task", task)
        self._set(validate(tables, source="Experiment"), None if is_named else _user_task(task))

    @classmethod
    @public
    def load(cls, config: Config, overrides: Overrides = (), *, plugins: bool = False) -> Experiment:
        """Load an experiment from a configuration, in any of the forms that `airfl.load_settings` takes.

        Args:
            config: The name or path of a settings file, a dict of tables, settings, or an experiment.
            overrides: As in `airfl.load_settings`.
            plugins: As in `airfl.load_settings`.

        Raises UserError for invalid settings.
        """
        return cls.of(load_settings(config, overrides, plugins=plugins), task_of(config, None, changes_of(overrides)))

    @classmethod
    def of(cls, settings: Settings, task: Task | None = None) -> Experiment:
        """Create an experiment from settings and, optionally, a user-defined task."""
        experiment = object.__new__(cls)
        experiment._set(settings, task)
        return experiment

    def replace(self, **changes: Any) -> Experiment:
        """Return a copy with some arguments replaced as a whole: replace(rounds=10, scheme="fedavg")."""
        self._check(changes, [*self._PARTS, *RUN_KEYS])
        run = {name: getattr(self.settings.run, name) for name in RUN_KEYS}
        parts = {name: getattr(self, name) for name in self._PARTS}
        replaced = Experiment(**{**parts, "task": self.settings.task, **run, **changes})
        if "task" in changes or self.own_task is None:
            return replaced
        return Experiment.of(replaced.settings, self.own_task)

    def save(self, path: str | Path, *, everything: bool = False, overwrite: bool = False) -> Path:
        """Write the experiment to a settings file, from which `Experiment.load` and all commands read equal settings.

        If a part is defined in a plugin file, the settings file names the plugin file, and must be loaded with
        `plugins=True` or `--plugins`.

        Args:
            path: The file, NAME.toml.
            everything: Write all settings instead of only those that differ from their defaults.
            overwrite: Overwrite an existing file.

        Returns:
            The path.

        Raises UserError if a part is not registered by name, or if the file exists.
        """
        file = Path(path)
        self._check_named()
        if file.exists() and not overwrite:
            raise UserError(f"{file}: already exists; choose another name or pass overwrite=True")
        unequal = f"{file}: no settings file can represent these settings exactly; use them from Python"
        try:
            text = settings_file(self.settings, changed=not everything)
        except TypeError:  # TOML has no null, so that a None that is not the default cannot be written
            raise UserError(unequal) from None
        if load_settings(tomllib.loads(text)) != self.settings:
            raise UserError(unequal)
        plugins = sorted({str(sys.modules[name].__file__) for name in self._plugins()})
        try:
            replace_text(file, f"plugins = {json.dumps(plugins)}\n\n{text}" if plugins else text)
        except OSError as error:
            raise UserError(f"{file}: cannot be written ({error.strerror})") from None
        return file

    def _plugins(self) -> list[str]:
        """Return the modules of the plugin files that define parts of this experiment."""
        return [type(part).__module__ for part in parts_of(self.settings).values() if from_plugin(type(part))]

    def _check_named(self) -> None:
        """Raise UserError if a part is not registered by name."""
        if self.own_task is not None:
            raise UserError(
                f"save: the task {self.own_task.name!r} is user-defined, which a settings file cannot represent; keep "
                "the script that creates the experiment instead"
            )
        for slot, part in parts_of(self.settings).items():
            if not any(registry.get(part.name) is type(part) for registry in REGISTRIES):
                raise UserError(
                    f"save: {slot} = {part!r} is not registered by name; give its class a name and register it "
                    "(@airfl.register, or a plugin file)"
                )

    def _set(self, settings: Settings, task: Task | None) -> None:
        self._assign(_settings=with_task(settings, task), _own_task=task)

    @property
    def settings(self) -> Settings:
        """The settings of the experiment, as the sections of a settings file."""
        return self._settings

    @property
    def own_task(self) -> Task | None:
        """The user-defined task, or None if the settings name the task."""
        return self._own_task

    @property
    def task(self) -> Any:
        """The learning task: an `airfl.Task` of your own, or an `airfl.NamedTask`."""
        return self._settings.task if self._own_task is None else self._own_task

    @property
    def radio(self) -> Radio:
        """The radio of the experiment."""
        return Radio.of(self._settings.radio)

    def __getattr__(self, name: str) -> Any:
        settings = self.__dict__.get("_settings")
        if settings is not None:
            if name in ("scheme", "local", "selection", "server", "privacy", "compute", "trace"):
                return getattr(settings, name)
            if name in RUN_KEYS:
                return getattr(settings.run, name)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __dir__(self) -> list[str]:
        return [*self._PARTS, *RUN_KEYS, "settings", "own_task", "load", "of", "replace", "save"]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Experiment) and self.settings == other.settings and self.own_task is other.own_task

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        arguments = [f"scheme={self.scheme!r}"]
        for name in ("task", "local", "selection", "radio", "server", "privacy", "compute", "trace"):
            value = getattr(self, name)
            empty = f"{type(value).__name__}()"
            arguments += [f"{name}={value!r}"] if repr(value) != empty else []
        arguments += [f"{key}={value!r}" for key, value in self.settings.run.__repr_args__()]
        return f"Experiment({', '.join(arguments)})"

    def _repr_html_(self) -> str:
        """Return the settings that differ from their defaults as a table, for notebooks."""
        rows = [(name, _shown(getattr(self, name))) for name in self._PARTS]
        return html_table("Experiment", [*rows, ("run", _shown(self.settings.run))])


def _shown(value: Any) -> str:
    """Return a part or section for the table of an experiment."""
    changed = value.__repr_args__() if isinstance(value, Section) else None
    if changed is None:
        return repr(value)
    return ", ".join(f"{key}={one!r}" for key, one in changed) or "defaults"


def _table(name: str, value: Any) -> Tables:
    """Convert a section to a table. Raises UserError for an invalid type."""
    kind = SECTIONS[name]
    if isinstance(value, kind):
        return dict(value)
    if isinstance(value, Mapping):
        return dict(tables_from({name: value})[name])
    raise UserError(f"{name} must be {public_name(kind)} or a mapping of its arguments, got {value!r}")


def _user_task(task: Any) -> Task:
    from airfl.learning.own_task import Task

    if not isinstance(task, Task):
        raise UserError(f"task must be an airfl.Task or an airfl.NamedTask, got {task!r}")
    return task


def _document(kind: type[_Keywords], own: Iterable[str], more: Mapping[str, str]) -> None:
    """Add the arguments that sections declare to the signature and docstring of a class.

    Args:
        kind: The class.
        own: Its other arguments.
        more: Argument -> the section that declares it.
    """
    kind.__signature__ = kind._signature(own, more)  # type: ignore[attr-defined]
    lines = [line for key, name in more.items() for line in attribute_lines(SECTIONS[name], [key])]
    kind.__doc__ = "\n".join([inspect.cleandoc(kind.__doc__ or ""), "", "Further arguments:", *lines])


_document(Radio, ("fading", *RADIO_SECTIONS[1:]), RADIO_KEYS)
_document(Experiment, Experiment._PARTS, dict.fromkeys(RUN_KEYS, "run"))
