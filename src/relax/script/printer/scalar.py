"""Printing of scalar expressions with minimal parentheses, so that parsing them yields the same nodes.

An integer literal is an int32 by itself and takes the dtype of the other operand in an operation; if that is not its
own dtype, it is printed with it: ``T.int64(4)``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...ir import GlobalVar, structural_equal
from ...prim import expr as prim
from ...runtime.rooms import ModuleWhenUsed
from ...tir.buffer import Broadcast, BufferLoad, BufferRegion, IterVar, Ramp, Range, Reduce, Shuffle
from ...tir.index_map import IndexMap
from .core import AND, COMPARE, NOT, OR, PRODUCT, SUM, UNARY, Printer, Text, prints
from .literals import number, string

if TYPE_CHECKING:
    from ..parser import builders
else:  # the parser, for expressions that are printed as calls
    builders = ModuleWhenUsed("relax.script.parser.builders")

_INFIX: dict[type, tuple[str, int]] = {
    prim.Add: ("+", SUM), prim.Sub: ("-", SUM), prim.Mul: ("*", PRODUCT), prim.FloorDiv: ("//", PRODUCT),
    prim.FloorMod: ("%", PRODUCT), prim.EQ: ("==", COMPARE), prim.NE: ("!=", COMPARE), prim.LT: ("<",
    COMPARE), prim.LE: ("<=", COMPARE), prim.GT: (">", COMPARE), prim.GE: (">=", COMPARE), prim.And: ("and",
    AND), prim.Or: ("or", OR),
}  # fmt: skip

_LITERALS = (prim.IntImm, prim.FloatImm)


@prints(prim.Var)
def _var(p: Printer, node: prim.Var) -> Text:
    owned = p.data_owners.get(id(node))
    if owned is not None:
        return Text(f"{owned}.data")
    name = p.names.name_of(node, node.name)
    if p.frames and not p.is_declared(node):
        owner = p.owner(node)
        if p.in_signature:
            if owner is None or owner is p.frames[-1]:
                p.frames[-1].signature[id(node)] = node
                p.quoted = True
            return Text(name)
        line = f"{name} = {p.T(dtype_function(node))}()"
        if owner is not None:
            owner.declarations.append(line)
            owner.declared.add(id(node))
        else:
            p.pending.append(line)
            p.declare(node)
    return Text(name)


def dtype_function(node: prim.Var) -> str:
    """Function of `T` that creates a variable of this dtype."""
    return str(node.dtype) or "void"


@prints(prim.IntImm)
def _int(p: Printer, node: prim.IntImm) -> Text:
    if node.dtype == "int32":
        return _plain(node)
    if node.dtype.is_bool:
        return Text(f"{p.T('bool')}({bool(node.value)})")
    return Text(f"{p.T(str(node.dtype))}({node.value})")


def explicit(p: Printer, node: prim.PrimExpr) -> Text:
    """Print a literal with its dtype; other expressions as usual."""
    if isinstance(node, prim.IntImm) and node.dtype == "int32":
        return p.marked(node, Text(f"{p.T('int32')}({node.value})"))
    return p.expr(node)


def _plain(node: prim.IntImm) -> Text:
    return Text(str(node.value), UNARY if node.value < 0 else 13)


@prints(prim.FloatImm)
def _float(p: Printer, node: prim.FloatImm) -> Text:
    text = number(node.value)
    if text.startswith("float("):
        text = text[6:-1]
    return Text(f"{p.T(str(node.dtype))}({text})")


@prints(prim.StringImm)
def _string(p: Printer, node: prim.StringImm) -> Text:
    return Text(string(node.value))


@prints(*_INFIX)
def _infix(p: Printer, node: prim.BinaryExpr) -> Text:
    symbol, level = _INFIX[type(node)]
    chained = level == COMPARE  # a < b < c means something else in Python
    left, right = _sides(p, node, level + chained, level + 1)
    return Text(f"{left} {symbol} {right}", level)


def _sides(p: Printer, node: prim.BinaryExpr, left: int, right: int) -> tuple[str, str]:
    """Print both operands of an operation, which may be one object; of two literals, the second takes the first's
    dtype.
    """
    adapts = not isinstance(node.b, _LITERALS)
    return _operand(p, node, node.a, node.b, left, adapts), _operand(p, node, node.b, node.a, right, True)


def _operand(
    p: Printer, node: prim.BinaryExpr, side: prim.PrimExpr, other: prim.PrimExpr, level: int, adapts: bool
) -> str:
    """Print one operand; an integer is plain if it takes its dtype from the other operand."""
    if isinstance(side, prim.IntImm) and not isinstance(node, prim.LogicExpr):
        if adapts and side.dtype.is_integer and side.dtype == other.dtype:
            printed = p.marked(side, _plain(side))
        else:
            printed = explicit(p, side)
    else:
        printed = p.expr(side)
    return f"({printed.text})" if printed.level < level else printed.text


@prints(prim.Div)
def _div(p: Printer, node: prim.Div) -> Text:
    if node.a.dtype.is_float:
        left, right = _sides(p, node, PRODUCT, PRODUCT + 1)
        return Text(f"{left} / {right}", PRODUCT)
    return _by_builder(p, node, "truncdiv", "Div", node.a, node.b)


@prints(prim.Mod)
def _mod(p: Printer, node: prim.Mod) -> Text:
    return _by_builder(p, node, "truncmod", "Mod", node.a, node.b)


@prints(prim.Min)
def _min(p: Printer, node: prim.Min) -> Text:
    return _by_builder(p, node, "min", "Min", node.a, node.b)


@prints(prim.Max)
def _max(p: Printer, node: prim.Max) -> Text:
    return _by_builder(p, node, "max", "Max", node.a, node.b)


@prints(prim.Not)
def _not(p: Printer, node: prim.Not) -> Text:
    return Text(f"not {p.text(node.a, NOT)}", NOT)


@prints(prim.Select)
def _select(p: Printer, node: prim.Select) -> Text:
    operands = (node.condition, node.true_value, node.false_value)
    return Text(f"{p.T('Select')}({', '.join(explicit(p, operand).text for operand in operands)})")


@prints(prim.Cast)
def _cast(p: Printer, node: prim.Cast) -> Text:
    return Text(f'{p.T("Cast")}("{node.dtype!s}", {explicit(p, node.value).text})')


@prints(prim.Let)
def _let(p: Printer, node: prim.Let) -> Text:
    value = explicit(p, node.value).text
    return Text(f"{p.T('Let')}({p.text(node.body)}, where={{{p.text(node.var)}: {value}}})")


@prints(prim.Call)
def _call(p: Printer, node: prim.Call) -> Text:
    if isinstance(node.op, GlobalVar):
        args = ", ".join(explicit(p, arg).text for arg in node.args)
        return Text(f"{p.text(node.op)}({args})")
    return _by_builder(p, node, node.intrinsic, "", *node.args)


def _by_builder(p: Printer, node: prim.PrimExpr, name: str, raw: str, *args: Any) -> Text:
    """``T.name(args)`` if calling it yields this very node; otherwise a form that only builds the node."""
    for leading in ((), (str(node.dtype),)):  # T.exp(x), T.call_extern(dtype, ...)
        for plain in (True, False):
            if _makes(node, name, leading, args, plain):
                texts = [*map(string, leading), *(_argument(p, arg, plain) for arg in args)]
                return Text(f"{p.T(name)}({', '.join(texts)})")
    texts = [_argument(p, arg, False) for arg in args]
    if raw:
        return Text(f"{p.T(raw)}({', '.join(texts)})")
    op: Any = getattr(node, "op", None)
    return Text(f"{p.T('call_intrin')}({', '.join([string(str(node.dtype)), string(op.name), *texts])})")


def _argument(p: Printer, arg: Any, plain: bool) -> str:
    if plain and isinstance(arg, prim.IntImm) and arg.dtype.is_integer:
        return p.marked(arg, _plain(arg)).text
    return explicit(p, arg).text


def _makes(node: prim.PrimExpr, name: str, leading: tuple[Any, ...], args: tuple[Any, ...], plain: bool) -> bool:
    builder = builders.builder_of(name)
    if builder is None:
        return False
    if plain and not any(isinstance(arg, prim.IntImm) for arg in args):
        return False
    given = [arg.value if _is_plain(arg, plain) else arg for arg in args]
    try:
        built = builder(*leading, *given)
    except Exception:  # noqa: BLE001 (a builder may refuse in any way; then the raw form is printed)
        return False
    if type(built) is not type(node) or built.dtype != node.dtype:
        return False
    if isinstance(built, prim.Call) and isinstance(node, prim.Call):
        return built.op is node.op and _same_args(built.args, args)
    return _same_args((getattr(built, "a", None), getattr(built, "b", None)), args)


def _is_plain(arg: Any, plain: bool) -> bool:
    """True if an argument is printed as a Python value."""
    return isinstance(arg, prim.StringImm) or (plain and isinstance(arg, prim.IntImm) and arg.dtype.is_integer)


def _same_args(built: tuple[Any, ...], args: tuple[Any, ...]) -> bool:
    return len(built) == len(args) and all(
        a is b or (isinstance(b, (*_LITERALS, prim.StringImm)) and structural_equal(a, b))
        for a, b in zip(built, args, strict=True)
    )


# ---------------------------------------------------------------------- buffers


@prints(BufferLoad)
def _load(p: Printer, node: BufferLoad) -> Text:
    subscripts = indices(p, node.indices)
    if node.predicate is not None:
        return Text(f"{buffer_name(p, node.buffer)}.vload([{subscripts}], predicate={p.text(node.predicate)})")
    return Text(f"{buffer_name(p, node.buffer)}[{subscripts}]")


def indices(p: Printer, items: tuple[Any, ...]) -> str:
    """Text between the brackets of a subscript."""
    return ", ".join(p.text(item) for item in items) or "()"


def buffer_name(p: Printer, buffer: Any) -> str:
    """Name of a buffer."""
    return p.names.name_of(buffer, buffer.name, "buffer")


@prints(BufferRegion)
def _region(p: Printer, node: BufferRegion) -> Text:
    slices: list[str] = []
    for item in node.region:
        if prim.is_const(item.extent, 1):
            slices.append(p.text(item.min))
        else:
            stop = sum_text(p, item.min, item.extent)
            slices.append(f"{p.text(item.min)}:{stop}")
    return Text(f"{buffer_name(p, node.buffer)}[{', '.join(slices) or '()'}]")


def sum_text(p: Printer, a: prim.PrimExpr, b: prim.PrimExpr) -> str:
    """Text of a range's end; constants are folded, and a zero start is omitted."""
    if prim.is_const(a, 0):
        return p.text(b)
    if isinstance(a, prim.Var) and isinstance(b, prim.Sub) and b.b is a and isinstance(b.a, prim.Var):
        return p.text(b.a)
    if isinstance(a, prim.IntImm) and isinstance(b, prim.IntImm):
        return p.text(prim.IntImm(a.dtype, prim.wrap(a.value + b.value, a.dtype)))  # as the parser subtracts
    return p.text(prim.Add(a, b) if a.dtype == b.dtype else prim.binary(prim.Add, a, b, fold=False))


