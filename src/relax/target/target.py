"""Target: the machine code is compiled for, written as TVM writes it.

    Target("llvm")                                          the host, with all its features
    Target("llvm -mcpu=skylake-avx512 -num-cores=4")
    Target({"kind": "llvm", "mtriple": "aarch64-linux-gnu", "mcpu": "cortex-a76"})

A target is a value: two of the same text are equal. ``with target:`` makes it the current one. What the machine can do
(`Target.machine`) is filled in by `relax.codegen.resolve`, which asks LLVM and the system; `relax.build` calls it.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Mapping
from contextvars import ContextVar
from types import MappingProxyType
from typing import Any, Final, cast

from ..runtime.records import dataclass
from .isa import ISA
from .machine import Machine


@dataclass(frozen=True)
class TargetKind:
    """A family of targets: its name, and its options with their types."""

    name: str
    options: Mapping[str, type]

    def __str__(self) -> str:
        return self.name


_LLVM: Final = TargetKind(
    "llvm",
    MappingProxyType(
        {
            "mtriple": str,
            "mcpu": str,
            "mattr": list,
            "num-cores": int,
            "opt-level": int,
            "vector-width": int,
            "l1-cache": int,
            "l2-cache": int,
            "l3-cache": int,
            "device": str,
            "model": str,
            "keys": list,
            "tag": str,
        }
    ),
)
_KINDS: Final = {"llvm": _LLVM}
_LARGEST: Final = {"opt-level": 3, "vector-width": 2048, "l1-cache": 2**40, "l2-cache": 2**40, "l3-cache": 2**40}
"""Maximum values of numeric options other than 4096."""

_STACK: ContextVar[tuple[Target, ...]] = ContextVar("relax_target", default=())


class Target:
    """A machine to compile for. Raises ValueError for invalid text.

    Takes a string, a dict, JSON text, or another Target; `host` is accepted for a target that has its own host. Names
    of CPUs and features are checked when the target is resolved.
    """

    __slots__ = ("_machine", "attrs", "host", "kind")

    kind: TargetKind
    attrs: Mapping[str, Any]
    """Options as given, by name."""
    host: Target | None
    _machine: Machine | None

    def __init__(self, target: str | Mapping[str, Any] | Target, host: Any = None) -> None:
        if isinstance(target, Target):
            self.kind, self.attrs, self.host = target.kind, target.attrs, target.host
            self._machine = target._machine
        else:
            self._machine = None
            options = dict(target) if isinstance(target, Mapping) else _read_text(target)
            given_host = options.pop("host", None)
            kind = options.pop("kind", None)
            if not isinstance(kind, str) or kind not in _KINDS:
                raise ValueError(f"unknown target kind {kind!r}; this compiler has: {', '.join(sorted(_KINDS))}")
            self.kind = _KINDS[kind]
            self.attrs = MappingProxyType(_check_options(self.kind, options))
            self.host = None if given_host is None else Target(given_host)
        if host is not None:
            self.host = Target(host)

    @staticmethod
    def current(allow_none: bool = True) -> Target | None:
        """Innermost target of the enclosing ``with``; without one, None, or ValueError unless `allow_none`."""
        stack = _STACK.get()
        if not stack and not allow_none:
            raise ValueError("no target is set here; write `with relax.target.Target(...):` around it")
        return stack[-1] if stack else None

    @staticmethod
    def list_kinds() -> list[str]:
        """Names of all target kinds."""
        return sorted(_KINDS)

    def __enter__(self) -> Target:
        _STACK.set((*_STACK.get(), self))
        return self

    def __exit__(self, *_: object) -> None:
        _STACK.set(_STACK.get()[:-1])

    # -------------------------------------------------------------------------- options

    @property
    def mattr(self) -> tuple[str, ...]:
        """Features switched on or off explicitly (``+avx2``, ``-fma``)."""
        return tuple(self.attrs.get("mattr", ()))

    @property
    def opt_level(self) -> int:
        """LLVM's optimisation level, 0 to 3."""
        return self.attrs.get("opt-level", 3)

    @property
    def keys(self) -> tuple[str, ...]:
        """Names by which schedule rules and kernels are chosen."""
        return (*self.attrs.get("keys", ()), "cpu")

    # -------------------------------------------------------------------------- the machine

    @property
    def is_resolved(self) -> bool:
        """True if the target has a machine description."""
        return self._machine is not None

    @property
    def machine(self) -> Machine:
        """Machine description. Raises ValueError before the target is resolved."""
        if self._machine is None:
            raise ValueError(f"{self!r} is not resolved; relax.codegen.resolve(target) describes its machine")
        return self._machine

    def with_machine(self, machine: Machine) -> Target:
        """Return this target with a machine description."""
        target = Target(self)
        target._machine = machine
        return target

    @property
    def triple(self) -> str:
        """LLVM's target triple, always with ELF, the loader's object format."""
        return self.machine.triple

    @property
    def isa(self) -> ISA:
        """Architecture of the machine (`relax.target.isa`)."""
        return self.machine.isa

    @property
    def mcpu(self) -> str:
        """CPU name in LLVM's spelling; default: the host's."""
        return self.machine.cpu

    @property
    def features(self) -> str:
        """Features in LLVM's form: the host's (for the host's CPU), then `mattr`."""
        return self.machine.features

    @property
    def num_cores(self) -> int:
        """Number of cores to schedule for; default: the host's."""
        return self.machine.cores

    @property
    def vector_bits(self) -> int:
        """Width in bits of vectors to compile for."""
        return self.machine.vector_bits

    def vector_lanes(self, dtype: str) -> int:
        """Number of elements of `dtype` in a vector register."""
        digits = "".join(c for c in str(dtype).partition("_")[0] if c.isdigit())
        return max(1, self.vector_bits // int(digits or 8))

    @property
    def has_fma(self) -> bool:
        """True if the machine has a fused multiply-add instruction."""
        return self.machine.fma

    @property
    def has_half_conversion(self) -> bool:
        """True if an instruction converts between float16 and float32."""
        return self.machine.half_conversion

    # -------------------------------------------------------------------------- a value

    def __str__(self) -> str:
        words = [self.kind.name]
        for name, value in sorted(self.attrs.items()):
            text = ",".join(cast("list[str]", value)) if isinstance(value, list) else str(value)
            words.append(f"-{name}={shlex.quote(text)}")
        return " ".join(words)

    def __repr__(self) -> str:
        return f"Target({str(self)!r})"

    def export(self) -> dict[str, Any]:
        """Return the target as a dict that `Target` accepts."""
        host = {} if self.host is None else {"host": self.host.export()}
        return {"kind": self.kind.name, **self.attrs, **host}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Target) and str(self) == str(other) and self.host == other.host

    def __hash__(self) -> int:
        return hash(str(self))

    def __reduce__(self) -> tuple[Any, ...]:
        return Target, (self.export(),)


