"""DataflowBlockRewrite: edits of one dataflow block of a function.

    rewrite = DataflowBlockRewrite(block, func)
    y = rewrite.add(relax.op.exp(x), name="y", is_dfvar=True)
    rewrite.replace_all_uses(lv0, y)
    rewrite.remove_unused(lv0)
    mod = rewrite.mutate_irmodule(mod)

The block and the function are unchanged. Bindings are sorted by dependency where an edit needs it. A request that the
block does not allow raises DiagnosticError (E4021).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, cast

from .analysis.uses import Uses
from .block_builder import BlockBuilder
from .dpl.rewrite import DependsOnItself, in_order
from .expr import (
    Binding,
    BindingBlock,
    DataflowBlock,
    DataflowVar,
    Function,
    If,
    MatchCast,
    SeqExpr,
    Var,
    VarBinding,
    convert,
)
from .info.mapping import bound_in
from .ir import Diagnostic, DiagnosticError, IRModule, Node, RelaxExpr, Span, map_children
from .rewrite import Rewriter, bindings_in, blocks_in

NOT_ALLOWED: Final = "E4021"


class DataflowBlockRewrite:
    """Edits of a dataflow block of a function; see the module's docstring.

    Parameters
    ----------
    dfb
        The block.
    root_fn
        The function that holds it.
    """

    def __init__(self, dfb: DataflowBlock, root_fn: Function) -> None:
        if not any(block is dfb for block in blocks_in(root_fn)):
            raise _not_allowed("the function does not hold the block", dfb.span)
        self._block = dfb
        self._root = root_fn
        self._bindings: list[Binding] = list(dfb.bindings)
        self._replaced: dict[Var, Var] = {}
        """New variables of uses outside of the block."""
        self._names = {binding.var.name_hint for binding in bindings_in(root_fn)}
        self._names.update(param.name_hint for param in root_fn.params)
        self._outside = list(_visible(root_fn, dfb))
        self._rest = Uses()
        """Variables that the function uses outside of the block."""
        self._rest.add(_without(root_fn, dfb))
        self._result: _Replacing | None = None

    # -- edits

    def replace_all_uses(self, old_var: Var, new_var: Var) -> None:
        """Use another variable instead of one, in the block and after it."""
        for var in (old_var, new_var):
            self._in_scope(var)
        if old_var is new_var:
            return
        used_outside = self._uses_outside(old_var)
        if used_outside and isinstance(new_var, DataflowVar):
            message = f"{old_var.name_hint} is used outside of the block, where {new_var.name_hint} is not visible"
            raise _not_allowed(message, new_var.span, hint="replace it by a variable that is no DataflowVar")
        if used_outside and old_var in self._outside:
            message = f"{old_var.name_hint} is bound before the block and used outside of it"
            raise _not_allowed(message, old_var.span, hint="replace uses of variables that the block binds")
        self._set([_with_uses(binding, old_var, new_var) for binding in self._bindings])
        if used_outside:
            self._replaced = {old: new_var if new is old_var else new for old, new in self._replaced.items()}
            self._replaced[old_var] = new_var

    def add_binding(self, binding: Binding) -> None:
        """Add a binding of a new variable, whose name is free in the function."""
        name = binding.var.name_hint
        if name in self._names:
            raise _not_allowed(f"the name {name} is taken", binding.span, hint="choose a name that is free")
        uses = Uses()
        uses.add(binding.value)
        for var in uses.variables:
            self._in_scope(var)
        self._set([*self._bindings, binding])
        self._names.add(name)

    def add(self, expr: Any, name: str | None = None, is_dfvar: bool = False) -> Var:
        """Bind an expression to a new variable, which is returned; without a `name`, it gets one that is free."""
        value = convert(expr)
        kind = DataflowVar if is_dfvar else Var
        if name is None:
            stem, number = "lv" if is_dfvar else "gv", 0
            name = stem
            while name in self._names:
                number += 1
                name = f"{stem}{number}"
        builder = BlockBuilder()
        with builder.testing_scope():
            info = builder.normalize(value).struct_info
        var = kind(name, info)
        self.add_binding(VarBinding(var, value, span=value.span))
        return var

    def remove_unused(self, var: Var, allow_undef: bool = False) -> None:
        """Remove the binding of an unused variable; `allow_undef` ignores one that the block does not bind."""
        binding = next((b for b in self._bindings if b.var is var), None)
        if binding is None:
            if allow_undef:
                return
            raise _not_allowed(
                f"the block does not bind {var.name_hint}",
                var.span,
                hint="pass allow_undef=True to ignore such variables",
            )
        users = self._users(binding)
        if users:
            raise _not_allowed(
                f"{var.name_hint} is used by {', '.join(users)}", binding.span, hint="replace its uses before"
            )
        self._set([b for b in self._bindings if b is not binding])
        self._names.discard(var.name_hint)

    def remove_all_unused(self) -> None:
        """Remove the bindings of the block that nothing uses, also those that only removed ones used."""
        kept: list[Binding] = []
        live = Uses()
        for binding in reversed(self._bindings):
            sizes = bound_in(binding.struct_info) if isinstance(binding, MatchCast) else ()
            if (
                binding.var in live.variables
                or self._uses_outside(binding.var)
                or any(size in live.shape_variables or size in self._rest.shape_variables for size in sizes)
            ):
                live.add(binding)
                kept.append(binding)
            else:
                self._names.discard(binding.var.name_hint)
        self._set(kept[::-1])

    # -- results

    def mutated_dfb(self) -> DataflowBlock:
        """Return the block with the edits; it may be empty."""
        return self._rewritten().new_block

    def mutated_root_fn(self) -> Function:
        """Return the function with the edited block; the function itself if nothing changed."""
        return self._rewritten().new_function

    def mutate_irmodule(self, irmodule: IRModule) -> IRModule:
        """Return a module with the edited function in the place of the function."""
        if not any(function is self._root for function in irmodule.functions.values()):
            raise _not_allowed("the module does not hold the function", self._root.span)
        new = self.mutated_root_fn()
        return irmodule.with_functions({g: new if f is self._root else f for g, f in irmodule.functions.items()})

    # -- facts

    def _rewritten(self) -> _Replacing:
        if self._result is None:
            self._result = _Replacing(self._root, self._block, self._bindings, self._replaced)
        return self._result

    def _set(self, bindings: list[Binding]) -> None:
        try:
            ordered = in_order(bindings)
        except DependsOnItself as error:
            raise _not_allowed(str(error), self._block.span) from None
        self._bindings = ordered
        self._result = None

    def _in_scope(self, var: Var) -> None:
        if var not in self._outside and all(binding.var is not var for binding in self._bindings):
            message = f"{var.name_hint} is not visible in the block"
            raise _not_allowed(message, var.span, hint="bind it in the block, or before it")

    def _uses_outside(self, var: Var) -> bool:
        replaced = (old for old, new in self._replaced.items() if new is var)
        return any(old in self._rest.variables for old in replaced) or (
            var in self._rest.variables and var not in self._replaced
        )

    def _users(self, binding: Binding) -> list[str]:
        """Names of the variables whose bindings use a variable, or a size that its binding binds."""
        sizes = set(bound_in(binding.struct_info)) if isinstance(binding, MatchCast) else set[Any]()
        users: list[str] = []
        for other in self._bindings:
            uses = Uses()
            uses.add(other)
            if other is not binding and (binding.var in uses.variables or not sizes.isdisjoint(uses.shape_variables)):
                users.append(other.var.name_hint)
        if self._uses_outside(binding.var) or not sizes.isdisjoint(self._rest.shape_variables):
            users.append("the function outside of the block")
        return users


def _not_allowed(message: str, span: Span | None, hint: str = "") -> DiagnosticError:
    return DiagnosticError(Diagnostic(NOT_ALLOWED, f"DataflowBlockRewrite: {message}", span, hint=hint))


def _with_uses(binding: Binding, old: Var, new: Var) -> Binding:
    if binding.var is new:  # the new variable may be computed from the old one
        return binding
    value = _replaced(binding.value, old, new)
    return binding if value is binding.value else binding.replace(value=value)


def _replaced(value: RelaxExpr, old: Var, new: Var) -> RelaxExpr:
    """Replace a variable; struct info of what changes is derived anew."""

    def visit(node: Node) -> Node:
        return new if node is old else map_children(node, visit)

    return cast(RelaxExpr, visit(value))


def _without(function: Function, block: BindingBlock) -> Function:
    def visit(node: Node) -> Node:
        return block.replace(bindings=()) if node is block else map_children(node, visit)

    return cast(Function, visit(function))


def _visible(scope: RelaxExpr, target: BindingBlock) -> Iterator[Var]:
    """Variables that are visible where a block begins."""
    if isinstance(scope, Function):
        if any(block is target for block in blocks_in(scope)):
            yield from scope.params
            yield from _visible(scope.body, target)
    elif isinstance(scope, SeqExpr):
        for block in scope.blocks:
            if block is target:
                return
            for binding in block.bindings:
                value = getattr(binding, "value", None)
                for inner in (value.true_branch, value.false_branch) if isinstance(value, If) else (value,):
                    if isinstance(inner, Function | SeqExpr) and _holds(inner, target):
                        yield from _visible(inner, target)
                        return
                if not isinstance(binding.var, DataflowVar):
                    yield binding.var


def _holds(scope: Function | SeqExpr, target: BindingBlock) -> bool:
    function = scope if isinstance(scope, Function) else Function((), scope, is_pure=False)
    return any(block is target for block in blocks_in(function))


class _Replacing(Rewriter):
    """Replaces the bindings of one block, and uses of variables after it."""

    def __init__(
        self, function: Function, block: DataflowBlock, bindings: list[Binding], replaced: dict[Var, Var]
    ) -> None:
        super().__init__()
        self.old_block = block
        same = len(bindings) == len(block.bindings) and all(map(lambda a, b: a is b, bindings, block.bindings))
        self.new_block = block if same else block.replace(bindings=tuple(bindings))
        self.replaced = replaced
        self.originals = {binding.var: binding for binding in block.bindings}
        self.new_function = self.rewrite_function(function)

    def block(self, block: BindingBlock) -> BindingBlock:
        if block is not self.old_block:
            return super().block(block)
        self.new_block = cast(DataflowBlock, super().block(self.new_block))
        for old, new in self.replaced.items():
            self.variables[old] = self.variables.get(new, new)
        return self.new_block

    def var_binding(self, binding: VarBinding) -> None:
        original = self.originals.get(binding.var)
        if original is None or original is binding or not isinstance(original, VarBinding):
            super().var_binding(binding)
        else:
            self.bind(original, self.rewrite(binding.value))  # the variable's struct info may be another one now
