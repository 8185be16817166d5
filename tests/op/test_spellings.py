"""Attributes of operators with windows: every spelling of a value makes the same operator, which has one text."""

from __future__ import annotations

import pytest

import relax
from relax.dpl import is_op, wildcard
from relax.ir import Op, structural_equal
from relax.op.nn.convolution import AnyConvolution
from relax.op.nn.windows import Windowed
from relax.op.pool_grad import PoolBackward
from relax.op.vision.blocks import DeformConv2d
from relax.op.vision.regions import RoiAlign
from relax.script import from_source

CLASSES = {
    name: cls
    for name in Op.list_op_names()
    if (cls := Op.get(name).get_attr("operator_class")) is not None and issubclass(cls, Windowed)
}
VALUES = {"padding": 1, "output_padding": 1}
"""The numbers of attributes; those of all others are 2."""


def spellings(cls):
    """Each attribute that can be written in several ways, with all of them; the last one is that of the operator."""
    count = len(cls.spatial)
    for name in (*cls.per_axis, "padding"):
        if name in cls.attribute_names:
            value = VALUES.get(name, 2)
            lengths = dict.fromkeys((1, count, 2 * count) if name == "padding" else (1, count))
            yield name, [value, *((value,) * length for length in lengths)]
    if "out_layout" in cls.attribute_names:
        yield "out_layout", ["", "NC" + cls.spatial, None]
    if "out_dtype" in cls.attribute_names:
        yield "out_dtype", [None, "void", ""]


def shapes(cls):
    """The shapes of operands that fit windows of these sizes."""
    count = len(cls.spatial)
    data = (1, 4, *(9,) * count)
    if issubclass(cls, AnyConvolution):
        return [data, (4, 4, *(3,) * count)]
    if issubclass(cls, PoolBackward):
        return [(1, 4, 5, 5), data]
    return [data, (1, 18, 4, 4), (4, 4, 3, 3)] if cls is DeformConv2d else [data]


def module(cls, attributes):
    """A module of one call, parsed from a text in which attributes are spelled so."""
    operands = [f"x{i}" for i in range(len(shapes(cls)))]
    parameters = [f'{name}: R.Tensor({shape}, "float32")' for name, shape in zip(operands, shapes(cls), strict=True)]
    given = [f"{name}={value!r}" for name, value in attributes.items()]
    return from_source(
        "from relax.script import ir as I, relax as R\n"
        "@I.ir_module\nclass Module:\n    @R.function\n"
        f"    def main({', '.join(parameters)}):\n"
        f"        gv = R.{cls.op_name.removeprefix('relax.')}({', '.join([*operands, *given])})\n"
        "        return gv\n"
    )


def test_operators_with_windows_are_found():
    assert {"relax.nn.conv3d", "relax.nn.lp_pool1d", "relax.vision.deform_conv2d"} <= set(CLASSES)
    assert len(CLASSES) > 20


@pytest.mark.parametrize("name", CLASSES)
def test_spellings_make_one_operator(name):
    cls = CLASSES[name]
    for attribute, values in spellings(cls):
        for value in values:
            made = cls(**{attribute: value})
            assert getattr(made, attribute) == values[-1], attribute
            assert structural_equal(made, cls(**{attribute: values[-1]}))
            assert cls().replace(**{attribute: value}).spelled(attribute, value) == values[-1]


@pytest.mark.parametrize("name", CLASSES)
def test_spellings_print_and_parse_to_one_module(name):
    cls = CLASSES[name]
    options = dict(spellings(cls))
    short, long = ({name: values[place] for name, values in options.items()} for place in (0, -1))
    first, second = module(cls, short), module(cls, long)
    assert structural_equal(first, second, map_free_vars=True)
    assert first.script() == second.script()
    assert structural_equal(from_source(first.script()), first, map_free_vars=True)


@pytest.mark.parametrize("name", CLASSES)
def test_patterns_take_every_spelling(name):
    cls = CLASSES[name]
    options = dict(spellings(cls))
    call = module(cls, {key: values[0] for key, values in options.items()})["main"].body.blocks[0].bindings[0]
    pattern = is_op(name)(*(wildcard() for _ in shapes(cls)))
    for attribute, values in options.items():
        assert all(pattern.has_attr({attribute: value}).match(call.value) for value in values), attribute
    assert not pattern.has_attr({next(iter(options)): 7}).match(call.value)
    assert not pattern.has_attr({next(iter(options)): "none"}).match(call.value)


def test_regions_have_two_sizes():
    assert RoiAlign(pooled_size=3).pooled_size == (3, 3)
    assert structural_equal(RoiAlign(pooled_size=3), RoiAlign(pooled_size=(3, 3)))


def test_numbers_that_fit_no_spelling_are_reported():
    with pytest.raises(relax.DiagnosticError, match=r"padding must be 1, 2 or 4 numbers.*found \(1, 1, 1\)"):
        relax.op.nn.max_pool2d(relax.Var("x", relax.TensorStructInfo((1, 1, 4, 4), "float32")), padding=(1, 1, 1))
