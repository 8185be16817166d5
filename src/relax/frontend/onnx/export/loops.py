"""Loops: a function that calls itself at its end, as importers bind one, becomes a Loop.

def loop(i, x):                              Loop(cond = test(i, x)) over the states (i, x):
    if test(i, x):                               i, x = again(i, x)
        result = loop(*again(i, x))              cond = test(i, x)
    else:                                    result = done(i, x)
        result = done(i, x)
    return result
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from onnx import helper

from ....expr import Call, Function, If, SeqExpr, Tuple, TupleGetItem, Var, VarBinding
from ....ir import GlobalVar, RelaxExpr, StructInfo, walk
from ....runtime.records import dataclass
from .graph import Graph, Model
from .locals import Locals, Value
from .tensor import Tensor


class Bodies(Protocol):
    """Interface of the exporter by which loops write the parts of their function."""

    model: Model

    def sequence(self, expr: RelaxExpr, scope: Locals) -> Value:
        """Write the bindings of a sequence; return the value of its body."""
        ...

    def described(self, g: Graph, value: Value, info: StructInfo) -> Value:
        """A value with the dtype and the dimensions that struct info says."""
        ...

    def rebind(self, g: Graph, value: Value, info: StructInfo) -> None:
        """Bind the shape variables of a parameter anew."""
        ...

    def settled(self, g: Graph, value: Value) -> Value:
        """A value whose sizes are tensors."""
        ...

    def leaves(self, graph: Graph, value: Value, info: StructInfo) -> list[tuple[Tensor, StructInfo]]:
        """The tensors in a value."""
        ...

    def rebuilt(self, g: Graph, shape: Value, info: StructInfo, leaves: Any) -> Value:
        """A value like `shape`, of other tensors."""
        ...


@dataclass(frozen=True)
class Loop:
    """A function that ends in an If, one of whose branches ends in a call of the function."""

    function: Function
    prelude: SeqExpr
    """The bindings before the If, and its condition as the body."""
    going: SeqExpr
    """The branch that goes on, with the tuple of the next arguments as the body."""
    ending: SeqExpr
    negated: bool
    """True if the loop ends when the condition holds."""

    def write(self, exporter: Bodies, scope: Locals, args: Sequence[Any]) -> Any:
        """Write the Loop, then what the function returns for the last states."""
        g = scope.graph
        infos = [param.struct_info for param in self.function.params]
        bound, computed = dict(g.bound), dict(g.computed)
        begun = self._entered(exporter, scope, args)
        proceed = self._test(exporter, begun)
        initial = self._leaves(exporter, g, args, infos)
        body = self._body(exporter, scope, args, initial)
        g.bound, g.computed = dict(bound), dict(computed)
        names = g.nodes_of("Loop", [None, proceed, *initial], len(initial), "", {"body": body})
        last = self._state(exporter, g, args, infos, [leaf.named(g, n) for n, leaf in zip(names, initial, strict=True)])
        final = self._entered(exporter, scope, last)
        self._test(exporter, final)
        result = exporter.settled(g, exporter.sequence(self.ending, final))
        g.bound, g.computed = bound, computed
        return result

    def _body(self, exporter: Bodies, scope: Locals, args: Sequence[Any], initial: Sequence[Tensor]) -> Any:
        g = scope.graph
        inner = Graph(exporter.model, g)
        infos = [param.struct_info for param in self.function.params]
        count, going = (exporter.model.fresh(name) for name in ("iteration", "going"))
        states = [leaf.named(inner, exporter.model.fresh(leaf.name)) for leaf in initial]
        inputs = [helper.make_tensor_value_info(count, 7, []), helper.make_tensor_value_info(going, 9, [])]
        inputs += [inner.value_info(s) for s in states]
        entered = self._entered(exporter, scope.inner(inner), self._state(exporter, inner, args, infos, states))
        self._test(exporter, entered)
        following = exporter.settled(inner, exporter.sequence(self.going, entered))
        leaves = self._leaves(exporter, inner, following, infos)
        bound, computed = dict(inner.bound), dict(inner.computed)
        again = self._entered(exporter, entered, self._state(exporter, inner, args, infos, leaves))
        proceed = self._test(exporter, again)
        inner.bound, inner.computed = bound, computed
        typed = [leaf if leaf.sequence else leaf.to(state.dtype) for leaf, state in zip(leaves, states, strict=True)]
        written = [leaf.named(inner, inner.node("Identity", leaf).name) for leaf in (proceed, *typed)]
        results = [inner.value_info(leaf) for leaf in written]
        return helper.make_graph(inner.nodes, "body", inputs, results)

    def _entered(self, exporter: Bodies, scope: Locals, args: Sequence[Any]) -> Locals:
        """The scope of the body, with the parameters and their sizes bound."""
        inner = scope.inner(scope.graph)
        for param, arg in zip(self.function.params, args, strict=True):
            inner.values[param] = exporter.described(scope.graph, arg, param.struct_info)
            exporter.rebind(scope.graph, arg, param.struct_info)
        return inner

    def _test(self, exporter: Bodies, scope: Locals) -> Tensor:
        """The condition under which the loop goes on, written in the scope of the body."""
        condition = exporter.sequence(self.prelude, scope)
        condition = condition.reshape([]) if condition.rank else condition
        return ~condition if self.negated else condition

    def _leaves(self, exporter: Bodies, g: Graph, args: Sequence[Any], infos: Sequence[StructInfo]) -> list[Tensor]:
        leaves = [leaf for arg, info in zip(args, infos, strict=True) for leaf, _ in exporter.leaves(g, arg, info)]
        return leaves

    def _state(
        self, exporter: Bodies, g: Graph, like: Sequence[Any], infos: Sequence[StructInfo], leaves: Sequence[Tensor]
    ) -> list[Any]:
        """Arguments like `like`, of other tensors."""
        rest = iter(leaves)
        return [exporter.rebuilt(g, arg, info, rest) for arg, info in zip(like, infos, strict=True)]


def loop_of(callee: RelaxExpr, function: Function) -> Loop | None:
    """The loop that a function is; None for one that is not recursive, or not at its end alone."""
    body = function.body
    if not _calls(function.body, callee) or not isinstance(body, SeqExpr):
        return None
    bindings = [binding for block in body.blocks for binding in block.bindings]
    if not bindings or not isinstance(bindings[-1], VarBinding) or not isinstance(bindings[-1].value, If):
        return None
    last, chosen = bindings[-1], bindings[-1].value
    if body.body is not last.var or any(_calls(b.value, callee) for b in bindings[:-1]):
        return None
    branches = [chosen.true_branch, chosen.false_branch]
    recursive = [_calls(branch, callee) for branch in branches]
    if recursive.count(True) != 1:
        return None
    going = _without_call(branches[recursive.index(True)], callee)
    ending = branches[recursive.index(False)]
    if going is None or not isinstance(ending, SeqExpr):
        return None
    prelude = SeqExpr([*body.blocks[:-1], body.blocks[-1].replace(bindings=body.blocks[-1].bindings[:-1])], chosen.cond)
    return Loop(function, prelude, going, ending, recursive[1])


def _without_call(branch: RelaxExpr, callee: RelaxExpr) -> SeqExpr | None:
    """A branch that ends in a call of `callee`: its bindings before it, with the tuple of the arguments as the body."""
    if not isinstance(branch, SeqExpr) or not branch.blocks:
        return None
    *blocks, final = branch.blocks
    *before, last = final.bindings
    if not isinstance(last, VarBinding) or not isinstance(last.value, Call) or last.value.op is not callee:
        return None
    if not _returns(branch.body, last.var) or any(_calls(b.value, callee) for block in blocks for b in block.bindings):
        return None
    if any(_calls(binding.value, callee) for binding in before):
        return None
    return SeqExpr([*blocks, final.replace(bindings=before)], Tuple(last.value.args))


def _returns(body: RelaxExpr, var: Var) -> bool:
    """True if a body is a variable, or the tuple of all of its fields in order."""
    if isinstance(body, Tuple):
        return all(
            isinstance(f, TupleGetItem) and f.tuple_value is var and f.index == i for i, f in enumerate(body.fields)
        )
    return body is var


def _calls(expr: Any, callee: RelaxExpr) -> bool:
    """True if a function occurs in an expression."""
    found = False

    def visit(node: Any) -> bool:
        nonlocal found
        same = node is callee or (isinstance(callee, GlobalVar) and node == callee)
        found = found or same
        return not found

    walk(expr, visit)
    return found
