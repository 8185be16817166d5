"""Every element type that the schema of an operator lists is imported, and computes what onnx.reference does."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, ValueInfoProto, defs, helper
from onnx.reference import ReferenceEvaluator

import relax
from relax.frontend.onnx import from_onnx
from support import values

OPSET = 21
DTYPES = {
    **{f"tensor({t})": t for t in ("bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float16")},
    "tensor(float)": "float32",
    "tensor(double)": "float64",
}  # fmt: skip
OPERATORS = {
    **dict.fromkeys("Abs Neg Sign Floor Ceil Round Not BitwiseNot IsNaN IsInf Relu NonZero Hardmax Clip".split(), (1, {}, None)),
    **dict.fromkeys("Add Sub Mul Div Max Min And Or Xor BitwiseAnd BitwiseOr BitwiseXor".split(), (2, {}, None)),
    **dict.fromkeys("Equal Less LessOrEqual Greater GreaterOrEqual".split(), (2, {}, None)),
    **dict.fromkeys("ReduceSum ReduceProd ReduceMax ReduceMin ReduceL1".split(), (1, {"keepdims": 0}, None)),
    **dict.fromkeys(("ArgMax", "ArgMin"), (1, {"axis": 1}, None)),
    "CumSum": (1, {}, np.array(1)),
    "TopK": (1, {}, np.array([2])),
}  # fmt: skip
"""The number of operands, the attributes, and a constant that is the last operand."""
X = np.array([[0, 3, 1], [2, 0, 2]])
Y = np.array([[1, 2, 1], [3, 1, 1]])


def schema_dtypes(name):
    """The element types of an operator's first input."""
    schema = defs.get_schema(name, OPSET, "")
    types = {each.type_param_str: each.allowed_type_strs for each in schema.type_constraints}
    first = schema.inputs[0].type_str
    return [DTYPES[text] for text in types.get(first, [first]) if text in DTYPES]


def model(name, operands):
    count, attributes, constant = OPERATORS[name]
    inputs = [
        helper.make_tensor_value_info(f"x{i}", helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
        for i, array in enumerate(operands)
    ]
    constants = (
        [] if constant is None else [helper.make_tensor("c", TensorProto.INT64, constant.shape, constant.ravel())]
    )
    results = ["y"] if name != "TopK" else ["y", "indices"]
    node = helper.make_node(name, [value.name for value in [*inputs, *constants]], results, **attributes)
    outputs = [ValueInfoProto(name=result) for result in results]
    graph = helper.make_graph([node], "graph", inputs, outputs, constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)])


@pytest.mark.parametrize("name", OPERATORS)
def test_dtypes_of_the_schema(name):
    for dtype in schema_dtypes(name):
        operands = [array.astype(dtype) for array in (X, Y)[: OPERATORS[name][0]]]
        made = model(name, operands)
        expected = ReferenceEvaluator(made).run(None, {f"x{i}": array for i, array in enumerate(operands)})
        found = values(relax.interpret(from_onnx(made), "main", *operands))
        for array, right in zip(found if isinstance(found, (tuple, list)) else (found,), expected, strict=True):
            np.testing.assert_allclose(array, right, rtol=1e-3, err_msg=dtype)
            assert array.dtype == right.dtype, dtype
