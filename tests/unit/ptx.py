"""Runs the code that Triton compiles for a GPU (PTX) on a CPU: an interpreter of straight code, in numpy.

All threads of all programs execute an operation before the next one, so that barriers are kept by themselves. Branches
are not known. Every operation on floats is rounded as PTX says (`rn`).
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

Values = NDArray[Any]

TYPES = {"u": np.uint32, "s": np.int32, "f": np.float32, "U": np.uint64, "S": np.int64, "p": np.bool_}
KINDS = {"b32": "u", "u32": "u", "s32": "s", "f32": "f", "b64": "U", "u64": "U", "s64": "S"}
COMPARED: dict[str, Callable[..., Values]] = {
    **{
        "eq": np.equal,
        "ne": np.not_equal,
        "lt": np.less,
        "le": np.less_equal,
        "gt": np.greater,
        "ge": np.greater_equal,
    },
}
ALIGNED = 256
"""Bytes between the beginnings of tensors in the memory."""


def _field(x: Values, first: Values, width: Values) -> Values:
    return x >> first & ((1 << width) - 1)


def _signed_field(x: Values, first: Values, width: Values) -> Values:
    return x << (32 - first - width) >> (32 - width)


def _quotient(x: Values, y: Values) -> Values:
    return np.asarray(np.trunc(x / y))


OPERATIONS: dict[str, tuple[str, Callable[..., Values]]] = {
    **{f"mov.{kind}": ("uu", np.positive) for kind in ("b32", "u32")},
    **{f"mov.{kind}": ("UU", np.positive) for kind in ("b64", "u64")},
    "add.s32": ("uuu", np.add),
    "sub.s32": ("uuu", np.subtract),
    "mul.lo.s32": ("uuu", np.multiply),
    "mul.hi.u32": ("uUU", lambda x, y: x * y >> 32),
    "neg.s32": ("ss", np.negative),
    "div.s32": ("sss", _quotient),
    "popc.b32": ("uu", np.bitwise_count),
    "bfe.u32": ("uuuu", _field),
    "bfe.s32": ("ssss", _signed_field),
    "mul.wide.s32": ("Sss", lambda x, y: x.astype(np.int64) * y),
    "mul.wide.u32": ("Uuu", lambda x, y: x.astype(np.uint64) * y),
    "mad.wide.s32": ("SssS", lambda x, y, z: x.astype(np.int64) * y + z),
    "add.s64": ("UUU", np.add),
    "mul.lo.s64": ("UUU", np.multiply),
    "cvt.u32.u64": ("uU", np.positive),
    "cvt.u64.u32": ("Uu", np.positive),
    **{f"{name}.b32": ("uuu", made) for name, made in (("and", np.bitwise_and), ("or", np.bitwise_or))},
    **{f"{name}.b64": ("UUU", made) for name, made in (("and", np.bitwise_and), ("or", np.bitwise_or))},
    "xor.b32": ("uuu", np.bitwise_xor),
    "shl.b32": ("uuu", np.left_shift),
    "shr.u32": ("uuu", np.right_shift),
    "shr.s32": ("sss", np.right_shift),
    "shl.b64": ("UUU", np.left_shift),
    "shr.u64": ("UUU", np.right_shift),
    "and.pred": ("ppp", np.logical_and),
    "selp.b32": ("uuup", lambda x, y, p: np.where(p, x, y)),
    "selp.f32": ("uuup", lambda x, y, p: np.where(p, x, y)),
    **{
        f"setp.{name}.{kind}": (f"p{KINDS[kind]}{KINDS[kind]}", made)
        for name, made in COMPARED.items()
        for kind in KINDS
    },
    "add.rn.f32": ("fff", np.add),
    "sub.rn.f32": ("fff", np.subtract),
    "mul.rn.f32": ("fff", np.multiply),
    "min.f32": ("fff", np.minimum),
    "sqrt.rn.f32": ("ff", np.sqrt),
    "cvt.rn.f32.s32": ("fs", np.positive),
    "cvt.rn.f32.u32": ("fu", np.positive),
}
"""By the name in PTX: the types of the result and of the operands, and the function."""


@dataclass
class Machine:
    """Threads that execute PTX.

    Attributes:
        threads: Of a program.
        programs: Their number.
        memory: Memory of the GPU, bytes.
        shared: Memory of each program, bytes [programs, size].
        parameters: Arguments of the kernel, by place.
        registers: By name, [programs threads].
    """

    threads: int
    programs: int
    memory: NDArray[np.uint8]
    shared: NDArray[np.uint8]
    parameters: Sequence[Values]
    registers: dict[str, Values] = field(default_factory=dict)

    def execute(self, line: str) -> None:
        """Execute an operation. Raises NotImplementedError for one that is not known."""
        predicate, name, operands = _parts(line)
        if name in ("ret", "bar.sync"):
            return
        active = (
            np.ones(self.threads * self.programs, dtype=np.bool_) if predicate is None else self._of(predicate, "p")
        )
        if name.startswith(("ld.", "st.")):
            self._move(name, operands, active)
        elif name == "mov.b64" and "{" in "".join(operands):
            self._split(operands)
        elif name in OPERATIONS:
            (result, *kinds), made = OPERATIONS[name]
            with np.errstate(over="ignore"):
                found = made(*(self._of(one, kind) for one, kind in zip(operands[1:], kinds, strict=True)))
            self._set(operands[0], found.astype(TYPES[result]), active)
        else:
            raise NotImplementedError(name)

    def _set(self, name: str, value: Values, active: Values) -> None:
        before = self.registers.get(name)
        same = before is not None and before.dtype.itemsize == value.dtype.itemsize
        bits = value if value.dtype == np.bool_ else value.view(f"u{value.dtype.itemsize}")
        self.registers[name] = np.where(active, bits, before) if same else bits

    def _of(self, operand: str, kind: str) -> Values:
        """Return an operand, [programs threads], as this type."""
        dtype, every = np.dtype(TYPES[kind]), np.ones(self.threads * self.programs, dtype=np.int64)
        if operand == "%tid.x":
            return np.tile(np.arange(self.threads), self.programs).astype(dtype)
        if operand == "%ctaid.x":
            return np.repeat(np.arange(self.programs), self.threads).astype(dtype)
        if operand == "global_smem":
            return (0 * every).astype(dtype)
        if operand.startswith("%"):
            value = self.registers[operand]
            return value.view(dtype) if value.dtype.itemsize == dtype.itemsize else value.astype(dtype)
        if operand.startswith("0f"):
            return np.full(len(every), int(operand[2:], 16), dtype=np.uint32).view(dtype)
        number = int(operand, 0) & ((1 << 8 * dtype.itemsize) - 1)
        return np.full(len(every), number, dtype=f"u{dtype.itemsize}").view(dtype)

    def _move(self, name: str, operands: Sequence[str], active: Values) -> None:
        """Execute a load or store of one or several words."""
        kind, space, *_, size = name.split(".")
        width = int(size[1:]) // 8
        place, held = (operands[0], operands[1]) if kind == "st" else (operands[1], operands[0])
        names = re.findall(r"[%\w]+", held)
        if space == "param":
            value = self.parameters[int(re.findall(r"param_(\d+)", place)[0])]
            wide = np.int64 if names[0].startswith("%rd") else value.dtype
            self._set(names[0], np.full(len(active), value).astype(wide), active)
            return
        base, _, offset = place.strip("[ ]").partition("+")
        address = self._of(base.strip(), "S" if space == "global" else "s").astype(np.int64) + int(offset or 0)
        words = self.memory.view(f"u{width}") if space == "global" else self.shared.view(f"u{width}").ravel()
        if space == "shared":
            address = address + np.repeat(np.arange(self.programs), self.threads) * self.shared.shape[1]
        assert not np.any(address[active] % (width * len(names))), name  # as a GPU demands
        for number, one in enumerate(names):
            where = address // width + number
            if kind == "st":
                words[where[active]] = self._of(one, "u" if width == 4 else "U")[active]
            else:
                self._set(one, words[np.where(active, where, 0)], active)

    def _split(self, operands: Sequence[str]) -> None:
        """Execute a move between a register and two of half its size."""
        every = np.ones(self.threads * self.programs, dtype=np.bool_)
        if operands[0].startswith("{"):
            whole = self._of(operands[1], "U")
            for number, half in enumerate(re.findall(r"[%\w]+", operands[0])):
                self._set(half, (whole >> np.uint64(32 * number)).astype(np.uint32), every)
        else:
            low, high = (self._of(half, "U") for half in re.findall(r"[%\w]+", operands[1]))
            self._set(operands[0], low | high << np.uint64(32), every)


def _parts(line: str) -> tuple[str | None, str, list[str]]:
    """Return the predicate, the name and the operands of an operation."""
    predicate, rest = re.match(r"(?:@(%p\d+)\s+)?(.*)", line).groups()  # type: ignore[union-attr]
    name, _, operands = rest.partition(" ")
    return (
        predicate,
        name,
        [one.strip() for one in re.findall(r"\{[^}]*\}|\[[^\]]*\]|[^,{}\[\]]+", operands) if one.strip()],
    )


def run(text: str, arguments: Sequence[torch.Tensor | float], programs: int, threads: int, shared: int) -> None:
    """Run a kernel with these arguments; tensors of the CPU are changed in place.

    Args:
        text: The PTX.
        arguments: Those that are left at run time, in order.
        programs: Their number.
        threads: Of a program.
        shared: Bytes of memory that the threads of a program share.
    """
    tensors = [one for one in arguments if isinstance(one, torch.Tensor)]
    held = [one.untyped_storage() for one in tensors]
    ends = np.cumsum([ALIGNED] + [-(-one.nbytes() // ALIGNED) * ALIGNED for one in held])
    memory = np.zeros(ends[-1] + ALIGNED, dtype=np.uint8)
    parameters: list[Values] = []
    begins = iter(ends.tolist())
    for one in arguments:
        if isinstance(one, torch.Tensor):
            begin, storage = next(begins), one.untyped_storage()
            memory[begin : begin + storage.nbytes()] = _bytes(one)
            parameters.append(np.int64(begin + one.storage_offset() * one.element_size()))  # type: ignore[arg-type]
        else:
            parameters.append(np.float32(one) if isinstance(one, float) else np.int32(one))  # type: ignore[arg-type]
    places = np.zeros((programs, max(shared, 16)), dtype=np.uint8)
    machine = Machine(threads, programs, memory, places, parameters)
    for line in _operations(text):
        machine.execute(line)
    for one, begin in zip(tensors, ends.tolist(), strict=False):
        _bytes(one)[:] = memory[begin : begin + one.untyped_storage().nbytes()]


def _bytes(tensor: torch.Tensor) -> NDArray[np.uint8]:
    """Return the memory of a tensor."""
    whole = torch.empty(0, dtype=torch.uint8).set_(tensor.untyped_storage())  # type: ignore[call-overload]
    return np.asarray(whole.numpy())


def _operations(text: str) -> list[str]:
    body = re.sub(r"//.*", "", text[text.index("\n{") + 2 : text.rindex("\n}")])
    lines = [line.strip() for line in re.sub(r"\$L\w+:", "", body).replace("\n", " ").split(";")]
    without = [
        re.sub(r"\.loc\s[\d\s]+(?:, function_name \S+, inlined_at [\d\s]+)?", "", line).strip() for line in lines
    ]
    return [line for line in without if line and not line.startswith(".")]
