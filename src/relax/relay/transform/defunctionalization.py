"""Defunctionalization: replace function values by data, and their calls by a `match`.

    def @main(%x: int32) {                        type Func0 { Main_f(int32) }
      let %f = fn(%y: int32) { %x + %y };
      %f(1)                             becomes   def @main(%x: int32) { let %f = Main_f(%x); @apply0(%f, 1) }
    }                                             def @main_f(%x: int32, %y: int32) { add(%x, %y) }
                                                  def @apply0(%f: Func0, %a: int32) -> int32 {
                                                    match (%f) { Main_f(%c) => @main_f(%c, %a) }
                                                  }

Each function type becomes a data type, with a constructor for every function used as a value, whose fields are the
function's free variables. Functions not reachable from main are removed. Not supported (E9071): a main function that
takes or returns functions, polymorphic functions, functions inside data types, and operators or constructors as values
(wrap them by EtaExpand or `fn`).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, cast

from ...ir import Diagnostic, DiagnosticError, GlobalVar, IRModule, Op
from ...ir.transform import Pass
from ..adt import Clause, Constructor, Match, PatternConstructor, PatternVar
from ..expr import Call, Expr, Function, Var
from ..functor import TypeMutator
from ..infer import infer_module
from ..parts import parts_of, with_parts
from ..scopes import nodes_with_parts
from ..types import FuncType, GlobalTypeVar, Type, TypeCall, TypeData
from .lambda_lift import LambdaLift
from .remove_unused_functions import RemoveUnusedFunctions
from .rewriting import relay_module_pass
from .to_cps import UNSUPPORTED, has_function


class _Kind:
    """Functions of one type: the data type that represents them, and its constructors by function."""

    def __init__(self, number: int, type_: FuncType) -> None:
        self.type = type_
        self.header = GlobalTypeVar(f"Func{number}")
        self.apply = GlobalVar(f"apply{number}")
        self.constructors: dict[str, Constructor] = {}
        self.targets: dict[str, GlobalVar] = {}


class _Defunctionalizer(TypeMutator):
    def __init__(self, mod: IRModule) -> None:
        self.mod = mod
        self.kinds: dict[FuncType, _Kind] = {}
        self.vars: dict[Var, Var] = {}
        names = [g.name_hint for g in mod.functions] + [cast(Any, key).name_hint for key in mod.type_definitions]
        self.taken = {int(n) for name in names for n in re.findall(r"^(?:apply|Func)(\d+)$", name)}
        """Numbers already used by such function and type names."""
        self.number = 0

    def run(self) -> IRModule:
        """Return the module without function values."""
        functions: dict[GlobalVar, Any] = {}
        for name, function in self.mod.functions.items():
            functions[name] = self._function(function) if isinstance(function, Function) else function
        if not self.kinds:
            return self.mod
        definitions = dict(self.mod.type_definitions)
        done = 0
        while done < len(self.kinds):  # function types may contain further function types
            kind = list(self.kinds.values())[done]
            functions[kind.apply] = self._apply(kind)
            done += 1
        for kind in self.kinds.values():
            definitions[kind.header] = TypeData(kind.header, (), tuple(kind.constructors.values()))
        return self.mod.replace(functions=functions, type_definitions=definitions)

    # -- types

    def visit_func_type(self, type_: FuncType) -> TypeCall:
        return TypeCall(self._kind(type_).header, ())

    def _kind(self, type_: FuncType) -> _Kind:
        if type_ not in self.kinds:
            while self.number in self.taken:
                self.number += 1
            self.kinds[type_] = _Kind(self.number, type_)
            self.number += 1
        return self.kinds[type_]

    def _data(self, type_: Type) -> Type:
        return cast(Type, self.visit(type_))

    # -- functions

    def _function(self, function: Function) -> Function:
        body, params = function.body, list(function.params)
        attrs = dict(function.attrs)
        result = cast(FuncType, function.checked_type).ret_type
        if attrs.pop("Closure", None) and isinstance(body, Function):
            params += body.params
            body, result = body.body, cast(FuncType, result).ret_type
        return Function(
            [self._var(p) for p in params], self._expr(body), self._data(result), attrs=attrs, span=function.span
        )

    def _var(self, var: Var) -> Var:
        if var not in self.vars:
            type_ = var.checked_type_
            annotation = None if type_ is None else self._data(type_)
            same = annotation is None or annotation == var.type_annotation
            self.vars[var] = var if same else Var(var.name_hint, annotation, span=var.span)
        return self.vars[var]

    def _expr(self, expr: Expr) -> Expr:
        memo: dict[Expr, Expr] = {}

        def value(operand: Expr) -> Expr:
            """Expression that represents an operand used as a value."""
            if isinstance(operand, Var):
                return self._var(operand)
            if isinstance(operand, GlobalVar):
                return self._constructor(operand, cast(FuncType, cast(Function, self.mod[operand]).checked_type), ())
            if isinstance(operand, Op) or (isinstance(operand, Constructor) and operand.inputs):
                name = operand.name if isinstance(operand, Op) else operand.name_hint
                raise _refused(f"{name} is used as a value", "write a function around it: relay.transform.EtaExpand")
            return memo.get(operand, operand)

        for node in nodes_with_parts(expr):
            if isinstance(node, Function) and node.attrs.get("Primitive"):
                continue
            if isinstance(node, Function):
                raise _refused("a function could not be lifted out of those around it")
            memo[node] = self._call(node, value) if isinstance(node, Call) else with_parts(
                node, list(map(value, parts_of(node)))
            )  # fmt: skip
        return value(expr)

    def _call(self, call: Call, value: Callable[[Expr], Expr]) -> Expr:
        args = tuple(map(value, call.args))
        callee = call.op
        if isinstance(callee, GlobalVar):
            function = self.mod[callee]
            if isinstance(function, Function) and function.attrs.get("Closure"):
                kind = self._kind(cast(FuncType, call.checked_type))
                constructor = self._constructor(callee, kind.type, tuple(map(_type_of, call.args)))
                return Call(constructor, args, span=call.span) if args else constructor
        elif not isinstance(callee, (Op, Constructor, Function)):
            kind = self._kind(cast(FuncType, _type_of(callee)))
            return Call(kind.apply, (value(callee), *args), span=call.span)
        types = tuple(map(self._data, call.type_args))
        if any(new is not old for new, old in zip(types, call.type_args, strict=True)):
            call = call.replace(type_args=types)
        return with_parts(call, (callee, *args))

    def _constructor(self, target: GlobalVar, type_: FuncType, captured: tuple[Type, ...]) -> Constructor:
        kind = self._kind(type_)
        name = target.name_hint
        if name not in kind.constructors:
            inputs = [self._data(item) for item in captured]
            hint = name[:1].upper() + name[1:]
            kind.constructors[name] = Constructor(hint, inputs, kind.header, len(kind.constructors))
            kind.targets[name] = target
        return kind.constructors[name]

    def _apply(self, kind: _Kind) -> Function:
        """Return the function that dispatches on a value of a data type."""
        callee = Var("f", TypeCall(kind.header, ()))
        params = [Var(f"a{i}", self._data(type_)) for i, type_ in enumerate(kind.type.arg_types)]
        clauses: list[Clause] = []
        for name, constructor in kind.constructors.items():
            fields = [Var(f"c{i}") for i in range(len(constructor.inputs))]
            pattern = PatternConstructor(constructor, [PatternVar(field) for field in fields])
            clauses.append(Clause(pattern, Call(kind.targets[name], [*fields, *params])))
        body = Match(callee, clauses, complete=bool(clauses))
        return Function([callee, *params], body, self._data(kind.type.ret_type))


def _type_of(expr: Expr) -> Type:
    return cast(Any, expr).type if not hasattr(expr, "checked_type_") else cast(Any, expr).checked_type


def _refused(message: str, hint: str = "") -> DiagnosticError:
    return DiagnosticError(Diagnostic(UNSUPPORTED, f"Defunctionalization: {message}", hint=hint))


def _check(mod: IRModule) -> None:
    """Raise DiagnosticError for a typed module that is not supported."""
    for name, function in mod.functions.items():
        if not isinstance(function, Function):
            continue
        type_ = cast(FuncType, function.checked_type)
        if type_.type_params:
            raise _refused(f"@{name.name_hint} is polymorphic", "write it for the types that it is used with")
        if name.name_hint == "main" and any(map(has_function, (*type_.arg_types, type_.ret_type))):
            raise _refused("@main takes or returns functions")
    for definition in mod.type_definitions.values():
        for constructor in cast(TypeData, definition).constructors:
            if any(map(has_function, constructor.inputs)):
                raise _refused(f"values of {constructor.name_hint} hold functions")


def defunctionalized(mod: IRModule) -> IRModule:
    """Return the module with first-order functions only; itself if it has no others. Raises DiagnosticError (E9071)."""
    reached = RemoveUnusedFunctions()(mod)
    infer_module(reached)
    lifted = LambdaLift()(reached)
    infer_module(lifted)
    _check(lifted)
    changed = _Defunctionalizer(lifted).run()
    return mod if changed is reached else changed


@relay_module_pass("Defunctionalization")
def _Pass(mod: IRModule) -> IRModule:
    return defunctionalized(mod)


def Defunctionalization(func: Function | None = None, mod: IRModule | None = None) -> Any:
    """Return the pass; or, given a function and its module, the function without function values.

    In the second form, the functions and data types it needs are added to the module. Raises DiagnosticError.
    """
    if func is None:
        return cast(Pass, _Pass())
    module = IRModule() if mod is None else mod
    other_functions = {g: f for g, f in module.functions.items() if g.name_hint != "main"}
    whole = IRModule({**other_functions, "main": func}, type_definitions=module.type_definitions)  # type: ignore[arg-type]
    changed = defunctionalized(whole)
    for name, function in changed.functions.items():
        if name.name_hint != "main":
            module[name] = function
    module.type_definitions.update(changed.type_definitions)
    return changed["main"]
