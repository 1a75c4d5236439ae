"""User-defined combiners: as objects, or registered and named in a settings file, and findings of `airfl check`."""

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import airfl
from airfl.config import Settings
from airfl.exports import export
from airfl.study.check import check_part
from channels import antennas
from channels.antennas import COMBINERS, Combiner, MaxMin
from channels.antennas.combiner import Array, Complex
from channels.csi.state import Response
from channels.part import parameter
from tests.conftest import small_settings
from tests.refusals import one_line
from tests.small_data import run, traced


class Tilted(Combiner):
    """Between the sum of the channels and the best worst gain."""

    name = "tilted"
    share: float = parameter(default=0.0, ge=0, le=1, description="of the sum's weights")

    def weights(self, response: Response, factors: Array) -> Complex:
        both = [one().weights(response, factors) for one in (COMBINERS["max-min"], COMBINERS["sum"])]
        mixed = (1 - self.share) * both[0] + self.share * both[1]
        return np.asarray(both[0] if self.share == 0 else mixed / np.linalg.norm(mixed, axis=0))


POLICY = "power.policy=truncated-inversion"
SPOILS: dict[str, Any] = {
    "not": lambda weights: weights,
    "long": lambda weights: 2 * weights,
    "flat": lambda weights: weights[:, 0, 0],
    "nan": lambda weights: weights * np.nan,
    "text": lambda weights: np.full(weights.shape, "a"),
    "random": lambda weights: weights * np.exp(1j * np.random.default_rng().random()),
    "over all": lambda weights: np.broadcast_to(weights[:, :1, :1], weights.shape),
}


class Spoilt(Combiner):
    """Max-min, spoilt in one place."""

    name = "spoilt"
    how: str = parameter(default="long", description="what is done to the weights")
    idle: float = parameter(default=1.0, description="what nobody reads")

    def weights(self, response: Response, factors: Array) -> Complex:
        return SPOILS[self.how](MaxMin().weights(response, factors))  # type: ignore[no-any-return]


class Lying(Spoilt):
    """Said to hear one antenna, with weights for all of them."""

    name = "lying"
    one_antenna = True


@pytest.fixture
def registered() -> Iterator[None]:
    antennas.register(Tilted)
    yield
    del COMBINERS._registered["tilted"]


def combining(combiner: Combiner | str | dict[str, Any], *overrides: str) -> Settings:
    return small_settings("antennas.count=3", *overrides).resolved(antennas={"combining": combiner})


def test_an_own_combiner_that_is_max_min_gives_its_trace(tmp_path: Path) -> None:
    """And its channel, of which combining is no part, is exported."""
    runs = [run(combining(one), tmp_path / str(index)) for index, one in enumerate((Tilted(), "max-min"))]
    (found, attributes), (wanted, _) = map(traced, runs)
    assert [one.name for one in export(tmp_path / "0", "channel", tmp_path / "out")] == ["channel.h5"]
    assert found == wanted
    assert '"combining": {"name": "tilted", "share": 0.0}' in attributes["config"]
    assert "Tilted" in attributes["own_parts"]


@pytest.mark.usefixtures("registered")
def test_it_is_named_in_a_file_with_its_parameters() -> None:
    table = small_settings("antennas.combining={ name = 'tilted', share = 0.5 }")
    assert table.antennas.combiner == Tilted(share=0.5)
    assert airfl.load_settings(table, ["antennas.combining.share=0.25"]).antennas.combiner == Tilted(share=0.25)
    budgets = [airfl.link_budget(combining({"name": "tilted", "share": share})) for share in (0.0, 1.0)]
    assert budgets[0].energy_j != budgets[1].energy_j


def test_a_built_in_combiner_is_kept_by_its_name() -> None:
    assert combining(MaxMin()) == combining({"name": "max-min"}) == combining("max-min")
    assert combining("first").antennas.combiner.one_antenna


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("max", ("antennas.combining: unknown combiner 'max'; did you mean max-min?", "principal")),
        ("{ name = 'sum', share = 1.0 }", ("antennas.combining.share: combiner 'sum' has no share",)),
        ("3", ("antennas.combining: combiner must be ", "got 3")),
        (Spoilt(how="long"), ("antennas.combining: Spoilt() must return weights of norm 1", "got 2")),
        (Spoilt(how="flat"), ("Spoilt(how='flat') must return weights of shape", "(3, 1, 1), got (3,)")),
        (Spoilt(how="nan"), ("returned weights that are not finite",)),
        (Lying(how="not"), ("Lying(how='not') declares `one_antenna`, but returned non-zero weights",)),
        (Spoilt(how="text"), ("must return real or complex weights, got type <U1",)),
    ],
    ids=str,
)
def test_what_is_no_combiner_or_breaks_its_promise_is_refused_in_one_line(given: Any, said: tuple[str, ...]) -> None:
    with pytest.raises(airfl.UserError, match=one_line(*said)):
        airfl.link_budget(
            combining(given) if isinstance(given, Combiner) else small_settings(f"antennas.combining={given}")
        )


@pytest.mark.parametrize(
    ("combiner", "check", "said"),
    [
        (Spoilt(how="long"), "weights", "got 2"),
        (Spoilt(how="random"), "same-again", "other weights"),
        (Spoilt(how="over all"), "coefficients", "combined differently when alone"),
        (Spoilt(how="over all"), "parameters", "idle is never read"),
    ],
    ids=str,
)
def test_airfl_check_finds_what_is_wrong(
    combiner: Combiner, check: str, said: str, found_by: Callable[[Combiner, str], dict[str, str]]
) -> None:
    assert said in found_by(combiner, check)[check]


def test_airfl_check_finds_nothing_in_what_is_right() -> None:
    assert not [one for one in check_part(Tilted(share=0.3)) if one.outcome == "wrong"]


@pytest.mark.parametrize("overrides", [("power.alignment=population",), ("power.participation=0.5", POLICY)])
def test_how_an_own_combiner_s_channel_fades_is_not_known(overrides: tuple[str, ...]) -> None:
    with pytest.raises(airfl.UserError, match="combined antennas"):
        airfl.link_budget(combining(Tilted(), *overrides))
    airfl.link_budget(combining("first", *overrides))


@pytest.mark.parametrize("csi_error", ["quantile", "realised"])
def test_nor_how_errors_of_correlated_antennas_are_combined(csi_error: str) -> None:
    rayleigh = ("channel.fading=rayleigh", "antennas.correlation=exponential", f"privacy.csi_error={csi_error}")
    airfl.link_budget(combining("first", *rayleigh))
    refused = pytest.raises(airfl.UserError, match=r"privacy\.csi_error: .* whose errors are independent")
    with refused if csi_error == "quantile" else nullcontext():
        airfl.link_budget(combining(Tilted(), *rayleigh))