def _read_text(text: Any) -> dict[str, Any]:
    """Parse options from ``kind -name=value -name value`` or JSON."""
    if not isinstance(text, str):
        raise TypeError(f"a target is a string, a dict or a Target, found {type(text).__name__}")
    if text.lstrip().startswith("{"):
        try:
            return dict(json.loads(text))
        except json.JSONDecodeError as error:
            raise ValueError(f"target {text!r} is not JSON: {error}") from None
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise ValueError(f"target {text!r}: {error}") from None
    if not words:
        raise ValueError("a target cannot be empty; write for example 'llvm'")
    options: dict[str, Any] = {"kind": words[0]}
    rest = iter(words[1:])
    for word in rest:
        if not word.startswith("-") or word == "-":
            raise ValueError(f"target {text!r}: expected an option such as -mcpu=…, found {word!r}")
        name, equals, value = word.lstrip("-").partition("=")
        if name in options:
            raise ValueError(f"target {text!r}: option -{name} is given twice")
        options[name] = value if equals else next(rest, "")
    return options


def _check_options(kind: TargetKind, options: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _check_option(kind, name, value) for name, value in sorted(options.items())}


def _check_option(kind: TargetKind, name: str, value: Any) -> Any:
    expected = kind.options.get(name)
    if expected is None:
        raise ValueError(f"target kind {kind} has no option {name!r}; its options: {', '.join(sorted(kind.options))}")
    if expected is int:
        try:
            number = int(value)
        except (TypeError, ValueError):
            number = -1
        top = _LARGEST.get(name, 4096)
        if isinstance(value, bool) or not 0 <= number <= top:
            raise ValueError(f"target option -{name} is {value!r}, expected a number from 0 to {top}")
        if name == "vector-width" and number & (number - 1):
            raise ValueError(f"target option -{name} is {value!r}, expected a power of two")
        return number
    if expected is list:
        items = value.split(",") if isinstance(value, str) else value
        if not isinstance(items, Iterable):
            raise ValueError(f"target option -{name} is {value!r}, expected a list")
        return [str(item).strip() for item in cast("Iterable[Any]", items) if str(item).strip()]
    if not isinstance(value, str):
        raise ValueError(f"target option -{name} is {value!r}, expected text")
    return value
