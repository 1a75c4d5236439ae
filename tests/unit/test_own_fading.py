"""User-defined fading: laws, models and channels as objects, or registered and named in a settings file."""

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import airfl
from airfl.config import Settings
from channels import fading
from channels.fading import ChannelRequest, Fading, FadingLaw, FlatFading, OwnChannel, SelectiveFading
from channels.fading.registry import FADINGS
from channels.part import PartError, is_built_in, parameter
from channels.selective import SelectiveRequest, SelectiveResponse
from tests.conftest import small_settings
from tests.entry_points import offer
from tests.radios import radio_of
from tests.refusals import one_line
from tests.resuming import interrupted
from tests.small_data import few_samples, run, traced


class Shares(FlatFading):
    """Exponential, with parameters of its own that settings know nothing of."""

    name = "shares"

    share: float = parameter(default=0.5, gt=0, le=1, description="of nothing")
    steps: tuple[int, ...] = parameter(default=(), description="of nothing")

    def law(self) -> FadingLaw:
        return fading.Exponential().law()


class Line(SelectiveFading):
    """The tapped line, by another name."""

    name = "line"

    def respond(self, request: SelectiveRequest) -> SelectiveResponse:
        return fading.TappedLine().respond(request)


class Measured(OwnChannel):
    """The gains that the demo's built-in channel draws, as if they had been measured."""

    selective = False

    def response(self, request: ChannelRequest) -> Any:
        return demos_channel(request)

    def mean_power(self, devices: int) -> Any:
        return demos_radio().mean_power[:devices]


@cache
def demos_radio() -> Any:
    return radio_of(small_settings())


def demos_channel(request: ChannelRequest) -> Any:
    return demos_radio().channel(request.round_index, request.devices, request.frame).response


@pytest.fixture
def registered() -> Iterator[None]:
    fading.register(Shares)
    yield
    del FADINGS._registered["shares"]


FUNCTION = {
    "name": "function",
    "function": f"{__name__}.demos_channel",
    "selective": False,
    "moves": False,
    "power": 0.5,
}


@pytest.mark.parametrize(
    ("own", "built_in", "recorded"),
    [
        (Shares(share=0.25, steps=(1, 2)), (), {"name": "shares", "share": 0.25, "steps": [1, 2]}),
        (Line(), ("channel.fading=tapped-line",), {"name": "line"}),
        (Measured(), (), {"name": "Measured"}),
        (fading.FunctionChannel(function=demos_channel, selective=False, power=0.5), (), FUNCTION),
    ],
    ids=repr,
)
def test_a_built_in_fading_as_ones_own(own: Fading, built_in: tuple[str, ...], recorded: dict[str, Any]) -> None:
    """Its trace, bit for bit, which names it by its table; what is given is the settings' own object to the end."""
    settings = small_settings().resolved(channel={"fading": own})
    assert settings.resolved(run={"threads": 1}).channel.fading_model is own
    found, attributes = traced(settings)
    assert found == traced(small_settings(*built_in))[0]
    assert json.loads(attributes["config"])["channel"]["fading"] == recorded


@pytest.mark.usefixtures("registered")
@pytest.mark.parametrize(
    ("given", "part"),
    [
        ("shares", Shares()),
        ("{ name = 'shares', share = 0.3 }", Shares(share=0.3)),
        ("{ name = 'rician', k = 5 }", fading.Rician(k=5.0)),
        ("tdl-c", fading.TdlC()),
    ],
)
def test_a_name_or_a_table_in_a_file_is_the_part(given: str, part: Fading) -> None:
    settings = small_settings(f"channel.fading={given}")
    assert settings.channel.fading_model == part
    assert Settings.model_validate(json.loads(airfl.config.to_json(settings.model_dump()))) == settings
    assert settings == small_settings().resolved(channel={"fading": part if "{" in given else given})


