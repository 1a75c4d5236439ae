"""Every scheme that a callback stops early leaves a valid trace of the rounds until then, also when it is resumed."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import airfl
from airfl.callbacks import Callback, Stop
from airfl.schemes.names import SCHEMES
from tests.conformance.test_resume import SMALL
from tests.conftest import small_settings
from tests.resuming import assert_same_trace, interrupted
from tests.small_data import people

ROUNDS = 3
COMPOSED = ("test_accuracy", "test_loss", "train_loss", "epsilon", "epsilon_as_poisson", "epsilon_paper_tables")


class After(Callback):
    """Ends a run after some rounds, the last of which would not be evaluated."""

    def on_begin(self, info: object) -> None:
        self.rounds = 0

    def on_round(self, record: Mapping[str, Any]) -> Stop | None:
        self.rounds += 1
        return Stop("enough") if self.rounds == ROUNDS else None


# One that keeps nothing, and the one that keeps most.
SHORT = ("pfels", "soteriafl-saga")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in SHORT else pytest.mark.full) for name in SCHEMES]
)
def test_a_stopped_run_is_the_beginning_of_the_run(name: str, tmp_path: Path) -> None:
    settings = small_settings(*SMALL, f"scheme.name={name}", "run.checkpoint_every=1")
    whole = airfl.run(settings.resolved(run={"evaluate_every": 1}), tmp_path / "whole", data=people())
    stopped = airfl.run(settings, tmp_path / "stopped", data=people(), callbacks=[After()])
    with pytest.raises(KeyboardInterrupt):
        airfl.run(settings, tmp_path / "pieces", data=people(), callbacks=[After()], progress=interrupted(2))
    pieces = airfl.run(settings, tmp_path / "pieces", data=people(), callbacks=[After()], resume=True)
    assert_same_trace(stopped.path, pieces.path)
    with whole.trace() as every, stopped.trace() as some:
        assert some.sizes["round"] == ROUNDS
        for variable in every.data_vars:
            if "round" not in every[variable].dims:
                continue
            expected, found = every[variable].values[:ROUNDS], some[variable].values
            if variable in COMPOSED:
                # Upper bounds, whose grids follow from how many rounds are composed at a time.
                np.testing.assert_allclose(found[-1], expected[-1], rtol=1e-5, err_msg=str(variable))
            elif not variable.endswith("_at_least"):  # which the whole run has of its own last round alone
                np.testing.assert_array_equal(found, expected, err_msg=str(variable))
        least, epsilon = some["epsilon_at_least"].values[-1], some["epsilon"].values[-1]
        assert np.isnan(least) == np.isnan(every["epsilon_at_least"].values[-1])
        assert np.isnan(least) or least <= epsilon
