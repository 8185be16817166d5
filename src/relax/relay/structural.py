"""Alpha-equality and hashing of expressions and modules.

Two expressions are alpha-equal if they are the same graph up to renaming: variables, type variables and symbolic
dimensions correspond where they are bound, and shared nodes correspond to nodes shared in the same way. ``%1 = f(%x);
(%1, %1)`` and ``(f(%x), f(%x))`` are not alpha-equal: the first calls `f` once. Variables, constants, operators, global
names and ``()`` are values, for which sharing is irrelevant.

Constants are equal if dtype, shape and bytes are equal; all NaNs are equal. Global functions and types are compared by
name, constructors by name and type. A free variable equals only itself, unless `map_free_vars` is set.

Every pair of nodes is compared once, in a loop.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any, Final, TypeAlias, cast

import numpy as np

from ..ir import GlobalVar, IRModule, Node, Op
from ..ir.node import node_key
from ..ir.structural import structural_equal
from ..prim import expr as prim
from .adt import Constructor
from .expr import Constant, Expr, Function, Let, Tuple, Var
from .types import GlobalTypeVar, IncompleteType, TypeData, TypeVar

_VARIABLES: Final = (Var, TypeVar, IncompleteType, prim.Var)
_VALUES: Final = (Constant, Op, GlobalVar, GlobalTypeVar, Constructor)
_BINDER: Final = 1
_FUNCTION: Final = 2
_Pair: TypeAlias = "tuple[Any, Any, int]"
"""Two parts to compare, and flags of their position: in a binder (1), in a function (2)."""


def alpha_equal(lhs: Node, rhs: Node, map_free_vars: bool = False) -> bool:
    """True if two expressions, types, patterns or modules are equal up to renaming of bound names."""
    return _Comparison(map_free_vars).run(lhs, rhs)


class _Comparison:
    """One-to-one correspondence between the variables and nodes of two graphs, extended step by step."""

    def __init__(self, map_free_vars: bool) -> None:
        self.map_free_vars = map_free_vars
        self.forward: dict[int, Node] = {}
        self.backward: dict[int, Node] = {}

    def run(self, lhs: Any, rhs: Any) -> bool:
        """True if both graphs correspond."""
        stack: list[_Pair] = [(lhs, rhs, 0)]
        while stack:
            a, b, flags = stack.pop()
            if isinstance(a, Node):
                if type(a) is not type(b):
                    return False
                steps = self._nodes(a, b, flags)
                if steps is None:
                    return False
                stack.extend(reversed(steps))
            elif isinstance(a, (tuple, list)):
                if not isinstance(b, (tuple, list)):
                    return False
                items, other_items = cast("tuple[Any, ...]", a), cast("tuple[Any, ...]", b)
                if len(items) != len(other_items):
                    return False
                for index in reversed(range(len(items))):
                    stack.append((items[index], other_items[index], flags))
            elif isinstance(a, dict):
                table, other = cast("dict[str, Any]", a), cast("dict[str, Any]", b)
                if not isinstance(b, dict) or table.keys() != other.keys():
                    return False
                for key, value in table.items():
                    stack.append((value, other[key], flags))
            elif isinstance(b, Node) or not structural_equal(a, b):
                return False
        return True

    def _nodes(self, a: Node, b: Any, flags: int) -> list[_Pair] | None:
        """Pairs that must correspond for two nodes of one class to correspond; None if they cannot."""
        if isinstance(a, _VARIABLES):
            return self._variables(a, b, flags)
        if isinstance(a, _VALUES):
            return [] if _same_value(a, b) else None
        if isinstance(a, IRModule):
            return _module_pairs(a, b)
        partner = self.forward.get(id(a))
        if partner is not None:
            return [] if partner is b else None
        if isinstance(a, Expr) and not (isinstance(a, Tuple) and not a.fields):
            # Types and patterns are values; expressions are nodes of a graph.
            if id(b) in self.backward:
                return None
            self.forward[id(a)], self.backward[id(b)] = b, a
        return list(_pairs(a, b, flags))

    def _variables(self, a: Node, b: Any, flags: int) -> list[_Pair] | None:
        partner = self.forward.get(id(a))
        if flags & _BINDER and isinstance(a, TypeVar) and partner is not b:
            self._unbind(a, b)  # the binding type is a value and may occur several times
        elif partner is not None or id(b) in self.backward:
            return [] if partner is b else None
        is_free = not (self.map_free_vars or _is_bound(a, flags))
        if is_free and a is not b:
            return None
        self.forward[id(a)], self.backward[id(b)] = b, a
        if is_free:
            return []
        return [(getattr(a, name), getattr(b, name), flags | _BINDER) for name in a.__child_names__]

    def _unbind(self, a: Node, b: Node) -> None:
        before, after = self.forward.pop(id(a), None), self.backward.pop(id(b), None)
        if before is not None:
            del self.backward[id(before)]
        if after is not None:
            del self.forward[id(after)]


def _is_bound(variable: Node, flags: int) -> bool:
    """True if a variable not seen before is bound at its position.

    A type to be inferred always is; a symbolic dimension is bound by the outermost function that mentions it.
    """
    if isinstance(variable, prim.Var):
        return flags != 0
    return bool(flags & _BINDER) or isinstance(variable, IncompleteType)


def _pairs(a: Any, b: Any, flags: int) -> Iterator[_Pair]:
    """Yield the parts of two nodes of one class pairwise, binders first."""
    flags |= _FUNCTION * isinstance(a, Function)
    if isinstance(a, Let) and not isinstance(a.value, Function):
        # The variable is not in scope in its value.
        yield a.value, b.value, flags
        yield a.var, b.var, flags | _BINDER
        yield a.body, b.body, flags
        return
    for spec in a.__node_fields__:
        if spec.kind != "label":
            yield getattr(a, spec.name), getattr(b, spec.name), flags | _BINDER * (spec.kind == "binder")


def _module_pairs(a: IRModule, b: IRModule) -> list[_Pair] | None:
    types = {key.name_hint: value for key, value in cast("dict[GlobalTypeVar, TypeData]", a.type_definitions).items()}
    other_types = {
        key.name_hint: value for key, value in cast("dict[GlobalTypeVar, TypeData]", b.type_definitions).items()
    }
    functions = {key.name_hint: value for key, value in a.functions.items()}
    other_functions = {key.name_hint: value for key, value in b.functions.items()}
    if types.keys() != other_types.keys() or functions.keys() != other_functions.keys():
        return None
    pairs: list[_Pair] = [(a.attrs, b.attrs, 0)]
    for name, definition in types.items():
        other = other_types[name]
        pairs.append((definition.type_vars, other.type_vars, _BINDER))
        inputs = [(c.name_hint, c.inputs) for c in definition.constructors]
        pairs.append((inputs, [(c.name_hint, c.inputs) for c in other.constructors], 0))
    pairs += [(function, other_functions[name], 0) for name, function in functions.items()]
    return pairs


def _same_value(a: Any, b: Any) -> bool:
    match a:
        case Constant():
            return a.data is b.data or _value_bytes(a) == _value_bytes(b)
        case Op():
            return a is b
        case Constructor():
            return a.name_hint == b.name_hint and a.belong_to.name_hint == b.belong_to.name_hint
        case _:
            return a.name_hint == b.name_hint


def assert_alpha_equal(lhs: Node, rhs: Node, map_free_vars: bool = False) -> None:
    """Raise ValueError showing both arguments unless they are alpha-equal."""
    if not alpha_equal(lhs, rhs, map_free_vars):
        raise ValueError(f"not alpha-equal\n\n--- lhs ---\n{lhs!s}\n\n--- rhs ---\n{rhs!s}")


def alpha_hash(node: Node, map_free_vars: bool = False) -> int:
    """A 64-bit hash, equal for alpha-equal nodes.

    A free variable counts by identity, so that the hash holds within the process only, unless `map_free_vars` is set.
    """
    digest = hashlib.blake2b(digest_size=8)
    bound: set[int] = set() if map_free_vars else _bound_variables(node)
    numbers: dict[int, int] = {}
    stack: list[Any] = [node]
    while stack:
        item = stack.pop()
        if isinstance(item, _VARIABLES):
            is_new = id(item) not in numbers
            number = numbers.setdefault(id(item), len(numbers))
            is_free = not (map_free_vars or id(item) in bound)
            digest.update(f"V{id(item) if is_free else number}".encode())
            if is_new and not is_free:
                stack.extend(getattr(item, name) for name in item.__child_names__)
        elif isinstance(item, _VALUES):
            digest.update(_value_bytes(item))
        elif isinstance(item, IRModule):
            names = sorted(item.functions, key=lambda key: key.name_hint)
            stack.extend(item.functions[key] for key in names)
        elif isinstance(item, Node):
            number = numbers.get(id(item))
            if number is not None and isinstance(item, Expr):
                digest.update(f"N{number}".encode())
                continue
            if isinstance(item, Expr) and not (isinstance(item, Tuple) and not item.fields):
                numbers[id(item)] = len(numbers)
            digest.update(node_key(type(item)).encode())
            stack.extend(getattr(item, name) for name in reversed(item.__child_names__))
        elif isinstance(item, (tuple, list)):
            items = cast("tuple[Any, ...]", item)
            digest.update(f"T{len(items)}".encode())
            stack.extend(reversed(items))
        elif isinstance(item, dict):
            table = cast("dict[str, Any]", item)
            for key in sorted(table):
                stack.extend((table[key], key))
        else:
            digest.update(str(item).encode())
    return int.from_bytes(digest.digest(), "little")


def _bound_variables(node: Node) -> set[int]:
    """Ids of the variables bound by the node or below it."""
    bound: set[int] = set()
    seen: set[tuple[int, int]] = set()
    stack: list[tuple[Any, int]] = [(node, 0)]
    while stack:
        item, flags = stack.pop()
        if isinstance(item, Node):
            if (id(item), flags) in seen:
                continue
            seen.add((id(item), flags))
            if isinstance(item, _VARIABLES) and _is_bound(item, flags):
                bound.add(id(item))
            if isinstance(item, IRModule):
                stack.extend((function, 0) for function in item.functions.values())
            elif not isinstance(item, _VALUES):
                flags |= _FUNCTION * isinstance(item, Function)
                stack.extend(
                    (getattr(item, spec.name), flags | _BINDER * (spec.kind == "binder"))
                    for spec in item.__node_fields__
                    if spec.kind != "label"
                )
        elif isinstance(item, (tuple, list)):
            stack.extend((child, flags) for child in cast("tuple[Any, ...]", item))
    return bound


def _value_bytes(value: Any) -> bytes:
    match value:
        case Constant():
            data = np.asarray(value.data)
            if data.dtype.kind in "fV":  # all NaNs hash equally
                data = np.where(data != data, data.dtype.type(0), data)
            return b"C" + str(data.dtype).encode() + str(data.shape).encode() + data.tobytes()
        case Op():
            return b"O" + value.name.encode()
        case _:
            return b"G" + value.name_hint.encode()
