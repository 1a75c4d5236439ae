"""Parts: allowed values follow from the declared parameters; registries find parts and report errors."""

import importlib
import math
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import pytest

import airfl
from airfl import UserError
from airfl.config.parts import PartOf, schema_of
from airfl.config.plugins import load_plugin
from airfl.schemes.names import SCHEMES
from airfl.storage.fingerprint import fingerprint
from channels.fading import FunctionChannel
from channels.part import REQUIRED, Part, PartError, Registry, parameter, parameters_of
from tests.conftest import registrations_undone, small_settings
from tests.refusals import one_line


class Shape(Part):
    """Something with sides."""

    sides: ClassVar[int] = 0


class Square(Shape):
    """Four of them."""

    name = "square"
    sides = 4

    length_m: float = parameter(1.0, gt=0, le=9, also=(math.inf,), unit="m", description="of a side")
    turned: bool = parameter(False, description="by an eighth")
    corner: Literal["round", "sharp"] | None = parameter(None, description="what they look like")
    weights: tuple[float, ...] = parameter((1.0, 2.0), description="of its sides")

    def check(self) -> None:
        """A round one is not turned."""
        if self.turned and self.corner == "round":
            raise PartError("a round one has nothing to turn", "turned")


class Polygon(Shape):
    """Any number."""

    name = "polygon"

    count: int = parameter(ge=3, description="of sides")


def shapes() -> Registry[Shape]:
    return Registry("shape", Shape, {"square": f"{__name__}:Square", "polygon": f"{__name__}:Polygon"})


def test_a_part_is_what_was_given_and_defaults() -> None:
    square = Square(length_m=2, weights=[3, 4])  # type: ignore[arg-type]
    assert (square.length_m, type(square.length_m), square.weights) == (2.0, float, (3.0, 4.0))
    assert square == Square(length_m=2.0, weights=(3.0, 4.0))
    assert hash(square) == hash(Square(length_m=2.0, weights=(3.0, 4.0)))
    assert repr(square) == "Square(length_m=2.0, weights=(3.0, 4.0))"
    assert pickle.loads(pickle.dumps(square)) == square
    assert Square(length_m=math.inf).length_m == math.inf
    assert [one.name for one in parameters_of(Square)] == ["length_m", "turned", "corner", "weights"]
    assert parameters_of(Polygon)[0].default is REQUIRED
    with pytest.raises(AttributeError):
        square.turned = True  # type: ignore[misc]


@pytest.mark.parametrize("number", [np.int64, np.int8, np.uint16])
def test_numbers_of_numpy_become_those_of_python(number: type[Any]) -> None:
    found = [Polygon(count=number(4)).count, Square(length_m=number(4)).length_m]
    assert (found, [type(one) for one in found]) == ([4, 4.0], [int, float])
    weights = Square(weights=(np.float32(0.5), number(2), np.float64(1.5))).weights  # type: ignore[arg-type]
    assert (weights, {type(one) for one in weights}) == ((0.5, 2.0, 1.5), {float})


def test_sections_take_numbers_of_numpy() -> None:
    given: dict[str, Any] = {"epochs": np.int64(2), "clip_norm": np.float32(0.5), "learning_rate": np.float64(0.1)}
    local = airfl.LocalSgd(**given)
    assert local == airfl.LocalSgd(epochs=2, clip_norm=0.5, learning_rate=0.1)
    assert {type(local.epochs), type(local.clip_norm), type(local.learning_rate)} == {int, float}
    radio = airfl.Radio(max_snr_db=(np.float32(1), np.int64(2)))
    experiment = airfl.Experiment(rounds=np.int16(3), local={"epochs": np.int64(2), "clip_norm": 1.0}, radio=radio)
    assert (experiment.settings.run.rounds, experiment.settings.power.max_snr_db) == (3, [1.0, 2.0])
    with pytest.raises(UserError, match=one_line("LocalSgd: epochs must be an integer, got 2.0")):
        airfl.LocalSgd(epochs=np.float64(2), clip_norm=0.5)  # type: ignore[arg-type]
    with pytest.raises(UserError, match=one_line("LocalSgd: epochs must be an integer, got True")):
        airfl.LocalSgd(epochs=np.bool_(True), clip_norm=0.5)  # type: ignore[arg-type]


def test_a_table_without_a_name_is_told_so() -> None:
    with pytest.raises(
        UserError, match=one_line("a table for the power policy needs a name (allowed with threshold: ")
    ):
        airfl.Radio(power={"threshold": 1.0})
    with pytest.raises(UserError, match=one_line("a table for the fading law needs a name (allowed: cdl-a, ")):
        airfl.Radio(fading={})
    assert (
        airfl.Experiment(scheme={"ratio": 0.5}, local={"epochs": 1, "clip_norm": 1.0}).settings.scheme.name == "pfels"
    )


