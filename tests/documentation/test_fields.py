"""Every field of a public dataclass or named tuple is described in its docstring, which the reference shows."""

import ast
import re
from collections.abc import Iterator

import pytest

from tests.conftest import ROOT

FILES = [file for package in ("airfl", "channels") for file in sorted((ROOT / package).rglob("*.py"))]


def classes(source: str) -> Iterator[ast.ClassDef]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            decorators = [ast.unparse(decorator) for decorator in node.decorator_list]
            bases = [ast.unparse(base).rpartition(".")[2] for base in node.bases]
            if "NamedTuple" in bases or any(re.match(r"(dataclasses\.)?dataclass\b", one) for one in decorators):
                yield node


def fields(of: ast.ClassDef) -> Iterator[str]:
    """Public fields; those made by `parameter(...)` have their description in the call."""
    for line in of.body:
        if not isinstance(line, ast.AnnAssign) or not isinstance(line.target, ast.Name):
            continue
        described = line.value is not None and ast.unparse(line.value).startswith("parameter(")
        if not described and not line.target.id.startswith("_") and "ClassVar" not in ast.unparse(line.annotation):
            yield line.target.id


def without_a_line(of: ast.ClassDef) -> list[str]:
    """Fields that no line under "Attributes:" describes; Sphinx takes a single letter and a dot for a list."""
    _, _, listed = (ast.get_docstring(of) or "").partition("Attributes:\n")
    return [name for name in fields(of) if not re.search(rf"^    {name}: (?![A-Za-z]\.$)\S", listed, re.MULTILINE)]


def test_every_field_has_a_line() -> None:
    found, lacking = 0, []
    for file in FILES:
        for one in classes(file.read_text()):
            found += 1
            lacking += [f"{file.relative_to(ROOT)}: {one.name}.{name}" for name in without_a_line(one)]
    assert not lacking, "\n".join(lacking)
    assert found > 200


@pytest.mark.parametrize("told", ["here: There.", "here, there: Both.", "there: T."])
def test_a_field_that_is_told_of_elsewhere_is_found(told: str) -> None:
    source = f'@dataclass(frozen=True)\nclass Two:\n    """Two.\n\n    Attributes:\n        {told}\n    """\n\n'
    (two,) = classes(source + "    here: int\n    there: int = 0\n    _own: int = 0\n    of: ClassVar[int] = 0\n")
    assert "there" in without_a_line(two)
