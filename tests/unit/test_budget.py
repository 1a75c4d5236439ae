"""The link budget equals the radio side of a run with the same seed, round by round."""

import functools
import json
import math
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure

from airfl.analysis.budget import Budget, link_budget
from airfl.config import Settings, load_settings
from airfl.errors import UserError
from airfl.report.budget import budget_table, draw_budget, plot_budget
from airfl.schemes.names import SCHEMES
from airfl.simulation import run
from airfl.uplinks.stages.top_k import subset_bits
from channels.fading import FADING_LAWS
from tests.conftest import DEMO, ROOT, small_settings
from tests.processes import airfl
from tests.unit.datasets.support import peak_of

PAPER = ROOT / "experiments" / "configs" / "papers" / "pfels-cifar10.toml"
KEYS = [
    *("scheme", "rounds", "dimension", "entries_per_round", "entries_per_device", "energy_j", "resource_elements"),
    *("air_time_s", "alignment_coefficient_median", "privacy_bound_binding_share", "noise_multiplier_min"),
    *("epsilon_paper", "epsilon_round_max", "epsilon_round_max_as_poisson", "pilot_elements", "downlink_elements"),
    *(
        "downlink_air_time_s",
        "downlink_energy_j",
        "amplifier_energy_j",
        "fronthaul_bits",
        "noise_std",
        "interference_std",
        "silent_share",
        "uplink_bits",
        "paper_cost_mb",
    ),
    *("device_memory_bytes", "units", "claim_scope", "level"),
]
VARIANTS = {
    "plain": (),
    "rayleigh, redrawn": ("channel.fading=rayleigh", "channel.bounds=redraw"),
    "transmit power": ("power.limit=transmit_power",),
    "strict": ("power.strict=true",),
    "one limit": ("power.max_snr_db=8.0",),
    "iq": ("grid.packing=iq",),
    "poisson": ("selection.kind=poisson",),
    "no noise": ("channel.noise=false",),
    "weights": ("server.weights=samples", "task.partition=dirichlet"),
}
TOGETHER = ("rayleigh, redrawn", "transmit power", "strict", "iq")
VARIANTS["together"] = sum((VARIANTS[name] for name in TOGETHER), ())
REFUSED = {  # noise of the devices' own is refused under Poisson sampling; cpSGD adds whole numbers up
    *((name, "poisson") for name in ("dp-fedavg", "fed-smp-randk", "fed-smp-topk", "cpsgd")),
    ("cpsgd", "weights"),
}


def in_short(name: str, variant: str) -> bool:
    """Whether `make test` has the pair: every setting with one scheme, and every scheme with some settings at once."""
    others = name in ("fedavg-topk", "fedavg") and variant not in TOGETHER
    return name == "pfels" or variant == "together" or others


PAIRS = [
    pytest.param(name, variant, marks=() if in_short(name, variant) else pytest.mark.full)
    for name in SCHEMES
    for variant in VARIANTS
    if (name, variant) not in REFUSED
]


def budget_settings(*overrides: str) -> Settings:
    return small_settings("run.rounds=3", "run.evaluate_every=3", "scheme.ratio=0.5", *overrides)


def budget_of(*overrides: str) -> Budget:
    return link_budget(budget_settings(*overrides))


