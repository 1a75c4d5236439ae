"""Non-finite numbers are named and handled according to run.non_finite, and never averaged."""

import logging
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

import airfl
from airfl.core.round import replace_non_finite
from airfl.errors import DivergedError, UserError
from airfl.learning.divergence import all_finite
from airfl.learning.evaluation import EvaluationUnderWay
from airfl.learning.trainer import LocalTrainer
from airfl.runtime.store import Store
from airfl.uplinks.radio import Radio
from airfl.uplinks.stages import Clip
from channels.csi import ChannelState
from channels.frame import Frame
from tests import small_data
from tests.conftest import small_settings

DEVICES = np.array([3, 5, 7, 9])
C = 2.0
Ids = NDArray[np.int64]
Spoil = Callable[[int, float], None]


def updates() -> Tensor:
    wrong = torch.ones(4, 6)
    wrong[1, 2] = math.nan
    wrong[3, :2] = torch.tensor([math.inf, -math.inf])
    return wrong


def test_the_first_device_is_named_and_the_run_stops() -> None:
    with pytest.raises(DivergedError, match=r"^round 4, device 5: its update is not finite[^\n]*$"):
        replace_non_finite(updates(), DEVICES, 4, "stop", Clip(C), Store())


def test_a_dropped_device_sends_zeros_and_the_others_what_they_have(caplog: pytest.LogCaptureFixture) -> None:
    given = updates()
    with caplog.at_level(logging.WARNING, "airfl"):
        norms, wrong = replace_non_finite(given, DEVICES, 4, "drop", Clip(C), Store())
    assert wrong.tolist() == [False, True, False, True]
    assert not given[[1, 3]].any()
    assert (given[[0, 2]] == 1).all()
    assert norms.tolist() == pytest.approx([math.sqrt(6), 0, math.sqrt(6), 0])
    assert caplog.messages == ["round 4: the update of devices 5, 9 is not finite and was dropped"]


def test_a_clipped_update_is_the_limit_of_clipping_one_that_grows() -> None:
    given = updates()
    replace_non_finite(given, DEVICES, 4, "clip", Clip(C), Store())
    for size in (1e10, 1e20):
        grows = torch.ones(6, dtype=torch.float64)
        grows[:2] = torch.tensor([size, -size])
        torch.testing.assert_close(given[3].double(), C * grows / grows.norm(), atol=1e-6, rtol=0)
    # nan counts as 0, what is left is clipped: its norm is sqrt(5).
    torch.testing.assert_close(given[1], torch.tensor([1, 1, 0, 1, 1, 1]) * C / math.sqrt(5))


def test_a_norm_without_room_in_single_precision_keeps_its_direction() -> None:
    large = torch.full((4,), 3e38)
    assert not large.norm().isfinite()
    torch.testing.assert_close(Clip(C).clip_non_finite(large), torch.full((4,), C / 2))
    small = torch.tensor([0.3, math.nan, 0.4])
    torch.testing.assert_close(Clip(C).clip_non_finite(small), torch.tensor([0.3, 0.0, 0.4]))
    assert not Clip(C).clip_non_finite(torch.full((3,), math.nan)).any()


def test_what_a_device_keeps_is_forgotten_where_it_is_not_finite() -> None:
    store = Store()
    for name, device, last in (("table", 5, math.nan), ("shift", 5, 2.0), ("table", 3, math.nan)):
        store.write(name, device, torch.tensor([1.0, last]))
    replace_non_finite(updates(), DEVICES, 0, "drop", Clip(C), store)
    kept = [(name, device) for name, rows in store.rows.items() for device in rows]
    assert sorted(kept) == [("shift", 5), ("table", 3)]


@pytest.mark.parametrize("wrong", [[math.nan], [math.inf], [-math.inf], [math.inf, -math.inf]])
def test_one_number_that_is_none_is_found(wrong: list[float]) -> None:
    assert all_finite(torch.full((3,), 3e38))  # though their sum is not finite
    assert not all_finite(torch.tensor([1.0, *wrong, 3e38, 3e38]))


@pytest.fixture
def spoilt(monkeypatch: pytest.MonkeyPatch) -> Spoil:
    """spoilt(row, value): the update of the device in that row of every round has that value in an entry."""

    def spoil(row: int, value: float) -> None:
        trained = LocalTrainer.updates

        def updates(self: LocalTrainer, *given: object) -> Tensor:
            found = trained(self, *given)
            if len(found) > 1:  # else of the server, on public data
                found[row, 11] = value
            return found

        monkeypatch.setattr(LocalTrainer, "updates", updates)

    return spoil


def run(out: Path, policy: str, *more: str) -> airfl.Run:
    return small_data.run(small_settings(f"run.non_finite={policy}", "run.chunk=8", "run.rounds=1", *more), out)


@pytest.mark.parametrize("scheme", ["pfels", "fedavg", "fed-smp-randk", "dp-fedavg"])
def test_a_run_that_stops_says_so_in_its_trace(scheme: str, tmp_path: Path, spoilt: Spoil) -> None:
    spoilt(2, math.nan)
    with pytest.raises(DivergedError) as caught:
        run(tmp_path, "stop", f"scheme.name={scheme}")
    with airfl.open_trace(tmp_path) as trace:
        said = trace.attrs["status"], trace.attrs["failure"], trace.sizes["round"]
        assert said == ("failed", str(caught.value), 0)
    assert not (tmp_path / "checkpoint").exists()
    with pytest.raises(UserError, match="the run in it failed"):
        airfl.run(small_settings("run.chunk=8", "run.rounds=1", f"scheme.name={scheme}"), tmp_path, resume=True)


