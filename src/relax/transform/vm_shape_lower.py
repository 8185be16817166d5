"""Make shapes ordinary values: match them at entry, compute them in compiled code, keep them in a shape heap.

Before   def main(x: R.Tensor(("n", 4), "float32")) -> R.Tensor((2 * n,), "float32"):
             alloc = R.call_packed("vm.builtin.alloc_tensor", R.shape([2 * n]), R.dtype("float32"))
             ...
             return alloc
After    def main(x):
             heap = R.call_packed("vm.builtin.alloc_shape_heap", 2, "n bound by x, dimension 0", "n * 2 from 0")
             _ = R.call_packed("vm.builtin.match", x, heap, "tensor", 2, R.dtype("float32"), 2, 1, 0, 0, 4,
                               "main: parameter x")
             _ = cls.shape_func(heap)                       # heap[1] = 2 * heap[0]
             s = R.call_packed("vm.builtin.make_shape", heap, 1, 1, 1)
             alloc = R.call_packed("vm.builtin.alloc_tensor", s, R.dtype("float32"))
             ...
             return alloc

Arguments are matched at function entry; the result before it is returned, where it is not known to fit. match_cast and
bindings annotated with more than is derived are checked where they stand. The checks are those of
``relax.analysis.matching``, the codes those of ``relax.runtime.match``.

The match_casts stay where they are, with their checks before them: they bind the variables that struct infos
mention, which is all that is left of those. To the bytecode generator they are assignments.

With `interpreted`, ``vm.builtin.compute_sizes(heap, "s0 2 * =1")`` is called in place of ``shape_func``.

An expression is computed where it is first needed; expressions that cannot fail are computed together, as early as
their variables are known.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import cast

from ..analysis.matching import Check, Subject, checks
from ..analysis.properties import NO_DATAFLOW, NO_LITERALS, NO_OPERATORS, NORMAL_FORM, SHAPES_LOWERED
from ..expr import (
    Binding,
    BindingBlock,
    Call,
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
from ..info.mapping import bound_in
from ..info.relations import is_base_of
from ..info.runtime import InfoMaker
from ..info.text import prim_text
from ..ir import BaseFunc, DataType, GlobalVar, IRModule, RelaxExpr, Span, StructInfo, listed_vdevices
from ..prim import FloatImm, IntImm, PrimExpr, free_vars
from ..prim import Var as PrimVar
from ..prim.arithmetic import wrap
from ..rewrite.rebuild import carry_info, same_or, with_info
from ..rewrite.rewriter import bindings_in
from ..runtime.match import ASSERT_IMM, LOAD_SLOT, STORE, STORE_SIZE
from ..runtime.sizes import is_size
from ..struct_info import (
    FuncStructInfo,
    ObjectStructInfo,
    PrimStructInfo,
    ShapeStructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from .decorators import module_pass
from .remove_purity_checking import force_pure
from .shape_code import ExprTable, ShapeCode
from .shape_needs import all_dims, shape_needs
from .shape_trust import claim, guaranteed, name_of, same_kind
from .shared_checks import OnceEach, is_shared, shared_dims, table_of
from .size_words import size_code
from .vdevice_operand import VDeviceOperands

LOWERED = "relax.shapes_lowered"
"""The attribute of a function that this pass has lowered; it is left alone when met again."""

_UNIT = TupleStructInfo(())
_OBJECT = ObjectStructInfo()


@module_pass(needs={NORMAL_FORM, NO_DATAFLOW, NO_LITERALS, NO_OPERATORS}, gives={SHAPES_LOWERED}, breaks=())
def VMShapeLower(mod: IRModule, *, emit_err_ctx: bool = True, interpreted: bool = False) -> IRModule:
    """Lower shape variables, shape values and run-time checks; see the module's docstring.

    With `interpreted`, the machine interprets size arithmetic where it can (``vm.builtin.compute_sizes``), in place of
    kernels. `emit_err_ctx` is TVM's option; a failed check names what it checked whatever is said here.
    """
    code = ShapeCode({g.name_hint for g in mod.functions})
    captured = _captured(mod)
    devices = VDeviceOperands(listed_vdevices(mod))
    functions: dict[GlobalVar, BaseFunc] = {}
    for global_var, function in mod.functions.items():
        if isinstance(function, Function) and not function.attrs.get(LOWERED):
            name = global_var.name_hint
            function = _FunctionLowering(name, code, captured.get(name, 0), devices, interpreted).lower(function)
        functions[global_var] = function
    return mod.with_functions({**functions, **code.functions})


def _captured(mod: IRModule) -> dict[str, int]:
    """For functions that closures are made of, how many parameters, the last ones, hold what is captured."""
    counts: dict[str, int] = {}

    for function in mod.functions.values():
        for binding in bindings_in(function) if isinstance(function, Function) else ():
            match binding.value:
                case Call(ExternFunc("vm.builtin.make_closure"), (GlobalVar(name), *values)):
                    counts[name] = max(len(values), counts.get(name, 0))
                case _:
                    pass
    return counts


class _FunctionLowering:
    """Lowers one function."""

    def __init__(self, name: str, code: ShapeCode, captured: int, devices: VDeviceOperands, interpreted: bool) -> None:
        self.name = name
        self.interpreted = interpreted
        self.code = code
        self.devices = devices
        self.captured = captured
        self.heap = Var("shape_heap")
        self.floats = Var("shape_floats")
        """The heap as float64. As its size is known last, both variables get their struct info then."""
        self.uses_floats = False
        self.slots: dict[PrimVar, int] = {}
        self.computed: ExprTable[int] = ExprTable()
        """The slots of expressions; whether they hold values here is said by `ready`."""
        self.notes: list[str] = []
        self.ready: set[int] = set()
        """Slots that hold their values at the current place."""
        self.shapes: ExprTable[Var] = ExprTable()
        """Shape values made already, and visible here."""
        self.scalars: ExprTable[Var] = ExprTable()
        """Scalar values, likewise."""
        self.bindings: list[Binding] = []
        self.span: Span | None = None
        """The span of the binding being lowered."""
        self.later: list[PrimExpr] = []
        """Expressions the function needs somewhere, each once, which cannot fail."""

    def lower(self, func: Function) -> Function:
        self.code.begin()
        body = cast(SeqExpr, func.body)
        self.later = shape_needs(func)
        given = len(func.params) - self.captured
        self._enter((*func.params[given:], *func.params[:given]))
        self._blocks(body)
        self.span = body.body.span
        result = self._leaf(body.body)
        self._check_result(func, body, result)
        entry = self._allocate_heap()
        block = BindingBlock((*entry, *self.bindings))
        self.code.finish(len(self.notes))
        info = body.struct_info_ or _OBJECT
        blocks = (block,) if block.bindings else ()
        new = with_info(SeqExpr(blocks, result, span=body.span), info)
        lowered = func.replace(body=new, attrs={**func.attrs, LOWERED: True})
        return carry_info(func, force_pure(lowered) if block.bindings else lowered)

    def _allocate_heap(self) -> list[Binding]:
        """The first bindings: they are made last, when the number of slots is known."""
        if not self.notes:
            return []
        size = len(self.notes)
        bindings: list[Binding] = []

        def bind(var: Var, name: str, args: Sequence[RelaxExpr], dtype: str) -> None:
            info = TensorStructInfo((size,), dtype)
            call = Call(ExternFunc(name), tuple(args), None, (info,))
            bindings.append(VarBinding(with_info(var, info), with_info(call, info)))

        notes = map(StringImm, self.notes)
        bind(self.heap, "vm.builtin.alloc_shape_heap", [PrimValue(size), *notes], "int64")
        if self.uses_floats:
            bind(self.floats, "vm.builtin.shape_heap_floats", [self.heap], "float64")
        return bindings

    # ---------------------------------------------------------------------------- entry and exit

    def _enter(self, params: Sequence[Var]) -> None:
        """Match the parameters. What a closure captured was known before it is called, and comes first."""
        self._match(
            (param, param.struct_info_ or _OBJECT, f"parameter {param.name_hint}", param.name_hint) for param in params
        )

    def _match(self, values: Iterable[tuple[RelaxExpr, StructInfo, str, str]], guarantee: StructInfo = _OBJECT) -> None:
        """Match values against struct infos; what they are in messages, and in those about variables that they bind."""
        subjects = {Subject(info, f"{self.name}: {role}", name): value for value, info, role, name in values}
        _MatchLowering(self, subjects, guarantee).write()

    def _check_result(self, func: Function, body: SeqExpr, result: RelaxExpr) -> None:
        """Compare the result where neither its info nor what erasure leaves of it proves that it fits.

        For tensors the second proves nothing more. Of functions erasure forgets what their parameters ask for, and
        what is derived by the rules of the language is not compared, here as in the interpreter.
        """
        expected = func.ret_struct_info
        infos = (item.struct_info_ or _OBJECT for item in (body.body, body))
        if expected is None or any(is_base_of(expected, info) for info in infos):
            return
        self._match([(result, expected, "result", "the result")])

    # -------------------------------------------------------------------------- blocks, bindings

    def _blocks(self, seq: SeqExpr) -> None:
        for block in seq.blocks:
            for binding in block.bindings:
                self._binding(binding)

    def _binding(self, binding: Binding) -> None:
        self.span = binding.value.span or binding.span if isinstance(binding, VarBinding | MatchCast) else None
        if isinstance(binding, MatchCast):
            value = self._leaf(binding.value)
            name, guarantee = name_of(binding.value), binding.value.struct_info_ or _OBJECT
            binds = not all(map(self.is_bound, bound_in(binding.struct_info)))
            if binds or not is_base_of(binding.struct_info, guarantee):
                self._match([(value, binding.struct_info, f"match_cast of {name}", name)], guarantee)
            self.bindings.append(binding if value is binding.value else binding.replace(value=value))
            return
        assert isinstance(binding, VarBinding)
        value = self._value(binding.value)
        self.bindings.append(binding if value is binding.value else binding.replace(value=value))
        var = binding.var
        claimed = var.struct_info_ or _OBJECT
        guarantee, declared = guaranteed(binding.value), binding.value.struct_info_ or _OBJECT
        if not is_base_of(declared, claimed) and not is_base_of(declared, guarantee):
            # A packed function is held to what its call declares, though the variable's annotation says less.
            self._match([(var, declared, claim(binding), var.name_hint)])
            guarantee = declared
        if not is_base_of(claimed, guarantee):
            self._match([(var, claimed, claim(binding), var.name_hint)])

    def _value(self, value: RelaxExpr) -> RelaxExpr:
        match value:
            case If(cond, yes, no):
                return self._if(value, self._leaf(cond), cast(SeqExpr, yes), cast(SeqExpr, no))
            case Call(op, args):
                new_op, new_args = self._leaf(op), tuple(self._leaf(arg) for arg in args)
                return carry_info(value, value.replace(op=new_op, args=new_args))
            case TupleGetItem(source):
                return carry_info(value, value.replace(tuple_value=self._leaf(source)))
            case _:
                return self._leaf(value)

    def _if(self, value: If, cond: RelaxExpr, yes: SeqExpr, no: SeqExpr) -> RelaxExpr:
        return carry_info(value, value.replace(cond=cond, true_branch=self._branch(yes), false_branch=self._branch(no)))

    def _branch(self, seq: SeqExpr) -> SeqExpr:
        """Lower a branch; slots it computes are forgotten after it."""
        outer, self.bindings = self.bindings, []
        ready, shapes, scalars = set(self.ready), self.shapes.copy(), self.scalars.copy()
        self._blocks(seq)
        body = self._leaf(seq.body)
        block = BindingBlock(tuple(self.bindings))
        self.bindings, self.ready, self.shapes, self.scalars = outer, ready, shapes, scalars
        new = SeqExpr((block,) if block.bindings else (), body, span=seq.span)
        return with_info(new, seq.struct_info_ or _OBJECT)

    # ------------------------------------------------------------------------------------ leaves

    def _leaf(self, leaf: RelaxExpr) -> RelaxExpr:
        match leaf:
            case Tuple(fields):
                new = same_or(fields, [self._leaf(field) for field in fields])
                return leaf if new is fields else carry_info(leaf, Tuple(new, span=leaf.span))
            case ShapeExpr(values) if not all(isinstance(value, IntImm) and is_size(value.value) for value in values):
                return self._shape(leaf)
            case PrimValue(value) if not isinstance(value, IntImm | FloatImm):
                return self._prim_value(leaf)
            case _:
                return leaf

    def _shape(self, shape: ShapeExpr) -> Var:
        cached = self.shapes.get(*shape.values)
        if cached is not None:
            return cached
        self.compute(shape.values)
        codes = [self._code(value) for value in shape.values]
        heap = self.heap if any(code == LOAD_SLOT for code, _ in codes) else PrimValue(0)
        args = [heap, PrimValue(len(codes)), *(PrimValue(number) for code in codes for number in code)]
        var = self.call("vm.builtin.make_shape", args, ShapeStructInfo(shape.values), "shape")
        self.shapes.put(var, *shape.values)
        return var

    def _code(self, value: PrimExpr) -> tuple[int, int]:
        """(USE_IMM, number) or (LOAD_SLOT, slot); they are numbered as (ASSERT_IMM, STORE)."""
        return (ASSERT_IMM, value.value) if isinstance(value, IntImm) else (LOAD_SLOT, self.slot_of(value))

    def _prim_value(self, expr: PrimValue) -> Var:
        value = expr.value
        cached = self.scalars.get(value)
        if cached is not None:
            return cached
        self.compute([value])
        args = [self.heap, PrimValue(LOAD_SLOT), PrimValue(self.slot_of(value)), DataTypeImm(value.dtype)]
        var = self.call("vm.builtin.make_prim_value", args, PrimStructInfo(value=value), "value")
        self.scalars.put(var, value)
        return var

    # ------------------------------------------------------------------------------------- slots

    def call(self, name: str, args: Sequence[RelaxExpr], info: StructInfo, hint: str = "_") -> Var:
        """Emit a call of a builtin."""
        value = with_info(Call(ExternFunc(name), tuple(args), None, (info,), span=self.span), info)
        var = with_info(Var(hint), info)
        self.bindings.append(VarBinding(var, value))
        return var

    def define(self, var: PrimVar, origin: str) -> int:
        """The slot of a shape variable that is bound here."""
        slot = self._new_slot(f"{_noted(var, var.name)} bound by {origin}")
        self.slots[var] = slot
        self.ready.add(slot)
        return slot

    def is_bound(self, var: PrimVar) -> bool:
        """True if a shape variable has a value here."""
        return self.slots.get(var) in self.ready

    def _new_slot(self, note: str) -> int:
        self.notes.append(note)
        return len(self.notes) - 1

    def slot_of(self, value: PrimExpr) -> int:
        """The slot in which a variable or expression is kept; it need not hold the value yet."""
        if isinstance(value, PrimVar):
            return self.slots[value]
        cached = self.computed.get(value)
        if cached is not None:
            return cached
        sources = " ".join(str(self.slots[var]) for var in free_vars(value))
        slot = self._new_slot(f"{_noted(value, prim_text(value))} from {sources}")
        self.computed.put(slot, value)
        return slot

    def compute(self, values: Sequence[PrimExpr]) -> None:
        """Have compiled code fill the slots of expressions that are not there yet.

        With them, whatever else the function will need, has its variables, and cannot fail.
        """
        if not any(self._is_missing(value) for value in values):
            return
        wanted = [value for value in (*values, *self.later) if self._is_missing(value)]
        ready = [value for value in wanted if all(map(self.is_bound, free_vars(value)))]
        stores: dict[int, PrimExpr] = {}
        for value in ready:
            stores.setdefault(self.slot_of(value), value)
        self.ready.update(stores)
        code = size_code(stores, self.slots) if self.interpreted else None
        if code is not None:
            self.call("vm.builtin.compute_sizes", [self.heap, StringImm(code)], _UNIT)
            return
        called = self.code.function(stores, self.slots)
        args: list[RelaxExpr] = [self.heap]
        if called.has_floats:
            args.append(self.floats)
            self.uses_floats = True
        value = with_info(Call(called.global_var, tuple(args), span=self.span), _UNIT)
        self.bindings.append(VarBinding(with_info(Var("_"), _UNIT), value))

    def _is_missing(self, value: PrimExpr) -> bool:
        if isinstance(value, IntImm | FloatImm | PrimVar):
            return False
        return self.computed.get(value) not in self.ready


# ------------------------------------------------------------------------------------ matching values


class _MatchLowering:
    """Writes the checks of values that are matched together as calls of builtins."""

    def __init__(self, lowering: _FunctionLowering, values: dict[Subject, RelaxExpr], guarantee: StructInfo) -> None:
        self.lowering = lowering
        self.values = values
        self.known = guarantee
        """The struct info guaranteed of each value already."""

    def write(self) -> None:
        """All checks of the values."""
        shared = {subject for subject in self.values if is_shared(subject.info)}
        waiting = set(shared)
        for check in checks(tuple(self.values), self.lowering.is_bound, OnceEach(shared) if shared else None):
            subject, info = check.subject, check.subject.info
            if shared and not check.binding and (whole := subject.outermost()) in shared:
                if whole in waiting:
                    waiting.remove(whole)
                    self._match_parts(whole)
                continue
            if check.codes or not same_kind(info, self._guaranteed(subject)):
                self._match(check)
            if isinstance(info, TensorStructInfo) and isinstance(info.shape, Var):
                self._call("vm.builtin.match_shape_value", subject, info.shape)
            if isinstance(info, FuncStructInfo):
                self._check_func(subject, info)
        for subject in self.values:
            if subject in waiting:  # in the first round all of its variables were bound, where each stands first
                self._match_parts(subject)

    def _guaranteed(self, subject: Subject) -> StructInfo:
        """The struct info guaranteed of a value or a field: no more than before the match, as the shape variables of
        the value may not be bound yet.
        """
        return self.known if subject.whole is None else _field_of(self._guaranteed(subject.whole), subject.index)

    def _value(self, subject: Subject) -> RelaxExpr:
        """A value, or a field, which is taken out of its tuple where it is first needed."""
        whole = subject.whole
        if whole is not None and subject not in self.values:
            source, index = self._value(whole), subject.index
            self.values[subject] = source.fields[index] if isinstance(source, Tuple) else self._field(source, index)
        return self.values[subject]

    def _field(self, source: RelaxExpr, index: int) -> Var:
        info = _field_of(source.struct_info_, index)
        field = with_info(Var("field"), info)
        self.lowering.bindings.append(VarBinding(field, with_info(TupleGetItem(source, index), info)))
        return field

    def _match(self, check: Check) -> None:
        info, kind = check.subject.info, check.subject.kind()
        if kind is None:
            return
        name, size, dtype = kind
        required: RelaxExpr = StringImm(name)
        if isinstance(info, TensorStructInfo) and info.vdevice is not None:
            where = f"in {self.lowering.name}"
            required = self.lowering.devices.operand(info.vdevice, self.lowering.span, where)
        dims = [operand for _, operand in check.codes if isinstance(operand, PrimExpr)]
        self.lowering.compute(dims)
        heap = self.lowering.heap if dims else PrimValue(0)
        codes = [PrimValue(number) for axis in range(len(check.codes)) for number in self._code(check, axis)]
        count = PrimValue(len(check.codes))
        self._call(
            "vm.builtin.match", check.subject, heap, required, PrimValue(size), DataTypeImm(dtype), count, *codes
        )

    def _match_parts(self, subject: Subject) -> None:
        """Match a value by a table of its struct infos."""
        dims = shared_dims(subject.info)
        self.lowering.compute(dims)
        heap = self.lowering.heap if dims else PrimValue(0)
        self._call("vm.builtin.match_parts", subject, heap, StringImm(table_of(subject, self._code)))

    def _code(self, check: Check, axis: int) -> tuple[int, int | float]:
        """A code, and a slot or a constant as an int64: that of a uint64 is read as one."""
        code, operand = check.codes[axis]
        if code in (STORE, STORE_SIZE):
            return code, self.lowering.define(cast(PrimVar, operand), check.origin(axis))
        if isinstance(operand, PrimExpr):
            return code, self.lowering.slot_of(operand)
        return code, wrap(operand, DataType("int64")) if isinstance(operand, int) else operand

    def _check_func(self, subject: Subject, info: FuncStructInfo) -> None:
        def is_computable(dim: PrimExpr) -> bool:
            return not isinstance(dim, IntImm | FloatImm) and all(map(self.lowering.is_bound, free_vars(dim)))

        def resolve(dim: PrimExpr) -> tuple[str, int] | None:
            return ("slot", self.lowering.slot_of(dim)) if is_computable(dim) else None

        computable = [dim for dim in all_dims(info) if is_computable(dim)]
        self.lowering.compute(computable)
        description = f"the function type of {subject.name}"
        text = InfoMaker(resolve).checked_text(info, description, self.lowering.span)
        heap = self.lowering.heap if computable else PrimValue(0)
        self._call("vm.builtin.check_func_info", subject, heap, StringImm(text))

    def _call(self, name: str, subject: Subject, *args: RelaxExpr) -> None:
        """Call a check of the value, which begins its messages with the last argument."""
        self.lowering.call(name, [self._value(subject), *args, StringImm(subject.context)], _UNIT)


def _field_of(info: StructInfo | None, index: int) -> StructInfo:
    return info.fields[index] if isinstance(info, TupleStructInfo) else _OBJECT


def _noted(value: PrimExpr, text: str) -> str:
    """The words for a value in a slot's note: see `relax.runtime.heap`."""
    return text if value.dtype == "int64" and ": " not in text else f"{value.dtype!s}: {text}"
