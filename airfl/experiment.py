"""An experiment, made of objects: what is learned, by which scheme, over which radio.

    experiment = airfl.Experiment(
        scheme=airfl.schemes.Pfels(ratio=0.3),
        local=airfl.LocalSgd(steps=5, clip_norm=1.0),
        radio=airfl.Radio(fading=fading.Rician(k=5.0), max_snr_db=[25.0, 35.0]),
        rounds=150,
        devices=1000,
        selected=32,
    )
    airfl.run(experiment)

A settings file is another way to make one, `Experiment.load`. One that is made of named parts can be written to a file,
`Experiment.save`, and reads back equal.
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
    OF_THE_RADIO,
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
from airfl.config.radio import FADING, POLICY
from airfl.config.radio_sections import RadioSections
from airfl.config.section import Section, attribute_lines, called
from airfl.config.settings import Settings
from airfl.errors import UserError, nearest
from airfl.fingerprint import parts_of
from airfl.output import replace_text
from airfl.plugins import REGISTRIES, from_plugin
from airfl.tasks import with_task
from channels.part import Part

if TYPE_CHECKING:
    from airfl.tasks.own import Task

SECTIONS: dict[str, type[Section]] = {
    name: field.annotation
    for name, field in Settings.model_fields.items()
    if isinstance(field.annotation, type) and issubclass(field.annotation, Section)
}
"""Of a settings file, but for those that are a part."""
OF_A_RUN = tuple(SECTIONS["run"].model_fields)
"""The keys of [run], which are arguments of an experiment."""
LEAST: Tables = {"local": {"steps": 1, "clip_norm": 1.0}}
"""What settings need beside a radio."""


def _keys_of_the_radio() -> dict[str, str]:
    """Argument of a radio -> its section: those of [channel] and [power] that belong to no part."""
    of_parts = {*keys_of(FADING.registry), *keys_of(POLICY.registry), "fading", "policy"}
    return {
        key: section
        for section in ("channel", "power")
        for key in SECTIONS[section].model_fields
        if key not in of_parts
    }


RADIO_KEYS = _keys_of_the_radio()


class _Keywords:
    """A class whose arguments are given by name, each of them once declared elsewhere."""

    def _keep(self, **attributes: Any) -> None:
        vars(self).update(attributes)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__} cannot be changed; make another one")

    @classmethod
    def _signature(cls, own: Iterable[str], more: Iterable[str]) -> inspect.Signature:
        keyword = inspect.Parameter.KEYWORD_ONLY
        return inspect.Signature([inspect.Parameter(name, keyword, default=None) for name in (*own, *more)])

    @classmethod
    def _check(cls, given: Iterable[str], allowed: Iterable[str], positional: Sequence[Any] = ()) -> None:
        known = list(allowed)
        if positional:
            raise UserError(f"{cls.__name__}: arguments are given by name, such as {known[0]}=...")
        for name in given:
            if name not in known:
                raise UserError(
                    f"{cls.__name__}: there is no argument {name!r}{nearest(name, known)} (allowed: {', '.join(known)})"
                )


@final
class Radio(_Keywords):
    """The radio under an experiment. Every argument is given by name, and has the default of settings files.

    Attributes:
        sections: The same as the sections of a settings file, each of which is an attribute, too.
        channel: Fading, noise and units, as the section [channel] has them.
        power: What devices may send, and the power policy, as [power] has them.
        topology: Where devices are (`airfl.Topology`).
        csi: What is known of the channel (`airfl.Csi`).
        antennas: Of the server (`airfl.Antennas`).
        grid: Resource elements, and the downlink (`airfl.Grid`).
        digital: Links that carry bits (`airfl.Digital`).
    """

    sections: RadioSections

    def __init__(self, *positional: Any, fading: Any = None, power: Any = None, **given: Any) -> None:
        """The radio of these parts.

        Args:
            fading: A fading law or channel of `channels.fading`, its name, a table of its name and parameters, or a
                function that gives H.
            power: A power policy of `channels.power`, its name, or a table of its name and parameters.
            given: Keys of [channel] and [power], such as max_snr_db; topology, csi, antennas, grid and digital as
                objects or mappings.

        Raises UserError, in one line, for what is not allowed.
        """
        rooms = [name for name in OF_THE_RADIO if name not in ("channel", "power")]
        self._check(given, ["fading", "power", *RADIO_KEYS, *rooms], positional)
        tables: Tables = {"channel": {}, "power": {}}
        if fading is not None:
            tables["channel"]["fading"] = fading
        if power is not None:
            tables["power"]["policy"] = power
        for name, value in given.items():
            if value is None:
                continue
            if name in rooms:
                tables[name] = _table(name, value)
            else:
                tables[RADIO_KEYS[name]][name] = as_plain(value)
        self._keep(sections=validate({**LEAST, **tables}, source="Radio").radio)

    @classmethod
    def of(cls, sections: RadioSections) -> Radio:
        """The radio of these sections."""
        radio = object.__new__(cls)
        radio._keep(sections=sections)
        return radio

    def __getattr__(self, name: str) -> Any:
        if name in OF_THE_RADIO:
            return getattr(self.sections, name)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __dir__(self) -> list[str]:
        return [*OF_THE_RADIO, "sections", "of"]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Radio) and self.sections == other.sections

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        told = []
        for name in OF_THE_RADIO:
            section = getattr(self.sections, name)
            changed = dict(section.__repr_args__())
            if name == "channel":
                told += _told(changed, FADING.of(section), "fading", FADING.default, FADING.registry)
            elif name == "power":
                told += _told(changed, POLICY.of(section), "policy", POLICY.default, POLICY.registry, "power")
            elif changed:
                told.append(f"{name}={section!r}")
        return f"Radio({', '.join(told)})"


def _told(changed: dict[str, Any], part: Part, slot: str, default: str, registry: Any, argument: str = "") -> list[str]:
    """The part by itself, and the keys that are not its."""
    own = {slot, *keys_of(registry)}
    same = part.name == default and not part.changed()
    first = [] if same else [f"{argument or slot}={part!r}"]
    return [*first, *(f"{key}={value!r}" for key, value in changed.items() if key not in own)]


@final
class Experiment(Configuration, _Keywords):
    """All that a run is made from, as objects. Every argument is given by name.

    Attributes:
        scheme: The scheme (a class of `airfl.schemes`).
        task: What is learned: an `airfl.Task` of your own, or an `airfl.NamedTask`.
        local: Local training (`airfl.LocalSgd`).
        selection: Who is asked (`airfl.Selection`).
        radio: The radio (`airfl.Radio`).
        server: What the server does with the decoded mean update (`airfl.Server`).
        privacy: What is claimed, and how power control keeps to it (`airfl.Privacy`).
        compute: What local computation costs (`airfl.Compute`).
        trace: What the trace holds beyond the per-round figures (`airfl.Trace`).
        settings: The same as the sections of a settings file.
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
        """An experiment of these parts; what is left out is at the default of settings files.

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

        Raises UserError, in one line, for what is not allowed.
        """
        self._check(run, [*self._PARTS, *OF_A_RUN], positional)
        tables: Tables = {"run": {name: as_plain(value) for name, value in run.items() if value is not None}}
        given = {"server": server, "privacy": privacy, "compute": compute, "trace": trace, "local": local}
        for name, value in given.items():
            if value is not None:
                tables[name] = _table(name, value)
        if selection is not None:
            rule = not isinstance(selection, Mapping | Section)
            tables["selection"] = {"kind": selection} if rule else _table("selection", selection)
        if scheme is not None:
            tables |= tables_from({"scheme": scheme})
        if radio is not None:
            tables |= tables_given({"radio": radio})
        named = task is None or isinstance(task, Mapping | Section)
        if task is not None and named:
            tables["task"] = _table("task", task)
        self._set(validate(tables, source="Experiment"), None if named else _own(task))

    @classmethod
    @public
    def load(cls, config: Config, overrides: Overrides = (), *, plugins: bool = False) -> Experiment:
        """The experiment of a settings file, in any of the forms that `airfl.load_settings` takes.

        Args:
            config: The name or path of a settings file, a dict of tables, settings, or an experiment.
            overrides: As in `airfl.load_settings`.
            plugins: As in `airfl.load_settings`.

        Raises UserError for what cannot be used.
        """
        return cls.of(load_settings(config, overrides, plugins=plugins), task_of(config, None, changes_of(overrides)))

    @classmethod
    def of(cls, settings: Settings, task: Task | None = None) -> Experiment:
        """The experiment of some settings, and of a task of your own."""
        experiment = object.__new__(cls)
        experiment._set(settings, task)
        return experiment

    def replace(self, **changes: Any) -> Experiment:
        """The same with some arguments replaced, each of them as a whole: replace(rounds=10, scheme="fedavg")."""
        self._check(changes, [*self._PARTS, *OF_A_RUN])
        run = {name: getattr(self.settings.run, name) for name in OF_A_RUN}
        given = {**{name: getattr(self, name) for name in self._PARTS}, "task": self.settings.task, **run, **changes}
        made = Experiment(**given)
        return made if "task" in changes or self.own_task is None else Experiment.of(made.settings, self.own_task)

    def save(self, path: str | Path, *, everything: bool = False, overwrite: bool = False) -> Path:
        """Write a settings file that `Experiment.load`, and every command, reads back equal.

        Where a part is from a plugin file, the file names it, and is loaded with `plugins=True` or `--plugins`.

        Args:
            path: The file, NAME.toml.
            everything: Write every setting, and not those alone that are not at their defaults.
            overwrite: Replace a file that is there.

        Returns:
            The path.

        Raises UserError for a part that no file can name, and where a file is there.
        """
        file = Path(path)
        self._check_named()
        if file.exists() and not overwrite:
            raise UserError(f"{file}: is there already; choose another name, or overwrite=True")
        unequal = f"{file}: these settings do not read back equal from a file; use them from Python"
        try:
            text = settings_file(self.settings, changed=not everything)
        except TypeError:  # none, where a part has another default, is nothing that TOML could say
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
        """The modules of the plugin files that its parts are from."""
        return [type(part).__module__ for part in parts_of(self.settings).values() if from_plugin(type(part))]

    def _check_named(self) -> None:
        """UserError for a part that only Python has."""
        if self.own_task is not None:
            raise UserError(
                f"save: no settings file can hold the task {self.own_task.name!r}, a model or data of your own; save "
                "the script instead"
            )
        for slot, part in parts_of(self.settings).items():
            if not any(registry.get(part.name) is type(part) for registry in REGISTRIES):
                raise UserError(
                    f"save: {slot} is {part!r}, which no name stands for; give its class a name and register it "
                    "(@airfl.register, or a plugin file)"
                )

    def _set(self, settings: Settings, task: Task | None) -> None:
        self._keep(_settings=with_task(settings, task), _own_task=task)

    @property
    def settings(self) -> Settings:
        """The same as the sections of a settings file."""
        return self._settings

    @property
    def own_task(self) -> Task | None:
        """The task, where it is one of your own."""
        return self._own_task

    @property
    def task(self) -> Any:
        """What is learned: an `airfl.Task` of your own, or an `airfl.NamedTask`."""
        return self._settings.task if self._own_task is None else self._own_task

    @property
    def radio(self) -> Radio:
        """The radio."""
        return Radio.of(self._settings.radio)

    def __getattr__(self, name: str) -> Any:
        settings = self.__dict__.get("_settings")
        if settings is not None:
            if name in ("scheme", "local", "selection", "server", "privacy", "compute", "trace"):
                return getattr(settings, name)
            if name in OF_A_RUN:
                return getattr(settings.run, name)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __dir__(self) -> list[str]:
        return [*self._PARTS, *OF_A_RUN, "settings", "own_task", "load", "of", "replace", "save"]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Experiment) and self.settings == other.settings and self.own_task is other.own_task

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        told = [f"scheme={self.scheme!r}"]
        for name in ("task", "local", "selection", "radio", "server", "privacy", "compute", "trace"):
            value = getattr(self, name)
            empty = f"{type(value).__name__}()"
            told += [f"{name}={value!r}"] if repr(value) != empty else []
        told += [f"{key}={value!r}" for key, value in self.settings.run.__repr_args__()]
        return f"Experiment({', '.join(told)})"