@pytest.mark.parametrize(("name", "variant"), PAIRS)
def test_it_is_what_a_run_does(name: str, variant: str) -> None:
    """Everything but the energy of sums in the air is known before training, and equal to the last digit."""
    settings = budget_settings(f"scheme.name={name}", *VARIANTS[variant])
    budget = link_budget(settings)
    with run(settings).trace() as opened:
        trace = opened.load()
    exact = {
        "rounds": 3,
        "entries_per_round": trace["message_length"][0],
        "resource_elements": trace["resource_elements"].sum(),
        "alignment_coefficient": trace["alignment_coefficient"],
        "alignment_coefficient_median": np.median(trace["alignment_coefficient"]),
        "power_bound_binding": trace["power_bound_binding"],
        "privacy_bound_binding": trace["privacy_bound_binding"],
        "noise_multiplier_min": trace["noise_multiplier"].min(),
        "epsilon_round_max": trace["epsilon_round"].max(),
        "epsilon_paper": trace["epsilon_paper"].max(),
        "uplink_bits": trace["bits_on_air"].clip(min=0).sum(),  # -1 fills a row
    }
    for figure, value in exact.items():
        np.testing.assert_array_equal(getattr(budget, figure), value, err_msg=figure)
    assert not np.isnan([budget.noise_multiplier_min, budget.epsilon_round_max]).any()
    assert budget.air_time_s == pytest.approx(float(trace["latency_s"].sum()), rel=1e-14)
    if SCHEMES[name].links[0] in ("digital", "ideal"):
        np.testing.assert_allclose(budget.round_energy, trace["energy_j"], rtol=1e-14)
    if SCHEMES[name].links[0] == "noncoherent":  # energies are those of amplitudes in single precision
        assert (trace["energy_j"] <= np.array(budget.round_energy) * (1 + 1e-6)).all()
        if name not in ("reed", "balanced-digits"):  # the others send the same energy whatever they send
            np.testing.assert_allclose(budget.round_energy, trace["energy_j"], rtol=1e-6)


CELLS = (
    *("channel.units=physical", "channel.fading=rayleigh", "topology.kind=disc", "topology.radius_m=200"),
    "topology.neighbours=[[400,0],[-300,200]]",
)


@pytest.mark.parametrize("name", ["pfels", "wfl-p", "fsk-mv"])
@pytest.mark.parametrize("others", [CELLS, ("channel.interference_to_noise_db=3.0",)], ids=["neighbours", "level"])
def test_interference_is_that_of_the_run_s_trace(name: str, others: tuple[str, ...]) -> None:
    if (name, others) == ("fsk-mv", CELLS):
        pytest.skip("neighbouring cells are refused on energies")
    settings = budget_settings(f"scheme.name={name}", *others)
    budget = link_budget(settings)
    with run(settings).trace() as opened:
        trace = opened.load()
    linear = name != "fsk-mv"  # a vote is not linear in the noise, so that its trace has none after decoding
    for figure in ("noise_std", "interference_std"):
        of_rounds = math.sqrt(float((trace[figure].astype(float) ** 2).mean()))
        assert getattr(budget, figure) > 0
        if linear:
            assert getattr(budget, figure) == pytest.approx(of_rounds, rel=1e-12), figure
    if others is not CELLS and linear:  # at 3 dB over the noise, noise and interference are 1 + 10^0.3 times the noise
        assert budget.error_over_noise_db == pytest.approx(10 * math.log10(1 + 10**0.3), rel=1e-9)


def test_rescaling_multiplies_noise_and_interference_after_the_budget() -> None:
    """The budget is that of the mean message; the trace has both on the decoded mean, 1/p times that."""
    settings = budget_settings("scheme.rescale=true", "channel.interference_to_noise_db=3.0")
    budget = link_budget(settings)
    with run(settings).trace() as opened:
        found = math.sqrt(float((opened["interference_std"].astype(float) ** 2).mean()))
    assert found == pytest.approx(2 * budget.interference_std, rel=1e-9)


def test_its_table_has_interference_only_where_there_is_some() -> None:
    def labels(*overrides: str) -> str:
        return " ".join(map(str, budget_table(budget_of(*overrides), 1e-3).columns[0].cells))

    line = "squared error by both, over that by noise alone (dB)"
    assert line not in labels()
    assert line not in labels("scheme.name=fedavg", "channel.interference_to_noise_db=0.0")
    assert line in labels("channel.interference_to_noise_db=0.0")
    heavy = budget_of("channel.interference_to_noise_db=0.0", "channel.interference=alpha-stable")
    assert heavy.interference_std == heavy.error_over_noise_db == math.inf
    silent = budget_of("channel.interference_to_noise_db=0.0", "channel.noise=false")
    assert (silent.noise_std, silent.error_over_noise_db) == (0, math.inf)
    assert math.isnan(budget_of("channel.noise=false").error_over_noise_db)


@pytest.mark.parametrize(("name", "variant"), sorted(REFUSED))
def test_what_a_run_refuses_it_refuses(name: str, variant: str) -> None:
    settings = budget_settings(f"scheme.name={name}", *VARIANTS[variant])
    with pytest.raises(UserError) as refused:
        link_budget(settings)
    with pytest.raises(UserError, match=re.escape(str(refused.value))):
        run(settings)


