"""The calculator of docs/budget-in-the-browser.md: its formulas are airfl's, its figures those of `airfl budget`, and
it can be used by keyboard, on a phone, on dark and light pages. `make test` asks Node.js alone where it is there, of
which Chromium has the engine."""

import json
import math
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.special import erfcx, expn, log_ndtr

from airfl.analysis.budget import Budget, link_budget
from airfl.config import load_settings
from airfl.learning.tasks.models import MODELS
from airfl.privacy.accountants.closed_form import release_epsilon
from airfl.privacy.events import FixedSizeSampled, Gaussian, PoissonSampled
from airfl.privacy.gaussian import gaussian_epsilon, sampled_gaussian_epsilon
from airfl.privacy.masks import masked_epsilon
from airfl.privacy.pfels import theorem_3_factor
from airfl.uplinks.stages import kept_entries
from channels.fading import FADING_LAWS
from channels.fading.bounded import bounded
from channels.fading.law import FadingLaw
from channels.grid import OfdmaGrid, default_symbol_duration_s
from channels.power.limits import align, power_limits
from channels.units import db_to_linear
from tests.browser import AVAILABLE, MISSING, PHONE, no_errors, until
from tests.conftest import ROOT
from tests.processes import airfl, succeeded
from tests.reliability.scale import cases

SITE = ROOT / "docs" / "_site"
SCRIPTS = [SITE / "static" / name for name in ("link-budget.js", "link-budget-page.js")]
NODE = shutil.which("node") or shutil.which("nodejs")
in_chromium = pytest.mark.skipif(not AVAILABLE, reason=MISSING)
in_node = pytest.mark.skipif(not NODE, reason="Node.js is wanted")
# A list of [function, arguments ...] -> their results; what JSON has no word for is written as text.
CALLS = """const functions = {...linkBudget, ...linkBudgetPage, ...EXTRA};
const worded = (_, one) => typeof one === "number" && !Number.isFinite(one) ? String(one) : one;
const written = (value) => JSON.stringify(value, worded);
"""
EXTRA = """const EXTRA = {
    reached: (setting, gain) => linkBudget.fadingOf(setting).logReached(gain),
    above: (setting, gain) => linkBudget.fadingOf(setting).logSurvival(gain),
    gainAt: (setting, logged) => linkBudget.fadingOf(setting).gainAt(logged),
    inverseSquare: (setting, gain) => linkBudget.fadingOf(setting).inverseSquare(gain),
    usedShare: (setting, bound) => linkBudget.usedShare(linkBudget.fadingOf(setting), setting.selected, bound),
    tables: () => ({ defaults: linkBudgetPage.DEFAULTS, models: linkBudgetPage.MODELS,
        keys: [...linkBudgetPage.CHOICES, ...linkBudgetPage.FIELDS].map(({ name, key }) => [name, key]) }),
};
"""
CLOSE: dict[str, float] = {"rel": 1e-6, "abs": 1e-11}
LAWS = ("exponential", "rayleigh", "fixed")
SIGMAS = 5.0
"""Standard errors by which the mean of many rounds may differ from its expectation."""

Calls = Callable[[list[list[Any]]], list[Any]]


def test_the_rows_of_epsilon_are_named_as_on_the_page_and_by_the_command() -> None:
    """The page explains each row by its name; what is accounted as Poisson is called so by `airfl budget`, too."""
    rows = re.findall(r'name: "epsilon[A-Z]\w*", label: "([^"]+)"', SCRIPTS[1].read_text(encoding="utf-8"))
    explained = (ROOT / "docs" / "budget-in-the-browser.md").read_text(encoding="utf-8").replace("$\\epsilon$", "ε")
    assert len(rows) == 4
    for row in rows:
        assert f"| {row.removesuffix(', C₂β')} |" in explained
    printed = succeeded(airfl("budget", "demo", "run.rounds=1")).stdout
    assert rows[-1].removeprefix("ε of the round") in printed


def numbers(value: Any) -> Any:
    """The value with Infinity and NaN as numbers."""
    if isinstance(value, dict):
        return {name: numbers(one) for name, one in value.items()}
    if isinstance(value, list):
        return [numbers(one) for one in value]
    return float(value) if value in ("Infinity", "-Infinity", "NaN") else value


