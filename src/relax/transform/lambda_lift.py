"""Make local functions global: a function literal becomes a private function of the module, and a closure of it.

Before   def main(x: R.Tensor(("n",))):
             @R.function
             def inner(y: R.Tensor(("n",))):
                 return R.add(x, y)
             z = inner(x)
             return z

After    def main(x: R.Tensor(("n",))):
             inner = R.make_closure(cls.main_inner, (x,))
             z = R.invoke_pure_closure(inner, (x,), sinfo_args=R.Tensor((n,)))
             return z

         def main_inner(y: R.Tensor(("n",)), x: R.Tensor(("n",))):
             return R.add(x, y)

What a function captures becomes its last parameters: Relax variables in the order of their use, then the shape
variables that these do not tell, sizes as one shape value and other scalars each for itself. One that captures
nothing is named by its GlobalVar, and called directly. Inside a function that calls itself, calls pass on what it
captures; where it uses itself as a value, a closure is made. Calls of function values, whatever they are, become
invocations of closures.

Afterwards no function literal is left, in branches, dataflow blocks or other literals either.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from ..block_builder import BlockBuilder
from ..derive.context import signature_of
from ..derive.normalize import normalize_module
from ..derive.rules import is_pure_call
from ..derive.substitution import Substitution
from ..expr import Call, Function, PrimValue, ShapeExpr, Tuple, Var, VarBinding
from ..info.mapping import bound_in
from ..ir import GlobalVar, IRModule, RelaxExpr
from ..op.intrinsics import InvokeClosure, InvokePureClosure, MakeClosure
from ..prim import SizeVar
from ..prim import Var as ShapeVar
from ..struct_info import ObjectStructInfo, PrimStructInfo, ShapeStructInfo
from .decorators import module_pass
from .rebuild import with_info
from .uses import Uses, bound_variables, uses_of


@module_pass
def LambdaLift(mod: IRModule) -> IRModule:
    """Lift every function literal to the module; see the module's docstring."""
    mod = normalize_module(mod)
    lifter = _Lifter(mod)
    for global_var, func in mod.functions.items():
        if isinstance(func, Function):
            lifter.lift_inside(global_var.name_hint, func)
    return lifter.get()


@dataclass(frozen=True, slots=True)
class _Captured:
    """What a function captures, in the terms of where it stands."""

    variables: tuple[Var, ...]
    shape_variables: tuple[ShapeVar, ...]

    @property
    def values(self) -> tuple[RelaxExpr, ...]:
        """As arguments."""
        return (*self.variables, *_values_of(self.shape_variables))

    def __bool__(self) -> bool:
        return bool(self.variables or self.shape_variables)


def _values_of(variables: tuple[ShapeVar, ...]) -> tuple[RelaxExpr, ...]:
    """Shape variables as values. Only sizes are dimensions of a shape: other scalars may be negative, or floats."""
    sizes = tuple(v for v in variables if v.nonnegative)
    others = (PrimValue(v) for v in variables if not v.nonnegative)
    return (*((ShapeExpr(sizes),) if sizes else ()), *others)


def _renewed(var: ShapeVar) -> ShapeVar:
    return SizeVar(var.name, var.dtype) if var.nonnegative else ShapeVar(var.name, var.dtype)