@pytest.mark.parametrize("name", [[], {}, 5, None])
def test_what_is_no_name_names_nothing(name: Any) -> None:
    assert name not in SCHEMES
    assert SCHEMES.get(name) is None


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"length_m": 0.0}, "length_m must be inf or positive, got 0.0"),
        ({"length_m": 9.5}, "length_m must be inf or at most 9, got 9.5"),
        ({"length_m": math.nan}, "length_m must be finite, got nan"),
        ({"length_m": "long"}, "length_m must be a number, got 'long'"),
        ({"length_m": True}, "length_m must be a number, got True"),
        ({"length_m": np.bool_(True)}, "length_m must be a number, got "),
        ({"length_m": 10**400}, "length_m must be a number, got 1000"),
        ({"turned": 1}, "turned must be true or false, got 1"),
        ({"corner": "soft"}, "corner must be 'round', 'sharp' or none, got 'soft'"),
        ({"weights": (1.0, "a")}, r"weights must be a list, got \(1.0, 'a'\)"),
        ({"turned": True, "corner": "round"}, "a round one has nothing to turn"),
    ],
)
def test_what_a_part_does_not_allow_is_told(values: dict[str, Any], said: str) -> None:
    with pytest.raises(PartError, match=f"^{said}") as refused:
        Square(**values)
    assert refused.value.key == next(iter(values))


@pytest.mark.parametrize(
    ("given", "said", "key"),
    [
        ("sqare", r"unknown shape 'sqare'; did you mean square\? \(allowed: polygon, square\)", "name"),
        ({"name": 3}, "name must be a string, got 3", "name"),
        ({"name": "polygon"}, "shape 'polygon' needs count: of sides", "count"),
        ({"name": "polygon", "count": 2}, "count must be at least 3, got 2", "count"),
        (
            {"name": "polygon", "length_m": 2},
            "shape 'polygon' has no length_m, which belongs to square; leave",
            "length_m",
        ),
        ({"name": "polygon", "cuont": 2}, r"shape 'polygon' has no cuont; did you mean count\?", "cuont"),
        ({"name": "polygon", "corne": 2}, r"shape 'polygon' has no corne; did you mean corner\?", "corne"),
        (3, "shape must be an instance, .*, got 3", None),
    ],
)
def test_what_a_registry_cannot_build_is_told(given: Any, said: str, key: str | None) -> None:
    with pytest.raises(PartError, match=f"^{said}") as refused:
        shapes().build(given)
    assert refused.value.key == key


def test_a_registry_builds_from_a_name_a_table_a_class_and_an_object() -> None:
    found = shapes()
    assert found.build("square") == found.build({"name": Square}) == found.build({}, "square") == Square()
    assert found.build({"name": "polygon", "count": 5}) == found.build(Polygon(count=5)) == Polygon(count=5)
    assert list(found) == ["square", "polygon"]
    assert len(found) == 2
    assert found.having("length_m") == ["square"]


def test_registered_parts_are_found_and_a_name_is_not_taken_twice() -> None:
    class Triangle(Shape):
        name = "triangle"
        side_m: float = parameter(1.0, description="all three")

    found = shapes()
    assert found.register(Triangle) is Triangle
    assert found.register(Triangle) is Triangle  # a cell of a notebook that is run again
    assert found.build({"name": "triangle", "side_m": 2}) == Triangle(side_m=2.0)

    class Circle(Shape):
        name = "square"

    refused = {Circle: "shape 'square' already exists", type("Nameless", (Shape,), {}): "needs a name"}
    for part, said in {**refused, str: "must derive from Shape"}.items():
        with pytest.raises(PartError, match=said):
            found.register(part)  # type: ignore[type-var]


def test_the_schema_says_of_each_name_what_it_has() -> None:
    schema = schema_of(PartOf(shapes(), "shape", "square", "Which shape."))
    length = {"type": "number", "exclusiveMinimum": 0, "default": 1.0, "description": "of a side [m] (square)"}
    assert schema["properties"]["length_m"] == length
    assert schema["properties"]["corner"]["anyOf"] == [{"type": "string", "enum": ["round", "sharp"]}, {"type": "null"}]
    rules = {names["then"]["propertyNames"]["enum"][1]: names["if"]["anyOf"] for names in schema["allOf"]}
    assert {"not": {"required": ["name"]}} in rules["length_m"]
    assert {"not": {"required": ["name"]}} not in rules["count"]


def test_a_slot_reads_infinity_as_json_has_it_and_writes_what_it_reads() -> None:
    slot = PartOf(shapes(), "shape", "square", "Which shape.")
    assert slot.build({"length_m": "inf"}) == Square(length_m=math.inf)
    square = Square(length_m=3.0)
    assert slot.build(slot.table(square)) == square
    assert slot.table(square, changed=True) == {"length_m": 3.0}
    assert slot.table(Polygon(count=4), changed=True) == {"name": "polygon", "count": 4}
    with pytest.raises(ValueError, match=r"^shape\.length_m must be inf or positive"):
        slot.build({"length_m": -1})
    with pytest.raises(ValueError, match=r"^shape\.turned: a round one"):
        slot.build({"turned": True, "corner": "round"})


