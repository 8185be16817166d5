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

from typing import cast

from ..analysis.properties import NO_LITERALS, NO_OPERATORS, NORMAL_FORM, SHAPES_LOWERED
from ..analysis.uses import Uses, bound_variables, uses_of
from ..derive.normalize import normalize_module
from ..derive.rules import is_pure_call
from ..derive.substitution import Substitution
from ..expr import Call, Function, PrimValue, ShapeExpr, Tuple, Var, VarBinding
from ..info.mapping import bound_in
from ..ir import GlobalVar, IRModule, RelaxExpr
from ..op.intrinsics import InvokeClosure, InvokePureClosure, MakeClosure
from ..prim import SizeVar
from ..prim import Var as ShapeVar
from ..rewrite import Rewriter, bindings_in
from ..rewrite.rebuild import with_info
from ..runtime.records import dataclass
from ..struct_info import ObjectStructInfo, PrimStructInfo, ShapeStructInfo
from .decorators import module_pass


@module_pass(needs={NORMAL_FORM}, gives={NO_LITERALS}, breaks={NO_OPERATORS, SHAPES_LOWERED})
def LambdaLift(mod: IRModule) -> IRModule:
    """Lift every function literal to the module; see the module's docstring."""
    functions = [function for function in mod.functions.values() if isinstance(function, Function)]
    if not any(map(_has_function_values, functions)):
        return mod
    return _Lifter(normalize_module(mod)).module()


def _has_function_values(function: Function) -> bool:
    """True if there is a function literal in a function, or a call of a function value."""
    values = (binding.value for binding in bindings_in(function))
    return any(isinstance(v, Function) or (isinstance(v, Call) and isinstance(v.op, Var)) for v in values)


@dataclass(frozen=True, slots=True)
class _Captured:
    """The variables that a function captures, in the terms of its surroundings."""

    variables: tuple[Var, ...]
    shape_variables: tuple[ShapeVar, ...]

    @property
    def values(self) -> tuple[RelaxExpr, ...]:
        """Captured variables and shape variables, as arguments of a call."""
        return (*self.variables, *_values_of(self.shape_variables))

    def __bool__(self) -> bool:
        return bool(self.variables or self.shape_variables)


def _values_of(variables: tuple[ShapeVar, ...]) -> tuple[RelaxExpr, ...]:
    """Return shape variables as values: sizes in one shape, other scalars (negative or float) one by one."""
    sizes = tuple(v for v in variables if v.nonnegative)
    scalars = (PrimValue(v) for v in variables if not v.nonnegative)
    return (*((ShapeExpr(sizes),) if sizes else ()), *scalars)


def _renewed(var: ShapeVar) -> ShapeVar:
    return SizeVar(var.name, var.dtype) if var.nonnegative else ShapeVar(var.name, var.dtype)


class _Lifter(Rewriter):
    """Makes global functions of function literals."""

    def __init__(self, mod: IRModule) -> None:
        super().__init__(mod)
        self.path: list[str] = []
        self.lifted: dict[Var, GlobalVar] = {}
        """Variables of functions that capture nothing."""
        self.recursive: dict[Var, tuple[GlobalVar, tuple[RelaxExpr, ...]]] = {}
        """Inside the body of a lifted function: its variable, and the values to pass on."""

    def concerns(self, function: Function) -> bool:
        return bool(self.recursive or self.lifted) or _has_function_values(function)

    def rewrite_function(self, function: Function, name: str = "") -> Function:
        self.path.append(name)
        new = super().rewrite_function(function, name)
        self.path.pop()
        return new

    # -- function literals

    def var_binding(self, binding: VarBinding) -> None:
        if isinstance(binding.value, Function):
            self.lift(binding, binding.value)
        else:
            super().var_binding(binding)

    def lift(self, binding: VarBinding, func: Function) -> None:
        var = binding.var
        captured = self.captured(var, func)
        global_var = GlobalVar(self.builder.unique_global_name(f"{self.path[-1]}_{var.name_hint}"))
        lifted, arguments = self.closed(func, captured)
        if not captured:
            self.lifted[var] = global_var
        self.builder.declare(global_var, lifted)
        self.recursive[var] = global_var, arguments
        self.builder.declare(global_var, self.rewrite_function(lifted, global_var.name_hint))
        del self.recursive[var]
        if captured:
            closure = MakeClosure().raw_call((global_var, Tuple(captured.values)), span=func.span)
            self.bind(binding, self.rewrite(closure), var)

    def captured(self, var: Var, func: Function) -> _Captured:
        """The variables bound around a literal that it uses, global functions aside."""
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
        shapes = [v for v in needed.shape_variables if v in self.builder.shape_vars and v not in told]
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

    def variable(self, var: Var) -> RelaxExpr:
        if var in self.lifted:
            return self.lifted[var]
        if var in self.recursive:
            global_var, arguments = self.recursive[var]
            return MakeClosure().raw_call((global_var, Tuple(arguments)), span=var.span)
        return super().variable(var)

    def call(self, call: Call) -> RelaxExpr:
        callee = call.op
        if not isinstance(callee, Var):
            return super().call(call)
        if callee in self.lifted:
            return super().call(_recall(call, self.lifted[callee], call.args))
        if callee in self.recursive:
            global_var, arguments = self.recursive[callee]
            return super().call(_recall(call, global_var, (*call.args, *arguments)))
        operator = InvokePureClosure() if is_pure_call(call, self.builder) else InvokeClosure()
        return super().call(operator.raw_call((callee, Tuple(call.args)), (call.struct_info,), call.span))


def _captured_param(value: RelaxExpr) -> Var:
    """The parameter that takes a shape value of variables, or a scalar variable."""
    if isinstance(value, PrimValue):
        return Var(f"captured_{cast(ShapeVar, value.value).name}", PrimStructInfo(value=value.value))
    return Var("captured_shape", ShapeStructInfo(cast(ShapeExpr, value).values))


def _recall(call: Call, callee: RelaxExpr, args: tuple[RelaxExpr, ...]) -> Call:
    """Return a call with the same struct info and arguments of another callee."""
    return with_info(Call(callee, args, span=call.span), call.struct_info)