@pytest.mark.parametrize(("name", "share"), [("wfl-p", 1.0), ("pfels", 0.5)])
def test_three_rounds_by_hand(name: str, share: float) -> None:
    """8 devices at h = 0.02 with P = 10 d sigma_0^2, d = 25,450, C = 1: beta = h sqrt(P/p)/C on 3,300 subcarriers."""
    same = ("channel.fading=fixed", "power.max_snr_db=10.0", "privacy.epsilon=inf")
    budget = budget_of(f"scheme.name={name}", *same)
    beta, entries = 0.02 * math.sqrt(254_500 / share), int(25_450 * share)
    assert budget.alignment_coefficient == pytest.approx([beta] * 3, rel=1e-12)
    assert budget.noise_multiplier_min == pytest.approx(1 / beta, rel=1e-12)
    assert budget.round_energy == pytest.approx([8 * 254_500] * 3, rel=1e-12)
    assert (budget.resource_elements, budget.entries_per_device) == (3 * entries, 3 * entries)
    assert budget.air_time_s == pytest.approx(3 * math.ceil(entries / 3300) / 14_000, rel=1e-12)
    assert budget_of("scheme.name=fedavg").uplink_bits == 3 * 8 * 32 * 25_450  # uncompressed


@pytest.mark.parametrize(
    ("name", "variant", "tolerance"),
    [*(("wfl-p", variant, 1e-6) for variant in ("plain", "weights", "iq", "transmit power")), ("pfels", "plain", 0.2)],
)
def test_energy_is_that_of_updates_at_their_bound(name: str, variant: str, tolerance: float) -> None:
    """Where every update is clipped, runs spend the budget; of masked ones each keeps 0.4 to 0.6 of ||Delta||^2."""
    settings = budget_settings(f"scheme.name={name}", "local.clip_norm=1e-3", *VARIANTS[variant])
    with run(settings).trace() as trace:
        np.testing.assert_allclose(link_budget(settings).round_energy, trace["energy_j"], rtol=tolerance)


def test_without_a_privacy_bound_the_ratio_matters_under_transmit_power_only() -> None:
    """P_i bounds a round's energy whatever k is, or the power of each entry: E and p E."""
    whole = budget_of("scheme.name=wfl-p").energy_j
    free = ("scheme.name=pfels", "privacy.epsilon=inf")
    assert budget_of(*free).energy_j == pytest.approx(whole, rel=1e-12)
    limited = budget_of(*free, "power.limit=transmit_power")
    assert limited.energy_j == pytest.approx(whole * limited.entries_per_round / limited.dimension, rel=1e-12)


def test_clip_norm_and_learning_rate_cancel() -> None:
    """At the bound only the channel counts."""
    one, other = (budget_of(*changes) for changes in ((), ("local.clip_norm=7.0",)))
    assert other.energy_j == pytest.approx(one.energy_j, rel=1e-12)
    assert other.noise_multiplier_min == pytest.approx(one.noise_multiplier_min, rel=1e-12)
    assert other.alignment_coefficient_median == pytest.approx(one.alignment_coefficient_median / 7, rel=1e-12)


def test_no_privacy_where_there_is_no_noise() -> None:
    figures = budget_of("channel.noise=false").figures()
    names = ("noise_multiplier_min", "epsilon_paper", "epsilon_round_max", "epsilon_round_max_as_poisson")
    assert [figures[key] for key in names] == [0, math.inf, math.inf, math.inf]


@pytest.mark.parametrize("law", FADING_LAWS)
def test_the_papers_scale_takes_no_vectors_of_its_length(law: str) -> None:
    """Three rounds at d = 9,750,922: an array of that length would have 9.75 MB at the least."""
    settings = load_settings(PAPER, ["run.rounds=3", f"channel.fading={law}"])
    assert link_budget(load_settings(PAPER, ["run.rounds=1"])).dimension == 9_750_922
    assert peak_of(lambda: link_budget(settings)) < 2_000_000


