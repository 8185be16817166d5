"""Structural equality, hash, and the first difference between two trees.

Two nodes are equal when they have the same class and equal fields; variables are equal when they are
bound at the same place. One walk over the declared fields serves all three questions.
"""

from __future__ import annotations

import functools
import hashlib
import math
import struct
from collections.abc import Callable
from typing import Any, TypeAlias, cast

import numpy as np

from ..runtime.records import dataclass
from .deep import run_deep
from .node import Node, node_key, walk
from .stored import StoredArray

Array: TypeAlias = "np.ndarray[Any, Any]"
Content: TypeAlias = "Array | StoredArray"
"""Elements of a constant: in memory, or in a file."""
SAMPLE = 16
"""Number of elements of an array examined by quick hashes and first comparisons."""


@dataclass(frozen=True, slots=True)
class Difference:
    """First difference of two trees: a path of field accesses, and the two differing parts."""

    path: str
    lhs: Any
    rhs: Any

    def __str__(self) -> str:
        return f"at {self.path or '<root>'}:\n  lhs: {self.lhs!s}\n  rhs: {self.rhs!s}"

    def below(self, step: str) -> Difference:
        """The same difference relative to parent trees: prefix the path with `step`."""
        return Difference(step + self.path, self.lhs, self.rhs)


def structural_equal(lhs: Any, rhs: Any, map_free_vars: bool = False) -> bool:
    """True if two nodes (or tuples, dicts, arrays of them) are structurally equal.

    With `map_free_vars`, free variables may correspond; otherwise they must be identical.
    """
    return first_difference(lhs, rhs, map_free_vars) is None


def first_difference(lhs: Any, rhs: Any, map_free_vars: bool = False) -> Difference | None:
    """First difference of two trees; None if they are structurally equal."""
    return run_deep("the program", "compared", lambda: _Comparer(map_free_vars).compare(lhs, rhs, False))


def matching_free_vars(lhs: Any, rhs: Any) -> dict[Node, Node] | None:
    """Map each free variable of `lhs` to the corresponding one of `rhs`; None if the trees differ otherwise."""

    def match() -> dict[Node, Node] | None:
        comparer = _Comparer(map_free_vars=True)
        return comparer.forward if comparer.compare(lhs, rhs, False) is None else None

    return run_deep("the program", "compared", match)


def assert_structural_equal(lhs: Any, rhs: Any, map_free_vars: bool = False) -> None:
    """Raise ValueError, showing both programs and the path of the first difference, unless they are equal."""
    difference = first_difference(lhs, rhs, map_free_vars)
    if difference is not None:
        raise ValueError(f"StructuralEqual check failed, {difference}\n\n--- lhs ---\n{lhs!s}\n\n--- rhs ---\n{rhs!s}")


def structural_hash(value: Any, map_free_vars: bool = False) -> int:
    """64-bit hash, equal for structurally equal trees, and the same in every process.

    Without `map_free_vars`, free variables are hashed by identity, so the hash is valid only within the process.
    """

    def digest() -> int:
        hasher = _Hasher(map_free_vars, _bytes_of)
        hasher.feed(value, False)
        return hasher.result()

    return run_deep("the program", "hashed", digest)


def exact_digest(value: Any) -> bytes:
    """128-bit digest, equal for trees that are equal in everything except spans; names count.

    It is the same in every process. Free variables are numbered in order of occurrence.
    """

    def digest() -> bytes:
        hasher = _Hasher(True, _bytes_of, labels=True)
        hasher.feed(value, False)
        return hasher.whole()

    return run_deep("the program", "hashed", digest)


def nameless_digest(value: Any) -> tuple[bytes, tuple[str, ...]]:
    """128-bit digest of `exact_digest` without the names of variables, and these names in order of first occurrence.

    Equal for trees that differ only in spans, in labels of nodes other than variables, and in the names of variables,
    if the same variables share a name in both.
    """

    def digest() -> tuple[bytes, tuple[str, ...]]:
        names: dict[str, int] = {}
        hasher = _Hasher(True, _bytes_of, names=names)
        hasher.feed(value, False)
        return hasher.whole(), tuple(names)

    return run_deep("the program", "hashed", digest)


