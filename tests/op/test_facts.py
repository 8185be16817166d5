"""Every operator class is asked every question that passes ask; the answers are held to what the operators compute."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from gradient_cases import CASES as DIFFERENTIATED
from op_harness import Case, Sizes, all_cases, assert_close, dtypes, reference, variant

import relax
from relax import topi
from relax.expr import ShapeExpr, Tuple, TupleGetItem, Var
from relax.ir import DataType, Op, StructInfo
from relax.op import Operator, infer_call, operator
from relax.op.errors import OperatorError
from relax.op.facts import Exactness, MixedPrecision, Part, Permuted
from relax.op.intrinsic import Intrinsic
from relax.struct_info import TensorStructInfo
from relax.target import Target

CLASSES = {
    name: cls
    for name in Op.list_op_names()
    if (cls := Op.get(name).get_attr("operator_class")) is not None and ".testing." not in name and ".docs." not in name
}
CASES: dict[str, list[Case]] = {}
for one in all_cases():
    CASES.setdefault(one.op, []).append(one)


def test_there_are_classes():
    assert len(CLASSES) > 100


@pytest.mark.parametrize("name", CLASSES)
def test_every_question_has_an_answer(name):
    cls = CLASSES[name]
    assert issubclass(cls, Operator)
    for flag in (cls.pure, cls.total, cls.view, cls.propagates_vdevice, cls.takes_sinfo_args):
        assert isinstance(flag, bool)
    assert isinstance(cls.exactness, Exactness)
    assert isinstance(cls.mixed_precision, MixedPrecision)
    assert cls.accuracy is None or cls.accuracy > 0
    assert cls.exactness is Exactness.NEVER or cls.reference is not None
    assert not cls.view or cls.exactness is Exactness.ALWAYS  # a view computes nothing
    if issubclass(cls, Intrinsic):
        assert cls.compute is None
        assert isinstance(cls.builtin, str)
    for case in [*CASES.get(name, [])[:1], *gradient_cases(name)[:1]]:
        made = variant(case, False)
        result, operands = result_of(made.call)
        infos = [arg.struct_info_ or StructInfo() for arg in made.call.args]
        assert isinstance(made.operator.permuted((0,), infos), Permuted | None)
        gradients = made.operator.gradient(operands, result, result)
        assert gradients is None or len(gradients) == len(operands)
        if gradients is not None and any(gradient is not None for gradient in gradients):
            is_compared = name in RULES or name.removeprefix("relax.") in DIFFERENTIATED
            assert is_compared, "its gradients are not compared with differences"
        assert made.operator.legalize_for(Target("llvm"), None, made.call) is None


def result_of(call):
    """A variable for the result of a call, and its operands with what is known of them."""
    return Var("result", infer_call(call)), call.args


# ------------------------------------------------------------------------------------------------ exactness


def test_exactness_by_dtypes():
    whole, narrow, wide = DataType("int8"), DataType("float16"), DataType("float32")
    assert [[e.holds_for([d]) for d in (whole, narrow, wide)] for e in Exactness] == [
        [False, False, False],
        [True, False, False],
        [True, False, True],
        [True, True, True],
    ]
    assert not Exactness.IEEE.holds_for([wide, narrow])


# ------------------------------------------------------------------------------------------- mixed precision

MIXED = [
    name for name, cls in CLASSES.items() if cls.mixed_precision is not MixedPrecision.NEVER and cls.compute is not None
]


@pytest.mark.parametrize("name", MIXED)
def test_narrow_operands_are_taken(name):
    """Narrow results are those of float32, but for the rounding of operands and results."""
    compared = 0
    for case in CASES[name]:
        floats = [dtype for dtype in dtypes(case.operands) if dtype.is_float]
        if not floats or set(floats) != {"float32"} or case.raises or case.tails:
            continue
        narrow = replace(case, operands=[narrowed(value) for value in case.operands])
        again = replace(case, operands=[widened(value) for value in narrow.operands])
        made = variant(narrow, False)
        results = reference(narrow, made.operator)
        for got, wanted in zip(results, reference(again, made.operator), strict=True):
            follows = wanted.dtype == np.float32 and "dtype" not in case.attrs
            assert got.dtype == (np.dtype("float16") if follows else wanted.dtype)
            with np.errstate(over="ignore"):
                assert_close(got, wanted.astype(got.dtype), 1e-2)
            compared += 1
    assert compared or not any(d.is_float for case in CASES[name] for d in dtypes(case.operands))


def narrowed(value):
    if isinstance(value, list):
        return [narrowed(item) for item in value]
    return np.asarray(clipped(value)).astype(np.float16) if is_float(value) else value


def clipped(value):
    """Values that float16 holds."""
    return np.clip(value, -60000, 60000)


def widened(value):
    if isinstance(value, list):
        return [widened(item) for item in value]
    return value.astype(np.float32) if is_float(value) else value


def is_float(value):
    return isinstance(value, np.ndarray) and DataType(value.dtype.name).is_float


# ----------------------------------------------------------------------------------------------- permutations

PERMUTABLE = [
    *(name for name, cls in CLASSES.items() if cls.elementwise),
    *(f"relax.{name}" for name in ("sum", "prod", "max", "min", "mean", "argmax", "argmin", "cumsum", "flip")),
    *(f"relax.nn.{name}" for name in ("softmax", "log_softmax", "dropout", "conv2d", "max_pool2d", "avg_pool2d")),
    *(f"relax.nn.{name}" for name in ("conv1d", "conv2d_transpose", "avg_pool3d", "adaptive_avg_pool2d")),
    *(f"relax.nn.{name}" for name in ("batch_norm", "group_norm", "instance_norm", "layer_norm", "rms_norm")),
    *(f"relax.{name}" for name in ("std", "variance", "median", "cumprod", "quantize", "dequantize")),
    *("relax.ccl.scatter_collective", "relax.dist.redistribute_replica_to_shard"),
    *(f"relax.{name}" for name in ("concat", "stack", "split", "strided_slice", "take", "broadcast_to")),
    *("relax.expand_dims", "relax.squeeze", "relax.nn.pad"),
    *("relax.permute_dims", "relax.nn.lrn", "relax.nn.prelu", "relax.sort", "relax.argsort"),
]


@pytest.mark.parametrize("name", PERMUTABLE)
def test_permuted_operands_give_permuted_results(name):
    compared = 0
    for case in [*CASES[name], *map(in_a_plane, CASES[name])]:
        ndim = permuted_rank(case)
        if ndim is None or case.raises:
            continue
        made = variant(case, False)
        axes = (*range(1, ndim), 0)[:ndim]
        infos = [arg.struct_info_ or StructInfo() for arg in made.call.args]
        rule = made.operator.permuted(axes, infos)
        if rule is None:
            continue
        assert len(rule.operands) == len(made.call.args)
        moved = [moved_by(order, value) for order, value in zip(rule.operands, case.operands, strict=False)]
        attributes = {name: getattr(rule.operator, name) for name in rule.operator.attribute_names}
        again = replace(case, operands=moved, attrs=attributes)
        results = reference(case, made.operator)
        for order, got, wanted in zip(rule.results, reference(again, rule.operator), results, strict=True):
            assert_close(got, moved_by(order, wanted), 1e-3)
        compared += ndim > 1
    assert compared


def permuted_rank(case):
    """The number of dimensions to permute: those of the first operand, or of the largest that broadcast; or None."""
    first = case.operands[0][0] if isinstance(case.operands[0], list) else case.operands[0]
    if not isinstance(first, np.ndarray):
        return None
    arrays = case.operands if CLASSES[case.op].elementwise else [first]
    return max(value.ndim for value in arrays if isinstance(value, np.ndarray))


def in_a_plane(case):
    """The case with rows of operands beside themselves reversed: some operators have no cases of two dimensions."""
    rows = [value for value in case.operands if isinstance(value, np.ndarray)]
    if not CLASSES[case.op].elementwise or {row.ndim for row in rows} != {1}:
        return case
    planes = [np.stack([v, v[::-1]], 1) if isinstance(v, np.ndarray) else v for v in case.operands]
    return replace(case, operands=planes)


def moved_by(order, value):
    """An operand in another order of dimensions, those it lacks in front; or what takes its place."""
    match order:
        case None:
            return value
        case Tuple(fields):
            return [field.value.value for field in fields]
        case ShapeExpr(values):
            return Sizes([size.value for size in values])
    if isinstance(value, list):
        return [moved_by(order, item) for item in value]
    value = value.reshape((1,) * (len(order) - value.ndim) + value.shape)
    return np.ascontiguousarray(np.transpose(value, order)).reshape([value.shape[axis] for axis in order])


BLOCKABLE = [
    *(name for name, cls in CLASSES.items() if cls.elementwise),
    *("relax.concat", "relax.split"),
    *(f"relax.nn.{kind}_pool{n}d" for kind in ("max", "avg", "lp", "adaptive_avg") for n in (1, 2, 3)),
]


@pytest.mark.parametrize("name", BLOCKABLE)
def test_packed_operands_give_packed_results(name):
    """Each dimension in turn is split, and the others are permuted."""
    compared = 0
    for case in [*CASES[name], *map(in_a_plane, CASES[name])]:
        ndim = permuted_rank(case)
        if not ndim or case.raises:
            continue
        made = variant(case, False)
        infos = [arg.struct_info_ or StructInfo() for arg in made.call.args]
        first = case.operands[0][0] if isinstance(case.operands[0], list) else case.operands[0]
        for axis in range(ndim):
            size = first.shape[axis] if axis < first.ndim else 1
            order = (*range(1, ndim), Part(axis, next((f for f in (2, 3, 5, 7) if size % f == 0), 1)), 0)
            rule = made.operator.blocked(order, infos)
            if rule is None:
                continue
            moved = [packed_by(order, value) for order, value in zip(rule.operands, case.operands, strict=False)]
            attributes = {name: getattr(rule.operator, name) for name in rule.operator.attribute_names}
            again = replace(case, operands=moved, attrs=attributes)
            results = reference(case, made.operator)
            for order, got, wanted in zip(rule.results, reference(again, rule.operator), results, strict=True):
                assert_close(got, packed_by(order, wanted), 1e-3)
            compared += size > 1
    assert compared


def packed_by(order, value):
    """An operand with dimensions split and in another order, those it lacks in front."""
    if order is None:
        return value
    if isinstance(value, list):
        return [packed_by(order, item) for item in value]
    ((at, part),) = ((d, entry) for d, entry in enumerate(order) if isinstance(entry, Part))
    plain = moved_by([entry for entry in order if entry is not part], value)
    d = [entry for entry in order if entry is not part].index(part.axis)
    split = plain.reshape((*plain.shape[:d], plain.shape[d] // part.size, part.size, *plain.shape[d + 1 :]))
    return np.ascontiguousarray(np.moveaxis(split, d + 1, at))


def test_order_of_dimensions_matters():
    x = Var("x", TensorStructInfo((2, 3), "float32"))
    unranked = Var("r", TensorStructInfo(None, "float32"))
    for call in (relax.op.matmul(x, relax.op.permute_dims(x)), relax.op.flatten(x), relax.op.cumsum(x)):
        assert call.attrs.permuted((1, 0), [x.struct_info, x.struct_info][: len(call.args)]) is None
    for other in (relax.ObjectStructInfo(), unranked.struct_info):
        assert relax.op.add(x, x).attrs.permuted((1, 0), [x.struct_info, other]) is None


def test_operands_that_broadcast_are_permuted_too():
    x, row, scalar = (Var("x", TensorStructInfo(dims, "float32")) for dims in ((2, 3, 4), (3, 4), ()))
    add = relax.op.add(x, row).attrs
    infos = [x.struct_info, row.struct_info, scalar.struct_info]
    assert add.permuted((0, 2, 1), infos[:2]).operands == ((0, 2, 1), (1, 0))
    assert add.permuted((2, 0, 1), infos[:2]).operands == ((2, 0, 1), (2, 0, 1))  # a row in front, then moved
    assert add.permuted((2, 0, 1), [infos[0], infos[2]]).operands == ((2, 0, 1), None)
    assert add.permuted((1, 0), infos[:2]) is None


# ---------------------------------------------------------------------------------------------- layouts


def test_operands_in_layouts():
    """A kernel and a result in layouts of their own."""
    x, w = (Var("x", TensorStructInfo(dims, "float32")) for dims in ((1, 3, 8, 8), (4, 3, 3, 3)))
    infos = [x.struct_info, w.struct_info]
    conv = relax.op.nn.conv2d(x, w).attrs
    rule = conv.in_layouts(["NHWC", "HWIO", "NCHW"], infos)
    assert rule.operands == ((0, 2, 3, 1), (2, 3, 1, 0))
    assert rule.results == ((0, 1, 2, 3),)
    assert (rule.operator.data_layout, rule.operator.kernel_layout) == ("NHWC", "HWIO")
    assert rule.operator.out_layout == "NCHW"
    pool = relax.op.nn.max_pool2d(x).attrs.in_layouts(["CHWN"], infos[:1])
    assert (pool.operator.layout, pool.operands, pool.results) == ("CHWN", ((1, 2, 3, 0),), ((1, 2, 3, 0),))
    resize = relax.op.image.resize2d(x, (4, 4)).attrs.in_layouts(["NHWC"], [infos[0], relax.ShapeStructInfo((4, 4))])
    assert (resize.operator.layout, resize.results) == ("NHWC", ((0, 2, 3, 1),))
    assert conv.in_layouts(["NHWC"], [TensorStructInfo(None, "float32"), infos[1]]) is None


@pytest.mark.parametrize("layouts", [["NHW"], ["NHWC", "OIHWK"], ["NCHW4d"], ["NHWC", "OHWI", "NCHW", "N"]])
def test_layouts_that_a_convolution_does_not_have(layouts):
    x, w = (Var("x", TensorStructInfo(dims, "float32")) for dims in ((1, 3, 8, 8), (4, 3, 3, 3)))
    with pytest.raises(OperatorError):
        relax.op.nn.conv2d(x, w).attrs.in_layouts(layouts, [x.struct_info, w.struct_info])
    for call in (relax.op.add(x, x), relax.op.nn.max_pool2d_with_indices(x)):
        with pytest.raises(OperatorError, match="no layouts"):
            call.attrs.in_layouts(["NHWC"], [x.struct_info] * len(call.args))


# ------------------------------------------------------------------------------------------------ gradients

DIFFERENTIABLE = [
    "abs acos acosh add asin asinh astype atan atanh broadcast_to clip concat cos cosh divide erf erfc exp",
    "expand_dims",
    "ewise_fma flatten flip grad.end_checkpoint grad.start_checkpoint log log_add_exp matmul maximum mean minimum",
    "layout_transform multiply negative nn.dropout nn.gelu nn.log_softmax nn.relu nn.silu",
    "nn.softmax permute_dims power reshape rsqrt sigmoid sin sinh split sqrt square squeeze stack std subtract sum tan",
    "take tanh tril triu variance where wrap_param",
    "collapse_sum_like collapse_sum_to einsum gather_elements gather_nd index_tensor outer reverse_sequence",
    "scatter_elements scatter_nd sort",
    "nn.conv1d nn.conv2d nn.conv3d nn.conv1d_transpose nn.conv2d_transpose nn.conv3d_transpose nn.leakyrelu",
    "max min cumsum strided_slice nn.nll_loss nn.max_pool2d nn.avg_pool2d nn.layer_norm nn.rms_norm nn.batch_norm",
    "nn.group_norm nn.instance_norm nn.adaptive_avg_pool1d nn.adaptive_avg_pool2d",
    "nn.adaptive_avg_pool3d repeat tile",
    "nn.batch_flatten nn.cross_entropy_with_logits nn.pad nn.pixel_shuffle nn.pixel_unshuffle nn.relu6 nn.selu nn.softplus",
]
RULES = [f"relax.{name}" for line in DIFFERENTIABLE for name in line.split()]
WITH_RULE = {
    "relax.einsum": ("subscripts", ("ij,jk->ik", "i,i", "i,j->ij", "ij->ji")),
    "relax.gather_nd": ("batch_dims", (0, None)),
    "relax.layout_transform": ("pad_value", (None,)),
    "relax.scatter_elements": ("reduction", ("add",)),
    "relax.scatter_nd": ("reduction", ("add",)),
    "relax.take": ("mode", ("fast",)),
}
"""Operators that have a rule only for some values of an attribute."""
UNIT, POSITIVE = (-0.98, 0.98), (0.05, 8)
RANGES = {"relax.acosh": (1.1, 8), "relax.asin": UNIT, "relax.acos": UNIT, "relax.atanh": UNIT}
RANGES |= {f"relax.{name}": POSITIVE for name in ("power", "divide", "log", "sqrt", "rsqrt")}
"""Operands for which the functions have values and slopes."""


CONVERSIONS = ("relax.astype", "relax.reinterpret", "relax.wrap_param")


def in_doubles(case, rng):
    """The case with float operands of ordinary values in float64, where differences tell most."""

    def operand(value):
        if isinstance(value, list):
            return [operand(item) for item in value]
        if not is_float(value):
            return value
        wide = np.array(value.astype(np.float64))
        usual = np.isfinite(wide) & (abs(wide) < 8) & (abs(wide) > 0.05)
        fresh = np.asarray(rng.uniform(0.2, 0.9, wide.shape))
        wide = np.where(usual, wide, fresh)
        wide += rng.uniform(-1e-3, 1e-3, wide.shape)  # away from kinks, and apart from each other
        low, high = RANGES.get(case.op, (-8, 8))
        return np.asarray(np.clip(abs(wide) if low >= 0 else wide, low, high) + rng.uniform(0, 1e-3, wide.shape))

    return replace(case, operands=[operand(value) for value in case.operands])


def gradient_cases(name):
    """A few small cases of an operator with float operands."""
    rng = np.random.default_rng(2)
    found = []
    for case in CASES.get(name, []):
        floats = [dtype for dtype in dtypes(case.operands) if dtype.is_float]
        if not floats or {str(d) for d in floats} - {"float32", "float64"} or case.raises or case.tails:
            continue
        if name in CONVERSIONS and case.attrs.get("dtype", "float32") not in ("float32", "float64"):
            continue
        if name == "relax.matmul" and case.attrs.get("out_dtype"):
            continue
        attribute, values = WITH_RULE.get(name, ("", (None,)))
        if case.attrs.get(attribute) not in values:
            continue
        size = sum(a.size for value in case.operands for a in (value if isinstance(value, list) else [value])
                   if isinstance(a, np.ndarray))  # fmt: skip
        if 0 < size <= 15:
            found.append(in_doubles(case, rng))
    return found[:3]


@pytest.mark.parametrize("name", RULES)
def test_gradients_are_those_of_differences(name):
    cases = gradient_cases(name)
    assert cases
    for case in cases:
        check_gradient(case)


def check_gradient(case):
    """Compare an operator's gradients with central differences of Σ weight · result, by the interpreter."""
    made = variant(case, False)
    call, arrays = made.call, made.arrays
    variables = parameters(call)
    primal = program(variables, lambda bb: bb.emit(call))
    results = as_list(relax.interpret(primal, "main", *arrays))
    weights = [np.random.default_rng(5).uniform(0.5, 1.5, r.shape).astype(r.dtype) for r in results]
    info = infer_call(call)
    given = [Var(f"w{i}", TensorStructInfo(w.shape, w.dtype.name)) for i, w in enumerate(weights)]
    gradients = []

    def derive(bb):
        y = bb.emit(call)
        grad = given[0] if isinstance(info, TensorStructInfo) else bb.emit(Tuple(given))
        found = made.operator.gradient(call.args, y, grad)
        assert found is not None, case
        assert len(found) == len(call.args)
        gradients.extend(found)
        flat = [g for g, arg in zip(found, call.args, strict=True) if g is not None for g in fields(g, arg)]
        return bb.emit(Tuple([bb.emit(g) for g in flat]))

    derived = as_list(relax.interpret(program([*variables, *given], derive), "main", *arrays, *weights))
    wanted = []
    for gradient, arg in zip(gradients, call.args, strict=True):
        for var in fields(arg, arg) if gradient is not None else []:
            wanted.append(differences(primal, arrays, variables.index(var), weights))
    assert len(derived) == len(wanted) > 0
    for got, expected in zip(derived, wanted, strict=True):
        assert got.shape == expected.shape, case
        tolerance = 1e-5 if all(weight.dtype == np.float64 for weight in weights) else 1e-3
        np.testing.assert_allclose(got, expected, rtol=tolerance, atol=1e-6)