@prints(Ramp)
def _ramp(p: Printer, node: Ramp) -> Text:
    return Text(f"{p.T('Ramp')}({p.text(node.base)}, {p.text(node.stride)}, {node.lanes})")


@prints(Broadcast)
def _broadcast(p: Printer, node: Broadcast) -> Text:
    return Text(f"{p.T('Broadcast')}({p.text(node.value)}, {node.lanes})")


@prints(Shuffle)
def _shuffle(p: Printer, node: Shuffle) -> Text:
    vectors = ", ".join(explicit(p, vector).text for vector in node.vectors)
    return Text(f"{p.T('Shuffle')}([{vectors}], [{', '.join(str(i.value) for i in node.indices)}])")


@prints(Range)
def _range(p: Printer, node: Range) -> Text:
    return Text(f"{p.T('Range')}({p.text(node.min)}, {sum_text(p, node.min, node.extent)})")


@prints(IterVar)
def _iter_var(p: Printer, node: IterVar) -> Text:
    dom = "None"
    if node.dom is not None:
        dom = f"({p.text(node.dom.min)}, {sum_text(p, node.dom.min, node.dom.extent)})"
    return Text(f'{p.T("iter_var")}({p.text(node.var)}, {dom}, "{node.iter_type}", {string(node.thread_tag)})')


