"""State of a schedule: the program, in which blocks and loops keep their identity across rewrites.

A block is identified by its name, which is unique in its function, and a loop by its variable. The state holds the
current statement of every block and loop, and the enclosing block or loop. `replace` rewrites only the statements on
the path to the root, so its cost does not depend on the size of the program. `copy` shares all data until one of the
copies changes.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from typing import TypeAlias, cast

from ...ir import GlobalVar, IRModule
from ...prim import Var
from ...runtime.records import dataclass
from ..renew import renew_bound_vars
from ..statements import TRUE, is_nothing, map_parts, parts_of
from ..stmt import Block, BlockRealize, For, PrimFunc, Stmt
from .error import EXPIRED, STRUCTURE, ScheduleError
from .rv import BlockRV, LoopRV

Placed: TypeAlias = "For | BlockRealize"
"""A tracked statement: a loop, or a block with its values."""
Key: TypeAlias = "Var | tuple[str, str]"
"""A loop's variable, or the names of a block's function and of the block."""


@dataclass(frozen=True, slots=True)
class StatePlace:
    """The current statement of a loop or block, and the key of the enclosing one (None: the function)."""

    stmt: Placed
    parent: Key | None
    function: str


class ScheduleState:
    """A module's PrimFuncs, with the locations of their blocks and loops."""

    def __init__(self, mod: IRModule) -> None:
        self.mod = mod
        self._places: dict[Key, StatePlace] = {}
        self._shared = False
        """True if a copy shares `_places`, which must then be copied before the first change."""
        self._renamed: dict[tuple[str, str], str] = {}
        """New names of renamed blocks: random variables with the old name denote the renamed block."""
        variables: set[Var] = set()
        for global_var, func in mod.functions.items():
            if isinstance(func, PrimFunc):
                self._enter(global_var, func, variables)

    def _enter(self, global_var: GlobalVar, func: PrimFunc, variables: set[Var]) -> None:
        """Prepare a function: add a root block, and make loop variables and block names unique."""
        loop_vars = [node.loop_var for node in _placed_below(func.body) if isinstance(node, For)]
        if len(set(loop_vars)) < len(loop_vars) or not variables.isdisjoint(loop_vars):
            func = renew_bound_vars(func)
            loop_vars = [node.loop_var for node in _placed_below(func.body) if isinstance(node, For)]
        variables.update(loop_vars)
        body = func.body
        if not isinstance(body, BlockRealize) or body.block.iter_vars:
            body = BlockRealize((), TRUE, Block((), (), (), "root", body))
        body = _with_unique_names(body)
        if body is not func.body:
            func = func.replace(body=body)
        if func is not self.mod[global_var]:
            self.mod = self.mod.with_function(global_var, func)
        self._places.update(_index(body, None, global_var.name_hint, {}))

    def copy(self) -> ScheduleState:
        """Return an independent copy of the state."""
        other = ScheduleState.__new__(ScheduleState)
        other.mod, other._places, other._renamed = self.mod, self._places, self._renamed
        self._shared = other._shared = True
        return other

    def restore(self, other: ScheduleState) -> None:
        """Restore the state of `other`, an earlier copy."""
        self.mod, self._places, self._renamed = other.mod, other._places, other._renamed
        self._shared = other._shared = True

    @property
    def places(self) -> Mapping[Key, StatePlace]:
        """The locations of all blocks and loops."""
        return self._places

    # ------------------------------------------------------------------ from random variables to statements

    def loop(self, rv: LoopRV) -> For:
        """Return the loop that a random variable denotes. Raises ScheduleError if it no longer exists."""
        location = self._places.get(rv.var)
        if location is None:
            raise ScheduleError(
                EXPIRED, f"the loop {rv.var.name} is no longer there", hint="ask for it again with get_loops"
            )
        return cast(For, location.stmt)

    def realize(self, rv: BlockRV) -> BlockRealize:
        """Return the BlockRealize that a random variable denotes. Raises ScheduleError if it no longer exists."""
        name = rv.name
        while (rv.function, name) not in self._places and (rv.function, name) in self._renamed:
            name = self._renamed[rv.function, name]
        location = self._places.get((rv.function, name))
        if location is None:
            raise ScheduleError(
                EXPIRED, f"the block {rv.name} is no longer there", hint="ask for it again with get_block"
            )
        return cast(BlockRealize, location.stmt)

    def block(self, rv: BlockRV) -> Block:
        """Return the block that a random variable denotes. Raises ScheduleError if it no longer exists."""
        return self.realize(rv).block

    def placed(self, rv: BlockRV | LoopRV) -> Placed:
        """Return the statement that a random variable denotes. Raises ScheduleError if it no longer exists."""
        return self.loop(rv) if isinstance(rv, LoopRV) else self.realize(rv)

    def loop_rv(self, loop: For) -> LoopRV:
        """Return a random variable for a loop of the program."""
        return LoopRV(self._places[loop.loop_var].function, loop.loop_var)

    def block_rv(self, realize: BlockRealize, function: str) -> BlockRV:
        """Return a random variable for a block of a function."""
        return BlockRV(function, realize.block.name_hint)

    def has_block(self, function: str, name: str) -> bool:
        """True if a function has a block of this name."""
        return (function, name) in self._places

    def blocks(self, function: str) -> list[BlockRealize]:
        """Return the blocks of a function in program order, the root first."""
        return [node for node in _placed_below(self.root(function)) if isinstance(node, BlockRealize)]

    # ------------------------------------------------------------------ around a statement

    def function_of(self, rv: BlockRV | LoopRV) -> PrimFunc:
        """Return the name of the function that contains a block or loop."""
        return self.func(rv.function)

    def func(self, name: str) -> PrimFunc:
        """Return the function of a name."""
        func = self.mod[name]
        assert isinstance(func, PrimFunc)
        return func

    def root(self, function: str) -> BlockRealize:
        """Return the root block of a function."""
        body = self.func(function).body
        assert isinstance(body, BlockRealize)
        return body

    def parent(self, rv: BlockRV | LoopRV) -> Placed | None:
        """Return the block or loop directly around another one; None for a root block."""
        location = self._location(rv)
        return None if location.parent is None else self._places[location.parent].stmt

    def ancestors(self, rv: BlockRV | LoopRV) -> list[Placed]:
        """Return the enclosing blocks and loops, the innermost first."""
        return list(self._around(self._location(rv)))

    def scope(self, rv: BlockRV | LoopRV) -> BlockRealize:
        """Return the innermost enclosing block. Raises ScheduleError for a root block."""
        for stmt in self._around(self._location(rv)):
            if isinstance(stmt, BlockRealize):
                return stmt
        raise ScheduleError(STRUCTURE, "this is the root block, which is in the scope of no other", self.placed(rv))

    def loops(self, rv: BlockRV | LoopRV) -> list[For]:
        """Return the loops around a block or loop within its scope, outermost first; a loop itself is the last."""
        result: list[For] = [self.loop(rv)] if isinstance(rv, LoopRV) else []
        for stmt in self._around(self._location(rv)):
            if isinstance(stmt, BlockRealize):
                break
            result.append(stmt)
        return result[::-1]

    def rv_of(self, stmt: Placed, function: str) -> BlockRV | LoopRV:
        """Return a random variable for a block or loop of a function."""
        return LoopRV(function, stmt.loop_var) if isinstance(stmt, For) else self.block_rv(stmt, function)

    def rv_of_stmt(self, stmt: For | Block) -> BlockRV | LoopRV:
        """Return a random variable for a loop or block of the program. Raises ScheduleError if it is not there."""
        for key, location in self._places.items():
            if location.stmt is stmt or (isinstance(location.stmt, BlockRealize) and location.stmt.block is stmt):
                return LoopRV(location.function, key) if isinstance(key, Var) else BlockRV(*key)
        raise ScheduleError(EXPIRED, "the statement is not in the program of the schedule as it is now")

    def _location(self, rv: BlockRV | LoopRV) -> StatePlace:
        stmt = self.placed(rv)
        return self._places[_key(stmt, rv.function)]

    def _around(self, location: StatePlace) -> Iterator[Placed]:
        while location.parent is not None:
            location = self._places[location.parent]
            yield location.stmt

    # ------------------------------------------------------------------ changes

    def fresh_name(self, function: str, hint: str, taken: Container[str] = ()) -> str:
        """Return a block name that is neither used in the function nor in `taken`."""
        name, number = hint, 0
        while (function, name) in self._places or (function, name) in self._renamed or name in taken:
            number += 1
            name = f"{hint}_{number}"
        return name

    def rename(self, function: str, old: str, new: str) -> None:
        """Make random variables with a block's old name denote the block with the new name, which replaces it."""
        self._renamed = {**self._renamed, (function, old): new}

    def replace(self, old: Placed, new: Stmt, function: str) -> None:
        """Replace a loop or block of a function by a statement; `NOTHING` removes it.

        Blocks are identified by name and loops by variable: additional ones in `new` must have unique names and
        variables. Raises ScheduleError if a block would become empty.
        """
        location = self._places[_key(old, function)]
        assert location.stmt is old, "the statement to be replaced is not the one of the program"
        current: Stmt = old
        parent_key = location.parent
        while is_nothing(new) and parent_key is not None:
            parent = self._places[parent_key]
            if isinstance(parent.stmt, BlockRealize):
                inner = replace_below(parent.stmt.block.body, current, new)
                if is_nothing(inner):
                    raise ScheduleError(
                        STRUCTURE,
                        f"the block {parent.stmt.block.name_hint} would be left with nothing to do",
                        parent.stmt,
                    )
                break
            inner = replace_below(parent.stmt.body, current, new)
            if not is_nothing(inner):
                break
            old, current, parent_key = parent.stmt, parent.stmt, parent.parent
        self._put(old, new, parent_key, function)

    def _put(self, old: Placed, new: Stmt, parent: Key | None, function: str) -> None:
        locations = self._own_places()
        added = _index(new, parent, function, locations)
        kept = {id(location.stmt) for location in added.values()}
        for key in _keys_below(old, function, kept):
            if key not in added:
                del locations[key]
        locations.update(added)
        current: Stmt = new
        while parent is not None:
            location = locations[parent]
            rebuilt = _rebuilt(location.stmt, old, current)
            old, current = location.stmt, rebuilt
            locations[parent] = StatePlace(rebuilt, location.parent, function)
            parent = location.parent
        func = self.func(function)
        if not isinstance(current, BlockRealize):
            raise ScheduleError(STRUCTURE, "the root block cannot be replaced by something else")
        self.mod = self.mod.with_function(function, func.replace(body=current))

    def replace_function(self, function: str, func: PrimFunc) -> None:
        """Replace a function, for rewrites that change its parameters' buffers."""
        locations = self._own_places()
        body = func.body
        assert isinstance(body, BlockRealize)
        added = _index(body, None, function, locations)
        kept = {id(location.stmt) for location in added.values()}
        for key in _keys_below(self.root(function), function, kept):
            if key not in added:
                del locations[key]
        locations.update(added)
        self.mod = self.mod.with_function(function, func)

    def _own_places(self) -> dict[Key, StatePlace]:
        if self._shared:
            self._places, self._shared = dict(self._places), False
        return self._places


