"""The meaning of a Relax program (language.md §7): one case per expression, in the order the language gives them.

Evaluation is strict, left to right, in one thread, and passes results by reference. Values are those of
`relax.runtime.values`, so that packed functions are called and call back as they are by compiled programs.
A function that returns `Steps` is an evaluation: ``value = yield evaluation`` is the value of another one (`steps.py`).
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from functools import cached_property
from types import FunctionType
from typing import Any, Final, cast

import numpy as np
import tvm_ffi

from ..analysis.realize_vdevices import realize_vdevices
from ..derive.context import prim_func_struct_info
from ..expr import (
    Binding,
    BindingBlock,
    Call,
    Constant,
    DataflowBlock,
    DataflowVar,
    DataTypeImm,
    ExternFunc,
    Function,
    If,
    MatchCast,
    PrimValue,
    SeqExpr,
    ShapeExpr,
    StringImm,
    Tuple,
    TupleGetItem,
    Var,
    VarBinding,
)
from ..extern_modules import extern_modules
from ..info.mapping import bound_in
from ..info.relations import is_base_of
from ..info.runtime import runtime_device
from ..ir import GlobalVar, IRModule, Node, Op, RelaxExpr, StructInfo, listed_vdevices, walk
from ..op import operator_of
from ..op.intrinsic import Intrinsic, result_of
from ..prim import Var as ShapeVar
from ..runtime.builtin_table import BUILTINS
from ..runtime.builtins import tuple_getitem
from ..runtime.calling import bind_arguments, check_count, import_arguments
from ..runtime.closure import Closure
from ..runtime.devices import cpu
from ..runtime.dtypes import ffi_dtype
from ..runtime.modules import functions_of
from ..runtime.names import split
from ..runtime.ops import truth
from ..runtime.records import dataclass
from ..runtime.registry import find_packed, known_by
from ..runtime.sizes import shape_value
from ..runtime.tensor import tensor_of_numpy, to_device
from ..runtime.values import RESULT, export_value, import_result, import_value, kind_of
from ..struct_info import FuncStructInfo, ObjectStructInfo, TensorStructInfo, TupleStructInfo
from ..tir import PrimFunc
from . import matching
from .intrinsics import Activation, callee_name
from .kernels import Kernels
from .operators import evaluate_operator
from .scope import Environment
from .steps import Steps, run

MAX_DEPTH: Final = 100_000


@dataclass(frozen=True)
class Code:
    """A closure: a Relax function and its defining scope."""

    function: Function
    outer: Environment | None
    own: frozenset[ShapeVar]
    """Shape variables bound by its parameters: those without a value in the defining scope."""


class Interpreter:
    """Evaluates the functions of one module.

    The module is taken to be well-formed; it may be in normal form or not. Subclasses may override `bound`, which
    sees every value that a variable is bound to.
    """

    def __init__(self, mod: IRModule, *, max_depth: int = MAX_DEPTH) -> None:
        self.mod = realize_vdevices(mod)
        self.devices = [runtime_device(vdevice) for vdevice in listed_vdevices(mod)]
        """The run-time devices of the module's virtual devices; empty if it lists none."""
        self.max_depth = max_depth
        self.failed_in_dataflow = False
        """True if the last error came out of a dataflow block, where an optimiser may make it vanish."""
        self._kernels = Kernels(self.mod)
        self._depth = 0
        self._foreign: BaseException | None = None
        self._located: tuple[BaseException, Environment] | None = None

    @cached_property
    def _extern_functions(self) -> dict[str, tvm_ffi.Function]:
        return functions_of(extern_modules(self.mod))

    # --------------------------------------------------------------------- called from outside

    def __getitem__(self, name: Any) -> Closure:
        """An entry point, by name. Raises AttributeError, naming those there are."""
        function = self.mod.get(name) if isinstance(name, str) else None
        if isinstance(function, Function) and "global_symbol" in function.attrs:
            return self.global_value(name)
        entries = [
            g.name_hint for g, f in self.mod.functions.items() if isinstance(f, Function) and "global_symbol" in f.attrs
        ]
        problem = "does not exist" if function is None else "is private"
        raise AttributeError(f"function {name!r} {problem}; the entry points are: {', '.join(entries) or 'none'}")

    def invoke_closure(self, closure: Closure, *args: Any, **kwargs: Any) -> Any:
        """Call a function with Python values, for Python values; parameters may be given by name."""
        values = bind_arguments(closure, _parameter_names(closure), args, kwargs)
        if not self._depth:
            self.failed_in_dataflow = False
        return export_value(run(self.apply(closure, values)))

    def call_raw(self, closure: Closure, args: Sequence[Any]) -> Any:
        """Call a function on VM values; used by callbacks from packed functions."""
        return run(self.apply(closure, import_arguments(closure, _parameter_names(closure), args)))

    def bound(self, var: Var, value: Any, scope: Environment) -> None:
        """Hook called for every bound variable, before its first use."""

    # ----------------------------------------------------------------------------- expressions

    def value(self, expr: RelaxExpr, scope: Environment) -> Steps:
        """The value of an expression."""
        match expr:
            case Constant(data):
                return tensor_of_numpy(np.array(data))  # a fresh tensor each time
            case Var():
                return scope[expr]
            case GlobalVar(name):
                function = self.mod[name]
                if isinstance(function, ExternFunc):
                    return self.extern_value(function.global_symbol)
                return self.global_value(name)
            case Tuple(fields):
                return tuple((yield self.values(fields, scope)))
            case ShapeExpr(dims):
                return shape_value(cast(int, scope.evaluate(dim)) for dim in dims)
            case PrimValue(number):
                return scope.evaluate(number)
            case StringImm(text):
                return str(text)
            case DataTypeImm(dtype):
                return ffi_dtype(str(dtype))
            case Function():
                return self.closure(expr, scope, f"{scope.function}_function")
            case If(cond, true_branch, false_branch):
                chosen = truth((yield self.value(cond, scope)), "the condition of an if")
                return (yield self.value(true_branch if chosen else false_branch, scope))
            case Call():
                return (yield self.call(expr, scope))
            case ExternFunc(name):
                return self.extern_value(name)
            case TupleGetItem(source, index):
                return tuple_getitem((yield self.value(source, scope)), index)
            case SeqExpr():
                return (yield self.sequence(expr, scope.inner()))
            case _:
                raise TypeError(f"{scope.function}: a {type(expr).__name__} has no value")

    def values(self, exprs: Sequence[RelaxExpr], scope: Environment) -> Steps:
        """The values of several expressions, left to right."""
        values: list[Any] = []
        for expr in exprs:
            values.append((yield self.value(expr, scope)))
        return values

    # --------------------------------------------------------------------- sequences, bindings

    def sequence(self, seq: SeqExpr, scope: Environment) -> Steps:
        """Blocks in order, in a scope of their own; then the body."""
        for block in seq.blocks:
            yield self.block(block, scope)
        return (yield self.value(seq.body, scope))

    def block(self, block: BindingBlock, scope: Environment) -> Steps:
        """Bindings in order. The DataflowVars of a dataflow block die with it."""
        for binding in block.bindings:
            try:
                yield self.binding(binding, scope)
            except Exception as error:
                self._locate(error, scope, binding)
                self.failed_in_dataflow |= isinstance(block, DataflowBlock)
                raise
        if isinstance(block, DataflowBlock):
            scope.forget(b.var for b in block.bindings if isinstance(b.var, DataflowVar))

    def binding(self, binding: Binding, scope: Environment) -> Steps:
        """``var = value``, where an annotation is a claim to be checked; or a match_cast, which binds sizes."""
        var = binding.var
        match binding:
            case VarBinding(_, Function() as function):
                value = self.closure(function, scope, f"{scope.function}_{var.name_hint}")
            case VarBinding(_, expr):
                value = yield self.value(expr, scope)
                if var.annotation is not None:
                    name = var.name_hint
                    matching.match(value, var.annotation, scope, f"the value of {name}", name)
            case _:
                assert isinstance(binding, MatchCast), "there are two kinds of bindings"
                value = yield self.value(binding.value, scope)
                name = matching.name_of(binding.value)
                matching.match(value, binding.struct_info, scope, f"match_cast of {name}", name)
        self.bound(var, value, scope)
        scope.define(var, value)

    # --------------------------------------------------------------------------- function values

    def global_value(self, name: str) -> Closure:
        """A function of the module: a closure over nothing, or a PrimFunc."""
        function = self.mod[name]
        if isinstance(function, Function):
            return self.closure(function, None, name)
        assert isinstance(function, PrimFunc)
        info = matching.function_info(prim_func_struct_info(function), Environment(name))
        return Closure(self, name, function, (), info)

    def closure(self, function: Function, scope: Environment | None, name: str) -> Closure:
        """Make a closure over the current scope, with run-time struct info: parameters, result, purity."""
        params = [param.struct_info for param in function.params]
        ret = function.ret_struct_info or ObjectStructInfo()
        info = FuncStructInfo(params, ret, function.is_pure)
        around = scope or Environment(name)
        own = frozenset(var for var in bound_in(*params) if not around.knows(var))
        runtime_info = matching.function_info(info, around)
        return Closure(self, name, Code(function, scope, own), (), runtime_info)

    def extern_value(self, name: str) -> Any:
        """A function by its symbol: a PrimFunc of the module, a function of the modules of other kinds that it has, a
        builtin, else what the process has registered.

        Raises ValueError if there is none.
        """
        looked_up, name = name, split(name)[0]
        for global_var, function in self.mod.functions.items():
            if isinstance(function, PrimFunc) and function.attrs.get("global_symbol") == name:
                return self.global_value(global_var.name_hint)
        if name in self._extern_functions:
            return self._extern_functions[name]
        if name in BUILTINS:
            return BUILTINS[name].function
        registered = find_packed(looked_up)
        if registered is None:
            raise ValueError(
                f"the packed function {name!r} is neither in the module nor registered in this process; "
                f"packed functions are made known by {known_by([name])}"
            )
        return registered

    # ------------------------------------------------------------------------------------- calls

    def call(self, call: Call, scope: Environment) -> Steps:
        """The callee, then the arguments left to right, then the call."""
        match call.op:
            case Op():
                args = yield self.values(call.args, scope)
                operator = operator_of(call)
                if isinstance(operator, Intrinsic):
                    result = operator.execute(Activation(self, scope), call, *args)
                    return (yield result) if isinstance(result, Generator) else result
                return self.placed(self.operator(call, args, scope), call.struct_info_)
            case ExternFunc(name) if name in BUILTINS and BUILTINS[name].enters:
                function, *args = yield self.values(call.args, scope)
            case ExternFunc(name) if name in BUILTINS and BUILTINS[name].device is not None:
                function, args = self.extern_value(name), list((yield self.values(call.args, scope)))
                self.put_device(args, cast(int, BUILTINS[name].device), BUILTINS[name].first_device)
            case _:
                function = yield self.value(call.op, scope)
                args = yield self.values(call.args, scope)
        result = yield self.apply(function, args)
        if not isinstance(function, FunctionType):  # builtins are the machine's own
            self.check_result(result, call, scope, callee_name(call.op))
        return result

    def placed(self, value: Any, info: StructInfo | None) -> Any:
        """Place a fresh result on the device of its struct info, by default the module's first."""
        match info:
            case TensorStructInfo(vdevice=vdevice) if self.devices and isinstance(value, tvm_ffi.Tensor):
                return to_device(value, self.devices[0] if vdevice is None else runtime_device(vdevice))
            case TupleStructInfo(fields) if self.devices:
                return tuple(self.placed(item, field) for item, field in zip(value, fields, strict=True))
            case _:
                return value

    def operator(self, call: Call, args: Sequence[Any], scope: Environment) -> Any:
        """The value of an operator that is no intrinsic: by its reference."""
        return evaluate_operator(call, args, scope)

    def put_device(self, args: list[Any], at: int, allocates: bool) -> None:
        """The device itself in the place of its number; the module's first, for an allocation that names none."""
        if at >= len(args):
            args += self.devices[:1] if allocates else ()
        elif isinstance(args[at], int):
            args[at] = self.devices[args[at]] if args[at] < len(self.devices) else cpu(args[at])

    def check_result(self, result: Any, call: Call, scope: Environment, callee: str) -> None:
        """Check a packed callee's result against the call's `sinfo_args`."""
        declared = result_of(call.sinfo_args)
        matching.match(result, declared, scope, f"the result of {callee}", "the result")

    def apply(self, function: Any, args: Sequence[Any]) -> Steps:
        """Call a function value."""
        if isinstance(function, Closure) and function.machine is self:
            check_count(function, _parameter_names(function), len(args))
            args = (*args, *function.captured)
            if isinstance(function.target, Code):
                return (yield self.enter(function.name, function.target, args))
            self._kernels.run(cast(PrimFunc, function.target), args, function.name)
            return ()
        return self._call_foreign(function, args)

    def enter(self, name: str, code: Code, args: Sequence[Any]) -> Steps:
        """Match the arguments, evaluate the body in a new scope, match the result."""
        if self._depth >= self.max_depth:
            raise RecursionError(
                f"{name}: more than {self.max_depth} calls are under way; "
                "Interpreter(..., max_depth=...) raises the limit"
            )
        self._depth += 1
        scope = Environment(name, code.outer, own=code.own)
        try:
            matching.enter(code.function.params, args, scope)
            result = yield self.value(code.function.body, scope)
            ret, body_info = code.function.ret_struct_info, code.function.body.struct_info_ or ObjectStructInfo()
            # What is proved of functions is not compared: erasure forgets what their parameters ask for.
            if ret is not None and not (_mentions_functions(ret) and is_base_of(ret, body_info)):
                matching.match(result, ret, scope, "result", "the result")
            return result
        except Exception as error:
            self._locate(error, scope)
            raise
        finally:
            self._depth -= 1

    def _call_foreign(self, function: Any, args: Sequence[Any]) -> Any:
        """Call a packed function, a function of another machine, or a builtin."""
        if isinstance(function, Closure):
            return import_value(function.machine.call_raw(function, args))
        if isinstance(function, FunctionType):  # a builtin, which takes and gives values as they are
            try:
                return function(*args)
            except Exception as error:
                if any(entry.program_errors for entry in BUILTINS.values() if entry.function is function):
                    self._foreign = error
                raise
        if not isinstance(function, tvm_ffi.Function):
            raise TypeError(f"cannot call {kind_of(function)}")
        try:
            return import_result(function(*args))
        except Exception as error:
            self._foreign = error
            raise

    # ---------------------------------------------------------------------------------- complaints

    def _locate(self, error: Exception, scope: Environment, binding: Binding | None = None) -> None:
        """Annotate an error with its location, once per active function.

        Messages begin with the innermost function's name; those of packed functions are their own.
        """
        activation = scope.activation
        if self._located is not None and self._located[0] is error:
            if self._located[1] is activation:
                return
        else:
            message = error.args[0] if len(error.args) == 1 else None
            foreign = error is self._foreign and not str(message).startswith(RESULT)
            own = f"{scope.function}: ", "Assertion Failed"  # what R.assert_op says is the program's own
            if isinstance(message, str) and not foreign and not message.startswith(own):
                error.args = (f"{scope.function}: {message}",)
        self._located = error, activation
        span = binding.value.span or binding.span if isinstance(binding, VarBinding | MatchCast) else None
        note = f"  in Relax function {scope.function}" + (f" ({span})" if span is not None else "")
        if hasattr(error, "add_note"):  # pragma: no branch (Python 3.10 has no notes)
            cast(Any, error).add_note(note)


def _mentions_functions(info: StructInfo) -> bool:
    """True for a function, and for a tuple with one in it, however deep."""
    mentioned = False

    def visit(node: Node) -> bool:
        nonlocal mentioned
        mentioned = mentioned or isinstance(node, FuncStructInfo)
        return isinstance(node, TupleStructInfo)

    walk(info, visit)
    return mentioned


def _parameter_names(closure: Closure) -> tuple[str, ...] | None:
    """Names of the parameters that are left for the caller."""
    if not isinstance(closure.target, Code):
        return None
    names = tuple(param.name_hint for param in closure.target.function.params)
    return names[: len(names) - len(closure.captured)]
