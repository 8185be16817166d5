"""Translate a lowered Relax function to one host PrimFunc: its compiled form.

Before   def main(x):
             heap = R.call_packed("vm.builtin.alloc_shape_heap", 1, "n bound by x, dimension 0")
             _ = R.call_packed("vm.builtin.match", x, heap, "tensor", 1, R.dtype("float32"), 1, 1, 0, "main: …")
             s = R.call_packed("vm.builtin.make_shape", heap, 1, 1, 0)
             alloc = R.call_packed("vm.builtin.alloc_tensor", s, R.dtype("float32"))
             _ = cls.relu(x, alloc)
             return alloc
After    def __vmtir__main(r: T.handle, c: T.handle):
             heap = T.alloc_buffer((1,), "int64")
             if not T.cell_fits("tensor", r[0], T.address_of(heap[0]), 0, 1, "float32", 1, 1, 0):
                 T.anylist_setitem_call_packed(…, "vm.builtin.match", …)
             if T.cell_fits("tensor", r[2], 0, c[2], 1, "float32", 0) and T.cell_dim(r[2], 0) == heap[0]:
                 T.anylist_setitem(r, 3, r[2])
             else:
                 T.cell_alloc(r[3], c[12], c[2], "float32", heap[0])
             T.kernel_call("relu", T.cell_data(r[0]), T.cell_data(r[3]), heap[0])
             T.anylist_setitem(r, 1, r[3])

(`r[0]` stands for ``T.anylist_getitem(r, 0)``.) The registers `r` hold the parameters, then the result, then memory
that the caller of an entry point provides for results, if any, then intermediate values; each is emptied after its last
use. The table `c` holds the program's constants, functions and devices.

The function executes the operations of the bytecode, in the same order. A call of a builtin with an expansion
(`host_builtins`) becomes a condition under which the builtin has no effect, or a cell intrinsic with the same effect;
otherwise the builtin itself is called. Errors therefore have the same text and class. Every other function is called in
packed form. Calls of kernels and of other compiled functions are direct; kernels are called without argument checks if
that is safe (`direct_calls`).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Final, TypeAlias, cast

from ..expr import (
    Call,
    Constant,
    DataTypeImm,
    ExternFunc,
    Function,
    If,
    PrimValue,
    SeqExpr,
    ShapeExpr,
    StringImm,
    Tuple,
    TupleGetItem,
    Var,
)
from ..info.runtime import InfoMaker
from ..ir import GlobalVar, IRModule, RelaxExpr
from ..prim import NE, FloatImm, IntImm, Not, PrimExpr
from ..prim import StringImm as TextImm
from ..prim import Var as PrimVar
from ..prim import cast as prim_cast
from ..prim.cells import DEEPER, OUTPUTS, PARAMETERS, PLACE, REGISTERS, cell_call
from ..prim.intrin import address_of
from ..runtime.builtin_table import BUILTINS, UNKNOWN
from ..runtime.compiled import (
    COMPILED_PREFIX,
    FIRST_DEVICE,
    IMPORT_RESULT,
    NOTES_END,
    given_results,
    place_text,
)  # fmt: skip
from ..runtime.dtypes import ffi_dtype
from ..runtime.rounding import round_number
from ..tir import (
    AllocBuffer,
    AttrStmt,
    Buffer,
    BufferLoad,
    BufferStore,
    DeclBuffer,
    Evaluate,
    IfThenElse,
    PrimFunc,
    Stmt,
    written_params,
)
from ..tir.functor import substitute
from ..tir.statements import conjunction, seq_of
from .direct_calls import DirectCall, TensorArgument, direct_call
from .heap_slots import Slots
from .host_flow import Bound, last_uses, makes_heap, result_allocations
from .host_values import (
    Dims,
    Fields,
    HostValue,
    Memory,
    Number,
    Register,
    Registers,
    TableCell,
    TensorFacts,
)  # fmt: skip
from .program_table import ProgramTable

MOST_CONDITIONAL: Final = 16
"""Maximum number of kernel calls in a function written in both forms with a condition. Beyond it, checks hardly matter,
and the code would take several times as long to compile.
"""
HEAP_BUILTIN: Final = "vm.builtin.on_heap"
_MAKE_ARRAY: Final = "ffi.Array"


Form: TypeAlias = "Callable[[HostFunction, Call], HostValue]"
"""Writes the expansion of a builtin call."""


class HostFunction:
    """Compiler of one function. The `forms` of builtins (`host_builtins`) use its public methods."""

    def __init__(self, mod: IRModule, table: ProgramTable, compiled: frozenset[str], forms: Mapping[str, Form]) -> None:
        self.mod = mod
        self.table = table
        self.compiled = compiled
        self._forms = forms
        self.name = ""
        self.r, self.c = PrimVar("r", "handle"), PrimVar("c", "handle")
        self.heap: Buffer | None = None
        self.floats: Buffer | None = None
        self.heap_var: Var | None = None
        self.notes = -1
        self.slots = Slots()
        self._checked: dict[Var, TensorFacts] = {}
        """The facts of variables that have been checked to be tensors."""
        self._params: frozenset[Var] = frozenset()
        self._given: dict[int, int] = {}
        """The allocations of results, by identity, for which a caller may give memory, and the positions of those."""
        self._allocations = 0
        self._conditional = 0
        """The calls of kernels that could be by address under a condition."""
        self.registers = Registers(0)
        self._values: dict[Var, HostValue] = {}
        self._out: list[Stmt] = []
        self._location = ""
        self._written: dict[str, frozenset[int]] = {}
        self._cells: dict[tuple[PrimVar, int], PrimExpr] = {}
        """The cells, by list and position: most occur several times."""

    def compile(self, name: str, func: Function) -> PrimFunc:
        """Compile a lowered function."""
        self.name = name
        self._params = frozenset(func.params)
        count = len(func.params)
        outputs = given_results(InfoMaker().info(func.ret_struct_info)) if "global_symbol" in func.attrs else 0
        self._given = result_allocations(func, outputs)
        self.registers = Registers(count + 1 + outputs)
        for index, param in enumerate(func.params):
            self._values[param] = Register(index)
            self.registers.hold(Register(index))
        if self._given:
            self.emit(cell_call("anylist_keep_apart", self.r, count, outputs))
        body = cast(SeqExpr, func.body)
        self._sequence(body, lambda value: self.set(count, value), True, func.params)
        stmt = seq_of(self._out)
        if self.floats is not None:
            stmt = DeclBuffer(self.floats, stmt)
        if self.heap is not None:
            stmt = AllocBuffer(self.heap, stmt)
        attrs = {
            "global_symbol": name,
            "tir.is_host_func": True,
            DEEPER: self.table.function(name),
            REGISTERS: self.registers.count,
            PARAMETERS: [param.name_hint for param in func.params],
        }
        if outputs:
            attrs[OUTPUTS] = outputs
        return PrimFunc((self.r, self.c), body=stmt, attrs=attrs, span=func.span)

    def given_memory(self, call: Call) -> int | None:
        """Register of the output memory that the caller may provide for an allocation; None if there is none."""
        position = self._given.get(id(call))
        return None if position is None else len(self._params) + 1 + position

    # ------------------------------------------------------------------------- sequences, bindings

    def _sequence(
        self, seq: SeqExpr, finish: Callable[[HostValue], None], tail: bool, params: Sequence[Var] = ()
    ) -> None:
        """Compile bindings, then apply `finish` to the value; variables are released after their last use."""
        bindings = [cast("Bound", binding) for block in seq.blocks for binding in block.bindings]
        ends = last_uses(bindings, seq.body, params)
        for i, binding in enumerate(bindings):
            span = binding.value.span or binding.span
            self._location = "" if span is None else str(span)
            fresh = self.registers.begin()
            if isinstance(binding.value, Call) and makes_heap(binding.value):
                self.heap_var = binding.var
            value = self._value(binding.value, tail and i == len(bindings) - 1 and binding.var is seq.body)
            self._values[binding.var] = value
            self.registers.hold(value)
            self._empty(self.registers.settle(fresh))
            for var in ends[i]:
                self._empty(self.registers.drop(self._values[var]))
        self._location = "" if seq.body.span is None else str(seq.body.span)
        fresh = self.registers.begin()
        with self.placed(""):
            finish(self._operand(seq.body))
        self._empty(self.registers.settle(fresh))
        for var in ends[-1]:
            self._empty(self.registers.drop(self._values[var]))

    def _empty(self, registers: Sequence[int]) -> None:
        for index in registers:
            self.emit(cell_call("anylist_resetitem", self.r, index))

    def _value(self, value: RelaxExpr, tail: bool) -> HostValue:
        match value:
            case If():
                return self._if(value, tail)
            case Call():
                return self._call(value, tail)
            case TupleGetItem(source, index):
                with self.placed("vm.builtin.tuple_getitem"):
                    return self._field(self._operand(source), index)
            case _:
                with self.placed(""):
                    return self._operand(value)

    def _field(self, source: HostValue, index: int) -> HostValue:
        if isinstance(source, Fields) and index < len(source.fields):
            return source.fields[index]
        to = self.registers.take()
        fetched = cell_call("cell_field", self.at(to), self.cell(source), index)
        self.otherwise(fetched, lambda: self.packed("vm.builtin.tuple_getitem", [source, self.integer(index)], to))
        return Register(to)

    def _if(self, value: If, tail: bool) -> HostValue:
        to = self.registers.take()
        with self.placed("vm.builtin.read_if_cond"):
            test = self._truth(self._operand(value.cond, shared=True))
        arms: list[Stmt] = []
        for branch in (value.true_branch, value.false_branch):
            checked, self._checked, sizes = self._checked, dict(self._checked), self.slots.sizes()
            with self.apart() as out:
                self._sequence(cast(SeqExpr, branch), lambda branch_value: self.set(to, branch_value), tail)
            self._checked = checked
            self.slots.restore(sizes)
            arms.append(seq_of(out))
        self._out.append(IfThenElse(test, *arms))
        return Register(to)

    def _truth(self, cond: HostValue) -> PrimExpr:
        if isinstance(cond, Number) and cond.kind is None and cond.payload.dtype.is_bool:
            return cond.payload
        held = self.cell(cond)
        to = self.registers.take()
        truth = prim_cast("int64", cell_call("cell_truth", held))
        self.emit(cell_call("anylist_setitem", self.r, to, cell_call("cell_value", 1, truth)))
        clear = NE(cell_call("cell_payload", self.at(to)), IntImm("int64", 2))
        self.otherwise(clear, lambda: self.packed("vm.builtin.read_if_cond", [cond], to))
        return NE(cell_call("cell_payload", self.at(to)), IntImm("int64", 0))

    # -------------------------------------------------------------------------------------- calls

    def _call(self, call: Call, tail: bool) -> HostValue:
        name = call.op.name_hint if isinstance(call.op, GlobalVar) else cast(ExternFunc, call.op).global_symbol
        callee = self.mod.get(name)
        if isinstance(callee, ExternFunc):
            name, callee = callee.global_symbol, self.mod.get(callee.global_symbol)
        if isinstance(callee, PrimFunc):
            return self._kernel(call, name, callee)
        if isinstance(callee, Function):
            args = [self._operand(arg) for arg in call.args]
            with self.placed("", located=not tail):
                return self._relax(name, args, tail)
        form = self._forms.get(name)
        effects = BUILTINS[name].effects if name in BUILTINS else UNKNOWN
        foreign = BUILTINS[name].program_errors if name in BUILTINS else True
        with self.placed(name, foreign):
            if form is not None:
                return form(self, call)
            args = [self._operand(arg, effects.only_reads(i)) for i, arg in enumerate(call.args)]
            return self.call_packed(name, self.with_device(name, call, args), imported=name not in BUILTINS)

    def _kernel(self, call: Call, name: str, kernel: PrimFunc) -> HostValue:
        if kernel.attrs.get("tir.is_host_func") and call.args and call.args[0] is self.heap_var:
            buffers = list(kernel.buffer_map.values())
            own = dict(zip(buffers, (self.heap, self.floats), strict=False))
            body = cast(Stmt, substitute(kernel.body, own))
            self.slots.define(body)
            with self.placed(name):
                self._out.append(body)
            return self.null()
        if name not in self._written:
            self._written[name] = written_params(kernel)
        written = self._written[name]
        with self.placed(name):
            args = [self._operand(arg, shared=i not in written) for i, arg in enumerate(call.args)]
            direct = self._direct(call, args, kernel)
            self._conditional += direct is not None and bool(direct.conditions)
            if direct is None or (direct.conditions and self._conditional > MOST_CONDITIONAL):
                self.straight(name, args, -1)
                return self.null()
            body = cell_call("kernel_call", TextImm(name), *direct.args)
            if direct.conditions:
                condition = conjunction(direct.conditions)
                self.choose(condition, lambda: self.emit(body), lambda: self.straight(name, args, -1))
            else:
                self.emit(body)
        return self.null()

    def _direct(self, call: Call, values: Sequence[HostValue], kernel: PrimFunc) -> DirectCall | None:
        """Direct call of the kernel's inner function; None if its arguments must be checked."""
        args: list[TensorArgument | Number] = []
        for arg, value in zip(call.args, values, strict=True):
            facts = self.facts(arg, value)
            if isinstance(value, Number):
                args.append(value)
            elif facts is None or not isinstance(value, (Register, TableCell)):
                return None
            else:
                at = self.cell(value)
                args.append(TensorArgument(facts, cell_call("cell_data", at), partial(cell_call, "cell_dim", at)))
        return direct_call(kernel, args, self.slots)

    def _relax(self, name: str, args: Sequence[HostValue], tail: bool) -> HostValue:
        to = self.registers.take()
        if name in self.compiled:
            self.straight(f"{COMPILED_PREFIX}{name}", args, to, tail)
        else:
            self.packed(name, args, to)
        return Register(to)

    def straight(self, symbol: str, args: Sequence[HostValue], to: int, last: bool = False) -> None:
        """Call code of the program directly. `last`: a tail call of a Relax function."""
        passed = [self.argument(arg) for arg in args]
        intrinsic = "anylist_setitem_call_last" if last else "anylist_setitem_call_cpacked"
        self.emit(cell_call(intrinsic, self.r, to, self.c, TextImm(symbol), *passed))

    def packed(self, name: str, args: Sequence[HostValue], to: int) -> None:
        """Call a function in packed form; its result goes to a register (-1: discarded)."""
        passed = [self.argument(arg) for arg in args]
        function = self._cell(self.c, self.table.function(name))
        self.emit(cell_call("anylist_setitem_call_packed", self.r, to, function, TextImm(name), *passed))

    def call_packed(self, name: str, args: Sequence[HostValue], imported: bool = False) -> HostValue:
        """Call a function in packed form. With `imported`, its result is converted to a value of the VM."""
        to = self.registers.take()
        self.packed(name, args, to)
        if imported:
            function = self._cell(self.c, IMPORT_RESULT)
            text = TextImm("import_result")
            call = cell_call("anylist_setitem_call_packed", self.r, to, function, text, self.at(to))
            self.otherwise(cell_call("cell_plain", self.at(to)), lambda: self.emit(call))
        return Register(to)

    def slots_address(self) -> PrimExpr:
        """Address of the shape heap; 0 if there is none."""
        if self.heap is None:
            return IntImm("int64", 0)
        return address_of(BufferLoad(self.heap, (IntImm("int64", 0),)))

    def on_heap(self, name: str, position: int, args: Sequence[HostValue]) -> None:
        """Call a builtin with the shape heap as the argument at `position`."""
        size = 0 if self.heap is None else cast(IntImm, self.heap.shape[0]).value
        notes = self.text("") if self.heap is None else TableCell(self.notes)
        slots = Number(None, self.slots_address())
        heap = [self.text(name), self.integer(position), slots, self.integer(size), notes]
        self.packed(HEAP_BUILTIN, [*heap, *args], -1)

    def with_device(self, name: str, call: Call, args: Sequence[HostValue]) -> list[HostValue]:
        """Arguments of a builtin, with the device's index replaced by the device."""
        changed = list(args)
        at = BUILTINS[name].device if name in BUILTINS else None
        if at is not None and at < len(call.args):
            number = call.args[at]
            if isinstance(number, PrimValue) and isinstance(number.value, IntImm):
                changed[at] = TableCell(self.table.device(number.value.value))
        return changed

    def device(self, call: Call, position: int) -> PrimExpr:
        """Cell of the device of an allocation; the first device by default."""
        if position >= len(call.args):
            return self._cell(self.c, FIRST_DEVICE)
        number = cast(IntImm, cast(PrimValue, call.args[position]).value).value
        return self._cell(self.c, self.table.device(number))

    # ---------------------------------------------------------------------------------- statements

    def emit(self, call: PrimExpr) -> None:
        """Add a call as a statement."""
        self._out.append(Evaluate(call))

    def make(self, intrinsic: str, to: int, name: str, *args: PrimExpr) -> Register:
        """Write a new value to a register by an intrinsic; if it declines, by the builtin `name`."""
        builtin = self._cell(self.c, self.table.function(name))
        self.emit(cell_call(intrinsic, self.at(to), builtin, *args))
        return Register(to)

    def make_heap(self, size: int, notes: Sequence[str]) -> None:
        """Create the function's shape heap, with a note on each slot."""
        self.heap = Buffer(PrimVar("heap", "handle"), "int64", (size,), name="heap")
        self.slots = Slots(self.heap)
        self.notes = self.table.constant(NOTES_END.join(notes))

    def make_floats(self) -> None:
        """Create a float64 view of the shape heap."""
        assert self.heap is not None
        self.floats = Buffer(self.heap.data, "float64", self.heap.shape, name="floats")

    def store(self, slot: int, value: PrimExpr) -> None:
        """Store a number into a slot of the shape heap."""
        assert self.heap is not None
        self._out.append(BufferStore(self.heap, value, (IntImm("int64", slot),)))

    def slot(self, slot: int) -> PrimExpr:
        """Load a slot of the shape heap."""
        assert self.heap is not None
        return BufferLoad(self.heap, (IntImm("int64", slot),))

    def otherwise(self, condition: PrimExpr, write: Callable[[], object]) -> None:
        """Run the code written by `write` unless the condition holds."""
        self._out.append(IfThenElse(Not(condition), self._written_by(write)))

    def choose(self, condition: PrimExpr, yes: Callable[[], object], no: Callable[[], object]) -> None:
        """Branch on `condition` between the code written by `yes` and by `no`."""
        self._out.append(IfThenElse(condition, self._written_by(yes), self._written_by(no)))

    def _written_by(self, write: Callable[[], object]) -> Stmt:
        """Return the statements that `write` emits, without appending them."""
        outside, self._out = self._out, []
        write()
        out, self._out = self._out, outside
        return seq_of(out)

    @contextmanager
    def apart(self) -> Generator[list[Stmt]]:
        """Context manager: collect the statements emitted inside."""
        outside, self._out = self._out, []
        yield self._out
        self._out = outside

    @contextmanager
    def placed(self, callee: str, foreign: bool = False, located: bool = True) -> Generator[None]:
        """Context manager: annotate errors of the statements written inside with the current source location.

        Without `located`, it has no effect: in tail calls, whose location is the callee's.
        """
        outside, self._out = self._out, []
        yield
        out, self._out = self._out, outside
        if not out:
            return
        if not located:
            self._out += out
            return
        text = place_text(self.name, self._location, callee, foreign)
        self._out.append(AttrStmt(0, PLACE, TextImm(text), seq_of(out)))

    # --------------------------------------------------------------------------------------- facts

    def learn(self, var: Var, dtype: str, dims: Sequence[PrimExpr | None]) -> None:
        """Record the checked dtype and sizes of a variable's tensor from here on."""
        memory = Memory(0, IntImm("int64", 0)) if var in self._params else None
        self._checked[var] = TensorFacts(dtype, tuple(dims), memory)

    def facts(self, expr: RelaxExpr, value: HostValue | None = None) -> TensorFacts | None:
        """Facts about a leaf tensor that was checked or created here; None if unknown. A constant in a register is
        copied.
        """
        if isinstance(expr, Constant):
            dims = tuple(IntImm("int64", size) for size in expr.data.shape)
            memory = self.fresh_memory() if isinstance(value, Register) else Memory(0, IntImm("int64", 0))
            return TensorFacts(str(expr.dtype), dims, memory)
        if not isinstance(expr, Var):
            return None
        held = self._values.get(expr)
        return (held.facts if isinstance(held, Register) else None) or self._checked.get(expr)

    def fresh_memory(self) -> Memory:
        """Memory of a newly allocated tensor."""
        self._allocations += 1
        return Memory(self._allocations, IntImm("int64", 0))

    # ------------------------------------------------------------------------------------ operands

    def at(self, register: int) -> PrimExpr:
        """Cell of a register."""
        return self._cell(self.r, register)

    def _cell(self, cells: PrimVar, index: int) -> PrimExpr:
        cell = self._cells.get((cells, index))
        if cell is None:
            cell = self._cells[cells, index] = cell_call("anylist_getitem", cells, index)
        return cell

    def set(self, register: int, value: HostValue) -> None:
        """Store a value in a register."""
        self.emit(cell_call("anylist_setitem", self.r, register, self.argument(value)))

    def cell(self, value: HostValue) -> PrimExpr:
        """Cell that holds a value; creates one if necessary."""
        if isinstance(value, Register):
            return self.at(value.index)
        if isinstance(value, TableCell):
            return self._cell(self.c, value.index)
        to = self.registers.take()
        if isinstance(value, Number):
            self.set(to, value)
        elif isinstance(value, Dims):
            self.make("cell_shape", to, "vm.builtin.make_shape", *value.dims)
        else:
            self._make_tuple(value, to, {})
        return self.at(to)

    def _make_tuple(self, value: Fields, to: int, nested: dict[int, Register]) -> None:
        """Store a tuple in a register; `nested` holds the nested tuples created for it so far, by identity."""
        fields: list[HostValue] = []
        for field in value.fields:
            if isinstance(field, Fields) and id(field) not in nested:
                nested[id(field)] = Register(self.registers.take())
                self._make_tuple(field, nested[id(field)].index, nested)
            fields.append(nested.get(id(field), field))
        self.packed(_MAKE_ARRAY, fields, to)

    def argument(self, value: HostValue) -> PrimExpr:
        """Value as a call argument."""
        if not isinstance(value, Number):
            return self.cell(value)
        return value.payload if value.kind is None else cell_call("cell_value", value.kind, value.payload)

    def held(self, value: HostValue) -> HostValue:
        """Move a value to a cell, for repeated use."""
        if isinstance(value, (Register, TableCell)):
            return value
        index = cast(Call, self.cell(value)).args[1]
        return Register(cast(IntImm, cast(Any, index)).value)

    def integer(self, value: int) -> HostValue:
        """Integer value."""
        return Number(None, IntImm("int64", value))

    def text(self, value: str) -> HostValue:
        """String value."""
        return TableCell(self.table.constant(value))

    def null(self) -> HostValue:
        """Null object."""
        return TableCell(self.table.constant(None))

    def operand(self, expr: RelaxExpr, shared: bool = True) -> HostValue:
        """Argument of a builtin; constants are shared if it only reads them (`shared`)."""
        return self._operand(expr, shared)

    def _operand(self, expr: RelaxExpr, shared: bool = False) -> HostValue:
        """Value of a leaf expression; constants are copied unless `shared`."""
        match expr:
            case Var():
                return self._values[expr]
            case Constant():
                return self._constant(expr, shared)
            case Tuple(fields):
                return Fields(tuple(self._operand(field) for field in fields))
            case ShapeExpr(values):
                return Dims(tuple(IntImm("int64", cast(IntImm, value).value) for value in values))
            case PrimValue(IntImm(dtype, number)):
                return Number(None, IntImm("bool" if dtype.is_bool else "int64", number))
            case PrimValue(FloatImm(dtype, number)):
                return Number(None, FloatImm("float64", round_number(number, dtype)))
            case StringImm(value):
                return self.text(str(value))
            case DataTypeImm(value):
                return TableCell(self.table.constant(ffi_dtype(str(value))))
            case GlobalVar():
                return TableCell(self.table.function(expr.name_hint))
            case _:
                raise AssertionError(f"{self.name}: {type(expr).__name__} is no value of a lowered function")

    def _constant(self, expr: Constant, shared: bool) -> HostValue:
        held = TableCell(self.table.tensor(expr))
        if shared:
            return held
        to = self.registers.take()
        self.make("cell_copy", to, "vm.builtin.copy_tensor", self.cell(held))
        return Register(to)