def program_digest(value: Any, array_digest: Callable[[Content], bytes]) -> bytes:
    """128-bit digest, equal only for trees that compile to the same program; spans count.

    `array_digest` returns the digest of an array's elements, or of a constant stored in a file. Raises TypeError for
    values other than nodes and scalars, whose equality is undefined.
    """

    def digest() -> bytes:
        hasher = _Hasher(True, array_digest, labels=True, spans=True)
        hasher.feed(value, False)
        return hasher.whole()

    return run_deep("the program", "hashed", digest)


def quick_hash(value: Any) -> int:
    """Hash for tables within a process, equal for structurally equal trees; reads few elements of arrays."""

    def digest() -> int:
        hasher = _Hasher(False, _array_sample)
        hasher.feed(value, False)
        return hasher.result()

    return run_deep("the program", "hashed", digest)


def variable_facts(variable: Node) -> tuple[Any, ...]:
    """Attributes that two corresponding variables must agree on where they are bound."""
    own = getattr(variable, "__variable_facts__", None)
    if own is not None:
        return own()
    return tuple(getattr(variable, f.name) for f in variable.__node_fields__ if f.kind != "label")


class _Comparer:
    def __init__(self, map_free_vars: bool) -> None:
        self.map_free_vars = map_free_vars
        self.forward: dict[Node, Node] = {}
        self.backward: dict[Node, Node] = {}
        self.bound: list[Node] = []
        """Variables of the left side in the order they were bound; a function's end when it ends."""
        self.met: set[Node] = set()
        """Variables of either side met so far, bound or not."""
        self.same: dict[tuple[int, int, bool], None] = {}
        """Pairs of nodes, by id and whether variables were defined in them, that were found equal under what their
        variables are bound to still: an object may occur in many places."""

    def compare(self, lhs: Any, rhs: Any, defining: bool) -> Difference | None:
        if isinstance(lhs, Node):
            if type(lhs) is not type(rhs):
                return _different(lhs, rhs)
            if lhs.__is_variable__:
                return self.variable(lhs, rhs, defining)
            if lhs.__is_scope__:
                return self.scope(lhs, rhs, defining)
            return self.fields(lhs, rhs, defining)
        if isinstance(lhs, (tuple, list)):
            if not isinstance(rhs, (tuple, list)):
                return _different(lhs, rhs)
            return self.sequence(cast("tuple[Any, ...]", lhs), cast("tuple[Any, ...]", rhs), defining)
        if isinstance(lhs, dict):
            if not isinstance(rhs, dict):
                return _different(lhs, rhs)
            return self.table(cast("dict[Any, Any]", lhs), cast("dict[Any, Any]", rhs), defining)
        return None if _same_scalar(lhs, rhs) else _different(lhs, rhs)

    def variable(self, lhs: Node, rhs: Node, defining: bool) -> Difference | None:
        new = lhs not in self.met and rhs not in self.met
        self.met.update((lhs, rhs))
        partner = self.forward.get(lhs)
        if partner is not None:
            return None if partner is rhs else _different(lhs, rhs)
        if rhs in self.backward:
            return _different(lhs, rhs)
        if not defining and not self.map_free_vars:
            return None if lhs is rhs else _different(lhs, rhs)
        # Bound before its facts are compared: an annotation may mention what it annotates.
        self.forward[lhs] = rhs
        self.backward[rhs] = lhs
        if defining:
            self.bound.append(lhs)
            if not new:  # what was found out of it before does not hold any more
                self.same = {}
        difference = self.compare(variable_facts(lhs), variable_facts(rhs), defining)
        return None if difference is None else difference.below(".facts")

    def scope(self, lhs: Node, rhs: Node, defining: bool) -> Difference | None:
        """Compare functions: bindings inside have no meaning outside, where passes may reuse the variable objects.

        A function type in an annotation that binds variables on first occurrence has scope only over its own
        parameters.
        """
        pair = id(lhs), id(rhs), defining
        if pair in self.same:
            return None
        start, same, before = len(self.bound), self.same, len(self.same)
        difference = self.fields(lhs, rhs, defining)
        own = _bound_by(lhs, self.bound[start:]) if defining else set(self.bound[start:])
        for variable in own:
            del self.backward[self.forward.pop(variable)]
        self.bound[start:] = [variable for variable in self.bound[start:] if variable not in own]
        if self.same is not same:
            self.same = {}
        while own and len(self.same) > before:
            self.same.popitem()
        self.same[pair] = None
        return difference

    def fields(self, lhs: Node, rhs: Node, defining: bool) -> Difference | None:
        pair = id(lhs), id(rhs), defining
        if pair in self.same:
            return None
        for name, binds in _fields(type(lhs), False):
            left, right = getattr(lhs, name), getattr(rhs, name)
            if left is right and type(left) in _SCALARS:
                continue
            difference = self.compare(left, right, defining or binds)
            if difference is not None:
                return difference.below(f".{name}")
        if not lhs.__is_scope__:
            self.same[pair] = None
        return None

    def sequence(self, lhs: tuple[Any, ...], rhs: tuple[Any, ...], defining: bool) -> Difference | None:
        for i, (a, b) in enumerate(zip(lhs, rhs, strict=False)):
            difference = self.compare(a, b, defining)
            if difference is not None:
                return difference.below(f"[{i}]")
        if len(lhs) != len(rhs):
            shorter = min(len(lhs), len(rhs))
            missing = "<nothing>"
            return Difference(
                f"[{shorter}]",
                lhs[shorter] if len(lhs) > shorter else missing,
                rhs[shorter] if len(rhs) > shorter else missing,
            )
        return None

    def table(self, lhs: dict[Any, Any], rhs: dict[Any, Any], defining: bool) -> Difference | None:
        left, right = _by_name(lhs), _by_name(rhs)
        if left is None or right is None:
            return self.sequence(tuple(lhs.items()), tuple(rhs.items()), defining)
        for name in sorted(left.keys() | right.keys()):
            difference = self.compare(left.get(name, "<nothing>"), right.get(name, "<nothing>"), defining)
            if difference is not None:
                return difference.below(f"[{name!r}]")
        return None


