"""How `--help` looks: a usage line that says what must be given, commands by what one does with them, nothing cut off,
one example that runs as it stands."""

from __future__ import annotations

from typing import Any

from typer.core import TyperCommand, TyperGroup

INDENT = "  "


class Command(TyperCommand):
    """A command whose epilog is its example."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Arguments as their metavars are written, the optional ones in brackets; options that must be given."""
        arguments = [str(p.metavar) for p in self.params if p.param_type_name == "argument"]
        needed = [f"{p.opts[0]} {p.metavar}" for p in self.params if p.param_type_name == "option" and p.required]
        return [*arguments, *needed, "[OPTIONS]"]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Arguments, then options."""
        arguments = [p for p in self.params if p.param_type_name == "argument"]
        if arguments:
            with formatter.section("Arguments"):
                formatter.write_dl([(str(p.metavar).strip("[]"), str(getattr(p, "help", ""))) for p in arguments])
        options = [p for p in self.get_params(ctx) if p.param_type_name == "option"]
        with formatter.section("Options"):
            formatter.write_dl([record for p in options if (record := p.get_help_record(ctx))])

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """The example, line by line as it is written, to be copied."""
        with formatter.section("Example"):
            for line in (self.epilog or "").splitlines():
                formatter.write(f"{INDENT}{line}\n")


class Commands(TyperGroup):
    """A group that lists its commands whole, under the headings they were given (`rich_help_panel`), and its options in
    one line."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """As short as it can be said."""
        return ["COMMAND", "..."]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Commands first."""
        self.format_commands(ctx, formatter)
        names = [p.opts[0] for p in self.get_params(ctx) if p.param_type_name == "option"]
        formatter.write_paragraph()
        formatter.write_text(f"Options: {', '.join(names)}")

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Heading by heading, in the order of the table."""
        rows: dict[str, list[tuple[str, str]]] = {}
        for name, command in self.commands.items():
            heading = getattr(command, "rich_help_panel", None) or "Commands"
            rows.setdefault(heading, []).append((name, " ".join((command.help or "").split())))
        width = max(len(name) for name in self.commands)
        for heading, listed in rows.items():
            with formatter.section(heading):
                formatter.write_dl([(name.ljust(width), text) for name, text in listed])

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """What else there is to know, a line each, right under the options."""
        for line in (self.epilog or "").splitlines():
            formatter.write_text(line)


def how_to_call(error: Exception) -> str:
    """The usage line behind an error about something that was not given, else nothing."""
    context = getattr(error, "ctx", None)
    if context is None or type(error).__name__ != "MissingParameter":
        return ""
    return f" {context.get_usage()}"