def fields(value, like):
    """The tensors of an operand, which may be a tuple of them."""
    if not isinstance(like, Tuple):
        return [value]
    return value.fields if isinstance(value, Tuple) else [TupleGetItem(value, i) for i in range(len(like.fields))]


def parameters(call):
    return [var for arg in call.args for var in fields(arg, arg) if isinstance(var, Var)]


def program(params, body):
    bb = relax.BlockBuilder()
    with bb.function("main", params):
        bb.emit_func_output(body(bb))
    return bb.get()


def as_list(result):
    return [np.array(item.numpy()) for item in (result if isinstance(result, (tuple, list)) else [result])]


def differences(mod, arrays, index, weights):
    """The gradient by one array, from central differences."""
    step = 1e-6 if all(weight.dtype == np.float64 for weight in weights) else 1e-2
    gradient = np.zeros(arrays[index].shape)
    for place in np.ndindex(arrays[index].shape):
        sums = []
        for sign in (1, -1):
            moved = [array.copy() for array in arrays]
            moved[index][place] += sign * step
            results = as_list(relax.interpret(mod, "main", *moved))
            sums.append(sum((r.astype(np.float64) * w).sum() for r, w in zip(results, weights, strict=True)))
        gradient[place] = (sums[0] - sums[1]) / (2 * step)
    return gradient


