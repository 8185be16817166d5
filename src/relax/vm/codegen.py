"""Lowered Relax functions to bytecode.

A variable is a register. Bindings without a computation (to another variable or a constant number) need no instruction.
An If in tail position returns from both branches, so that a tail call in a branch needs no frame.

A tensor constant is shared if only a kernel or a builtin reads it. Otherwise each evaluation makes a fresh copy, since
the receiver may modify it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from ..derive.context import prim_func_struct_info
from ..expr import (
    Call,
    Constant,
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
from ..info.runtime import InfoMaker, device_name
from ..ir import Diagnostic, DiagnosticError, GlobalVar, IRModule, RelaxExpr, Span, listed_vdevices
from ..prim import FloatImm, IntImm, PrimExpr
from ..runtime import ExecBuilder, ShapeTuple
from ..runtime.builtin_table import BUILTINS, UNKNOWN
from ..runtime.bytecode import Func, Imm, Operand, Reg
from ..runtime.dtypes import ffi_dtype
from ..runtime.info import FuncInfo
from ..runtime.rounding import round_number
from ..struct_info import ObjectStructInfo
from ..tir import PrimFunc, written_params
from ..transform.vm_shape_lower import LOWERED

_Bound = VarBinding | MatchCast

NOT_LOWERED = "E4102"
"""Error code: an expression without bytecode, because the pass that lowers it did not run."""


_VIEWS: Final = ("vm.builtin.alloc_tensor_in", "vm.builtin.reshape")
"""Builtins that return a new tensor in the memory of their first argument: two calls with equal arguments return equal
tensors.
"""


def generate(builder: ExecBuilder, mod: IRModule) -> dict[int, tuple[Constant, Operand]]:
    """Add the Relax functions of a module to an executable under construction; return its tensor constants by identity.

    Raises DiagnosticError with all expressions that are not lowered.
    """
    builder.set_devices([device_name(vdevice) for vdevice in listed_vdevices(mod)])
    generator = _Generator(builder, mod)
    for global_var, function in mod.functions.items():
        if isinstance(function, Function):
            generator.function(global_var.name_hint, function)
    if generator.errors:
        raise DiagnosticError(generator.errors)
    return generator.constants


class _Generator:
    """Generates the functions of a module one at a time."""

    def __init__(self, builder: ExecBuilder, mod: IRModule) -> None:
        self.builder = builder
        self.mod = mod
        self.errors: list[Diagnostic] = []
        self._name = ""
        self._values: dict[Var, Operand] = {}
        self._uses: Mapping[Var, int] = {}
        self._next = 0
        self.constants: dict[int, tuple[Constant, Operand]] = {}
        self._written: dict[str, frozenset[int]] = {}
        self._kernels: dict[str, int] = {}
        """The kernels that have been declared, with their indices."""
        self._views: dict[tuple[str, tuple[Operand, ...]], Reg] = {}
        """Registers with views, by the builtin and the arguments that made them."""
        self._same: dict[Operand, Reg] = {}
        """For each register with a copy of another one's reference, that other one."""

    def function(self, name: str, func: Function) -> None:
        """Generate one function."""
        infos = InfoMaker()
        param_infos = [infos.info(param.struct_info_) for param in func.params]
        ret_info = infos.info(func.ret_struct_info or ObjectStructInfo())
        self._name, self._values, self._next, self._views, self._same = name, {}, 0, {}, {}
        for param in func.params:
            self._values[param] = self._register()
        body = cast(SeqExpr, func.body)
        if not func.attrs.get(LOWERED):
            self._refuse("the shapes of this function are not lowered; run VMShapeLower first", func)
            return
        self._uses = _count_uses(body)
        with self.builder.function(
            name,
            params=[param.name_hint for param in func.params],
            param_infos=param_infos,
            ret_info=ret_info,
            pure=func.is_pure,
            exported="global_symbol" in func.attrs,
        ):
            for param in func.params:
                self.builder.name_register(cast(Reg, self._values[param]), param.name_hint)
            self._tail(body)

    def _register(self, var: Var | None = None) -> Reg:
        register = Reg(self._next)
        self._next += 1
        if var is not None:
            self.builder.name_register(register, var.name_hint)
        return register

    # ------------------------------------------------------------------------- sequences, bindings

    def _tail(self, seq: SeqExpr) -> None:
        """Generate a sequence whose value is the function's result."""
        bindings = _bindings(seq)
        last = bindings[-1] if bindings else None
        if last is not None and last.var is seq.body and isinstance(last.value, If):
            self._emit_bindings(bindings[:-1])
            self._at(last.value.span)
            test = self._test(last.value.cond)
            before = dict(self._views)
            self._tail(cast(SeqExpr, last.value.true_branch))
            self.builder.patch(test)
            self._views = before
            self._tail(cast(SeqExpr, last.value.false_branch))
            return
        self._emit_bindings(bindings)
        self._at(seq.body.span)
        self.builder.emit_ret(self._operand(seq.body))

    def _emit_bindings(self, bindings: Sequence[_Bound]) -> None:
        for binding in bindings:
            self._at(binding.value.span or binding.span)
            self._binding(binding)

    def _at(self, span: Span | None) -> None:
        self.builder.location = "" if span is None else str(span)

    def _binding(self, binding: _Bound) -> None:
        var, value = binding.var, binding.value
        match value:
            case If():
                self._values[var] = self._if(value)
            case Call():
                named = None if _is_bookkeeping(value) else var
                dst = self._register(named) if self._uses.get(var) else None
                self._call(value, dst)
                if dst is not None:
                    self._values[var] = dst
            case TupleGetItem(source, index):
                dst = self._register(var)
                self.builder.emit_call("vm.builtin.tuple_getitem", [self._operand(source), Imm(index)], dst)
                self._values[var] = dst
            case _:
                self._values[var] = self._operand(value)

    def _if(self, value: If) -> Reg:
        dst = self._register()
        test = self._test(value.cond)
        self._branch(cast(SeqExpr, value.true_branch), dst)
        end = self.builder.emit_goto()
        self.builder.patch(test)
        self._branch(cast(SeqExpr, value.false_branch), dst)
        self.builder.patch(end)
        return dst

    def _test(self, cond: RelaxExpr) -> int:
        """Emit an If instruction whose jump is patched later."""
        dst = self._register()
        self.builder.emit_call("vm.builtin.read_if_cond", [self._operand(cond, shared=True)], dst)
        return self.builder.emit_if(dst)

    def _branch(self, seq: SeqExpr, dst: Reg) -> None:
        before = dict(self._views)
        self._emit_bindings(_bindings(seq))
        self.builder.emit_call("vm.builtin.copy", [self._operand(seq.body)], dst)
        self._views = before

    # -------------------------------------------------------------------------------------- calls

    def _call(self, call: Call, dst: Reg | None) -> None:
        match call.op:
            case ExternFunc(name):
                if isinstance(self.mod.get(name), PrimFunc):
                    args = self._kernel_args(name, call.args)
                else:
                    effects = BUILTINS[name].effects if name in BUILTINS else UNKNOWN
                    args = [self._operand(arg, effects.only_reads(i)) for i, arg in enumerate(call.args)]
                if name in _VIEWS and dst is not None:
                    self._view(name, args, dst)
                else:
                    self.builder.emit_call(name, args, dst)
            case GlobalVar(name):
                if isinstance(self.mod.get(name), PrimFunc):
                    self._declare_kernel(name)
                    self.builder.emit_call(name, self._kernel_args(name, call.args), dst)
                else:
                    self.builder.emit_call(self._symbol(name), [self._operand(arg) for arg in call.args], dst)
            case _:
                callee = getattr(call.op, "name", type(call.op).__name__)
                self._refuse(f"the call of {callee} is not lowered", call)

    def _view(self, name: str, args: list[Operand], dst: Reg) -> None:
        """Emit a call of a builtin of `_VIEWS`, or a copy of the reference that an equal call has returned.

        Layers of a network place tensors of one shape at one offset of the arena; a copy takes a tenth of the time. The
        copy has a register of its own, because debug information names registers after variables.
        """
        made = self._views.setdefault((name, tuple(self._same.get(arg, arg) for arg in args)), dst)
        if made is dst:
            self.builder.emit_call(name, args, dst)
        else:
            self._same[dst] = made
            self.builder.emit_call("vm.builtin.copy", [made], dst)

    def _symbol(self, name: str) -> str:
        """Name of a module's function in the function table; packed functions keep their own name."""
        func = self.mod.get(name)
        return func.global_symbol if isinstance(func, ExternFunc) else name

    def _kernel_args(self, name: str, args: Sequence[RelaxExpr]) -> list[Operand]:
        """Operands of a kernel call; constants are shared with kernels that only read them."""
        if name not in self._written:
            self._written[name] = written_params(cast(PrimFunc, self.mod[name]))
        written = self._written[name]
        return [self._operand(arg, shared=i not in written) for i, arg in enumerate(args)]

    def _declare_kernel(self, name: str) -> int:
        if name not in self._kernels:
            info = InfoMaker().func(prim_func_struct_info(cast(PrimFunc, self.mod[name])))
            self._kernels[name] = self.builder.declare_function(name, "kernel", info)
        return self._kernels[name]

    # ----------------------------------------------------------------------------------- operands

    def _operand(self, expr: RelaxExpr, shared: bool = False) -> Operand:
        """Operand of a leaf expression; creates tuples, and copies constants unless `shared`."""
        match expr:
            case Var():
                return self._variable(expr)
            case Constant():
                return self._constant(expr, shared)
            case Tuple(fields):
                dst = self._register()
                self.builder.emit_call("vm.builtin.make_tuple", [self._operand(f) for f in fields], dst)
                return dst
            case ShapeExpr(values):
                return self._literal(ShapeTuple(tuple(self._number(value, expr) for value in values)))
            case PrimValue(value):
                return self._literal(self._number(value, expr))
            case StringImm(value):
                return self._literal(str(value))
            case DataTypeImm(value):
                return self._literal(ffi_dtype(str(value)))
            case GlobalVar(name):
                if isinstance(self.mod.get(name), PrimFunc):
                    return Func(self._declare_kernel(name))
                return self.builder.f(self._symbol(name))
            case ExternFunc(name):
                return self.builder.f(name)
            case _:
                kind = "a local function" if isinstance(expr, Function) else type(expr).__name__
                self._refuse(f"{kind} is left where a value is expected", expr)
                return Imm(0)

    def _variable(self, var: Var) -> Operand:
        operand = self._values.get(var)
        if operand is None:
            self._refuse(f"the variable {var.name_hint} is used where it has no value", var)
            return Imm(0)
        return operand

    def _literal(self, value: Any) -> Operand:
        return self.builder.convert_constant(value)

    def _number(self, value: PrimExpr, where: RelaxExpr) -> Any:
        match value:
            case IntImm(dtype, number):
                return bool(number) if dtype.is_bool else number
            case FloatImm(dtype, number):
                return round_number(number, dtype)
            case _:
                self._refuse("a shape computation is left; run VMShapeLower first", where)
                return 0

    def _constant(self, expr: Constant, shared: bool) -> Operand:
        entry = self.constants.get(id(expr))
        if entry is None:
            entry = self.constants[id(expr)] = expr, self.builder.convert_constant(expr.tensor)
        if shared:
            return entry[1]
        dst = self._register()
        self.builder.emit_call("vm.builtin.copy_tensor", [entry[1]], dst)
        return dst

    def _refuse(self, message: str, expr: RelaxExpr) -> None:
        hint = "the default pipeline lowers everything: relax.build(mod)"
        self.errors.append(Diagnostic(NOT_LOWERED, message, expr.span, f"in {self._name}", hint=hint))


