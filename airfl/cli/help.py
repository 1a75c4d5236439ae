"""The layout of `--help`: a usage line with the required arguments, commands grouped under headings, no truncation, and
one example per command that can be run unchanged."""

from __future__ import annotations

from typing import Any

from typer.core import TyperCommand, TyperGroup

INDENT = "  "


class Command(TyperCommand):
    """A command, with an example as its epilog."""

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
    """Return the usage line to append to an error about a missing parameter, else an empty string."""
    context = getattr(error, "ctx", None)
    if context is None or type(error).__name__ != "MissingParameter":
        return ""
    return f" {context.get_usage()}"