def _key(stmt: Placed, function: str) -> Key:
    return stmt.loop_var if isinstance(stmt, For) else (function, stmt.block.name_hint)


def _placed_below(stmt: Stmt) -> Iterator[Placed]:
    """Yield the loops and blocks in a statement, including itself, in program order."""
    stack = [stmt]
    while stack:
        node = stack.pop()
        if isinstance(node, (For, BlockRealize)):
            yield node
        stack.extend(reversed(parts_of(node)))


def _index(stmt: Stmt, parent: Key | None, function: str, locations: dict[Key, StatePlace]) -> dict[Key, StatePlace]:
    """Return the locations of loops and blocks in a new statement; subtrees already in `locations` are not entered."""
    result: dict[Key, StatePlace] = {}
    stack: list[tuple[Stmt, Key | None]] = [(stmt, parent)]
    while stack:
        node, around = stack.pop()
        if isinstance(node, (For, BlockRealize)):
            key = _key(node, function)
            assert key not in result, f"{key} is there twice"
            result[key] = StatePlace(node, around, function)
            present = locations.get(key)
            if present is not None and present.stmt is node:
                continue  # shared with the program before: everything inside has its place
            around = key
        stack.extend((part, around) for part in parts_of(node))
    return result


def _keys_below(stmt: Stmt, function: str, kept: set[int]) -> Iterator[Key]:
    """Yield the keys of loops and blocks in a statement, except in subtrees whose ids are in `kept`."""
    stack = [stmt]
    while stack:
        node = stack.pop()
        if isinstance(node, (For, BlockRealize)):
            if id(node) in kept:
                continue
            yield _key(node, function)
        stack.extend(parts_of(node))