def _table(name: str, value: Any) -> Tables:
    """A section as a table; UserError for what is none."""
    kind = SECTIONS[name]
    if isinstance(value, kind):
        return dict(value)
    if isinstance(value, Mapping):
        return dict(tables_from({name: value})[name])
    raise UserError(f"{name} must be {called(kind)} or a mapping of its arguments, got {value!r}")


def _own(task: Any) -> Task:
    from airfl.tasks.own import Task

    if not isinstance(task, Task):
        raise UserError(f"task must be an airfl.Task or an airfl.NamedTask, got {task!r}")
    return task


def _documented(kind: type[_Keywords], own: Iterable[str], more: Mapping[str, str]) -> None:
    """Signature and docstring of a class have the arguments that are declared by sections; more: argument -> its
    section."""
    kind.__signature__ = kind._signature(own, more)  # type: ignore[attr-defined]
    lines = [line for key, name in more.items() for line in attribute_lines(SECTIONS[name], [key])]
    kind.__doc__ = "\n".join([inspect.cleandoc(kind.__doc__ or ""), "", "Arguments beside these:", *lines])


_documented(Radio, ("fading", *OF_THE_RADIO[1:]), RADIO_KEYS)
_documented(Experiment, Experiment._PARTS, dict.fromkeys(OF_A_RUN, "run"))
