"""Write inferred virtual devices (`vdevices`) into the program: the rewriting half of propagation.

It stands below the passes, since it is part of what a program means: the interpreter needs it as well.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from ..derive.normalize import normalize_module
from ..expr import Call, Constant, Function, MatchCast, SeqExpr, Var, VarBinding
from ..ir import (
    BaseFunc,
    DiagnosticError,
    GlobalVar,
    IRModule,
    Node,
    RelaxExpr,
    StructInfo,
    VDevice,
    listed_vdevices,
    same_vdevice,
    set_slot,
)
from ..op.base import operator_of
from ..op.intrinsics import HintOnDevice, Placing, ToVDevice
from ..rewrite import Rewriter
from ..struct_info import TensorStructInfo, TupleStructInfo
from .vdevices import Location, Placement, Places, place_vdevices, placed


def realize_vdevices(mod: IRModule) -> IRModule:
    """Return the module with all implied devices written out; itself if there are none.

    Struct infos of parameters, results, calls and casts name devices; hints are gone, or have become copies; constants
    and tensors made from nothing are moved to where they are used. Raises DiagnosticError for what is on two devices
    at once, for devices the module does not list, and for what normalisation finds.
    """
    if not listed_vdevices(mod):
        return mod
    mod = normalize_module(mod)
    placement = place_vdevices(mod)
    if placement.diagnostics:
        raise DiagnosticError(placement.diagnostics)
    functions = {g: f for g, f in mod.functions.items() if isinstance(f, Function)}
    signatures = mod.with_functions({**mod.functions, **_signatures(functions, placement)})
    realizer = _Realizer(signatures, placement)
    new: dict[GlobalVar, BaseFunc] = {g: realizer.rewrite_function(f) for g, f in functions.items()}
    return normalize_module(mod.with_functions({g: new.get(g, f) for g, f in mod.functions.items()}))


def _signatures(functions: dict[GlobalVar, Function], placement: Placement) -> dict[GlobalVar, BaseFunc]:
    """The functions, with their new signatures, from which calls are derived while bodies are rewritten."""
    signatures: dict[GlobalVar, BaseFunc] = {}
    for global_var, function in functions.items():
        places = placement.functions[function]
        infos = [placed(param.struct_info, place) for param, place in zip(function.params, places.params, strict=True)]
        ret = None if function.ret_struct_info is None else placed(function.ret_struct_info, places.ret)
        same = all(info is param.struct_info for info, param in zip(infos, function.params, strict=True))
        if ret is not None and not (same and ret is function.ret_struct_info):
            # A parameter that is the same stays, as it may hold the shape of another.
            params = [
                param if info is param.struct_info else Var(param.name_hint, info)
                for param, info in zip(function.params, infos, strict=True)
            ]
            signatures[global_var] = Function.create_empty(params, ret, function.is_pure, function.attrs)
    return signatures


class _Realizer(Rewriter):
    """Rewrites functions as a placement says."""

    def __init__(self, mod: IRModule, placement: Placement) -> None:
        super().__init__(mod)
        self.placement = placement
        self.owner: Node = mod
        self.next_constant = 0

    @contextmanager
    def owned(self, owner: Node) -> Generator[None]:
        """While the parts of what a variable is bound to, or the body of a sequence, are visited."""
        outer = self.owner, self.next_constant
        self.owner, self.next_constant = owner, 0
        try:
            yield
        finally:
            self.owner, self.next_constant = outer

    # -- functions and variables

    def function(self, function: Function) -> RelaxExpr:
        places = self.placement.functions[function]
        ret = function.ret_struct_info
        new_ret = None if ret is None else placed(ret, places.ret)
        return super().function(function.replace(ret_struct_info=new_ret))

    def define(self, var: Var) -> Var:
        new = super().define(var)
        info = new.struct_info_
        placed_info = info if info is None else placed(info, self.places(var))
        if placed_info is info:
            return new
        new = type(var)(var.name_hint, placed_info if var.annotation is not None else None, span=var.span)
        set_slot(new, "_struct_info", placed_info)
        return new

    def places(self, var: Var) -> Places:
        return self.placement.variables.get(var)

    # -- bindings

    def seq(self, seq: SeqExpr) -> RelaxExpr:
        with self.owned(seq):
            return super().seq(seq)

    def var_binding(self, binding: VarBinding) -> None:
        with self.owned(binding.var):
            super().var_binding(binding)

    def bind(self, binding: VarBinding, value: RelaxExpr, var: Var | None = None) -> Var:
        places = self.places(binding.var)
        if isinstance(value, Call) and isinstance(places, Location) and places.vdevice is not None:
            value = self.made_at(value, places.vdevice)
        return super().bind(binding, value, var)

    def made_at(self, value: Call, vdevice: VDevice) -> RelaxExpr:
        """The call, with a result on the device: operators on no tensors, or on constants, make it there."""
        info, operator = value.struct_info, operator_of(value)
        if operator is None or value.sinfo_args or not isinstance(info, TensorStructInfo) or info.vdevice is not None:
            return value
        return self.moved(self.builder.emit(value), vdevice)

    def moved(self, value: RelaxExpr, vdevice: VDevice) -> RelaxExpr:
        call = ToVDevice(vdevice).call(value)
        return self.builder.normalize(call.replace(span=value.span))

    def match_cast(self, binding: MatchCast) -> None:
        info = placed(binding.struct_info, self.places(binding.var))
        with self.owned(binding.var):
            super().match_cast(binding.replace(struct_info=info))

    # -- expressions

    def leaf(self, expr: RelaxExpr) -> RelaxExpr:
        if not isinstance(expr, Constant):
            return super().leaf(expr)
        places = self.placement.constants[self.owner]
        location = places[self.next_constant]
        self.next_constant += 1
        vdevice = None if location is None else location.vdevice
        return expr if vdevice is None else self.builder.emit(self.moved(expr, vdevice))

    def call(self, call: Call) -> RelaxExpr:
        operator = operator_of(call)
        places = self.places(self.owner) if isinstance(self.owner, Var) else None
        new = super().call(call.replace(sinfo_args=_results(call.sinfo_args, places)))
        if isinstance(operator, Placing) and isinstance(new, Call):
            data = new.args[0]
            info = data.struct_info
            if isinstance(info, TensorStructInfo) and same_vdevice(info.vdevice, operator.dst_vdevice):
                return data
            if isinstance(operator, HintOnDevice):
                return ToVDevice(operator.dst_vdevice).call(data).replace(span=call.span)
        old_info = call.struct_info
        if new is call and placed(old_info, places) is not old_info:  # the callee says more than it did
            return Call(call.op, call.args, call.attrs, call.sinfo_args, span=call.span)
        return new


def _results(infos: tuple[StructInfo, ...], places: Places) -> tuple[StructInfo, ...]:
    """The struct infos that a call declares of its result: none, one, or one for each field of a tuple."""
    if len(infos) == 1:
        new = placed(infos[0], places)
        return infos if new is infos[0] else (new,)
    together = placed(TupleStructInfo(infos), places)
    assert isinstance(together, TupleStructInfo)
    return together.fields
