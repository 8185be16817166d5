"""LLVM IR as text: modules, functions and blocks, written line by line.

llvmlite's binding takes text. Writing it directly takes a tenth of the time of building llvmlite.ir objects, and gives
access to all of the language (flags on addresses, loop metadata, `splat`). An *operand* is the text of a value
(``%v7``, ``42``, ``@table``); its type is written separately.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from functools import lru_cache

from ..target.isa import MathInstructions

Operand = str

_PURE = frozenset({
    "add", "sub", "mul", "and", "or", "xor", "shl", "ashr", "lshr", "icmp", "select", "trunc", "zext", "sext",
    "getelementptr", "insertelement", "extractelement", "shufflevector", "bitcast",
})  # fmt: skip
"""Pure instructions that are often duplicated: index arithmetic."""


class ModuleBuilder:
    """Text of one module: functions, constants and declarations, each written once."""

    def __init__(self) -> None:
        self._functions: list[str] = []
        self._globals: dict[str, str] = {}
        self._strings: dict[bytes, str] = {}
        self._declarations: dict[str, str] = {}
        self._helpers: set[str] = set()
        self._metadata: list[str] = []
        self._shared_metadata: dict[str, str] = {}
        self._attributes: dict[str, int] = {}
        self._messages: list[tuple[str, str]] = []
        self._message_numbers: dict[tuple[str, str], int] = {}
        self.in_order = False
        """True if LLVM must keep the instruction order, as for register tiles (see `relax.farm.worker`)."""
        self.has_loops = self.has_scalar_loops = False
        """True if there is a loop; and an innermost one without operations on vectors, which LLVM may find some for."""
        self.math: MathInstructions | None = None
        """The machine's instructions by which functions of sixteen float32 are looked up; None if it has none."""
        self.has_wide_tiles = False
        """True if vectors of a tile in registers are longer than those of the machine: LLVM has to split them."""

    @property
    def messages(self) -> tuple[str, ...]:
        """Strings of all messages in the order of their numbers: kind, text, kind, …"""
        return tuple(text for message in self._messages for text in message)

    def message(self, kind: str, text: str) -> Operand:
        """Number of a message: a kind of error and a printf format, or a name and an empty text.

        Messages contain the names of functions, buffers and variables and are not part of the module text, so kernels
        that differ only in names have the same text.
        """
        number = self._message_numbers.get((kind, text))
        if number is None:
            number = self._message_numbers[kind, text] = self.message_run([(kind, text)])
        return str(number)

    def message_run(self, messages: Iterable[tuple[str, str]]) -> int:
        """Number of the first of several (kind, text) messages, which are numbered consecutively."""
        first = len(self._messages)
        self._messages += ((c_string(kind), c_string(text)) for kind, text in messages)
        return first

    def string(self, text: str) -> Operand:
        """A zero-terminated constant string."""
        data = text.encode() + b"\0"
        name = self._strings.get(data)
        if name is None:
            name = self._strings[data] = f"@.s{len(self._strings)}"
            body = "".join(chr(c) if 32 <= c < 127 and c not in b'"\\' else f"\\{c:02X}" for c in data)
            self._globals[name] = f'private unnamed_addr constant [{len(data)} x i8] c"{body}"'
        return name

    def table(self, name: str, element: str, values: Iterable[str]) -> Operand:
        """Constant array; written once per name."""
        symbol = f"@{name}"
        if symbol not in self._globals:
            items = ", ".join(f"{element} {value}" for value in values)
            count = items.count(",") + 1
            self._globals[symbol] = f"private unnamed_addr constant [{count} x {element}] [{items}], align 64"
        return symbol

    def declare(self, name: str, result: str, parameters: str, attributes: str = "nounwind") -> Operand:
        """Declare an external function; the first declaration of a name is kept."""
        symbol = quoted(name)
        if symbol not in self._declarations and name not in self._helpers:
            group = f" #{self.attribute_group(attributes)}" if attributes else ""
            self._declarations[symbol] = f"declare {result} {symbol}({parameters}){group}"
        return symbol

    def intrinsic(self, name: str, result: str, *parameters: str) -> Operand:
        """Declare an LLVM intrinsic, whose attributes LLVM knows."""
        return self.declare(name, result, ", ".join(parameters), "")

    def support(self, name: str, result: str, parameters: str) -> Operand:
        """Declare a function of the support code, which the loader links to the module."""
        self.uses_messages()
        self._declarations[f"@{name}"] = f"declare hidden {result} @{name}({parameters})"
        return f"@{name}"

    def uses_messages(self) -> None:
        """Declare the module's messages, which the loader binds."""
        self._globals["@relax.messages"] = "external hidden constant i8"

    def helper(self, name: str, write: Callable[[], None]) -> Operand:
        """Symbol of a function of this module, defined by `write` on first use."""
        if name not in self._helpers:
            self._helpers.add(name)
            write()
        return quoted(name)

    def define(self, function: FunctionBuilder) -> None:
        """Add a finished function."""
        self._functions.append(function.text())

    def add_text(self, text: str) -> None:
        """Add a function given as LLVM text."""
        self._functions.append(text)

    def attribute_group(self, attributes: str) -> int:
        return self._attributes.setdefault(attributes, len(self._attributes))

    def metadata(self, body: str) -> str:
        """Add a metadata node. ``$self`` in `body` refers to the node itself, which makes it distinct."""
        name = f"!{len(self._metadata)}"
        distinct = "distinct " if "$self" in body else ""
        line = f"{distinct}!{{{body.replace('$self', name)}}}"
        if not distinct:
            known = self._shared_metadata.setdefault(line, name)
            if known != name:
                return known
        self._metadata.append(line)
        return name

    def text(self) -> str:
        """LLVM IR of the module."""
        out = [f"{name} = {body}" for name, body in self._globals.items()]
        out += self._declarations.values()
        out += self._functions
        out += [f"attributes #{number} = {{ {text} }}" for text, number in self._attributes.items()]
        out += [f"!{number} = {body}" for number, body in enumerate(self._metadata)]
        return "\n".join(out) + "\n"


