"""The layout of `--help`: a usage line with the required arguments, commands grouped under headings, no truncation, and
one example per command that can be run unchanged."""

from __future__ import annotations

from typing import Any

from typer.core import TyperCommand, TyperGroup

from airfl.errors import UserError

INDENT = "  "
PATHS = ("DIR", "FOLDER", "FILE")
"""Metavars of options that are paths."""


class Command(TyperCommand):
    """A command, with an example as its epilog."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Refuse an empty path, which would be the current folder, as where a variable of a script is not set."""
        if ctx.resilient_parsing:
            return list(super().parse_args(ctx, args))
        paths = {name for p in self.params if p.metavar in PATHS for name in p.opts}
        for option, value in zip(args, [*args, None][1:], strict=True):
            if (option in paths and value == "") or (option.endswith("=") and option[:-1] in paths):
                raise UserError(f"{option.rstrip('=')} is empty; give a path, or . for the current folder")
        rest: list[str] = super().parse_args(ctx, args)
        return rest

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Return the metavars of the arguments, with optional ones in brackets, and the required options."""
        arguments = [str(p.metavar) for p in self.params if p.param_type_name == "argument"]
        required = [f"{p.opts[0]} {p.metavar}" for p in self.params if p.param_type_name == "option" and p.required]
        return [*arguments, *required, "[OPTIONS]"]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the arguments, then the options."""
        arguments = [p for p in self.params if p.param_type_name == "argument"]
        if arguments:
            with formatter.section("Arguments"):
                formatter.write_dl([(str(p.metavar).strip("[]"), str(getattr(p, "help", ""))) for p in arguments])
        options = [p for p in self.get_params(ctx) if p.param_type_name == "option"]
        with formatter.section("Options"):
            formatter.write_dl([record for p in options if (record := p.get_help_record(ctx))])

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """Write the example without wrapping, so that it can be copied."""
        with formatter.section("Example"):
            for line in (self.epilog or "").splitlines():
                formatter.write(f"{INDENT}{line}\n")


class Commands(TyperGroup):
    """A group that lists its commands under their headings (`rich_help_panel`), and its options in one line."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Return a short usage line."""
        return ["COMMAND", "..."]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the commands, then the names of the options."""
        self.format_commands(ctx, formatter)
        names = [p.opts[0] for p in self.get_params(ctx) if p.param_type_name == "option"]
        formatter.write_paragraph()
        formatter.write_text(f"Options: {', '.join(names)}")

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the commands under their headings, in the order in which they were added."""
        rows: dict[str, list[tuple[str, str]]] = {}
        for name, command in self.commands.items():
            heading = getattr(command, "rich_help_panel", None) or "Commands"
            rows.setdefault(heading, []).append((name, " ".join((command.help or "").split())))
        width = max(len(name) for name in self.commands)
        for heading, commands in rows.items():
            with formatter.section(heading):
                formatter.write_dl([(name.ljust(width), text) for name, text in commands])

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """Write the lines of the epilog directly below the options."""
        for line in (self.epilog or "").splitlines():
            formatter.write_text(line)


def how_to_call(error: Exception) -> str:
    """Return what to append to an error: the usage line where a parameter is missing, the setting that an unknown
    option may stand for; else an empty string."""
    context = getattr(error, "ctx", None)
    option = str(getattr(error, "option_name", ""))
    if context is None:
        return ""
    kind, has_settings = type(error).__name__, any(p.name == "overrides" for p in context.command.params)
    if kind == "NoSuchOption" and has_settings and option.startswith("--"):
        from airfl.config.given import keys_named

        keys = keys_named(option.removeprefix("--").replace("-", "_"))
        return f"; did you mean {keys[0]}=...?" if keys else ""
    return f" {context.get_usage()}" if kind == "MissingParameter" else ""
