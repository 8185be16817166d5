"""The operator framework: what one class declaration gives."""

from __future__ import annotations

import copy
import functools
import inspect
import pickle
from typing import Literal

import numpy as np
import pytest

import relax.op
from relax.expr import Call, Constant, PrimValue, ShapeExpr, Tuple, Var
from relax.ir import DataType, DiagnosticError, Op, VDevice, load_json, save_json, structural_equal, structural_hash
from relax.op.dims import broadcast, same_dtype
from relax.op.operator import Operator, operator, row
from relax.prim import Var as PrimVar
from relax.script import relax as R
from relax.struct_info import (
    ObjectStructInfo,
    PrimStructInfo,
    ShapeStructInfo,
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
)


@operator("relax.testing.scaled")
class Scaled(Operator):
    """x scaled along an axis."""

    axis: int = -1
    factor: float = 1.0
    axes: tuple[int, ...] | None = None
    out_dtype: DataType = DataType("")
    mode: Literal["fast", "exact"] = "fast"

    def infer(self, x: TensorStructInfo, bias: TensorStructInfo | None = None) -> TensorStructInfo:
        self.require(x.dtype.is_void or x.dtype.is_float, "x", "a floating-point tensor")
        self.require_axis(self.axis, x, "x")
        if bias is not None:
            return broadcast(x, bias, same_dtype(x.dtype, bias.dtype, ("x", "bias")), ("x", "bias"))
        return x


@operator("relax.testing.pack")
class Pack(Operator):
    """Any number of values, and a label."""

    pure = False
    label: str

    def infer(self, *values: StructInfo) -> TupleStructInfo:
        return TupleStructInfo(values)


@operator("relax.testing.fill")
class Fill(Operator):
    """A tensor of one value."""

    def infer(self, shape: ShapeStructInfo, value: PrimStructInfo) -> TensorStructInfo:
        return TensorStructInfo(
            None if shape.values is None else ShapeExpr(shape.values), value.dtype, None, shape.ndim
        )


@operator("relax.testing.first")
class First(Operator):
    """The first of a tuple of tensors."""

    def infer(self, tensors: TupleStructInfo) -> TensorStructInfo:
        self.require(len(tensors.fields) > 0, "tensors", "a tuple of at least one tensor")
        return tensors.fields[0]


class Family(Operator):
    """The base of operators that have attributes in common."""

    __slots__ = ()

    size: int = 1
    exact: bool = False
    axis: int  # said for type checkers: it has no default

    @classmethod
    def inherited_default(cls, value: object) -> object:
        return 7 if value == 1 else value

    def infer(self, x: TensorStructInfo) -> TensorStructInfo:
        return x


@operator("relax.testing.member")
class Member(Family):
    """An operator with the attributes of its family and its own."""

    axis: int = -1
    exact: bool = True


RowOfTable = row("relax.testing.row_of_table", Family, "One row.", total=True)


scaled = relax.op.testing.scaled
pack = relax.op.testing.pack
fill = relax.op.testing.fill
first = relax.op.testing.first
infer = relax.op.infer_call


def tensor(name: str, shape, dtype="float32", **kw) -> Var:
    return Var(name, TensorStructInfo(shape, dtype, **kw))


def message(error) -> str:
    return str(error.value)


n, m = PrimVar("n", "int64"), PrimVar("m", "int64")
x = tensor("h", (n, 4))


def test_public_function():
    assert str(inspect.signature(scaled)).startswith("(x, bias=None, axis=-1, factor=1.0, axes=None")
    assert scaled.__doc__ == "x scaled along an axis."
    assert scaled.__name__ == "scaled"
    call = scaled(x, axis=0, axes=[1, 2])
    assert isinstance(call, Call)
    assert call.op is Op.get("relax.testing.scaled")
    assert call.args == (x,)
    assert isinstance(call.attrs, Scaled)
    assert (call.attrs.axis, call.attrs.axes, call.attrs.factor) == (0, (1, 2), 1.0)


def test_facts_of_the_op():
    op = Op.get("relax.testing.scaled")
    assert op.get_attr("operator_class") is Scaled
    assert op.get_attr("FPurity") is True
    assert Op.get("relax.testing.pack").get_attr("FPurity") is False


def test_attrs_are_nodes():
    a, b = scaled(x, axis=0), scaled(x, axis=0)
    assert structural_equal(a, b)
    assert structural_hash(a) == structural_hash(b)
    assert not structural_equal(a, scaled(x, axis=1))
    assert structural_equal(pickle.loads(pickle.dumps(a.attrs)), a.attrs)
    assert structural_equal(copy.deepcopy(a.attrs), a.attrs)
    loaded = load_json(save_json(a.attrs))
    assert isinstance(loaded, Scaled)
    assert structural_equal(loaded, a.attrs)
    assert isinstance(loaded.out_dtype, DataType)