class FunctionBuilder:
    """One function: blocks in order, followed by cold blocks (errors)."""

    def __init__(self, module: ModuleBuilder, head: str) -> None:
        """`head` is the definition up to the brace, e.g. ``define i32 @f(ptr %a)``."""
        self.module = module
        self._head = head
        self._entry: list[str] = []
        self._lines: list[str] = []
        self._cold: list[str] = []
        self._count = 0
        self._scratch: dict[str, Operand] = {}
        self.block = "entry"
        self.terminated = False
        self.mark = ""
        """The end of every instruction: the mark of the loop that it is part of, when loops are marked."""
        self.exact: dict[Operand, tuple[str, str, Operand]] = {}
        """Values that are small floats already: the format, and the type and name of an integer with their bits."""
        self._computed: list[dict[str, Operand]] | None = None
        """Results by their instructions: of each region of code around the place of writing, the outermost first."""

    def share(self) -> None:
        """Eliminate common pure instructions from here on; `region` delimits conditional code."""
        self._computed = [{}]

    @contextmanager
    def region(self) -> Generator[None]:
        """Context manager: write code that is executed conditionally; its results are not reused after it."""
        self.enter()
        yield
        self.leave()

    def enter(self) -> None:
        """Begin a region of conditional code; `leave` ends it."""
        if self._computed is not None:
            self._computed.append({})

    def leave(self) -> None:
        """End the innermost region."""
        if self._computed is not None:
            self._computed.pop()

    def op(self, text: str, pure: bool = False) -> Operand:
        """Write an instruction with a result. A `pure` one, as those in `_PURE`, may be shared."""
        if self._computed is None or not (pure or text.partition(" ")[0] in _PURE):
            return self._op(text)
        for results in self._computed:
            result = results.get(text)
            if result is not None:
                return result
        result = self._computed[-1][text] = self._op(text)
        return result

    def _op(self, text: str) -> Operand:
        self._count += 1
        name = f"%v{self._count}"
        self._lines.append(f"  {name} = {text}{self.mark}")
        return name

    def do(self, text: str) -> None:
        """Write an instruction without a result."""
        self._lines.append(f"  {text}{self.mark}")

    def alloca(self, type_: str, align: int) -> Operand:
        """Reserve stack memory at the function's entry."""
        self._count += 1
        name = f"%v{self._count}"
        self._entry.append(f"  {name} = alloca {type_}, align {align}")
        return name

    def scratch(self, type_: str, count: int) -> Operand:
        """Stack memory for at least `count` elements, shared by all users within the function."""
        size = 1 << max(count - 1, 3).bit_length()
        key = f"[{size} x {type_}]"
        if key not in self._scratch:
            self._scratch[key] = self.alloca(key, 16)
        return self._scratch[key]

    def label(self, hint: str) -> str:
        """A fresh label."""
        self._count += 1
        return f"{hint}{self._count}"

    def start(self, label: str) -> None:
        """Begin a block."""
        self._lines.append(f"{label}:")
        self.block = label
        self.terminated = False

    def end(self, text: str) -> None:
        """End the block with a terminator."""
        self._lines.append(f"  {text}{self.mark}")
        self.terminated = True

    def branch(self, label: str) -> None:
        if not self.terminated:
            self.end(f"br label %{label}")

    def branch_if(self, condition: Operand, then: str, otherwise: str, hint: str = "") -> None:
        """Branch on an i1; `hint` names the likely side: "then", "otherwise" or neither."""
        weights = {"then": "i32 2000, i32 1", "otherwise": "i32 1, i32 2000"}.get(hint)
        profile = ""
        if weights:
            profile = ", !prof " + self.module.metadata(f'!"branch_weights", {weights}')
        self.end(f"br i1 {condition}, label %{then}, label %{otherwise}{profile}")

    @contextmanager
    def cold(self, label: str) -> Generator[None]:
        """Context manager: write a rarely executed block after all others, then continue the current block."""
        hot, block, terminated = self._lines, self.block, self.terminated
        self._lines = self._cold
        self.start(label)
        self.enter()
        yield
        self.leave()
        self._lines, self.block, self.terminated = hot, block, terminated

    @contextmanager
    def apart(self) -> Generator[list[str]]:
        """Context manager: collect the lines of another function, with value names and labels unique across both."""
        lines: list[str] = []
        outside = self._entry, self._lines, self._cold, self.block, self.terminated, self._scratch
        computed, self._computed = self._computed, None if self._computed is None else [{}]
        self._entry, self._lines, self._cold, self.block, self.terminated = [], [], [], "entry", False
        self._scratch = {}
        yield lines
        lines += [*self._entry, *self._lines, *self._cold]
        self._entry, self._lines, self._cold, self.block, self.terminated, self._scratch = outside
        self._computed = computed

    def call(self, result: str, function: Operand, arguments: str, pure: bool = False) -> Operand:
        return self.op(f"call {result} {function}({arguments})", pure)

    def text(self) -> str:
        lines = [f"{self._head} {{", "entry:", *self._entry, *self._lines, *self._cold, "}"]
        return "\n".join(lines)


