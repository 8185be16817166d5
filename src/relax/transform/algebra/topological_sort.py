"""Put the bindings of dataflow blocks in another order in which each comes behind those it needs.

Before   a = R.exp(x)                        After, depth-first from the inputs      a = R.exp(x)
         b = R.negative(x)                                                           c = R.log(a)
         c = R.log(a)                                                                b = R.negative(x)
         gv = R.add(b, c)                                                            gv = R.add(b, c)

`direction` says where the walk begins: at the bindings that need no other of the block ("from-inputs"), or at those
that no other needs ("from-outputs"), going back to what they need. `order` says which comes next: one that the last
made possible ("depth-first"), or the one that has been possible for longest ("breadth-first"). Among equals the order
in the program decides.

Blocks in which a tensor may be changed keep their order.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Literal

from ...analysis.effects import may_change
from ...analysis.properties import NORMAL_FORM
from ...dpl.rewrite import dependencies
from ...expr import Binding, BindingBlock, Call, DataflowBlock, Function
from ...ir import IRModule
from ...rewrite import Rewriter
from ..decorators import function_pass

ORDERS = ("depth-first", "breadth-first")
DIRECTIONS = ("from-inputs", "from-outputs")


@function_pass(needs={NORMAL_FORM}, breaks=())
def TopologicalSort(
    func: Function,
    mod: IRModule,
    order: Literal["depth-first", "breadth-first"] = "depth-first",
    direction: Literal["from-inputs", "from-outputs"] = "from-inputs",
) -> Function:
    """Sort the bindings of dataflow blocks; see the module's docstring. Raises ValueError for other orders."""
    for value, values in ((order, ORDERS), (direction, DIRECTIONS)):
        if value not in values:
            raise ValueError(f"TopologicalSort: expected {' or '.join(map(repr, values))}, found {value!r}")
    return _Sorter(mod, order == "depth-first", direction == "from-inputs").rewrite_function(func)


class _Sorter(Rewriter):
    def __init__(self, mod: IRModule, deep: bool, forward: bool) -> None:
        super().__init__(mod)
        self.deep = deep
        self.forward = forward

    def block(self, block: BindingBlock) -> BindingBlock:
        if isinstance(block, DataflowBlock) and not any(
            isinstance(b.value, Call) and may_change(b.value, self.mod) for b in block.bindings
        ):
            block = self.sorted(block)
        return super().block(block)

    def sorted(self, block: DataflowBlock) -> DataflowBlock:
        """A block in the chosen order; itself if that is the order it has."""
        bindings = list(block.bindings)
        needed = dependencies(bindings)
        if not self.forward:
            bindings.reverse()
            needed = _reversed(bindings, needed)
        order = _walk(bindings, needed, self.deep)
        if not self.forward:
            order.reverse()
        same = all(a is b for a, b in zip(order, block.bindings, strict=True))
        return block if same else block.replace(bindings=tuple(order))


def _reversed(bindings: Sequence[Binding], needed: Mapping[Binding, Sequence[Binding]]) -> dict[Binding, list[Binding]]:
    """Return the users of each binding."""
    result: dict[Binding, list[Binding]] = {binding: [] for binding in bindings}
    for binding in bindings:
        for other in needed[binding]:
            result[other].append(binding)
    return result


def _walk(bindings: Sequence[Binding], needed: Mapping[Binding, Sequence[Binding]], deep: bool) -> list[Binding]:
    """Sort bindings topologically, choosing the latest or the earliest ready binding first."""
    waiting = {binding: len(needed[binding]) for binding in bindings}
    followers = _reversed(bindings, needed)
    ready = deque(binding for binding in bindings if not waiting[binding])
    order: list[Binding] = []
    while ready:
        binding = ready.popleft()
        order.append(binding)
        free: list[Binding] = []
        for follower in followers[binding]:
            waiting[follower] -= 1
            if not waiting[follower]:
                free.append(follower)
        if deep:
            ready.extendleft(reversed(free))
        else:
            ready.extend(free)
    return order