class _Lifter(BlockBuilder):
    """Normalisation, in which function literals become global functions on the way."""

    def __init__(self, mod: IRModule) -> None:
        super().__init__(mod, warn=False)
        self.trust = False
        self.path: list[str] = []
        self.lifted: dict[Var, GlobalVar] = {}
        """Variables of functions that capture nothing."""
        self.recursive: dict[Var, tuple[GlobalVar, tuple[RelaxExpr, ...]]] = {}
        """Inside the body of a lifted function: its variable, and the values to pass on."""

    def lift_inside(self, name: str, func: Function) -> None:
        """Process a global function's body."""
        self.path.append(name)
        self.functions[name] = self.function_body(func, name)
        self.path.pop()

    # -- function literals

    def var_binding(self, binding: VarBinding) -> None:
        if isinstance(binding.value, Function):
            self.lift(binding.var, binding.value)
        else:
            super().var_binding(binding)

    def lift(self, var: Var, func: Function) -> None:
        captured = self.captured(var, func)
        global_var = GlobalVar(self._unique_global_name(f"{self.path[-1]}_{var.name_hint}"))
        lifted, arguments = self.closed(func, captured)
        if not captured:
            self.lifted[var] = global_var
        signature = signature_of(lifted)
        assert signature is not None, "normal form fills in results"
        self.declare(global_var, lifted)
        self.recursive[var] = global_var, arguments
        self.in_place_of_frames(global_var, lifted)
        del self.recursive[var]
        if captured:
            closure = MakeClosure().raw_call((global_var, Tuple(captured.values)), span=func.span)
            self.bind(var, self.visit(closure))

    def in_place_of_frames(self, global_var: GlobalVar, func: Function) -> None:
        """Process the lifted function as what it is now: global, outside of every block."""
        outer = self.frames, self.function_scopes
        self.frames, self.function_scopes = [], []
        self.lift_inside(global_var.name_hint, func)
        self.frames, self.function_scopes = outer
        self.declare(global_var, self.functions[global_var.name_hint])

    def captured(self, var: Var, func: Function) -> _Captured:
        """What a literal uses that is bound around it, and is no global function by now."""
        needed = uses_of(func)
        inside = {*bound_variables(func), *self.lifted, var}
        variables: dict[Var, None] = {}

        def add(variable: Var) -> None:
            if variable not in inside and variable not in variables:
                described = Uses()
                described.add_definition(variable)
                needed.shape_variables.update(described.shape_variables)
                for shape in described.variables:  # a tensor whose shape another variable holds
                    add(shape)
                variables[variable] = None

        for variable in tuple(needed.variables):
            add(variable)
        told = bound_in(*(v.struct_info_ or ObjectStructInfo() for v in variables))
        shapes = [v for v in needed.shape_variables if v in self.shape_vars and v not in told]
        return _Captured(tuple(variables), tuple(shapes))

    def closed(self, func: Function, captured: _Captured) -> tuple[Function, tuple[RelaxExpr, ...]]:
        """The function with parameters for what it captured, and these as arguments inside it."""
        shape_scope = [*bound_in(*(v.struct_info for v in captured.variables)), *captured.shape_variables]
        renamed = {v: _renewed(v) for v in shape_scope}
        sub = Substitution({}, dict(renamed))
        params: list[Var] = []
        for variable in captured.variables:
            param = Var(variable.name_hint, sub.info(variable.struct_info), span=variable.span)
            sub.variables[variable] = param
            params.append(param)
        arguments: list[RelaxExpr] = list(params)
        for value in _values_of(tuple(renamed[v] for v in captured.shape_variables)):
            params.append(_captured_param(value))
            arguments.append(value)
        inner = cast(Function, sub.node(func))
        attrs = {k: v for k, v in inner.attrs.items() if k != "global_symbol"}
        lifted = Function(
            (*inner.params, *params), inner.body, inner.ret_struct_info, inner.is_pure, attrs, span=func.span
        )
        return lifted, tuple(arguments)

    # -- uses of functions

    def visit_variable(self, expr: RelaxExpr) -> RelaxExpr:
        assert isinstance(expr, Var)
        if expr in self.lifted:
            return self.visit_global_var(self.lifted[expr])
        if expr in self.recursive:
            global_var, arguments = self.recursive[expr]
            return self.visit(MakeClosure().raw_call((global_var, Tuple(arguments)), span=expr.span))
        return super().visit_variable(expr)

    def visit_call(self, expr: Call) -> RelaxExpr:
        callee = expr.op
        if not isinstance(callee, Var):
            return super().visit_call(expr)
        if callee in self.lifted:
            return super().visit_call(_recall(expr, self.lifted[callee], expr.args))
        if callee in self.recursive:
            global_var, arguments = self.recursive[callee]
            return super().visit_call(_recall(expr, global_var, (*expr.args, *arguments)))
        operator = InvokePureClosure() if is_pure_call(expr, self) else InvokeClosure()
        call = operator.raw_call((callee, Tuple(expr.args)), (expr.struct_info,), expr.span)
        return super().visit_call(call)


def _captured_param(value: RelaxExpr) -> Var:
    """The parameter that takes a shape value of variables, or a scalar variable."""
    if isinstance(value, PrimValue):
        return Var(f"captured_{cast(ShapeVar, value.value).name}", PrimStructInfo(value=value.value))
    return Var("captured_shape", ShapeStructInfo(cast(ShapeExpr, value).values))


def _recall(call: Call, callee: RelaxExpr, args: tuple[RelaxExpr, ...]) -> Call:
    """The call of something else that gives the same."""
    return with_info(Call(callee, args, span=call.span), call.struct_info)