def c_string(text: str) -> str:
    """Escape zero characters, which would end a C string."""
    return text.replace("\0", "\\0")


@lru_cache(maxsize=1024)
def quoted(name: str) -> str:
    """Global symbol, quoted if its name has special characters."""
    plain = name.replace(".", "").replace("_", "").isalnum() and name.isascii() and not name[0].isdigit()
    if plain:
        return f"@{name}"
    body = "".join(chr(c) if 32 <= c < 127 and c not in b'"\\' else f"\\{c:02X}" for c in name.encode())
    return f'@"{body}"'


def float_text(value: float, type_: str) -> str:
    """Constant of LLVM's float or double in its hexadecimal form, which is exact."""
    if type_ == "float":
        value = _to_float32(value)
    return f"0x{struct.unpack('>Q', struct.pack('>d', value))[0]:016X}"


def _to_float32(value: float) -> float:
    try:
        return struct.unpack("f", struct.pack("f", value))[0]
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


def splat(type_: str, lanes: int, value: str) -> str:
    """Constant with equal lanes (the scalar itself for one lane)."""
    return value if lanes == 1 else f"splat ({type_} {value})"


def vector(type_: str, lanes: int) -> str:
    """LLVM type of `lanes` elements."""
    return type_ if lanes == 1 else f"<{lanes} x {type_}>"