def _rebuilt(around: Placed, old: Stmt, new: Stmt) -> Placed:
    """Replace one statement in the body of a loop or block."""
    if isinstance(around, For):
        return around.replace(body=replace_below(around.body, old, new))
    block = around.block
    return around.replace(block=block.replace(body=replace_below(block.body, old, new)))


def replace_below(stmt: Stmt, old: Stmt, new: Stmt) -> Stmt:
    """Replace `old` by `new` in a statement; `old` must not be inside its loops or blocks. NOTHING is dropped."""
    if stmt is old:
        return new
    if isinstance(stmt, (For, BlockRealize)):
        return stmt
    return map_parts(stmt, lambda child: replace_below(child, old, new))


def _with_unique_names(root: BlockRealize) -> BlockRealize:
    """Append numbers to block names that occur more than once."""
    names = [node.block.name_hint for node in _placed_below(root) if isinstance(node, BlockRealize)]
    if len(set(names)) == len(names) and all(names):
        return root
    taken = set(names)
    seen: set[str] = set()

    def rename(stmt: Stmt) -> Stmt:
        if isinstance(stmt, BlockRealize):
            name, number = stmt.block.name_hint or "block", 0
            hint = name
            while name in seen or (number and name in taken):
                number += 1
                name = f"{hint}_{number}"
            seen.add(name)
            return stmt.replace(block=stmt.block.replace(name_hint=name, body=rename(stmt.block.body)))
        return map_parts(stmt, rename)

    return cast(BlockRealize, rename(root))
