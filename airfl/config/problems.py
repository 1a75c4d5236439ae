"""Error messages of one line for pydantic's validation errors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel, ValidationError

from airfl.errors import nearest, shown_value


def first_line(error: ValidationError, model: type[BaseModel]) -> str:
    """Describe the first problem in one line: the key, what is allowed, and what was given.

    Args:
        error: The error.
        model: The class that was validated.
    """
    problems = error.errors(include_url=False)
    # A misspelt key often leaves another one missing; the message names the misspelt one.
    problem = next((p for p in problems if p["type"] == "extra_forbidden"), problems[0])
    # Section and key are what the user wrote. After them pydantic appends names of types, such as list[float].
    path = [str(part) for at, part in enumerate(problem["loc"]) if at < 2 or "[" not in str(part)]
    key = ".".join(path[:2])
    given = problem["input"]
    match problem["type"]:
        case "extra_forbidden":
            allowed = _allowed_keys(model, path[:-1])
            kind = "key" if path[:-1] or not _has_sections(model) else "section"
            return f"{key}: unknown {kind}{nearest(path[-1], allowed)} (allowed: {', '.join(allowed)})"
        case "missing":
            return f"{key}: missing; [local] needs epochs or steps, and clip_norm or gradient_bound"
        case "value_error":
            message = problem["msg"].removeprefix("Value error, ")
            if len(path) <= (1 if _has_sections(model) else 0):  # of the model or a section, and names keys itself
                return message
            return f"{key} {message}" if message.startswith("must ") else f"{key}: {message}"
        case "model_type" | "model_attributes_type":
            return f"{key} must be a table [{key}], got {shown_value(given)}"
    alternatives = [other for other in problems if other["loc"][:2] == problem["loc"][:2]]
    if len(alternatives) > 1:  # the key may be of several types, each of which reports a problem
        phrases = dict.fromkeys(
            f"a list with every entry {_requirement(other)}" if _of_entry(other) else _requirement(other)
            for other in alternatives
        )
        separator = ", or " if any(" or " in phrase for phrase in phrases) else " or "
        return f"{key} must be {separator.join(phrases)}, got {shown_value(given)}"
    subject = f"{key}: every entry" if _of_entry(problem) else key
    return f"{subject} must be {_requirement(problem)}, got {shown_value(given)}"


TYPES = {
    "bool_type": "true or false",
    "finite_number": "a finite number",
    "float_type": "a number",
    "int_type": "an integer",
    "list_type": "a list",
    "string_type": "a string",
}


def _requirement(problem: Any) -> str:
    """Return the requirement that was violated, as a phrase that follows "must be"."""
    kind, context = problem["type"], problem.get("ctx", {})
    match kind:
        case "greater_than":
            return "positive" if context["gt"] == 0 else f"greater than {_number(context['gt'])}"
        case "greater_than_equal":
            return f"at least {_number(context['ge'])}"
        case "less_than":
            return f"less than {_number(context['lt'])}"
        case "less_than_equal":
            return f"at most {_number(context['le'])}"
        case "too_short":
            return f"a list of at least {context['min_length']} entries"
        case "too_long":
            return f"a list of at most {context['max_length']} entries"
    return TYPES.get(kind) or problem["msg"].removeprefix("Input should be ")


def _number(value: float) -> str:
    return str(value) if isinstance(value, int) else f"{value:g}"


def _of_entry(problem: Any) -> bool:
    """Return whether the problem is in an entry of a list rather than in the value of the key itself."""
    return any(isinstance(part, int) for part in problem["loc"])


def _allowed_keys(model: type[BaseModel], path: Sequence[str]) -> list[str]:
    for part in path:
        annotation = model.model_fields[part].annotation
        if not (isinstance(annotation, type) and issubclass(annotation, BaseModel)):
            return []
        model = annotation
    return sorted(model.model_fields)


def _has_sections(model: type[BaseModel]) -> bool:
    """Return whether the model consists of sections, as a settings file does."""
    kinds = (field.annotation for field in model.model_fields.values())
    return any(isinstance(kind, type) and issubclass(kind, BaseModel) for kind in kinds)