def test_no_rule_is_no_gradient():
    x = Var("x", TensorStructInfo((2, 3), "float32"))
    call = relax.op.scatter_elements(x, relax.const([[0, 1, 1]]), relax.const([[1.0, 2.0, 3.0]]), reduction="mul")
    assert call.attrs.gradient([*call.args], Var("y", infer_call(call)), Var("g", infer_call(call))) is None


def test_integers_get_no_gradient():
    x = Var("x", TensorStructInfo((2, 3), "int32"))
    for call in (relax.op.abs(x), relax.op.sum(x), relax.op.argmax(x), relax.op.nn.relu(x), relax.op.floor(x)):
        y = Var("y", infer_call(call))
        assert tuple(call.attrs.gradient(call.args, y, y)) == (None,)


def test_gradients_need_shapes():
    x = Var("x", TensorStructInfo(None, "float32", None, 2))
    for call in (relax.op.sum(x), relax.op.mean(x), relax.op.flatten(x), relax.op.add(x, x)):
        y = Var("y", infer_call(call))
        assert call.attrs.gradient(call.args, y, y) is None


def test_symbolic_shapes_have_gradients():
    n = relax.tir.SizeVar("n", "int64")
    x = Var("x", TensorStructInfo((n, 3), "float64"))
    mod = program([x], lambda bb: bb.emit(relax.op.mean(x).attrs.gradient([x], x, relax.const(6.0, "float64"))[0]))
    assert relax.interpret(mod, "main", np.ones((2, 3))).numpy().tolist() == [[1.0] * 3] * 2


# ------------------------------------------------------------------------------------- one target's own rule


def test_an_operator_may_be_legalized_for_a_target():
    @operator("relax.testing.for_target")
    class ForTarget(Operator):
        """x + x, on one target as 2 · x."""

        def infer(self, x: TensorStructInfo) -> TensorStructInfo:
            return x

        def compute(self, x):
            return topi.add(x, x)

        def legalize_for(self, target, builder, call):
            two = relax.const(2.0, "float32")
            return builder.call_te(topi.multiply, *call.args, two) if target.attrs.get("mcpu") == "special" else None

    x = Var("x", TensorStructInfo((3,), "float32"))
    mod = program([x], lambda bb: bb.emit(ForTarget().call(x)))

    def kernels():
        return {var.name_hint for var in relax.transform.LegalizeOps()(mod).functions} - {"main"}

    assert kernels() == {"for_target"}
    with Target("llvm"):
        assert kernels() == {"for_target"}
    with Target("llvm -mcpu=special"):
        assert kernels() == {"multiply"}
