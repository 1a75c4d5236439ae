"""Error feedback and shifts: nothing is lost, and the server's shift is the mean of the devices' shifts."""

import copy
from itertools import chain, combinations

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from airfl.runtime.store import DeviceState, Store
from airfl.runtime.streams import Streams
from airfl.uplinks.stages.clip import Clip
from airfl.uplinks.stages.feedback import ErrorFeedback, ShiftedCompression, shift_step
from airfl.uplinks.stages.rand_k import PerDeviceRandK, RandK
from airfl.uplinks.stages.stage import Batch, Coder, MessageBound, Round, Stage
from airfl.uplinks.stages.top_k import PerDeviceTopK, PublicTopK

N, D = 6, 8  # devices of the population, entries of an update


def opened(index: int, devices: list[int], store: Store, heard: list[int] | None = None) -> Round:
    """Round `index` with these devices; heard: those of them whose messages arrive, None for all."""
    arrived, public = np.isin(devices, devices if heard is None else heard), torch.arange(D) * 1.0
    return Round(Streams(2), index, torch.device("cpu"), np.array(devices), arrived, store, lambda: public)


def encoded(stage: Stage, plan: Round, updates: Tensor, scale: Tensor | None = None) -> tuple[Coder, Batch]:
    """What a stage makes of the updates of all devices of a round."""
    coder = stage.open(plan)
    return coder, coder.encode(Batch(updates, torch.ones(len(updates)) if scale is None else scale))


def whole_numbers(index: int, devices: int) -> Tensor:
    """Updates whose sums are exact, [devices, d]."""
    return torch.from_numpy(np.random.default_rng(index).integers(-50, 50, (devices, D))).float()


def normal(index: int, devices: int) -> Tensor:
    """Updates, [devices, d], float64."""
    return torch.from_numpy(np.random.default_rng(index).standard_normal((devices, D)))


def plan(index: int) -> tuple[list[int], list[int]]:
    """Devices of a round and those that are heard: 4 of 6, of whom one or two are lost; nobody in round 5."""
    generator = np.random.default_rng(100 + index)
    devices = generator.choice(N, 4, replace=False).tolist()
    return devices, devices[: 2 + index % 2] if index != 5 else []


def expanded(messages: Tensor, coordinates: NDArray[np.int64] | None) -> Tensor:
    """Messages as vectors of length d, without the help of `expand`."""
    if coordinates is None:
        return messages
    vectors = messages.new_zeros(*messages.shape[:-1], D)
    vectors[..., torch.from_numpy(coordinates)] = messages
    return vectors


@pytest.mark.parametrize(
    "inner", [RandK(D, 3), PerDeviceTopK(D, 2), PublicTopK(D, 3), PerDeviceRandK(D, 3, rescale=False)]
)
def test_what_is_not_delivered_is_kept(inner: Stage) -> None:
    """12 rounds: of every device, what arrived and what it keeps are the sum of its updates, to the last bit."""
    stage, store, scale = ErrorFeedback((inner,), D), Store(), torch.tensor([1.0, 0.5, 2.0, 1.0])
    updated, arrived = torch.zeros(N, D), torch.zeros(N, D)
    for index in range(12):
        devices, heard = plan(index)
        updates = whole_numbers(index, len(devices))
        coder, message = encoded(stage, opened(index, devices, store, heard), updates, scale)
        updated[devices] += updates * scale[:, None]
        there = torch.from_numpy(np.isin(devices, heard))
        arrived[devices] += expanded(message.messages, coder.coordinates) * there[:, None]
    kept = store.read_all("error", np.arange(N), torch.zeros(D))
    assert torch.equal(arrived + kept, updated)
    assert torch.count_nonzero(arrived) > N
    assert torch.count_nonzero(kept) > N


def test_the_memory_is_sent_with_the_next_update() -> None:
    store, stage = Store(), ErrorFeedback((PerDeviceTopK(D, 1),), D)
    updates = torch.zeros(4, 1, D)
    updates[0, 0, :3] = torch.tensor([5.0, 4.0, 3.0])
    sent = [encoded(stage, opened(t, [0], store), update)[1].messages[0] for t, update in enumerate(updates)]
    assert torch.equal(torch.stack(sent), torch.diag(updates[0, 0])[:4])


def test_who_is_silent_keeps_everything() -> None:
    store, stage = Store(), ErrorFeedback((RandK(D, 3),), D)
    for index in range(3):
        coder, _ = encoded(stage, opened(index, [1, 4], store, heard=[1]), whole_numbers(index, 2))
    assert torch.equal(store.rows["error"][4], sum(whole_numbers(index, 2)[1] for index in range(3)))
    assert set(store.rows["error"]) == {1, 4}
    assert torch.count_nonzero(store.rows["error"][1][torch.from_numpy(coder.coordinates)]) == 0


