"""Valid combinations of settings, values at and beyond limits, and arbitrary ones, derived from the schema itself."""

import math
from typing import Any

import tomli_w
from hypothesis import strategies as st

from airfl.config import Settings
from airfl.config.load import scheme_keys, without_foreign
from airfl.config.parts import section_of
from tests.conftest import DEMO, ROOT
from tests.reliability.settings_values import BUNDLES, SMALL, USUAL, Key, Tables, put

CONFIGS = (DEMO, *sorted((ROOT / "experiments" / "configs").rglob("*.toml")))
SCHEMA = Settings.model_json_schema()


def _property(section: str, key: str) -> dict[str, Any]:
    found: dict[str, Any] = section_of(SCHEMA, section)["properties"][key]
    return found


KEYS: tuple[Key, ...] = tuple(
    (section, key) for section in SCHEMA["properties"] for key in section_of(SCHEMA, section)["properties"]
)


def usual(section: str, key: str) -> st.SearchStrategy[Any]:
    """Values of a key that a user would give."""
    return USUAL[section, key] if (section, key) in USUAL else allowed(_property(section, key))


def allowed(about: dict[str, Any]) -> st.SearchStrategy[Any]:
    """Values that a property of the schema allows, its limits among them."""
    if "anyOf" in about:
        return st.one_of([allowed(one) for one in about["anyOf"]])
    if "enum" in about:
        return st.sampled_from(about["enum"])
    match about.get("type"):
        case "boolean":
            return st.booleans()
        case "null":
            return st.none()
        case "string":
            return st.text(max_size=5)
        case "array":
            least, most = about.get("minItems", 0), about.get("maxItems", 4)
            return st.lists(allowed(about["items"]), min_size=least, max_size=most)
        case "integer":
            low, high = about.get("minimum", 0), about.get("maximum", about.get("exclusiveMaximum", 10**18 + 1) - 1)
            edges = [low, low + 1, high, *(10**power for power in (2, 3, 6, 9, 12, 15, 18))]
            return st.sampled_from([edge for edge in edges if low <= edge <= high])
        case "number":
            return st.sampled_from(_numbers(about))
        case "object":
            return st.sampled_from([one["then"]["propertyNames"]["enum"] for one in about["allOf"]]).flatmap(
                lambda keys: part_tables(about["properties"], keys)
            )
    return st.just(about.get("const", about.get("default")))


def part_tables(properties: dict[str, Any], keys: list[str]) -> st.SearchStrategy[dict[str, Any]]:
    """Tables of parts that have those keys: a name, right or wrong for them, and some of their values."""
    values = {key: allowed(properties[key]) for key in keys}
    return st.fixed_dictionaries({"name": values.pop("name")}, optional=values)


def _numbers(about: dict[str, Any]) -> list[float]:
    low, above = about.get("minimum", -math.inf), about.get("exclusiveMinimum", -math.inf)
    high, below = about.get("maximum", math.inf), about.get("exclusiveMaximum", math.inf)
    edges = [low, high, math.nextafter(above, math.inf), math.nextafter(below, -math.inf)]
    spread = [5e-324, 1e-300, 1e-100, 1e-20, 1e-6, 1e-3, 0.5, 1.0, 30.0, 1e3, 1e6, 1e20, 1e100, 1e300, -0.0]
    return [x for x in [*edges, *spread] if math.isfinite(x) and low <= x <= high and above < x < below]


@st.composite
def valid_tables(draw: st.DrawFn) -> Tables:
    """Mostly settings that run: a scheme, a link, a fading law, what goes together, and some keys more."""
    tables = put(SMALL, draw(st.sampled_from(BUNDLES)))
    tables = put(tables, draw(st.sampled_from(BUNDLES)))
    first = [("scheme", "name"), ("scheme", "link"), ("channel", "fading"), ("selection", "kind"), ("power", "policy")]
    for section, key in draw(st.lists(st.sampled_from([*first, *KEYS]), max_size=7, unique=True)):
        value = draw(usual(section, key))
        tables = put(tables, {section: {key: value}})
    tables = put(tables, {"scheme": {"name": draw(usual("scheme", "name"))}})
    # Half of them have only what their scheme has; of the others most are refused for what it has not.
    return without_foreign(tables, scheme_keys(tables)) if draw(st.booleans()) else tables


@st.composite
def extreme_tables(draw: st.DrawFn) -> Tables:
    """Settings with some keys at the limits of what the schema allows, and beyond."""
    tables = draw(valid_tables())
    for section, key in draw(st.lists(st.sampled_from(KEYS), min_size=1, max_size=3, unique=True)):
        tables = put(tables, {section: {key: draw(allowed(_property(section, key)) | EDGES)}})
    return tables


_WHOLE = [0, 1, -1, 2**31, 2**63, 2**64, 10**30, -(10**18)]
_REAL = [0.0, -0.0, 5e-324, 1e-300, 1e300, 1.7e308, -1e300, math.inf, -math.inf, math.nan]
EDGES = st.sampled_from([*_WHOLE, *_REAL, True, False, "", "inf", "nan", "auto"])
_TEXT = st.text(max_size=20) | st.sampled_from(
    ["a" * 100_000, "\n", "\x1b[31m", "é", "\u202e", "0" * 5000, "../x", "%s{}"]
)
_SCALARS = EDGES | _TEXT | st.integers() | st.floats() | st.dates() | st.none()
GARBAGE = st.recursive(_SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXT, inner, max_size=2))
_NAMES = st.sampled_from([*Settings.model_fields, "rum", "", "compare", "model_config"]) | _TEXT


