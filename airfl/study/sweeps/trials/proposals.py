"""What Optuna proposes and prunes.

What a study proposes has an address, the seed and the number of the trial, so that it does not depend on whether the
search was interrupted. It does depend on the trials that have ended before.
"""

from __future__ import annotations

import warnings
from typing import Any

from airfl.study.sweeps.trials.plan import SearchPlan


def sampler_of(seed: int, random_trials: int) -> Any:
    """Return the tree-structured Parzen estimator, with random numbers by seed and number of the trial."""
    import numpy as np
    import optuna

    class Addressed(optuna.samplers.BaseSampler):
        def __init__(self) -> None:
            self._number = -1
            self._of_trial: Any = None

        def _of(self, trial: Any) -> Any:
            if self._of_trial is None or self._number != trial.number:
                drawn = int(np.random.SeedSequence([seed, trial.number]).generate_state(1)[0])
                with warnings.catch_warnings():  # Optuna 4 calls constant_liar experimental
                    warnings.simplefilter("ignore")
                    self._of_trial = optuna.samplers.TPESampler(
                        seed=drawn, n_startup_trials=random_trials, constant_liar=True
                    )
                self._number = trial.number
            return self._of_trial

        def infer_relative_search_space(self, study: Any, trial: Any) -> Any:
            return self._of(trial).infer_relative_search_space(study, trial)

        def sample_relative(self, study: Any, trial: Any, search_space: Any) -> Any:
            return self._of(trial).sample_relative(study, trial, search_space)

        def sample_independent(self, study: Any, trial: Any, param_name: str, param_distribution: Any) -> Any:
            return self._of(trial).sample_independent(study, trial, param_name, param_distribution)

    return Addressed()


def pruner_of(plan: SearchPlan) -> Any:
    """Return Optuna's pruner. Its steps are rounds."""
    import optuna

    if plan.prune == "median":
        return optuna.pruners.MedianPruner(n_warmup_steps=plan.prune_after)
    if plan.prune == "halving":
        return optuna.pruners.SuccessiveHalvingPruner(min_resource=max(1, plan.prune_after))
    return optuna.pruners.NopPruner()