def test_memory_does_not_grow_with_the_devices_of_all_rounds() -> None:
    """Eight rounds of 4,000 devices take as much as two; kept whole, each would add 130 kB."""
    devices = ("run.devices=5000", "run.selected=4000")
    budget_of("run.rounds=1", *devices)
    few, many = (peak_of(functools.partial(budget_of, f"run.rounds={rounds}", *devices)) for rounds in (2, 8))
    assert many < few + 300_000


def test_the_table_says_the_same() -> None:
    settings = budget_settings("scheme.name=wfl-pdp")
    table = budget_table(link_budget(settings), settings.delta)
    texts = dict(zip(*(list(column.cells) for column in table.columns), strict=True))
    assert texts["entries per device over the run, k T"] == "76,350 = 3 d"
    assert texts["largest ε claimed for a round (δ = 0.001)"] == "1.5"


def test_the_figure_shows_every_round() -> None:
    budget, figure = budget_of("scheme.name=wfl-pdp", "run.rounds=50"), Figure()
    draw_budget(figure, budget)
    histogram, energy = figure.axes
    by_power, by_privacy = (sum(bar.get_height() for bar in bars) for bars in histogram.containers)
    assert 0 < by_privacy == budget.privacy_bound_binding.sum() == 50 - by_power < 50
    np.testing.assert_allclose(energy.lines[0].get_ydata(), np.cumsum(budget.round_energy))


def test_a_coefficient_of_the_settings_is_no_limit_in_the_figure() -> None:
    """What the user sets is set neither by the power limits nor by the privacy bound."""
    policy = ("power.policy=truncated-inversion", "power.coefficient=0.01")
    budget, figure = budget_of("scheme.name=wfl-pdp", "run.rounds=5", *policy), Figure()
    draw_budget(figure, budget)
    histogram = figure.axes[0]
    assert set(budget.alignment_coefficient) == {0.01}
    assert [sum(bar.get_height() for bar in bars) for bars in histogram.containers] == [0, 0, 5]
    labels = histogram.get_legend_handles_labels()[1]
    assert labels == ["set by the power limit (0%)", "set by the privacy bound (0%)", "set by neither (100%)"]


def test_the_figure_is_drawn_and_never_replaced(tmp_path: Path) -> None:
    """And a scheme that cannot be built is refused in one line."""
    for name in ("wfl-pdp", "fedavg"):
        files = plot_budget(budget_of(f"scheme.name={name}"), tmp_path / name)
        assert [file.name for file in files] == ["budget.png", "budget.pdf"]
        assert all(file.stat().st_size > 5000 for file in files)
    plot = ("run.rounds=1", "--plot", tmp_path / "fedavg")
    for given, said in ((plot, "already exists"), (("privacy.delta=0.9",), "privacy.delta")):
        done = airfl("budget", DEMO, *given)
        assert (done.returncode, done.stdout) == (2, "")
        assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_the_command_prints_one_json_value_and_needs_no_torch() -> None:
    code = (
        "import sys; from airfl.cli import main; main()\n"
        "sys.exit(3 if {'torch', 'matplotlib', 'dp_accounting'} & set(sys.modules) else 0)"
    )
    words = ["budget", PAPER.with_name("pfels-femnist.toml"), "run.rounds=5", "scheme.name=wfl-p", "--json"]
    done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, check=False, cwd=ROOT)
    assert (done.returncode, done.stderr) == (0, "")
    figures = json.loads(done.stdout)
    assert list(figures) == KEYS
    assert figures["entries_per_device"] == 5 * 11_192_746
    assert figures["epsilon_paper"] == "nan"


def test_a_mask_that_the_server_chose_goes_down_and_one_of_a_seed_does_not() -> None:
    """ceil(log2 C(d, k)) bits beside d values of 32, a seed and beta, at one rate; elements to 1 of the fewer."""
    common = ("grid.downlink=true", "channel.fading=fixed", "run.rounds=1")
    budgets = (budget_of(f"scheme.name=fed-smp-{kind}", *common) for kind in ("randk", "topk"))
    seed, chosen = (budget.downlink_elements for budget in budgets)
    bits = subset_bits(25450, 12725)
    assert chosen / seed == pytest.approx(1 + bits / (32 * 25450 + 96), rel=1 / seed)