@pytest.mark.parametrize(
    "attributes, expected",
    [
        ({"axis": "0"}, "testing.scaled: axis: expected an integer, found '0'"),
        ({"axis": 1.5}, "testing.scaled: axis: expected an integer, found 1.5"),
        ({"factor": "big"}, "testing.scaled: factor: expected a number, found 'big'"),
        ({"axes": ["a"]}, "testing.scaled: axes: expected an integer, found 'a'"),
        ({"out_dtype": "float31"}, "testing.scaled: out_dtype: expected a dtype, found 'float31'"),
        ({"mode": "slow"}, "testing.scaled: mode: expected one of 'fast', 'exact', found 'slow'"),
    ],
)
def test_attributes_are_checked(attributes, expected):
    with pytest.raises(DiagnosticError) as error:
        scaled(x, **attributes)
    assert expected in message(error)


def test_attributes_are_converted():
    call = scaled(x, axis=np.int64(1), factor=2, axes=3, out_dtype="f16")
    assert call.attrs.axis == 1
    assert type(call.attrs.axis) is int
    assert type(call.attrs.factor) is float
    assert call.attrs.axes == (3,)
    assert call.attrs.out_dtype == "float16"


def test_a_wrong_argument_list_is_a_type_error_that_shows_the_signature():
    with pytest.raises(TypeError, match=r"relax.op.testing.scaled\(x, bias=None.*unexpected keyword argument 'axle'"):
        scaled(x, axle=0)


def test_optional_operand():
    assert len(scaled(x).args) == 1
    assert len(scaled(x, None).args) == 1
    with_bias = scaled(x, tensor("b", (4,)))
    assert infer(with_bias).dims[0] is n


def test_variadic_operands():
    call = pack(x, 1, "two", label="p")
    assert len(call.args) == 3
    with pytest.raises(TypeError, match="label"):
        pack(x)


def test_shape_scalar_and_tuple_arguments():
    call = fill((n, 3), 2.0)
    assert isinstance(call.args[0], ShapeExpr)
    assert isinstance(call.args[1], PrimValue)
    assert infer(call).dims[0] is n
    assert isinstance(fill(n, 1).args[0], ShapeExpr)
    assert isinstance(fill([], 1).args[0], ShapeExpr)
    shape = Var("s", ShapeStructInfo(ndim=3))
    assert infer(fill(shape, 1)).ndim == 3
    call = first([x, np.zeros((2,), "int8")])
    assert isinstance(call.args[0], Tuple)
    assert isinstance(call.args[0].fields[1], Constant)
    assert infer(call) is x.struct_info


@pytest.mark.parametrize(
    "build, expected",
    [
        (lambda: scaled(1.5), "testing.scaled: x must be a tensor, found float 1.5"),
        (lambda: scaled([x]), "testing.scaled: x must be a tensor, found list"),
        (lambda: fill(("a",), 1), "testing.fill: shape must be a shape, found tuple"),
        (lambda: first({}), "testing.first: tensors must be a tuple, found dict"),
    ],
)
def test_arguments_of_the_wrong_kind(build, expected):
    with pytest.raises(DiagnosticError) as error:
        build()
    assert expected in message(error)
    (diagnostic,) = error.value.diagnostics
    assert diagnostic.span.source.name == __file__  # where the user called the operator
    assert ("write relax.const" in diagnostic.hint) is ("must be a tensor" in expected)


def test_operand_of_the_wrong_kind():
    shape = Var("s", ShapeStructInfo((n, 4)))
    with pytest.raises(DiagnosticError) as error:
        infer(scaled(shape))
    assert "error[E3101]: testing.scaled: x must be a tensor, found a shape" in message(error)
    assert " = s: " in message(error)
    assert "given as x" in message(error)


def test_wrong_number_of_arguments_in_a_hand_made_call():
    with pytest.raises(DiagnosticError) as error:
        infer(Call("relax.testing.scaled", (x, x, x)))
    assert "testing.scaled: takes 1 to 2 operands (x, bias), found 3" in message(error)


def test_attributes_left_out_of_a_hand_made_call():
    assert infer(Call("relax.testing.scaled", (x,))) is x.struct_info


def test_what_is_unknown_is_no_error():
    unknown = Var("u", ObjectStructInfo())
    assert infer(scaled(unknown)).ndim == -1
    assert infer(scaled(Var("v"))).dtype == ""
    assert infer(first(unknown)).ndim == -1
    half = tensor("t", None, "", ndim=2)
    assert infer(scaled(half, tensor("b", (4,)))).ndim == 2
    assert infer(scaled(half, tensor("b", (4,)))).dtype == "float32"


def test_struct_info_through_nested_calls():
    inner = scaled(x, axis=0)
    assert inner.struct_info_ is None
    assert infer(scaled(inner, tensor("b", (4,)))).dims[1] is x.struct_info.dims[1]