def _different(lhs: Any, rhs: Any) -> Difference:
    return Difference("", lhs, rhs)


@functools.cache
def _fields(cls: type[Node], labels: bool) -> tuple[tuple[str, bool], ...]:
    """Relevant fields of a class, with display-only ones if `labels`, and whether each defines variables."""
    return tuple((s.name, s.kind == "binder") for s in cls.__node_fields__ if labels or s.kind != "label")


class _Hasher:
    """Hasher in which every node has its own digest, derived from its children, so that a shared object is hashed once.

    A variable is represented by a number; its annotation at the first occurrence goes into a separate digest.
    """

    def __init__(
        self,
        map_free_vars: bool,
        array_bytes: Callable[[Content], bytes],
        labels: bool = False,
        spans: bool = False,
        names: dict[str, int] | None = None,
    ) -> None:
        self.map_free_vars = map_free_vars
        self.array_bytes = array_bytes
        self.labels = labels
        """True if labels count, and what variables keep beside their fields."""
        self.spans = spans
        """True if spans count; values that have no digest are errors then."""
        self.names = names
        """Numbers of the variables' names, which count in place of the names; None if they do not count, or as text."""
        self.numbers: dict[Node, int] = {}
        self.bound: list[Node] = []
        self.facts = _new_digest()
        self.digest = _new_digest()
        self.known: dict[tuple[int, bool, int], bytes] = {}
        """Digests of nodes, by id, whether variables were defined in them, and the number of variables there were."""

    def result(self) -> int:
        """64-bit hash of all values fed so far."""
        return int.from_bytes(self.whole()[:8], "little")

    def whole(self) -> bytes:
        """Digest of all values fed so far."""
        self.digest.update(self.facts.digest())
        return self.digest.digest()

    def feed(self, value: Any, defining: bool) -> None:
        update = self.digest.update
        if isinstance(value, Node):
            if value.__is_variable__:
                self.variable(value, defining)
            else:
                update(self.node(value, defining))
        elif isinstance(value, (tuple, list)):
            items = cast("tuple[Any, ...]", value)
            update(b"T" + len(items).to_bytes(8, "little"))
            for item in items:
                if isinstance(item, Node) and not item.__is_variable__:
                    update(self.node(item, defining))
                else:
                    self.feed(item, defining)
        elif isinstance(value, dict):
            table = cast("dict[Any, Any]", value)
            named = _by_name(table)
            update(b"D" + len(table).to_bytes(8, "little"))
            for pair in table.items() if named is None else sorted(named.items(), key=lambda p: p[0]):
                self.feed(pair, defining)
        else:
            if self.spans and not isinstance(_plain(value), _HASHED):
                raise TypeError(f"a {type(value).__name__} has no digest")
            update(_scalar_bytes(value, self.array_bytes))

    def node(self, value: Node, defining: bool) -> bytes:
        """Digest of a node that is not a variable."""
        count = len(self.numbers)
        cached = self.known.get((id(value), defining, count))
        if cached is not None:
            return cached
        outer, self.digest = self.digest, _begun(type(value)).copy()
        facts = self.facts
        if value.__is_scope__:
            self.facts = _new_digest()
        start, before = len(self.bound), len(self.known)
        content = value.__content__
        update = self.digest.update
        for name, binds in _fields(type(value), self.labels):
            item = content(value, name)
            if type(item) is int:  # the same as `feed`, without a call for most fields
                update(b"i%d\0" % item)
            elif not isinstance(item, Node):
                self.feed(item, defining or binds)
            elif item.__is_variable__:
                self.variable(item, defining or binds)
            else:
                update(self.node(item, defining or binds))
        if self.spans:
            self.digest.update(_span_bytes(value))
        if value.__is_scope__:
            own = _bound_by(value, self.bound[start:]) if defining else set(self.bound[start:])
            for variable in own:
                del self.numbers[variable]
            self.bound[start:] = [variable for variable in self.bound[start:] if variable not in own]
            self.digest.update(self.facts.digest())
            self.facts = facts
            if own:
                while len(self.known) > before:
                    self.known.popitem()
        digest, self.digest = self.digest.digest(), outer
        if len(self.numbers) == count:
            self.known[id(value), defining, count] = digest
        return digest

    def variable(self, value: Node, defining: bool) -> None:
        number = self.numbers.get(value)
        if number is None:
            if not (defining or self.map_free_vars):
                self.digest.update(b"F" + id(value).to_bytes(8, "little"))
                return
            number = self.numbers[value] = len(self.numbers)
            if defining:
                self.bound.append(value)
            outer, self.digest = self.digest, self.facts
            self.digest.update(b"B" + node_key(type(value)).encode())
            self.feed(variable_facts(value), defining)
            if self.labels:
                names = [getattr(value, spec.name) for spec in value.__node_fields__ if spec.kind == "label"]
                self.feed((*names, value.__extra_state__()), defining)
            elif self.names is not None:
                names = [getattr(value, spec.name) for spec in value.__node_fields__ if spec.kind == "label"]
                numbers = [self.names.setdefault(name, len(self.names)) for name in names]
                self.feed((*numbers, value.__extra_state__()), defining)
            if self.spans:
                self.digest.update(_span_bytes(value))
            self.digest = outer
        self.digest.update(b"V" + number.to_bytes(8, "little"))


