"""Checkpoints contain the complete state (state, ledger, selection), and are used only if intact."""

import io
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from airfl.core.checkpoint import Cadence, RunFingerprint, Saved, checkpointing
from airfl.core.checkpoint import writer as keeping_module
from airfl.core.checkpoint.fingerprint import fingerprint_of_run
from airfl.core.checkpoint.records import Records
from airfl.core.checkpoint.serialisation import DamagedCheckpointError, deserialise, serialise
from airfl.core.checkpoint.state import from_arrays, to_arrays
from airfl.core.round import account_again
from airfl.core.state import State
from airfl.privacy.events import Gaussian
from airfl.privacy.gaussian import gaussian_epsilon
from airfl.privacy.ledger import PrivacyLedger
from airfl.privacy.statement import Statement
from airfl.runtime.store import Store
from airfl.schemes.release import ClientRelease
from airfl.selection import Memory
from tests.conftest import small_settings

CPU = torch.device("cpu")


def test_everything_that_a_round_hands_on_comes_back() -> None:
    errors = {3: torch.tensor([1.0, 2.0]), 11: torch.tensor([3.0, 4.0])}
    rows = {"error": errors, "saga_table": {7: torch.tensor([[5.0, 6.0], [7.0, 8.0]])}}
    store = Store(rows=rows, server={"u": torch.tensor([0.5, 0.25]), "shift": torch.tensor([9.0, 10.0])})
    memory = Memory(mean_rate=np.array([0.5, 1.5]), spent=np.array([2.5, 0.0]))
    state = State(4, torch.tensor([1.0, -1.0]), memory, store)
    found = from_arrays(4, to_arrays(state), CPU)
    assert found.round_index == 4
    np.testing.assert_array_equal(found.parameters, [1.0, -1.0])
    np.testing.assert_equal(asdict(found.memory), asdict(memory))
    for kept, given in ((found.store.server, store.server), (found.store.rows, store.rows)):
        torch.testing.assert_close(kept, given, rtol=0, atol=0)


def test_a_ledger_goes_on_with_the_devices_that_took_part() -> None:
    """Devices 0 and 1, then 2 and 3, each in one round with noise 2 C: mu = 2/2 for everybody, not sqrt(2)."""
    delta = 1e-3
    ledger = PrivacyLedger(Statement("client", "by_channel", 2, 4, "server", delta))
    run = small_settings("run.rounds=9").run
    recipe, bound = SimpleNamespace(release=ClientRelease()), SimpleNamespace(seen=1.0)
    scenario = SimpleNamespace(recipe=recipe, bound=bound, discloses=False, run=run)
    world: Any = SimpleNamespace(scenario=scenario, ledger=ledger)
    for done, devices in enumerate(([0, 1], [2, 3]), start=1):
        account_again(world, {"noise_multiplier": np.array(2.0), "device_id": np.array(devices)}, done)
    figures = ledger.record(Gaussian(1e6), compose=True, devices=np.array([0]))
    assert figures.epsilon == pytest.approx(gaussian_epsilon(delta, 1.0), rel=1e-4)


def test_records_are_on_the_disk_before_a_state_that_needs_them(tmp_path: Path, monkeypatch: Any) -> None:
    done = []
    monkeypatch.setattr(Records, "sync", lambda self: done.append("records"))
    monkeypatch.setattr(keeping_module, "write_state", lambda out, saved: done.append("state"))
    (tmp_path / "checkpoint").mkdir()
    about = RunFingerprint(settings="{}", versions={}, device="cpu", chosen={}, data=0, created_utc="")
    with checkpointing(tmp_path, Saved(about), Cadence(0.0, 1)) as keeper:
        keeper.append({"energy_j": 1.0})
        keeper.save_if_due(lambda: {"parameters": np.zeros(3)})
    assert done == ["records", "state"]


@pytest.mark.parametrize("part", ["array", "checksum"])
def test_a_changed_byte_is_noticed(part: str) -> None:
    file = io.BytesIO()
    length = serialise(file, {"rounds": 3}, {"parameters": np.array([1.0, 2.0])})
    whole = bytearray(file.getvalue())
    value, arrays, read = deserialise(io.BytesIO(whole), length)
    assert (value, arrays["parameters"].tolist(), read) == ({"rounds": 3}, [1.0, 2.0], length)
    whole[-1 if part == "checksum" else -40] ^= 1
    with pytest.raises(DamagedCheckpointError, match="its checksum is another"):
        deserialise(io.BytesIO(whole), length)


def test_what_was_chosen_is_taken_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """Automatic settings that the first process settled, which another machine might settle otherwise."""
    monkeypatch.setattr("airfl.core.checkpoint.fingerprint.checksum", lambda given, raw: 0)
    given = small_settings("local.engine=auto", "run.chunk=0", "run.threads=0")
    resolved = given.resolved(run={"chunk": 3, "threads": 2}, local={"engine": "loop"})
    raw: Any = None
    taken = fingerprint_of_run(given, resolved, CPU, raw).choices(given)
    assert (taken.run.chunk, taken.run.threads, taken.local.engine) == (3, 2, "loop")


def test_places_of_devices_are_theirs_from_then_on() -> None:
    """What is there stays; new ones are apart from each other."""
    store, like = Store(), torch.zeros(3)
    store.write("error", 7, torch.arange(3.0))
    old = store.rows["error"][7]
    first, seventh, ninth = store.place("error", [1, 7, 9], like)
    first.fill_(1.0)
    ninth.fill_(9.0)
    assert seventh is old
    assert torch.equal(
        store.read_all("error", np.array([1, 7, 9]), like), torch.tensor([[1.0] * 3, [0, 1, 2], [9.0] * 3])
    )
    assert [one.data_ptr() for one in store.place("error", [9, 1], like)] == [ninth.data_ptr(), first.data_ptr()]