def test_a_table_of_a_built_in_fading_is_kept_by_the_keys_of_the_section() -> None:
    """So that one channel has one form in traces and in the names of folders."""
    by_table = small_settings("channel.fading={ name = 'rician', k = 5.0 }")
    assert by_table == small_settings("channel.fading=rician", "channel.rician_k=5.0")
    assert by_table.model_dump()["channel"]["fading"] == "rician"


@pytest.mark.usefixtures("registered")
@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("{ name = 'shares', shares = 0.3 }", ("channel.fading.shares: ", "did you mean share?")),
        ("{ name = 'shares', share = 1.5 }", ("channel.fading.share must be at most 1, got 1.5",)),
        ("{ name = 'shares', k = 1.0 }", ("channel.fading.k: ", "which belongs to rician")),
        ("{ name = 'share' }", ("channel.fading.name: unknown fading law 'share'; did you mean shares?",)),
        ("share", ("channel.fading: unknown fading law 'share'; did you mean shares?", "umi")),
        ("3", ("channel.fading: fading law must be ", "got 3")),
        ("{ name = 'replay' }", ("channel.fading.file: fading law 'replay' needs file",)),
    ],
)
def test_a_wrong_table_is_refused_in_one_line(given: str, said: tuple[str, ...]) -> None:
    with pytest.raises(airfl.UserError, match=one_line(*said)):
        small_settings(f"channel.fading={given}")


def test_a_key_beside_a_table_that_says_otherwise_is_refused() -> None:
    with pytest.raises(airfl.UserError, match=one_line("channel.rician_k: 3.0 contradicts ", "Rician(k=5.0)")):
        small_settings("channel.fading={ name = 'rician', k = 5.0 }", "channel.rician_k=3.0")


class Broken(FlatFading):
    """A law that promises too much."""

    changes: Any = parameter(description="of the exponential law")

    def law(self) -> FadingLaw:
        return replace(fading.Exponential().law(), **BREAKS[self.changes][0])


BREAKS: dict[str, tuple[dict[str, Any], str]] = {
    "another cdf": ({"cdf": lambda gain: -np.expm1(-(gain**2))}, "not inverse to each other"),
    "another mean": (
        {"cdf": lambda gain: -np.expm1(-gain / 2), "quantile": lambda share: -2 * np.log1p(-share)},
        "the mean of |h|",
    ),
    "another mean square": ({"mean_square": 1.5}, "the mean_square of |h|"),
    "one number": ({"quantile": lambda share: 1.0}, "shape ()"),
    "not finite": ({"quantile": lambda share: np.full(np.shape(share), np.nan)}, "finite gains of at least 0"),
    "falling": ({"quantile": lambda share: 1 - share}, "the quantile of Broken(changes='falling') must not decrease"),
    "no share": ({"cdf": lambda gain: 2 + gain}, "probabilities from 0 to 1"),
}


@pytest.mark.parametrize("how", BREAKS)
def test_a_law_that_breaks_its_promise_is_refused_before_a_run(how: str) -> None:
    settings = small_settings().resolved(channel={"fading": Broken(changes=how)})
    with pytest.raises(airfl.UserError, match=one_line("channel: ", BREAKS[how][1], "Broken")):
        radio_of(settings)


@pytest.mark.parametrize("name", [name for name, part in FADINGS.items() if issubclass(part, FlatFading)])
def test_every_law_of_the_package_keeps_what_is_asked_of_a_users_own(name: str) -> None:
    part = FADINGS[name]()
    assert is_built_in(part)
    assert isinstance(part, FlatFading)
    fading.check_law(part.law(), name)