@prints(IndexMap)
def _index_map(p: Printer, node: IndexMap) -> Text:
    function = _function(p, node)
    options = "" if node.inverse_index_map is None else f", inverse_index_map={_function(p, node.inverse_index_map)}"
    if any(var.dtype != "int64" for var in node.initial_indices):
        options += f", index_dtype={string(str(node.initial_indices[0].dtype))}"
    return Text(f"{p.T('index_map')}({function}{options})")


def _function(p: Printer, node: IndexMap) -> str:
    """Print an index map's function as a lambda."""
    for var in node.initial_indices:
        p.declare(var)
    params = ", ".join(p.text(var) for var in node.initial_indices)
    final = [p.text(index) for index in node.final_indices]
    result = f"({final[0]},)" if len(final) == 1 else f"({', '.join(final)})"
    return f"lambda {params}: {result}"


@prints(Reduce)
def _reduce(p: Printer, node: Reduce) -> Text:
    combiner = node.combiner
    for var in (*combiner.lhs, *combiner.rhs):
        p.declare(var)
    for axis in node.axis:
        p.declare(axis.var)
    params = ", ".join(p.text(v) for v in (*combiner.lhs, *combiner.rhs))
    result = ", ".join(p.text(v) for v in combiner.result)
    identity = ", ".join(p.text(v) for v in combiner.identity_element)
    arguments = [
        f"{p.T('comm_reducer')}(lambda {params}: ({result},), [{identity}])",
        f"source=[{', '.join(p.text(s) for s in node.source)}]",
        f"init=[{', '.join(p.text(s) for s in node.init)}]",
        f"axis=[{', '.join(p.text(a) for a in node.axis)}]",
        f"condition={p.text(node.condition)}",
        f"value_index={node.value_index}",
    ]
    return Text(f"{p.T('Reduce')}({', '.join(arguments)})")