@pytest.mark.parametrize(
    ("scheme", "policy", "value"),
    [  # in `make test` each pair of two of the three
        pytest.param(scheme, policy, value, marks=[] if place % 2 == 0 else [pytest.mark.full])
        for one, scheme in enumerate(("pfels", "fedavg", "fed-smp-topk", "fedavg-topk"))
        for other, policy in enumerate(("drop", "clip"))
        for place, value in enumerate((math.nan, math.inf), start=one + other)
    ],
)
def test_a_run_that_goes_on_names_every_such_device(
    scheme: str, policy: str, value: float, tmp_path: Path, spoilt: Spoil
) -> None:
    spoilt(2, value)
    done = run(tmp_path, policy, f"scheme.name={scheme}", "run.rounds=2")
    assert done.parameters.isfinite().all()
    with done.trace() as trace:
        assert (trace["non_finite"].values[:, :8] == (np.arange(8) == 2)).all()
        norms = trace["update_norm"].values
        assert np.isfinite(norms[:, :8]).all()
        bound = done.settings.local.update_bound
        assert norms[:, 2] == pytest.approx(0.0 if policy == "drop" else bound if value == math.inf else norms[:, 2])
        assert trace.attrs["status"] == "complete"


def test_dropping_is_as_if_zeros_were_computed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spoilt: Spoil) -> None:
    spoilt(2, math.nan)
    dropped = run(tmp_path / "a", "drop")
    monkeypatch.undo()
    trained, others = LocalTrainer.updates, (torch.arange(8) != 2)[:, None]
    monkeypatch.setattr(LocalTrainer, "updates", lambda *given: trained(*given) * others)
    assert run(tmp_path / "b", "stop").parameters.equal(dropped.parameters)


@pytest.mark.parametrize("more", [(), ("scheme.name=fedavg",), ("selection.kind=best-k",), ("csi.estimation=ls",)])
def test_a_channel_that_is_no_number_is_named_or_left_out(
    more: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with run(tmp_path / "finite", "stop", *more).trace() as trace:
        taking_part = trace["device_id"].values[0, 3]
    whole = Radio._channel

    def channel(self: Radio, round_index: int, devices: Ids, frame: Frame) -> tuple[ChannelState, Any]:
        state, line_of_sight = whole(self, round_index, devices, frame)
        response = np.array(state.response)
        response[devices == taking_part] = math.nan
        return ChannelState(response), line_of_sight

    monkeypatch.setattr(Radio, "_channel", channel)
    with pytest.raises(DivergedError, match=rf"^round 0, device {taking_part}: its channel is not finite"):
        run(tmp_path / "stop", "stop", *more)
    done = run(tmp_path / "drop", "drop", *more)
    with done.trace() as trace:
        taken = trace["device_id"].values >= 0
        assert (taken.sum(axis=1) == (8 if "selection.kind=best-k" in more else 7)).all()
        assert taking_part not in trace["device_id"].values
        assert np.isfinite(trace["channel_gain"].values[taken]).all()
    assert done.parameters.isfinite().all()


@pytest.mark.parametrize("policy", ["stop", "drop", "clip"])
def test_a_model_that_is_no_number_stops_a_run(policy: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also in a round that is not evaluated."""
    diverging = ("server.learning_rate=1e38", "run.rounds=4", "run.evaluate_every=1")
    with pytest.raises(DivergedError, match=r"^round \d: the model('s training loss is | is not finite)"):
        run(tmp_path / "evaluated", policy, *diverging)
    with airfl.open_trace(tmp_path / "evaluated") as trace:
        assert trace.attrs["status"] == "failed"
    monkeypatch.setattr("airfl.learning.server.Averaging.step", lambda self, parameters, *others: parameters * math.nan)
    with pytest.raises(DivergedError, match=r"^round 0: the model is not finite after the server's step"):
        run(tmp_path / "not", policy, "run.rounds=2")


def test_clipping_is_refused_where_a_scheme_clips_no_update(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"^run.non_finite: [^\n]*soteriafl-sgd[^\n]*$"):
        run(tmp_path, "clip", "scheme.name=soteriafl-sgd")
    run(tmp_path, "drop", "scheme.name=soteriafl-sgd", "scheme.noise_multiplier=0.0")


def test_the_servers_own_update_is_looked_at_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And the loss of an evaluation: one that is no number is not a round without."""
    evaluated, trained = EvaluationUnderWay.result, LocalTrainer.updates
    with monkeypatch.context() as patch:
        patch.setattr(LocalTrainer, "updates", lambda *all: trained(*all) * (math.nan if len(all[2]) == 1 else 1))
        with pytest.raises(DivergedError, match=r"^round 0: the update on the public samples is not finite"):
            run(tmp_path / "update", "stop", "scheme.name=fed-smp-topk")
        run(tmp_path / "goes on", "drop", "scheme.name=fed-smp-topk")
    monkeypatch.setattr(EvaluationUnderWay, "result", lambda *given: replace(evaluated(*given), test_loss=math.inf))
    with pytest.raises(DivergedError, match=r"^round 0: the model's test loss is inf"):
        run(tmp_path / "loss", "drop", "run.evaluate_every=1")