def of_shape(*shape: int, value: complex = 1.0) -> Callable[[ChannelRequest], Any]:
    """A function whose H has other lengths of the last axes, or no axis for devices."""
    return lambda request: np.full((len(request.devices), *shape) if len(shape) == 3 else shape, value)


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (of_shape(1, 1), "got (1, 1) in round 0"),
        (of_shape(2, 1, 1), "2, 1, 1) in round 0"),
        (of_shape(1, 1, 7), "1, 1, 7)"),
        (of_shape(1, 1, 1, value=np.nan), "not finite in round 0, at device 0, antenna 0"),
        (of_shape(1, 1, 1, value=0.0), "mean_power() of 'function' must return a finite number above 0"),
        (lambda request: "gains", "must return complex numbers"),
        (lambda request: 1 // 0, "response() for round 0 raised ZeroDivisionError: integer division or modulo by zero"),
    ],
)
def test_a_channel_that_breaks_its_promise_is_named(function: Any, said: str) -> None:
    settings = small_settings("topology.kind=none").resolved(channel={"fading": function})
    assert settings.channel.fading_model == fading.FunctionChannel(function=function)
    with pytest.raises(airfl.UserError, match=one_line("channel.fading: ", said)):
        radio_of(settings)


@pytest.mark.parametrize(
    ("stated", "said"),
    [
        (lambda devices: 1 // 0, "mean_power() raised ZeroDivisionError"),
        (lambda devices: ["loud"] * devices, "mean_power() raised ValueError: could not convert string"),
    ],
)
def test_a_mean_power_that_fails_is_named(stated: Any, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Measured, "mean_power", lambda self, devices: stated(devices))
    with pytest.raises(airfl.UserError, match=one_line("channel.fading: Measured(): ", said)):
        radio_of(small_settings("topology.kind=none").resolved(channel={"fading": Measured()}))


@pytest.mark.parametrize(
    ("law", "said"),
    [
        (
            lambda good: replace(good, mean_square=None),
            "mean_square of the law of Shares(share=0.31) must be a number of at least",
        ),
        (
            lambda good: replace(good, least=np.nan),
            "least of the law of Shares(share=0.31) must be a number of at least 0, got nan",
        ),
        (lambda good: replace(good, cdf=0.5), "cdf of the law of Shares(share=0.31) must be a function, got 0.5"),
        (
            lambda good: replace(good, quantile=lambda u: u.wrong),
            "the quantile of Shares(share=0.31) raised AttributeError",
        ),
        (
            lambda good: replace(good, cdf=lambda g: ["a"] * len(g)),
            "the cdf of Shares(share=0.31) must return real numbers",
        ),
        (lambda good: None, "law() of Shares(share=0.31) must return a FadingLaw, got NoneType"),
        (lambda good: good.wrong, "law() raised AttributeError: 'FadingLaw' object has no attribute 'wrong'"),
    ],
)
def test_a_law_that_is_none_is_told_in_one_line(law: Any, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Shares, "law", lambda self: law(fading.Exponential().law()))
    with pytest.raises(airfl.UserError, match=one_line("channel", said)):
        radio_of(small_settings().resolved(channel={"fading": Shares(share=0.31)}))


def test_a_selective_model_that_fails_is_named() -> None:
    class Off(SelectiveFading):
        how: Any = parameter(default=None, description="what it returns")

        def respond(self, request: SelectiveRequest) -> SelectiveResponse:
            return self.how(request)  # type: ignore[no-any-return]

    for how, said in (
        (lambda request: 1 // 0, "respond() for round 0 raised ZeroDivisionError"),
        (lambda request: None, "respond() for round 0 must return a SelectiveResponse, got None"),
        (lambda request: SelectiveResponse(None), "must return H as a numpy array, got None"),
    ):
        radio = radio_of(small_settings().resolved(channel={"fading": Off(how=how)}))
        with pytest.raises(airfl.UserError, match=one_line("channel.fading: Off(", said)):
            radio.channel(0, np.arange(3), radio.frame(100))


@pytest.mark.parametrize(("value", "said"), [((3, 1, 1, 5), "got (3, 1, 1, 5)"), (None, "not finite")])
def test_a_selective_model_that_breaks_its_promise_is_named(value: Any, said: str) -> None:
    class Off(SelectiveFading):
        def respond(self, request: SelectiveRequest) -> SelectiveResponse:
            shape = value or (len(request.draw(1)), 1, 1, request.frame.subcarriers)
            return SelectiveResponse(np.full(shape, 1.0 if value else np.inf, np.complex64))

    radio = radio_of(small_settings().resolved(channel={"fading": Off()}))
    with pytest.raises(airfl.UserError, match=one_line("channel.fading: Off() ", said)):
        radio.channel(0, np.arange(3), radio.frame(100))


def test_gains_that_differ_over_elements_keep_their_places() -> None:
    """A channel that moves and is selective: each block's and subcarrier's number arrives where it was put."""

    class Ramp(OwnChannel):
        moves = True

        def response(self, request: ChannelRequest) -> Any:
            blocks = np.arange(request.frame.blocks)[:, None]
            here = 1 + blocks + 1j * np.arange(request.frame.subcarriers)
            return np.broadcast_to(here, (len(request.devices), request.antennas, *here.shape))

    settings = small_settings("channel.coherence=slot", "antennas.count=2").resolved(channel={"fading": Ramp()})
    radio = radio_of(settings)
    frame = radio.frame(100_000)
    found = radio.channel(3, np.array([4, 9]), frame).response
    assert found.shape == (2, 2, frame.blocks, frame.subcarriers)
    assert frame.blocks > 1
    np.testing.assert_array_equal(found[1, 0, 2], 3 + 1j * np.arange(frame.subcarriers))
    with pytest.raises(airfl.UserError, match=one_line("topology.kind: the gains of 'Ramp' already include path loss")):
        airfl.link_budget(settings.resolved(channel={"units": "physical"}, topology={"kind": "disc"}))


def test_a_run_goes_on_with_the_same_object_alone(tmp_path: Path) -> None:
    """A class that no name stands for: its parameters are compared, and it is never read from the folder."""
    settings = small_settings("run.checkpoint_every=1", "run.rounds=3").resolved(channel={"fading": Shares(share=0.25)})
    others = {"'share': 0.5": Shares(share=0.5), "demos_channel": demos_channel, "is 'exponential'": "exponential"}

    def refused(given: object, *said: str) -> None:
        with pytest.raises(airfl.UserError, match=one_line(*said)):
            airfl.run(settings.resolved(channel={"fading": given}), tmp_path, data=few_samples(), resume=True)

    with pytest.raises(KeyboardInterrupt):
        run(settings, tmp_path, interrupted(2))
    for said, other in others.items():
        refused(other, "its run was started with channel.fading = {'name': 'shares', 'share': 0.25, ", said)
    resumed = airfl.run(settings, tmp_path, data=few_samples(), resume=True)
    assert traced(resumed)[0] == traced(settings)[0]
    for said, other in others.items():
        refused(other, "contains a complete run with channel.fading = {'name': 'shares', 'share': 0.25, ", said)
    refused(Shares(share=0.25), "holds a complete run; ")


def test_an_installed_package_offers_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    offer(monkeypatch, FADINGS, EntryPoint("shares", f"{__name__}:Shares", "airfl.fading"))
    settings = small_settings("channel.fading={ name = 'shares', share = 0.3 }")
    assert settings.channel.fading_model == Shares(share=0.3)
    assert "shares" in list(FADINGS)


def test_what_is_no_fading_is_refused_when_it_is_registered() -> None:
    with pytest.raises(PartError, match="registered as fading law: it must derive from Fading"):
        fading.register(dict)  # type: ignore[type-var]
    with pytest.raises(PartError, match="fading law 'rician' already exists"):
        fading.register(type("Taken", (Shares,), {"name": "rician"}))


def test_the_package_lists_what_there_is() -> None:
    import channels

    assert {"fading", "power", "selective", "antennas"} <= set(dir(channels))
    assert channels.fading.Rician is fading.Rician
    assert {"Rician", "TdlA", "Umi", "FlatFading", "OwnChannel"} <= set(dir(channels.fading))
    with pytest.raises(AttributeError, match="'channels' has no attribute 'fadin'"):
        channels.fadin  # noqa: B018
