"""What pydantic finds wrong, in one line of plain words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel, ValidationError

from airfl.errors import nearest


def first_line(error: ValidationError, model: type[BaseModel]) -> str:
    """The first thing that is wrong, in one line: the key, what was given, what is allowed. model: what was
    validated."""
    problems = error.errors(include_url=False)
    # A misspelt key often leaves another one missing: name the misspelt one.
    problem = next((p for p in problems if p["type"] == "extra_forbidden"), problems[0])
    # Section and key are the user's own words; after them pydantic names types, such as list[float].
    path = [str(part) for at, part in enumerate(problem["loc"]) if at < 2 or "[" not in str(part)]
    key = ".".join(path[:2])
    given = problem["input"]
    match problem["type"]:
        case "extra_forbidden":
            allowed = _allowed_keys(model, path[:-1])
            what = "key" if path[:-1] or not _has_sections(model) else "section"
            return f"{key}: unknown {what}{nearest(path[-1], allowed)} (allowed: {', '.join(allowed)})"
        case "missing":
            return f"{key}: missing; [local] needs epochs or steps, and clip_norm or gradient_bound"
        case "value_error":
            message = problem["msg"].removeprefix("Value error, ")
            of_a_key = len(path) > (1 if _has_sections(model) else 0)
            return f"{key}: {message}" if of_a_key else message
        case "model_type" | "model_attributes_type":
            return f"{key}: a table [{key}] is wanted, not {given!r}"
    message = problem["msg"].replace("Input should be", "should be")
    alternatives = _types_wanted(problems, problem["loc"][:2])
    return f"{key}: {alternatives or message} (given: {given!r})"


def _types_wanted(problems: Sequence[Any], location: tuple[Any, ...]) -> str:
    """One phrase for a key that may be of several types, each of which complained."""
    messages = [p["msg"].replace("Input should be ", "") for p in problems if tuple(p["loc"][:2]) == tuple(location)]
    return "should be " + ", or ".join(dict.fromkeys(messages)) if len(messages) > 1 else ""


def _allowed_keys(model: type[BaseModel], path: Sequence[str]) -> list[str]:
    for part in path:
        annotation = model.model_fields[part].annotation
        if not (isinstance(annotation, type) and issubclass(annotation, BaseModel)):
            return []
        model = annotation
    return sorted(model.model_fields)


def _has_sections(model: type[BaseModel]) -> bool:
    """Whether it is made of tables, as a settings file is."""
    kinds = (field.annotation for field in model.model_fields.values())
    return any(isinstance(kind, type) and issubclass(kind, BaseModel) for kind in kinds)
