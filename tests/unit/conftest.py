"""Fixtures shared by unit tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from airfl.study.check.finding import Check, Finding


@pytest.fixture(scope="module")
def one_thread() -> Iterator[None]:
    """Sums of few numbers are slower on two threads."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def found_by(monkeypatch: pytest.MonkeyPatch) -> Callable[[Any, str], dict[str, str]]:
    """found_by(part, check): what that check of `airfl check` and those that it rests on find wrong, without the runs
    and draws of all others."""
    from airfl.study.check import check_part
    from airfl.study.check.finding import findings

    def found(part: Any, name: str) -> dict[str, str]:
        def few(part: str, kind: str, checks: Sequence[Check], owner: type) -> list[Finding]:
            wanted = {name}
            for check in reversed(checks):
                wanted |= set(check.after if check.name in wanted else ())
            return findings(part, kind, [check for check in checks if check.name in wanted], owner)

        monkeypatch.setattr("airfl.study.check.findings", few)
        return {one.check: one.found for one in check_part(part) if one.outcome == "wrong"}

    return found