def _is_bookkeeping(call: Call) -> bool:
    """True for calls that create internal shapes, sizes or memory, which no program variable holds."""
    builtin = BUILTINS.get(call.op.global_symbol) if isinstance(call.op, ExternFunc) else None
    return builtin is not None and builtin.internal


def _bindings(seq: SeqExpr) -> list[_Bound]:
    """Bindings of a sequence. A match_cast is an assignment: VMShapeLower has inserted its checks before it."""
    return [cast("_Bound", binding) for block in seq.blocks for binding in block.bindings]


def _count_uses(body: SeqExpr) -> dict[Var, int]:
    """Number of reads of each variable."""
    uses: dict[Var, int] = {}
    _add_uses(body, uses)
    return uses


def _add_uses(expr: RelaxExpr, uses: dict[Var, int]) -> None:
    match expr:
        case Var():
            uses[expr] = uses.get(expr, 0) + 1
        case Tuple(fields):
            for field in fields:
                _add_uses(field, uses)
        case TupleGetItem(source):
            _add_uses(source, uses)
        case Call(op, args):
            for child in (op, *args):
                _add_uses(child, uses)
        case If(cond, yes, no):
            for child in (cond, yes, no):
                _add_uses(child, uses)
        case SeqExpr():
            for binding in _bindings(expr):
                _add_uses(binding.value, uses)
            _add_uses(expr.body, uses)
        case _:
            pass


__all__ = ["NOT_LOWERED", "FuncInfo", "generate"]