@pytest.mark.parametrize(
    "build, expected",
    [
        (lambda: scaled(tensor("h", (n, 4), "int32")), "[E3103]: testing.scaled: x must be a floating-point tensor"),
        (lambda: scaled(x, axis=2), "[E3104]: testing.scaled: axis 2 is out of range: expected from -2 to 1"),
        (lambda: scaled(tensor("h", ())), "axis -1 is out of range: a scalar has no axes"),
        (
            lambda: scaled(x, tensor("b", (4,), "float16")),
            "[E3103]: testing.scaled: x and bias must have one dtype, found float32 and float16",
        ),
        (lambda: scaled(x, tensor("b", (5,))), "[E3102]: testing.scaled: the shapes cannot be broadcast"),
        (lambda: first([]), "tensors must be a tuple of at least one tensor"),
    ],
)
def test_inference_errors(build, expected):
    with pytest.raises(DiagnosticError) as error:
        infer(build())
    assert expected in message(error)


def test_vdevice():
    cpu, gpu = VDevice("llvm", 0), VDevice("cuda", 0)
    on_cpu, on_gpu = tensor("a", (4,), vdevice=cpu), tensor("b", (4,), vdevice=gpu)
    assert infer(scaled(on_cpu)).vdevice is cpu
    assert infer(scaled(x, on_cpu)).vdevice is cpu
    with pytest.raises(DiagnosticError) as error:
        infer(scaled(on_cpu, on_gpu))
    assert "[E3106]: testing.scaled: the operands are on different devices" in message(error)
    assert "on llvm:0" in message(error)
    assert "on cuda:0" in message(error)


def test_a_formula_must_take_every_attribute():
    def formula(x):
        return x

    with pytest.raises(TypeError, match="relax.testing.deaf: its compute does not take axis"):

        @operator("relax.testing.deaf")
        class Deaf(Operator):
            """A formula that ignores its attribute."""

            axis: int = 0
            compute = formula

            def infer(self, x: TensorStructInfo) -> TensorStructInfo:
                return x


def test_attributes_of_a_base_class_come_first():
    assert Member.attribute_names == ("size", "exact", "axis")
    assert str(inspect.signature(relax.op.testing.member)) == "(x, size=7, exact=True, axis=-1)"
    made = Member(size=3)
    assert (made.size, made.exact, made.axis) == (3, True, -1)
    with pytest.raises(ValueError, match="size: expected an integer, found 'many'"):
        Member(size="many")


def test_an_operator_of_a_table_is_a_class_like_others():
    assert RowOfTable.__doc__ == "One row."
    assert RowOfTable.total
    assert not Member.total
    call = relax.op.testing.row_of_table(x, exact=True)
    assert call.attrs.exact
    assert type(pickle.loads(pickle.dumps(call.attrs))) is RowOfTable
    assert type(call.attrs).__module__ == __name__


def test_the_name_of_a_row_follows_the_operator():
    logical_not = Op.get("relax.logical_not").get_attr("operator_class")
    assert logical_not.__name__ == "LogicalNot"
    assert pickle.loads(pickle.dumps(logical_not)) is logical_not


def test_unknown_names():
    with pytest.raises(AttributeError, match="relax.op has no operator 'frobnicate'"):
        relax.op.frobnicate


@pytest.mark.parametrize(
    "name", ["relax.testing_twice", "relax.testing_own.twice", "testing_acme.deep.twice", "testing_bare"]
)
def test_an_operator_prints_and_parses_whatever_its_prefix(name):
    @operator(name)
    class Twice(Operator):
        """Twice (or `times` times) the data."""

        times: int = 2

        def infer(self, data: TensorStructInfo) -> TensorStructInfo:
            return data

    short = name.removeprefix("relax.")
    call = functools.reduce(getattr, short.split("."), relax.op)
    x = relax.Var("x", TensorStructInfo((4,), "float32"))
    bb = relax.BlockBuilder()
    with bb.function("main", [x]):
        bb.emit_func_output(bb.emit(call(x, times=3)))
    text = bb.get().script()
    assert f"R.{short}(x, times=3)" in text
    relax.ir.assert_structural_equal(relax.script.from_source(text), bb.get())
    assert short.split(".")[0] in dir(relax.op)
    assert short.split(".")[0] in dir(R)


def test_names_that_scripts_cannot_say_are_refused():
    with pytest.raises(ValueError, match="'testing-it.twice' has the part 'testing-it', which is no name in Python"):
        operator("testing-it.twice")
    with pytest.raises(ValueError, match="has the part 'lambda'"):
        operator("relax.testing.lambda")
    with pytest.raises(ValueError, match=r"scripts call both operators nn.relu and relax.nn.relu R.nn.relu"):
        operator("nn.relu")