def _span_bytes(value: Node) -> bytes:
    return b"S" + str(value.span).encode("utf-8", "surrogatepass") + b"\0"


def _bound_by(scope: Node, candidates: list[Node]) -> set[Node]:
    """Subset of `candidates` bound by the fields of a scope."""
    bound: set[Node] = set()
    for spec in scope.__node_fields__:
        if spec.kind == "binder":
            for item in getattr(scope, spec.name) or ():
                walk(item, bound.add)
    return bound.intersection(candidates)


def _new_digest(start: bytes = b"") -> hashlib.blake2b:
    return hashlib.blake2b(start, digest_size=16)


@functools.cache
def _begun(cls: type[Node]) -> hashlib.blake2b:
    """Digest state of a node class before its fields are fed; copied for each node."""
    return _new_digest(b"N" + node_key(cls).encode())


def _by_name(table: dict[Any, Any]) -> dict[str, Any] | None:
    """Table keyed by text if its keys are strings or global variables; else None (then order counts)."""
    named: dict[str, Any] = {}
    for key, value in table.items():
        if isinstance(key, str):
            named[key] = value
        elif isinstance(key, Node) and not key.__is_variable__ and hasattr(key, "name_hint"):
            named[cast(Any, key).name_hint] = value
        else:
            return None
    return named