def test_messages_of_several_stages_are_expanded() -> None:
    """A clip takes of what is sent, and that is kept too: 3 of 5 with a limit of half the norm."""
    store, update = Store(), torch.zeros(1, D)
    update[0, :2] = torch.tensor([3.0, 4.0])
    _, message = encoded(ErrorFeedback((RandK(D, D), Clip(2.5)), D), opened(0, [0], store), update)
    torch.testing.assert_close(message.messages, update / 2)
    torch.testing.assert_close(store.rows["error"][0], update[0] / 2)


@pytest.mark.parametrize(
    "stage",
    [
        ErrorFeedback((RandK(D, 3),), D),
        ErrorFeedback((PerDeviceTopK(D, 3),), D),
        ShiftedCompression(PerDeviceRandK(D, 3), 0.3, 4 / N, D),
        ShiftedCompression(RandK(D, 3, rescale=True), 0.3, 4 / N, D),
    ],
    ids=["error-rand", "error-top", "shift-own", "shift-shared"],
)
@pytest.mark.parametrize("chunk", [1, 3])
def test_in_chunks_as_in_one(stage: Stage, chunk: int) -> None:
    stores = [Store(), Store()]
    for index in range(4):
        devices, heard = plan(index)
        updates = normal(index, 4)
        coders = [stage.open(opened(index, devices, store, heard)) for store in stores]
        whole = coders[0].encode(Batch(updates, torch.ones(4))).messages
        rows = [slice(start, min(start + chunk, 4)) for start in range(0, 4, chunk)]
        parts = [coders[1].encode(Batch(updates[row], torch.ones(row.stop - row.start), rows=row)) for row in rows]
        torch.testing.assert_close(torch.cat([part.messages for part in parts]), whole)
        assert [part.rows for part in parts] == rows
        torch.testing.assert_close(*(coder.decode(whole.mean(dim=0)) for coder in coders))
    torch.testing.assert_close(stores[1].rows, stores[0].rows)


def test_the_store_is_not_a_view_of_the_updates() -> None:
    for stage in (ErrorFeedback((RandK(D, 3),), D), ShiftedCompression(PerDeviceRandK(D, D), 1.0, 1.0, D)):
        store, updates = Store(), normal(0, 2)
        encoded(stage, opened(0, [0, 1], store), updates)
        before = copy.deepcopy(store.rows)
        updates.zero_()
        torch.testing.assert_close(store.rows, before, rtol=0, atol=0)
        for value in chain(*(kept.values() for kept in store.rows.values())):
            assert value.untyped_storage().nbytes() == value.nbytes


@pytest.mark.parametrize("compressor", [PerDeviceRandK(D, 3), RandK(D, 3, rescale=True), PerDeviceTopK(D, 2)])
def test_without_a_step_it_is_direct_compression(compressor: Stage) -> None:
    store = Store()
    for index in range(3):
        devices, heard = plan(index)
        updates, scale = normal(index, 4), torch.tensor([1.0, 2.0, 0.5, 3.0])
        round_ = opened(index, devices, store, heard)
        direct = compressor.open(round_)
        messages = direct.encode(Batch(updates, scale)).messages
        shifted, message = encoded(ShiftedCompression(compressor, 0.0, 4 / N, D), round_, updates, scale)
        torch.testing.assert_close(message.messages, messages)
        assert torch.equal(shifted.decode(messages.mean(dim=0)), direct.decode(messages.mean(dim=0)))
        assert shifted.noise_gain == direct.noise_gain
        assert shifted.coordinates is direct.coordinates or np.array_equal(shifted.coordinates, direct.coordinates)
    assert not store.rows
    assert not store.server


@pytest.mark.parametrize("gamma", [0.0, 0.1, 0.5, 1.0])
@pytest.mark.parametrize("identity", [PerDeviceRandK(D, D), RandK(D, D, rescale=True)])
def test_of_the_identity_the_plain_mean_is_left(identity: Stage, gamma: float) -> None:
    """Full participation, 6 rounds (SoteriaFL becomes SGD)."""
    stage, store = ShiftedCompression(identity, gamma, 1.0, D), Store()
    for index in range(6):
        updates, scale = normal(index, N), torch.linspace(0.5, 2.0, N, dtype=torch.float64)
        coder, message = encoded(stage, opened(index, list(range(N)), store), updates, scale)
        wanted = (updates * scale[:, None]).mean(dim=0)
        torch.testing.assert_close(coder.decode(message.messages.mean(dim=0)), wanted)


