"""Hardware of the radios whose effect is not known on a link, or beside another effect, is refused in one line."""

import pytest

from airfl.errors import UserError
from tests.laws.decoding import built
from tests.refusals import one_line

RAPP, COARSE = "hardware.amplifier=rapp", "hardware.adc_bits=4"
BURSTS = ("channel.interference_to_noise_db=10", "channel.interference=bernoulli-gaussian")
ANALOG, MEDIAN, BLIND = (
    ("scheme.name=wfl-p",),
    ("scheme.name=wfl-p", "antennas.count=3", "antennas.combining=median"),
    ("scheme.name=wfl-p", "antennas.combining=sum", "power.policy=blind"),
)
of_both = pytest.mark.parametrize("hardware", [RAPP, COARSE])


def refusal(hardware: str, *overrides: str) -> str:
    """What is said to settings that are allowed without the hardware."""
    built(600, *overrides)
    with pytest.raises(UserError, match=one_line("omit it", begins=hardware.partition("=")[0])) as refused:
        built(600, *overrides, hardware)
    return str(refused.value)


@of_both
@pytest.mark.parametrize("scheme", ["fsk-mv", "reed", "ncairfl", "affine-oac", "balanced-digits"])
def test_on_energies(hardware: str, scheme: str) -> None:
    assert "noncoherent" in refusal(hardware, f"scheme.name={scheme}")


@of_both
def test_without_channel_knowledge_at_the_devices(hardware: str) -> None:
    assert "power.policy" in refusal(hardware, *BLIND)


def test_before_a_robust_combiner_of_several_antennas() -> None:
    assert "antennas.combining = 'median'" in refusal(RAPP, *MEDIAN)
    built(600, "scheme.name=wfl-p", "antennas.combining=median", RAPP)  # of one antenna it has no effect


@of_both
@pytest.mark.parametrize("link", ["digital", "ideal"])
def test_on_links_of_bits_under_impulses(hardware: str, link: str) -> None:
    of_bits = ("scheme.name=fedavg", f"scheme.link={link}")
    assert "channel.interference = 'bernoulli-gaussian'" in refusal(hardware, *of_bits, *BURSTS)
    built(600, *of_bits, BURSTS[0], hardware)


def test_a_converter_under_impulses() -> None:
    assert "channel.interference = 'bernoulli-gaussian'" in refusal(COARSE, *ANALOG, *BURSTS)
    built(600, *ANALOG, BURSTS[0], COARSE)
    built(600, *ANALOG, BURSTS[1], COARSE)  # a law of interference without a level
    built(600, *ANALOG, *BURSTS, RAPP)