def test_a_fingerprint_is_of_code_and_parameters() -> None:
    def made(factor: int, bound: float = 1.0) -> Shape:
        class Own(Shape):
            name = "own"
            limit = bound
            size: float = parameter(1.0, description="of it")

            def area(self) -> float:
                return self.size * 2 if factor == 2 else self.size * 3

        return Own()

    class Own(Shape):
        name = "own"
        size: float = parameter(1.0, description="of it")

        def area(self) -> float:
            return self.size * 4

    def channel(gains: np.ndarray) -> FunctionChannel:
        return FunctionChannel(function=lambda request: gains)

    assert fingerprint(made(2)) == fingerprint(made(2))
    assert fingerprint(made(2)) != fingerprint(made(3))  # which has the same code, and another number around it
    assert fingerprint(channel(np.ones(3))) == fingerprint(channel(np.ones(3))) != fingerprint(channel(np.zeros(3)))
    assert len({fingerprint(one) for one in (made(2), made(2, 3.0), Own(), Own(size=2.0))}) == 4


def test_a_module_of_a_short_name_is_loaded_once() -> None:
    """Loaded twice, a part would be registered twice, and its class not be its class."""
    for short, module in airfl._MODULES.items():
        assert importlib.import_module(f"airfl.{short}") is importlib.import_module(module)
    for short, room in (("tasks.models.mlp", "learning"), ("callbacks.callback", "core")):
        assert importlib.import_module(f"airfl.{short}") is importlib.import_module(f"airfl.{room}.{short}")


def test_type_checkers_find_the_modules_of_short_names() -> None:
    """They read files, so that a short name that is no file has a stub, which names the module."""
    package = Path(airfl.__file__).parent
    stubs = {file.stem: file.read_text() for file in package.glob("*.pyi")}
    files = {file.stem for file in package.iterdir() if file.is_dir() or file.suffix == ".py"}
    assert stubs == {
        short: f"from {module} import *\n" for short, module in airfl._MODULES.items() if short not in files
    }


def test_an_object_with_the_name_of_a_part_of_airfl_is_refused() -> None:
    """Inherited or set; tables would call it by that name."""

    class Inherits(airfl.selection.Uniform):
        pass

    class Takes(airfl.schemes.Scheme):
        name = "fedavg"

        def recipe(self, problem: Any) -> Any:
            raise AssertionError

    class Net(airfl.models.Mlp):
        pass

    inputs, labels = np.zeros((9, 1, 28, 28)), np.arange(9)
    task = airfl.Task(Net(), (inputs, labels), (inputs, labels))
    refused: dict[str, Callable[[], object]] = {
        "selection.kind: Inherits has the name 'uniform' of a selection rule": lambda: small_settings().resolved(
            selection={"kind": Inherits()}
        ),
        "scheme: Takes has the name 'fedavg' of a scheme": lambda: small_settings().resolved(scheme=Takes()),
        "task.model: Net has the name 'mlp' of a model": lambda: task.settings(small_settings()),
    }
    for said, build in refused.items():
        with pytest.raises(airfl.UserError, match=one_line(said)):
            build()
    assert small_settings().resolved(selection={"kind": airfl.selection.Uniform()}) == small_settings()


ABSTRACT = """
import airfl

class Good(airfl.schemes.FedAvg):
    name = "good"

class A(airfl.schemes.Scheme):
    name = "a"

    def {method}(self, problem):
        return None
"""


@pytest.mark.parametrize(
    ("method", "said"),
    [("recepi", r"A lacks recipe\(\); is recepi\(\) misspelt\?"), ("other", r"A lacks recipe\(\); define it")],
)
def test_a_plugins_part_that_lacks_a_method_is_refused(method: str, said: str, tmp_path: Path) -> None:
    file = tmp_path / "parts.py"
    file.write_text(ABSTRACT.format(method=method))
    with registrations_undone(), pytest.raises(airfl.UserError, match=rf"cannot be loaded \({said}\)$"):
        load_plugin(file)


def test_what_a_test_file_registers_is_undone_after_it(tmp_path: Path) -> None:
    """A plugin file that is loaded again is registered again."""
    file = tmp_path / "parts.py"
    file.write_text('from airfl.schemes import FedAvg\n\nclass Left(FedAvg):\n    name = "left"\n')
    for _ in range(2):
        with registrations_undone():
            load_plugin(file)
            assert "left" in SCHEMES
        assert "left" not in SCHEMES