_SCALARS = frozenset((bool, int, float, str, bytes, type(None)))
_HASHED = (bool, int, float, str, bytes, type(None), np.integer, np.ndarray, StoredArray)
"""Types of values, other than nodes and collections, whose digest describes them completely."""


def _plain(value: Any) -> Any:
    """Convert a tensor in an attribute to an array of its elements."""
    if type(value) in _SCALARS or not (hasattr(value, "__dlpack__") and hasattr(value, "numpy")):
        return value
    return np.asarray(value.numpy())


def _same_scalar(lhs: Any, rhs: Any) -> bool:
    if lhs is rhs and type(lhs) in _SCALARS:
        return True
    lhs, rhs = _plain(lhs), _plain(rhs)
    if any(isinstance(side, np.ndarray) for side in (lhs, rhs)):
        return _same_array(lhs, rhs)
    if isinstance(lhs, float) and isinstance(rhs, float):
        # Zeros of different sign are different constants; any NaN is like another.
        return struct.pack("d", lhs) == struct.pack("d", rhs) or (math.isnan(lhs) and math.isnan(rhs))
    if any(isinstance(lhs, kind) is not isinstance(rhs, kind) for kind in (bool, float)):
        return False
    return bool(lhs == rhs)


def _same_array(lhs: Any, rhs: Any) -> bool:
    if type(lhs) is not type(rhs):
        return False
    if lhs is rhs:
        return True
    if lhs.dtype != rhs.dtype or lhs.shape != rhs.shape or _array_sample(lhs) != _array_sample(rhs):
        return False
    return lhs.tobytes() == rhs.tobytes()


def _bytes_of(content: Content) -> bytes:
    return content.tobytes()


def _array_sample(array: Content) -> bytes:
    """Bytes of at most `SAMPLE` evenly spaced elements."""
    step = max(array.size // SAMPLE, 1)
    return b"".join(array.item(i).__repr__().encode() for i in range(0, step * min(array.size, SAMPLE), step))


def _scalar_bytes(value: Any, array_bytes: Callable[[Content], bytes]) -> bytes:
    if type(value) is int:  # as most are, or text
        return b"i%d\0" % value
    if isinstance(value, str):  # the text itself, also of an enum that is a str
        return b"s" + str.encode(value) + b"\0"
    value = _plain(value)
    if isinstance(value, (np.ndarray, StoredArray)):
        array = cast("Content", value)
        return b"A" + array.dtype.name.encode() + repr(array.shape).encode() + array_bytes(array)
    if isinstance(value, bool):
        return b"b1" if value else b"b0"
    if isinstance(value, float):
        return b"f" + (b"nan" if math.isnan(value) else struct.pack("d", value))
    if isinstance(value, (int, np.integer)):
        return b"i" + str(int(cast(Any, value))).encode() + b"\0"
    return b"o" + str(value).encode() + b"\0"
