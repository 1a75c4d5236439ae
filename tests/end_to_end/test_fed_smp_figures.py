"""experiments/papers/fed_smp.py: its rows, and what it says of them."""

import math

import dp_accounting
import pytest
from dp_accounting import rdp

from experiments.papers import common, fed_smp
from experiments.papers.common import Point, Runs
from experiments.papers.fed_smp import EXPERIMENTS


def claimed(sigma: float, sampled: float, rounds: int, delta: float) -> float:
    """Theorem 1, with the conversion that the paper's API had: Rényi divergence plus log(1/delta)/(alpha - 1)."""
    orders = [1 + x / 10 for x in range(1, 100)] + list(range(11, 128))
    accountant = rdp.RdpAccountant(orders)
    accountant.compose(dp_accounting.PoissonSampledDpEvent(sampled, dp_accounting.GaussianDpEvent(sigma)), rounds)
    return min(
        float(rho) + math.log(1 / delta) / (order - 1) for order, rho in zip(orders, accountant._rdp, strict=True)
    )


@pytest.mark.parametrize(("sigma", "printed"), [(1.0, 2.02), (1.4, 1.01), (2.0, 0.58), (2.5, 0.44)])
def test_noise_of_tables_4_to_7_gives_their_epsilon(sigma: float, printed: float) -> None:
    assert claimed(sigma, 100 / 6000, 180, 6000**-1.1) == pytest.approx(printed, rel=0.01)
    lines = {sigma for name in ("table-4", "table-5", "table-6", "table-7") for sigma in fed_smp.TRADEOFFS[name][2]}
    assert lines == {1.0, 2.0, 2.5}


@pytest.mark.parametrize(("sigma", "said"), [(0.25, 11.7), (0.3, 7.9), (0.35, 5.6), (0.4, 4.2)])
def test_epsilon_of_tables_8_and_9_for_the_hypothetical_population(sigma: float, said: float) -> None:
    assert claimed(sigma, 10 / 1e9, 1000, 1e9**-1.1) == pytest.approx(said, abs=0.05)
    assert f"{said:g}" in (fed_smp.__doc__ or "")


@pytest.mark.parametrize("name", list(EXPERIMENTS))
def test_rows_have_the_settings_that_their_labels_say(name: str) -> None:
    experiment = EXPERIMENTS[name]
    settings = experiment.settings()
    assert set(experiment.published) in ({*settings}, set())
    for label, one in settings.items():
        scheme, *rest = label.split(", ")
        values = {key: float(value) for key, value in (part.split(" = ") for part in rest)}
        assert one.scheme.name == scheme.lower()
        assert one.scheme.values().get("ratio", 1) == values.get("p", 1)
        if "Fed-SMP" in label or label == "DP-FedAvg":
            default = 0.3 if "shakespeare" in one.task.dataset else 1.4
            assert one.scheme.noise_multiplier == values.get("sigma", default)
        public = {"svhn": 2000}.get(one.task.dataset.removesuffix("-extra"), 1000)
        assert one.task.public_samples == (public if "Fed-SMP-topk" in label else 0)


def runs_of(values: dict[str, float], rounds: int = 180) -> Runs:
    return {(label, 0): [Point(label, 0, rounds, accuracy, 1.0)] for label, accuracy in values.items()}


def test_statements_follow_from_the_runs() -> None:
    values = {"DP-FedAvg": 70.0, "Fed-SMP-topk, p = 0.005": 71.0, "Fed-SMP-randk, p = 0.005": 60.0}
    assert fed_smp.statements(runs_of(values)) == [
        "Fed-SMP-topk exceeds DP-FedAvg at its best p: yes",
        "Fed-SMP-randk exceeds DP-FedAvg at its best p: no",
        "Fed-SMP-topk is ahead of Fed-SMP-randk at small p: yes",
    ]
    assert fed_smp.statements(runs_of({"FedAvg": 80.0})) == []


def test_a_run_that_was_cut_short_says_so() -> None:
    text = common.table(EXPERIMENTS["table-1"], runs_of({"FedAvg": 50.0}, rounds=20))
    assert "| FedAvg | 86.98 | 50.00 | 50.00 | 20 of 180 | 1 | 1 |" in text