def in_browser(browser: Any, calls: list[list[Any]]) -> list[Any]:
    browser.get("about:blank")
    script = f"{SCRIPTS[0].read_text()}\n{SCRIPTS[1].read_text()}"
    asked = "return written(arguments[0].map(([name, ...rest]) => functions[name](...rest)))"
    return list(numbers(json.loads(browser.execute_script(f"{script}{EXTRA}{CALLS}{asked}", calls))))


def in_a_process(calls: list[list[Any]]) -> list[Any]:
    required = "".join(f"require({json.dumps(str(script))});" for script in SCRIPTS)
    asked = (
        "const asked = JSON.parse(require('fs').readFileSync(0));"
        "console.log(written(asked.map(([name, ...rest]) => functions[name](...rest))))"
    )
    command = [str(NODE), "-e", f"{required}{EXTRA}{CALLS}{asked}"]
    done = subprocess.run(command, input=json.dumps(calls), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return list(numbers(json.loads(done.stdout)))


in_full_beside_node = (pytest.mark.full,) if NODE else ()


@pytest.fixture(
    params=[
        pytest.param("node", marks=in_node),
        pytest.param("chromium", marks=(in_chromium, *in_full_beside_node)),
    ]
)
def ask(request: pytest.FixtureRequest) -> Calls:
    """Calls functions of the page's scripts, in Node.js and in a browser."""
    if request.param == "node":
        return in_a_process
    browser = request.getfixturevalue("browser")
    return lambda calls: in_browser(browser, calls)


@pytest.fixture
def one_engine(request: pytest.FixtureRequest) -> Calls:
    """As `ask`, in the one of the two that is there."""
    if NODE:
        return in_a_process
    browser = request.getfixturevalue("browser")
    return lambda calls: in_browser(browser, calls)


SETTING = {
    **{"scheme": "pfels", "model": "mlp", "dimension": 25450, "ratio": 0.3, "devices": 1000, "selected": 32},
    **{"rounds": 150, "maxSnrDb": 30.0, "law": "exponential", "meanGain": 0.02, "minGain": 1e-4, "maxGain": 0.1},
    **{"clipNorm": 1.0, "epsilon": 1.5, "delta": 1e-3, "subcarriers": 3300, "spacingHz": 15000, "packing": "real"},
}


def any_settings(count: int) -> list[dict[str, Any]]:
    """Settings from the whole range of the sliders."""
    draw = np.random.default_rng(20261127)

    def between(low: float, high: float) -> float:
        return float(np.exp(draw.uniform(np.log(low), np.log(high))))

    made: list[dict[str, Any]] = []
    while len(made) < count:
        devices, mean = round(between(1, 1e5)), between(1e-3, 1)
        one = {
            **{
                "scheme": str(draw.choice(["pfels", "wfl-p", "wfl-pdp"])),
                "law": str(draw.choice(LAWS)),
                "model": "own",
            },
            **{"dimension": round(between(100, 2e7)), "ratio": between(0.01, 1), "devices": devices},
            **{"selected": max(round(between(1, devices)), 1), "rounds": round(between(1, 5000))},
            **{"maxSnrDb": float(draw.uniform(-10, 50)), "meanGain": mean, "minGain": mean * between(1e-4, 1)},
            **{"maxGain": mean * between(1, 100), "clipNorm": between(0.01, 100), "epsilon": between(0.01, 100)},
            **{"delta": between(1e-9, 0.1), "subcarriers": round(between(12, 3300)), "spacingHz": between(15e3, 12e4)},
            **{"packing": str(draw.choice(["real", "iq"])), "model": "own"},
        }
        if one["scheme"] == "wfl-p" or one["delta"] * devices < 1.25 * one["selected"]:
            made.append(one)
    return made


def law_of(one: dict[str, Any]) -> FadingLaw:
    mean = one["meanGain"]
    return bounded(FADING_LAWS[one["law"]]().law(), one["minGain"] / mean, one["maxGain"] / mean, "clip")


def expected(one: dict[str, Any]) -> dict[str, Any]:
    """What airfl's own functions make of a setting."""
    selected, devices, dimension, clip_norm = one["selected"], one["devices"], one["dimension"], one["clipNorm"]
    entries = kept_entries(one["ratio"], dimension) if one["scheme"] == "pfels" else dimension
    law, ratio, rate = law_of(one), entries / dimension, selected / devices
    limit = power_limits(np.array(db_to_linear(one["maxSnrDb"])), dimension, 1.0)
    private = one["scheme"] != "wfl-p"
    factor = theorem_3_factor(clip_norm, selected, devices, one["delta"], 1.0) if private else math.nan
    bound = one["epsilon"] / factor if private else math.inf
    grid = OfdmaGrid(one["subcarriers"], default_symbol_duration_s(one["spacingHz"]), one["packing"], one["spacingHz"])
    use = grid.occupy(grid.elements_for(entries))

    def at(log_above: float) -> dict[str, float]:
        gain = one["meanGain"] * law.quantile(np.array(-math.expm1(log_above / selected)))
        norm = np.array([clip_norm * math.sqrt(ratio)])
        beta = align(gain.reshape(1), limit.reshape(1), norm, bound).coefficient
        power, noise = entries / (selected * beta) ** 2, Gaussian(1 / (beta * clip_norm), ratio)
        return {
            "coefficient": beta,
            "noiseStd": 1 / (selected * beta),
            "snrEqual": ratio * clip_norm**2 / power,
            "snrOrthogonal": ratio * clip_norm**2 / selected / power,
            "noiseMultiplier": 1 / (beta * clip_norm),
            "epsilonClaimed": factor * beta,
            "epsilonRound": release_epsilon(FixedSizeSampled(selected, devices, noise), "replace_one", one["delta"]),
            "epsilonKnown": release_epsilon(noise, "replace_one", one["delta"]),
            "epsilonPoisson": release_epsilon(PoissonSampled(rate, noise), "add_remove", one["delta"]),
        }

    threshold = bound * clip_norm * math.sqrt(ratio) / math.sqrt(float(limit))
    below = float(law.cdf(np.nextafter(threshold / one["meanGain"], 0.0))) if private else 1.0
    return {
        "entries": entries,
        "elements": use.resource_elements,
        "airTimeS": use.air_time_s,
        "runElements": one["rounds"] * use.resource_elements,
        "runAirTimeS": one["rounds"] * use.air_time_s,
        "runEntries": one["rounds"] * entries,
        "privacyBinds": math.exp(selected * math.log1p(-below)) if below < 1 else 0.0,
        **{"low": at(math.log(0.9)), "median": at(math.log(0.5)), "high": at(math.log(0.1))},
        "worst": at(math.log(-math.expm1(-math.log(2) / one["rounds"]))),
    }


def test_special_functions_are_accurate_in_both_tails(ask: Calls) -> None:
    normal = [*(-np.logspace(-3, 6, 120)), *np.logspace(-3, 1.5, 60)]
    integrals, scaled = np.logspace(-8, 2.8, 150), np.logspace(-3, 6, 120)
    cases = [("logNdtr", [x], log_ndtr(x)) for x in normal]
    cases += [("expn", [n, x], expn(n, x)) for n in (1, 2) for x in integrals]
    cases += [("erfcx", [x], erfcx(x)) for x in scaled]
    answers = ask([[name, *map(float, given)] for name, given, _ in cases])
    for (name, given, value), answer in zip(cases, answers, strict=True):
        assert answer == pytest.approx(value, rel=1e-11), (name, given)


def test_epsilon_of_a_gaussian_release_is_that_of_the_ledger(ask: Calls) -> None:
    """From almost no loss to one above 10^12, and a few deltas at which epsilon is 0."""
    places = [
        (delta, mu) for delta in (1e-30, 1e-9, 1e-5, 1e-3, 0.1, 0.9, 1.0) for mu in (0.0, *np.logspace(-2, 6.5, 40))
    ]
    calls: list[list[Any]] = [["gaussianEpsilon", delta, float(mu)] for delta, mu in places]
    calls += [["sampledGaussianEpsilon", delta, float(mu), rate] for delta, mu in places for rate in (1e-3, 0.3, 1.0)]
    calls += [["maskedEpsilon", delta, float(mu), share] for delta, mu in places for share in (1e-3, 0.3, 1.0)]
    calls += [["gaussianEpsilon", 1e-5, 1e9], ["theorem3Factor", 2.0, 10, 100, 1e-3]]
    functions: dict[str, Callable[..., float]] = {
        "gaussianEpsilon": gaussian_epsilon,
        "sampledGaussianEpsilon": sampled_gaussian_epsilon,
        "maskedEpsilon": masked_epsilon,
    }
    for (name, *given), answer in zip(calls, ask(calls), strict=True):
        if name == "theorem3Factor":
            assert answer == pytest.approx(theorem_3_factor(*given, 1.0), rel=1e-12)
        else:
            function = functions[name]
            assert answer == pytest.approx(function(*given), **CLOSE), (name, given)


def test_a_round_is_that_of_airfl(ask: Calls) -> None:
    """Settings from the whole range of the sliders: quantiles, costs, epsilons."""
    settings = any_settings(cases(60, 200))
    for one, answer in zip(settings, ask([["budget", one] for one in settings]), strict=True):
        for name, value in expected(one).items():
            if isinstance(value, dict):
                for part, figure in value.items():
                    assert answer[name][part] == pytest.approx(figure, nan_ok=True, **CLOSE), (one, name, part)
            else:
                assert answer[name] == pytest.approx(value, **CLOSE), (one, name)


def test_gains_have_the_law_of_airfl_between_their_bounds(ask: Calls) -> None:
    """Atoms at the bounds included: P(|h| > g), P(|h| >= g), E[1/|h|^2; |h| > g]."""
    calls: list[list[Any]] = []
    values: list[float] = []
    for law in LAWS:
        for low, high in ((1e-4, 0.1), (0.01, 0.03), (0.03, 0.05), (0.001, 0.01)):
            one = {**SETTING, "law": law, "minGain": low, "maxGain": high}
            known, mean = law_of(one), one["meanGain"]
            for gain in (0.5 * low, low, 0.011, 0.02, 0.029, 0.99 * high, high, 2 * high):
                unit = gain / mean
                above = np.nextafter(unit, math.inf)
                inverse = known.closed_inverse_power
                assert inverse is not None
                calls += [["above", one, gain], ["reached", one, gain], ["inverseSquare", one, gain]]
                values += [
                    1 - float(known.cdf(np.array(unit))),
                    1 - float(known.cdf(np.nextafter(unit, 0.0))),
                    inverse(above**2 / known.mean_square) / (known.mean_square * mean**2),
                ]
    for (name, one, gain), answer, value in zip(calls, ask(calls), values, strict=True):
        got = answer if name == "inverseSquare" else math.exp(answer)
        assert got == pytest.approx(value, rel=1e-6, abs=1e-12), (name, one["law"], one["minGain"], gain)


@pytest.mark.parametrize("law", LAWS)
def test_the_share_of_the_energy_limit_is_the_mean_over_fading(law: str, one_engine: Calls) -> None:
    """For one and two devices by the midpoint rule over their gains, which is another way than the page's. Its error is
    of the order of the step squared."""
    one, places = {**SETTING, "law": law, "minGain": 0.004, "maxGain": 0.07}, 2000
    gains = one["meanGain"] * law_of(one).quantile((np.arange(places) + 0.5) / places)
    for bound in (0.003, 0.02, 0.06, 1.0):
        alone = (np.minimum(gains, bound) / gains) ** 2
        both = (np.minimum(np.minimum.outer(gains, gains), bound) / gains[:, None]) ** 2
        calls = [["usedShare", {**one, "selected": selected}, bound] for selected in (1, 2)]
        assert one_engine(calls) == pytest.approx([alone.mean(), both.mean()], rel=2e-5), bound


def budget_of(command: str, *more: str) -> Budget:
    program, name, config, *overrides = shlex.split(command)
    assert (program, name) == ("airfl", "budget")
    return link_budget(load_settings(config, [*overrides, *more]))


@pytest.mark.parametrize(
    ("scheme", "law"),
    [
        ("pfels", "exponential"),
        pytest.param("pfels", "rayleigh", marks=pytest.mark.full),
        ("wfl-p", "rayleigh"),
        pytest.param("wfl-pdp", "exponential", marks=pytest.mark.full),
    ],
)
def test_rounds_under_fading_scatter_about_the_page(scheme: str, law: str, one_engine: Calls) -> None:
    """600 rounds of eight devices by the command of the page: quantiles of beta, share of the privacy bound, energy."""
    one = {**SETTING, "scheme": scheme, "law": law, "selected": 8, "rounds": 600, "maxSnrDb": 22, "epsilon": 0.3}
    page, command = one_engine([["budget", one], ["commandOf", one]])
    budget = budget_of(command)
    beta, rounds = budget.alignment_coefficient, one["rounds"]
    for name, share in (("low", 0.1), ("median", 0.5), ("high", 0.9)):
        if page[name]["coefficient"] < page["privacyBound"]:
            scatter = math.sqrt(share * (1 - share) / rounds)
            assert (beta < page[name]["coefficient"]).mean() == pytest.approx(share, abs=SIGMAS * scatter), name
    binding = page["privacyBinds"]
    assert binding == 0 if scheme == "wfl-p" else 0.02 < binding < 0.98
    scatter = math.sqrt(binding * (1 - binding) / rounds)
    assert budget.privacy_bound_binding_share == pytest.approx(binding, abs=SIGMAS * scatter)
    energies = budget.round_energy
    assert energies.mean() == pytest.approx(page["energy"], abs=SIGMAS * energies.std() / math.sqrt(rounds))
    assert energies.std() / math.sqrt(rounds) < 0.04 * page["energy"]
    assert beta.max() <= page["privacyBound"] * (1 + 1e-12)


def test_the_page_begins_with_the_demo_and_knows_its_models(one_engine: Calls) -> None:
    tables, command = one_engine([["tables"], ["commandOf", SETTING]])
    assert tables["defaults"] == SETTING
    assert command == "airfl budget demo power.max_snr_db=30 privacy.gains=private"
    assert (ROOT / "docs" / "budget-in-the-browser.md").read_text().count(f"{command}\n") == 1
    demo = load_settings("demo")
    read = {key: getattr(getattr(demo, key.split(".")[0]), key.split(".")[1]) for _, key in tables["keys"] if key}
    for name, key in tables["keys"]:
        if key and name != "maxSnrDb":
            value = demo.scheme.name if key == "scheme.name" else read[key]
            assert value == SETTING[name], key
    assert tables["models"] == {name: MODELS.build(name).dimension for name in tables["models"]}
    assert MODELS.build("mlp").dimension == SETTING["dimension"]
    # d = 124 beside logistic's 123; and a model that takes its shape from the data set.
    assert set(MODELS) - set(tables["models"]) == {"logistic-bias", "softmax"}


def test_a_fragment_holds_a_setting_and_nothing_else_is_taken_from_it(one_engine: Calls) -> None:
    one = {**SETTING, "scheme": "wfl-pdp", "delta": 1e-7, "model": "own", "dimension": 777, "against": "selected"}
    (fragment,) = one_engine([["fragmentOf", one]])
    assert fragment == "scheme=wfl-pdp&model=own&delta=1e-7&dimension=777&against=selected"
    start = {**SETTING, "against": "ratio"}
    read = one_engine([["readFragment", f"#{fragment}"], ["readFragment", ""], ["readFragment", "#what-is-computed"]])
    assert read == [one, start, start]
    hostile = "#ratio=x&scheme=__proto__&law=toString&against=<b>&dimension=5&model=vgg11&devices=&rounds=Infinity"
    assert one_engine([["readFragment", hostile]]) == [{**start, "model": "vgg11", "dimension": 9750922}]


@pytest.mark.parametrize(
    ("changed", "field", "message"),
    [
        ({"selected": 2000}, "selected", "r must be at most N = 1,000, got 2,000"),
        ({"rounds": 1.5}, "rounds", "rounds T must be a whole number, got 1.5"),
        ({"ratio": 2}, "ratio", "compression ratio p must be from 1e-6 to 1, got 2"),
        ({"minGain": 1}, "minGain", "the smallest gain must be at most the largest, 0.1, got 1"),
        ({"delta": 0.2}, "delta", "theorem 3 of PFELS needs δ < 1.25 r/N = 0.04, got 0.2"),
        ({"delta": 0.2, "scheme": "wfl-p"}, "", ""),
        ({"clipNorm": None}, "clipNorm", "clip norm C: a number is missing"),
    ],
)
def test_what_makes_no_sense_is_refused_in_one_line(
    changed: dict[str, Any], field: str, message: str, one_engine: Calls
) -> None:
    assert one_engine([["problemOf", {**SETTING, **changed}]]) == [[field, message]]


# ---------------------------------------------------------------- the page


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page without the site's theme around it."""
    folder = tmp_path_factory.mktemp("page")
    shutil.copytree(SITE / "static", folder / "_static")
    head = '<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
    colours = (
        "<style>:root { color-scheme: light dark; --color-foreground-primary: CanvasText; --color-background-primary: "
        "Canvas; --color-background-secondary: Canvas; --color-foreground-muted: GrayText; --color-background-border: "
        "GrayText } body { max-width: 46rem; color: CanvasText; background: Canvas }</style>"
    )
    text = f"{head}<title>airfl</title>{colours}<body>{(SITE / 'link-budget.html').read_text()}</body></html>"
    (folder / "budget.html").write_text(text, encoding="utf-8")
    return folder / "budget.html"


@pytest.fixture
def opened(page: Path, browser: Any) -> Callable[[str], Any]:
    """Opens the page with a fragment."""

    def open_page(fragment: str = "") -> Any:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
        browser.get("about:blank")
        browser.get_log("browser")
        browser.get(page.as_uri() + fragment)
        return drawn(browser)

    return open_page


def drawn(browser: Any) -> Any:
    """Curves are drawn a moment after the figures."""
    browser.execute_async_script("setTimeout(arguments[0], 150)")
    return browser


def figure(browser: Any, name: str, column: str = "median") -> float:
    find = f"[data-name={name}][data-column={column}]"
    return float(browser.find_element("css selector", find).get_attribute("data-value"))


@in_chromium
@pytest.mark.parametrize(
    "fragment",
    [
        "#law=fixed&rounds=3&maxSnrDb=12&ratio=0.05&selected=100",
        "#law=fixed&rounds=2&scheme=wfl-p&model=vgg11&packing=iq&subcarriers=1200&spacingHz=30000",
        pytest.param(
            "#law=fixed&rounds=2&scheme=wfl-pdp&devices=500&selected=40&clipNorm=0.3&epsilon=0.7&delta=0.0001",
            marks=pytest.mark.full,
        ),
        "#rounds=40&epsilon=0.05&maxSnrDb=45",  # privacy sets beta in every round
    ],
)
def test_the_command_beside_the_figures_prints_the_same(opened: Callable[[str], Any], fragment: str) -> None:
    browser = opened(fragment)
    command = browser.find_element("id", "lb-command").text
    printed = json.loads(succeeded(airfl(*shlex.split(command)[1:], "--json")).stdout)
    shown = {
        "dimension": float(browser.execute_script("return document.getElementById('lb-dimension').value")),
        "entries_per_round": figure(browser, "entries", "round"),
        "entries_per_device": figure(browser, "entries", "run"),
        "resource_elements": figure(browser, "elements", "run"),
        "air_time_s": figure(browser, "airTimeS", "run"),
        "alignment_coefficient_median": figure(browser, "coefficient"),
        "noise_multiplier_min": figure(browser, "noiseMultiplier", "worst"),
        "epsilon_paper": figure(browser, "epsilonClaimed", "worst"),
        "epsilon_round_max": figure(browser, "epsilonRound", "worst"),
        "epsilon_round_max_as_poisson": figure(browser, "epsilonPoisson", "worst"),
    }
    binding = float(browser.find_element("id", "lb-binding").get_attribute("data-value"))
    if "law=fixed" in fragment:
        shown |= {"energy_j": figure(browser, "energy", "run"), "privacy_bound_binding_share": binding}
    else:
        assert binding == pytest.approx(1, abs=1e-4)
        assert printed["privacy_bound_binding_share"] == 1
    for key, value in shown.items():
        assert float(printed[key]) == pytest.approx(value, rel=1e-6, nan_ok=True), key
    known = budget_of(command, "privacy.observer=server").figures()
    assert known["epsilon_round_max"] == pytest.approx(figure(browser, "epsilonKnown", "worst"), rel=1e-6)
    assert no_errors(browser)


@in_chromium
def test_it_draws_every_curve_and_asks_for_nothing(opened: Callable[[str], Any], page: Path) -> None:
    others = ("devices", "maxSnrDb", "meanGain", "clipNorm", "epsilon", "delta")
    for variable in ("ratio", "selected", "dimension", *others[: cases(0, len(others))]):
        browser = opened(f"#against={variable}")
        charts = browser.execute_script(
            "return Array.from(document.querySelectorAll('#lb-charts svg[role=img]')).map((svg) => ({"
            "label: svg.getAttribute('aria-label'), paths: Array.from(svg.querySelectorAll('path')).map((path) =>"
            " path.getAttribute('d')), ticks: svg.querySelectorAll('text').length, text: svg.outerHTML}))"
        )
        assert len(charts) == 6, variable
        for chart in charts:
            assert "NaN" not in chart["text"], (variable, chart["label"])
            assert chart["ticks"] >= 5, (variable, chart["label"])
            assert all(len(path.split("L")) > 20 for path in chart["paths"]), (variable, chart["label"])
        assert no_errors(browser)
    fetched = browser.execute_script("return performance.getEntriesByType('resource').map((entry) => entry.name)")
    assert all(name.startswith(page.parent.as_uri()) for name in fetched), fetched


@in_chromium
def test_it_can_be_used_by_keyboard_alone(opened: Callable[[str], Any]) -> None:
    browser = opened("")
    browser.execute_script(
        "window.reached = []; addEventListener('focusin', (event) => window.reached.push(event.target.id))"
    )
    browser.switch_to.active_element.send_keys(45 * "\ue004")  # Tab
    reached = browser.execute_script("return window.reached")
    fields = browser.execute_script(
        "return Array.from(document.querySelectorAll('#link-budget :is(input, select, button)'))"
        ".filter((one) => one.checkVisibility() && one.id).map((one) => one.id)"
    )
    assert len(fields) > 25
    assert [name for name in reached if name in fields][: len(fields)] == fields
    before = figure(browser, "coefficient")
    slider = browser.find_element("id", "lb-maxSnrDb-slider")
    slider.send_keys("\ue014")  # the right arrow
    assert figure(browser, "coefficient") > before
    number = browser.find_element("id", "lb-maxSnrDb")
    assert float(number.get_attribute("value")) > 30
    assert slider.get_attribute("aria-valuetext") == number.get_attribute("value")
    assert until(lambda: "maxSnrDb=" in browser.current_url)
    browser.find_element("id", "lb-reset").send_keys("\ue007")  # Enter
    assert figure(browser, "coefficient") == before
    assert until(lambda: "#" not in browser.current_url)


@in_chromium
def test_a_slider_that_is_dragged_redraws_the_curves_and_changes_the_address_once(
    opened: Callable[[str], Any],
) -> None:
    """Browsers refuse more than some 100 changes of the address in a few seconds, Safari by an error."""
    browser = opened("")
    browser.execute_script(
        "const change = history.replaceState; window.changes = 0;"
        "history.replaceState = (...given) => { window.changes += 1; change.apply(history, given); };"
    )
    drawn_while_dragged = browser.execute_async_script(
        """const [done] = arguments;
        const [slider, charts] = ["lb-maxSnrDb-slider", "lb-charts"].map((id) => document.getElementById(id));
        let [place, draws] = [500, 0];
        new MutationObserver(() => { draws += 1; }).observe(charts, { childList: true });
        const drag = () => {
            slider.value = place;
            slider.dispatchEvent(new Event("input"));
            place += 1;
            if (place === 560) done(draws);
            else setTimeout(drag, 1);
        };
        drag();"""
    )
    assert drawn_while_dragged >= 2
    assert until(lambda: "maxSnrDb=" in browser.current_url)
    assert browser.execute_script("return window.changes") == 1
    assert browser.find_element("id", "lb-link").get_attribute("href") == browser.current_url


@in_chromium
def test_every_field_has_a_name_and_results_are_announced(opened: Callable[[str], Any]) -> None:
    browser = opened("#model=own&dimension=1000")
    for element in browser.find_elements("css selector", "#link-budget :is(input, select)"):
        assert len(element.accessible_name) > 0, element.get_attribute("id")
    assert browser.find_element("id", "lb-dimension-slider").accessible_name == "parameters d, slider"
    assert browser.find_element("id", "lb-binding").get_attribute("role") == "status"
    assert "airfl.Task" in browser.find_element("id", "lb-command").text


@in_chromium
def test_a_mistake_is_said_and_mended(opened: Callable[[str], Any]) -> None:
    browser = opened("")
    number = browser.find_element("id", "lb-selected")
    number.send_keys("00")
    problem = browser.find_element("id", "lb-problem")
    assert problem.text == "r must be at most N = 1,000, got 3,200"
    assert number.get_attribute("aria-invalid") == "true"
    assert browser.find_elements("css selector", "#lb-results td, #lb-charts svg") == []
    number.send_keys("\ue003\ue003")  # Backspace
    assert not problem.is_displayed()
    assert figure(browser, "entries", "round") == 7635
    assert len(drawn(browser).find_elements("css selector", "#lb-charts figure")) == 6


@in_chromium
def test_a_link_is_followed_without_loading_the_page_again(opened: Callable[[str], Any]) -> None:
    browser = opened("")
    browser.execute_script("location.hash = '#scheme=wfl-p&ratio=0.1'")
    drawn(browser)
    assert figure(browser, "entries", "round") == 25450
    assert not browser.find_element("id", "lb-ratio-field").is_displayed()  # WFL-P sends everything
    assert math.isnan(figure(browser, "epsilonClaimed"))


def luminance(colour: str) -> float:
    parts = [float(part) / 255 for part in colour[colour.index("(") + 1 : -1].split(",")[:3]]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@in_chromium
@pytest.mark.parametrize("size", [PHONE, {"width": 1280, "height": 900, "deviceScaleFactor": 1, "mobile": False}])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_the_screen_in_dark_and_light(opened: Callable[[str], Any], size: dict[str, Any], scheme: str) -> None:
    browser = opened("")
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    theme = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": theme})
    browser.refresh()
    drawn(browser)
    width, inner = browser.execute_script("return [document.scrollingElement.scrollWidth, innerWidth]")
    assert inner == size["width"]
    assert width <= inner
    outside = browser.execute_script(
        "return Array.from(document.querySelectorAll('#link-budget svg text')).filter((text) => {"
        " const [box, frame] = [text.getBoundingClientRect(), text.ownerSVGElement.getBoundingClientRect()];"
        " return box.left < frame.left - 1 || box.right > frame.right + 12; }).map((text) => text.textContent)"
    )
    assert outside == []
    colour = "getComputedStyle(document.querySelector(arguments[0]))[arguments[1]]"
    ground = luminance(browser.execute_script(f"return {colour}", "body", "backgroundColor"))
    assert (ground < 0.2) == (scheme == "dark")
    shades = [luminance(browser.execute_script(f"return {colour}", one, "stroke")) for one in (".lb-line", ".second")]
    for shade in shades:
        assert (max(shade, ground) + 0.05) / (min(shade, ground) + 0.05) > 3  # WCAG 1.4.11
    assert browser.execute_script(f"return {colour}", ".lb-line", "strokeDasharray") == "none"
    assert browser.execute_script(f"return {colour}", ".second", "strokeDasharray") != "none"  # distinct in grey
