"""Remove result fields of private functions that no caller reads.

Before   def main(x):                             After   def main(x):
             t = cls.f(x)                                     t = cls.f(x)
             z = t[1]                                         z = t
             return z                                         return z

         @R.function(private=True)                        @R.function(private=True)
         def f(a):                                        def f(a):
             b = R.exp(a)                                     b = R.exp(a)
             c = R.sin(a)                                     c = R.sin(a)
             r = (b, c)                                       r = c
             return r                                         return r

One field that is left is returned as it is, several as a tuple. What only the dropped fields needed goes with
DeadCodeElimination. A function stays as it is if some caller uses its result other than by its fields, or none of
them; if it is public, a value, or returns a tuple that it did not make; if that tuple is used inside, too; or if its
return annotation says more than its body, which is checked when it runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..analysis.properties import NORMAL_FORM
from ..analysis.uses import uses_of
from ..derive.normalize import normalize_module
from ..derive.substitution import Substitution
from ..expr import Binding, Call, Function, RelaxExpr, SeqExpr, Tuple, TupleGetItem, Var, VarBinding
from ..info.relations import is_base_of
from ..ir import GlobalVar, IRModule, Node, StructInfo, children_of
from ..rewrite import bindings_in
from ..struct_info import TupleStructInfo
from .decorators import module_pass
from .private_calls import calls_of_private


@module_pass(needs={NORMAL_FORM}, breaks=())
def RemoveUnusedOutputs(mod: IRModule) -> IRModule:
    """Remove fields of private functions' results that are not used; see the module's docstring."""
    candidates: dict[str, int] = {}
    for name in calls_of_private(mod):
        function = mod[name]
        assert isinstance(function, Function)
        returned = _returned(function)
        if returned is not None and len(returned.fields) > 1:
            candidates[name] = len(returned.fields)
    used: dict[str, set[int]] = {name: set() for name in candidates}
    for function in mod.functions.values():
        if isinstance(function, Function):
            for name, indices in _used_fields(function, candidates).items():
                used[name] |= indices
    kept = {name: sorted(indices) for name, indices in used.items() if 0 < len(indices) < candidates[name]}
    if not kept:
        return mod
    changed = {g: _changed(f, g.name_hint, kept) if isinstance(f, Function) else f for g, f in mod.functions.items()}
    return normalize_module(mod.with_functions(changed))


def _returned(function: Function) -> Tuple | None:
    """The tuple that a function makes and returns; None if it does not, or if more is annotated than it gives."""
    assert isinstance(function.body, SeqExpr)
    declared = function.ret_struct_info
    if declared is not None and not is_base_of(declared, function.body.struct_info):
        return None
    if declared is not None and not isinstance(declared, TupleStructInfo):
        return None
    result: RelaxExpr | None = function.body.body
    if isinstance(result, Var):
        bindings = [b for block in function.body.blocks for b in block.bindings]
        values = [b.value for b in bindings if isinstance(b, VarBinding) and b.var is result]
        used = any(result in uses_of(b.value).variables for b in bindings)
        result = None if used else next(iter(values), None)
    return result if isinstance(result, Tuple) else None


def _used_fields(function: Function, candidates: Mapping[str, int]) -> dict[str, set[int]]:
    """The fields of the results of calls that one function reads; all of them where it reads a result otherwise."""
    results: dict[Var, str] = {}
    for binding in bindings_in(function):
        match binding:
            case VarBinding(var, Call(GlobalVar(name))) if name in candidates:
                results[var] = name
            case _:
                pass
    used: dict[str, set[int]] = {name: set() for name in results.values()}
    pending: list[Node] = [function.body]
    while pending:
        node = pending.pop()
        if isinstance(node, TupleGetItem) and isinstance(node.tuple_value, Var) and node.tuple_value in results:
            used[results[node.tuple_value]].add(node.index)
            continue
        if isinstance(node, Var) and node in results:
            used[results[node]].update(range(candidates[results[node]]))
        children = children_of(node)
        if isinstance(node, Binding):
            children = [child for child in children if child is not node.var]
        pending += [child for child in children if not isinstance(child, StructInfo)]
    return used


def _changed(function: Function, name: str, kept: Mapping[str, Sequence[int]]) -> Function:
    """A function with its own result cut down, and those of its calls."""
    if name in kept:
        function = _cut(function, kept[name])
    new = _Results(kept).node(function)
    assert isinstance(new, Function)
    return new


def _cut(function: Function, indices: Sequence[int]) -> Function:
    returned, old = _returned(function), function.body
    assert returned is not None
    assert isinstance(old, SeqExpr)
    value = returned.fields[indices[0]] if len(indices) == 1 else Tuple([returned.fields[i] for i in indices])
    declared = function.ret_struct_info
    if isinstance(declared, TupleStructInfo):
        fields = [declared.fields[i] for i in indices]
        function = function.replace(ret_struct_info=fields[0] if len(fields) == 1 else TupleStructInfo(fields))
    if old.body is returned:
        return function.replace(body=SeqExpr(old.blocks, value, span=old.span))
    new = _Replaced(returned, value).seq(old)
    return function.replace(body=SeqExpr(new.blocks, new.body, span=new.span))


class _Replaced(Substitution):
    """Gives the variable that is bound to a tuple another value."""

    def __init__(self, old: Tuple, new: RelaxExpr) -> None:
        super().__init__({}, {})
        self.old, self.new = old, new

    def binding(self, binding: Binding) -> Binding:
        if isinstance(binding, VarBinding) and binding.value is self.old:
            var = type(binding.var)(binding.var.name_hint, span=binding.var.span)
            self.variables[binding.var] = var
            return VarBinding(var, self.new, span=binding.span)
        return super().binding(binding)


class _Results(Substitution):
    """Binds the results of calls that have fewer fields, and reads these."""

    def __init__(self, kept: Mapping[str, Sequence[int]]) -> None:
        super().__init__({}, {})
        self.kept = kept
        self.results: dict[Var, tuple[Var, Sequence[int]]] = {}

    def binding(self, binding: Binding) -> Binding:
        match binding:
            case VarBinding(var, Call(GlobalVar(name)) as call) if name in self.kept:
                new = type(var)(var.name_hint, span=var.span)
                self.results[var] = new, self.kept[name]
                args = tuple(self.node(arg) for arg in call.args)
                return VarBinding(new, Call(call.op, args, call.attrs, call.sinfo_args, span=call.span))  # type: ignore[arg-type]
            case _:
                return super().binding(binding)

    def node(self, node: Node) -> Node:
        if isinstance(node, TupleGetItem) and isinstance(node.tuple_value, Var):
            replacement = self.results.get(node.tuple_value)
            if replacement is not None:
                var, indices = replacement
                return var if len(indices) == 1 else TupleGetItem(var, indices.index(node.index))
        return super().node(node)