@pytest.mark.parametrize("over_received", [False, True])
@pytest.mark.parametrize("everybody", [False, True])
@pytest.mark.parametrize("compressor", [PerDeviceRandK(D, 3), RandK(D, 3, rescale=True), RandK(D, 3, amplify=True)])
def test_the_servers_shift_is_the_mean_of_the_devices(compressor: Stage, everybody: bool, over_received: bool) -> None:
    """Over all N, in each of 5 rounds, with lost devices; whichever number the uplink divides by."""
    store, gamma = Store(), shift_step(D / 3 - 1)
    factor = D / 3 if isinstance(compressor, RandK) and compressor.rescale else 1
    stage = ShiftedCompression(compressor, gamma, 1.0 if everybody else 4 / N, D, over_received)
    for index in range(5):
        devices, heard = plan(index)
        if everybody:
            devices = [*devices, *(device for device in range(N) if device not in devices)]
        coder, message = encoded(stage, opened(index, devices, store, heard), normal(index, len(devices)))
        there = torch.from_numpy(np.isin(devices, heard)).double()
        shift = store.server.get("shift", torch.zeros(D, dtype=torch.float64))
        mean = (there @ message.messages) / (there.sum() if over_received else len(devices))
        torch.testing.assert_close(coder.decode(mean), shift + factor * expanded(mean, coder.coordinates))
        rows = store.read_all("shift", np.arange(N), torch.zeros(D, dtype=torch.float64))
        torch.testing.assert_close(store.server["shift"], rows.mean(dim=0))
    assert torch.count_nonzero(rows) > N


def test_who_is_not_heard_leaves_its_shift() -> None:
    store, stage = Store(), ShiftedCompression(PerDeviceRandK(D, D), 0.5, 1.0, D)
    encoded(stage, opened(0, [0, 1], store), normal(0, 2))
    before = store.rows["shift"][1].clone()
    encoded(stage, opened(1, [0, 1], store, heard=[0]), normal(1, 2))
    assert torch.equal(store.rows["shift"][1], before)
    torch.testing.assert_close(store.rows["shift"][0], 0.25 * normal(0, 2)[0] + 0.5 * normal(1, 2)[0])


def test_a_sample_of_devices_is_unbiased() -> None:
    """After 4 rounds with shifts of all sizes: over all pairs of 6, s + mean(g_i - s_i) is the mean of the g_i."""
    store, stage = Store(), ShiftedCompression(PerDeviceRandK(D, D), 0.4, 2 / N, D)

    def decoded(plan: Round, updates: Tensor) -> Tensor:
        coder, message = encoded(stage, plan, updates)
        return coder.decode(message.messages.mean(dim=0))

    for index in range(4):
        decoded(opened(index, [index, index + 2], store), normal(index, 2))
    gradients, pairs = normal(9, N), [list(pair) for pair in combinations(range(N), 2)]
    of_pairs = [decoded(opened(4, pair, copy.deepcopy(store)), gradients[pair]) for pair in pairs]
    torch.testing.assert_close(torch.stack(of_pairs).mean(dim=0), gradients.mean(dim=0))


def test_shifts_learn_a_gradient_that_stays() -> None:
    """Compressed by PerDeviceRandK, s_i -> g_i: the error of s + mean(v_i) falls with the rounds, or it stays."""
    gradients, errors = normal(0, N), []
    for gamma in (0.0, shift_step(1.0)):
        store, stage = Store(), ShiftedCompression(PerDeviceRandK(D, 4), gamma, 1.0, D)
        for index in range(60):
            coder, message = encoded(stage, opened(index, list(range(N)), store), gradients)
            decoded = coder.decode(message.messages.mean(dim=0))
        errors.append(float((decoded - gradients.mean(dim=0)).norm()))
    assert errors[1] < 1e-6 * errors[0]


@pytest.mark.parametrize(("omega", "gamma"), [(0.0, 0.5**0.5), (1.0, (3 / 16) ** 0.5), (19.0, (39 / 16_000) ** 0.5)])
def test_shift_step(omega: float, gamma: float) -> None:
    assert shift_step(omega) == pytest.approx(gamma)


def test_bounds_of_the_messages() -> None:
    """What is kept comes on top: nothing is known of the norm, unless a clip follows."""
    inf = float("inf")
    before = MessageBound(D, 2.0, 1.0, 0.5, device_state=(DeviceState("snapshot", 3),))
    error = ErrorFeedback((RandK(D, 3),), D).bound(before)
    assert (error.entries, error.peak, error.rms, error.sensitivity) == (3, inf, inf, inf)
    assert error.device_state == (DeviceState("snapshot", 3), DeviceState("error", D))
    assert error.device_state[1].nbytes == 4 * D
    clipped = ErrorFeedback((PerDeviceTopK(D, 3), Clip(0.25)), D).bound(before)
    assert (clipped.entries, clipped.sent_values, clipped.peak, clipped.sensitivity) == (D, 3, 0.25, 0.25)
    shifted = ShiftedCompression(PerDeviceRandK(D, 4), 0.5, 1.0, D).bound(before)
    assert (shifted.entries, shifted.sent_values, shifted.peak, shifted.sensitivity) == (D, 4, inf, inf)
    assert ShiftedCompression(PerDeviceRandK(D, 4), 0.0, 1.0, D).bound(before).sensitivity == 1.0  # shifts of 0
    assert shifted.device_state == (DeviceState("snapshot", 3), DeviceState("shift", D))