@st.composite
def garbage_tables(draw: st.DrawFn) -> Tables:
    """Settings with anything in the place of values, keys and sections."""
    tables: Tables = put(SMALL, {})
    for _ in range(draw(st.integers(1, 3))):
        section, key = draw(st.sampled_from(KEYS))
        match draw(st.integers(0, 4)):
            case 0 | 1:
                tables = put(tables, {section: {key: draw(GARBAGE)}})
            case 2:
                tables = put(tables, {section: {draw(_NAMES): draw(GARBAGE)}})
            case 3:
                return {**tables, draw(_NAMES): draw(GARBAGE)}
            case _:
                return {**tables, section: {}}
    return tables


@st.composite
def broken_toml(draw: st.DrawFn) -> bytes:
    """A real settings file with bytes, lines and values mutated."""
    text = draw(st.sampled_from(CONFIGS)).read_bytes()
    for _ in range(draw(st.integers(1, 4))):
        lines, at = text.split(b"\n"), draw(st.integers(0, max(len(text) - 1, 0)))
        line = draw(st.integers(0, len(lines) - 1))
        before, after = lines[:line], lines[line + 1 :]
        match draw(st.integers(0, 6)):
            case 0:
                text = text[:at]
            case 1:
                text = text[:at] + draw(st.binary(min_size=1, max_size=1)) + text[at + 1 :]
            case 2:
                text = text[:at] + draw(st.binary(max_size=6) | _PIECES) + text[at:]
            case 3:
                text = b"\n".join([*before, *after])
            case 4:
                text = b"\n".join([*lines, lines[line]])
            case 5:
                key = lines[line].partition(b"=")[0]
                text = b"\n".join([*before, key + b"= " + draw(_VALUES).encode(), *after])
            case _:
                text = b"\n".join([draw(st.sampled_from(lines)) for _ in lines])
    return text


_PLAIN = """
    1 -1 0.1 inf -inf nan true [] {} [1,2] 1e400 1e-400 0x10 1_0 1979-05-27 12:00:00 ' " "x" [[ ]] { # [0.1,0.2,0.3] é
"""
_PIECES = st.sampled_from([b"\0", b"\r", b"[" * 3000, b"{a=" * 500, b'"""', b"9" * 5000])
_VALUES = st.sampled_from([*_PLAIN.split(), "", "a = 1\nb = 2", "1 # 2", "9" * 5000, "\x00"]) | st.text(max_size=10)
_RANGES = """
    0.1,0.3 1:3:1 1:3:0 3:1:1 3:1:-1 1:1e9:1 1:1e99:1e-99 0:1:1e-30 1:2 1e999:1:1 a:b:c , 1, ,1 1,1 [1,2],[3,4] [1,2
    'a,b' 1e-3:1:log 1:2:linear 0:1:log 2:1:linear nan,nan inf,1 1:nan:1 0.1:0.3:0.1 -1:1:1 1:9:1e-999999999
    1:1e999999999:1 1e99999999999999999999:1:1 0.1,0.10 true,1 pfels,fedavg 1:1e99999999:log
"""
_SWEPT = st.sampled_from([*_RANGES.split(), "9" * 400 + ":1:1"])


@st.composite
def override_texts(draw: st.DrawFn) -> str:
    """What may stand on the command line: section.key=value, swept or not, and what only looks like it."""
    section, key = draw(st.sampled_from(KEYS))
    name = draw(
        st.just(f"{section}.{key}") | st.sampled_from([section, key, f"{section}.{key}.x", "", ".", " a . b "]) | _TEXT
    )
    value = draw(_VALUES | _SWEPT | usual(section, key).map(str))
    return draw(st.sampled_from([f"{name}={value}", f"{name}={value}", f"{name} = {value}", name, f"{name}=="]))


@st.composite
def row_tables(draw: st.DrawFn) -> Tables:
    """A file with [[compare]] rows, good and bad."""
    row = st.fixed_dictionaries({}, optional={"label": _TEXT | GARBAGE}).flatmap(
        lambda start: st.dictionaries(
            st.sampled_from([f"{section}.{key}" for section, key in KEYS]) | _NAMES, GARBAGE | EDGES, max_size=2
        ).map(lambda more: {**more, **start})
    )
    good = st.sampled_from(KEYS).flatmap(
        lambda key: usual(*key).map(lambda value: {"label": f"{key}", ".".join(key): value})
    )
    rows = draw(st.lists(good | row, max_size=4) | GARBAGE)
    return {**SMALL, "compare": rows}


def without_none(value: Any) -> Any:
    """The same for a TOML file, which has no null."""
    if isinstance(value, dict):
        return {key: without_none(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [without_none(item) for item in value if item is not None]
    return value


def to_toml(tables: Tables) -> bytes:
    """A settings file."""
    return tomli_w.dumps(without_none(tables)).encode(errors="surrogatepass")
