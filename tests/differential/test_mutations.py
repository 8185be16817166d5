"""What breaks a program is found, and only that: every mutation on one small program, and on random ones."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import relax
from differential import generator, harness
from differential.mutate_tree import scan
from differential.mutations import (
    MUTATIONS,
    NEIGHBOURS,
    TEXT_MUTATIONS,
    Unrefused,
    check,
    check_neighbour,
    check_program,
    check_text,
    mutated_programs,
    refusal,
)
from relax.analysis import check_well_formed
from relax.interpreter import Interpreter
from relax.ir import IRModule
from relax.script import from_source

PROGRAM = """
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(("n", 4), "float32"), y: R.Tensor((4,), "float32"), c: R.Tensor((), "bool")):
        cls = Module
        n = T.int64()
        k = T.int64()
        with R.dataflow():
            a = R.add(x, y)
            b = R.exp(a)
            R.output(b)
        d = cls.helper(y)
        e = R.match_cast(d, R.Tensor((k,), "float32"))
        with R.dataflow():
            t = R.call_tir(cls.double, (y,), R.Tensor((4,), "float32"))
            u = R.multiply(t, y)
            v = R.negative(t)
            R.output(v)

        @R.function
        def local(p: R.Tensor((n, 4), "float32")) -> R.Tensor((n, 4), "float32"):
            q = R.exp(p)
            r = R.add(q, b)
            return r

        f = local(b)
        if c:
            g = R.exp(f)
            h = R.negative(g)
        else:
            h = f
        pair = (h, (e, v))
        s = pair[1]
        return (h, s)

    @R.function(private=True)
    def helper(w: R.Tensor(ndim=1, dtype="float32")) -> R.Tensor(ndim=1, dtype="float32"):
        return R.negative(w)

    @T.prim_func
    def double(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
        for i in range(4):
            B[i] = A[i] + A[i]
"""

MODULE = from_source(PROGRAM)


class First:
    """The first of all choices."""

    def pick(self, items):
        return items[0]

    def integer(self, low, high):
        return low

    def chance(self, percent):
        return False


# ------------------------------------------------------------------------------- one by one, on the program above

EXPECTED = {
    "use_dataflow_var_outside_its_block": (35, 9, "rule 1: the dataflow variable a is used outside its dataflow block"),
    "bind_dataflow_var_in_ordinary_block": (13, 9, "rule 1: the dataflow variable d is bound outside a dataflow block"),
    "dataflow_var_as_parameter": (5, 5, "rule 1: the dataflow variable extra is a parameter"),
    "use_unbound_variable": (10, 17, "rule 2: the variable stray is used but never bound"),
    "bind_variable_twice": (10, 13, "rule 2: the variable a is bound twice"),
    "use_variable_in_its_own_value": (10, 17, "rule 2: the variable a is used in its own value"),
    "use_variable_of_a_branch_outside": (33, 9, "rule 2: the variable g is not bound here"),
    "use_variable_of_a_function_outside": (27, 9, "rule 2: the variable p is not bound here"),
    "use_variable_before_its_binding": (10, 17, "rule 3: the variable b is used before it is bound"),
    "return_annotation_uses_unbound_size": (5, 5, "rule 4: the return annotation uses k, which no parameter binds"),
    "return_annotation_uses_size_of_a_match_cast": (5, 5, "rule 4: the return annotation uses k, which no parameter binds"),
    "use_unbound_size": (10, 13, "rule 5: the shape variable k is not bound here"),
    "use_size_before_its_match_cast": (14, 9, "rule 5: the shape variable k is used before it is bound"),
    "use_size_before_it_within_a_match_cast": (10, 13, "rule 5: the shape variable k is used before it is bound"),
    "sinfo_args_mention_unbound_size": (10, 13, "rule 5: the shape variable k is not bound here"),
    "size_never_alone_in_signature": (5, 5, "rule 6: the signature uses k, but in no parameter does k stand alone in a dimension"),
    "if_in_dataflow_block": (10, 13, "rule 7: a dataflow block has no control flow, so no if"),
    "recursive_call_in_dataflow_block": (10, 13, "rule 7: a dataflow block has no recursive calls, found one of main"),
    "mutually_recursive_call_in_dataflow_block": (10, 13, "rule 7: a dataflow block has no mutually recursive calls, found one of leads_back"),
    "local_recursion_in_dataflow_block": (13, 9, "rule 7: a dataflow block has no recursive calls, found one of rec"),
    "recursive_function_without_annotation": (5, 5, "rule 8: the recursive function main has no return annotation"),
    "recursive_local_function_without_annotation": (13, 9, "rule 8: the recursive function rec has no return annotation"),
    "part_is_missing": (13, 9, "broken node: TupleGetItem: tuple_value is None, expected RelaxExpr"),
    "operator_as_a_value": (10, 13, "rule 9: the operator relax.exp is used as a value"),
    "closure_captures_dataflow_variable": (11, 13, "rule 11: a function captures the dataflow variable a"),
    "prim_value_of_no_number": (10, 13, "rule 18: a prim value has dtype handle, expected an integer, float or bool scalar"),
    "no_entry_point": (5, 5, "rule 12: the module has no entry point"),
    "global_symbol_is_another_name": (5, 5, "rule 13: the function main has the global_symbol 'other'"),
    "forced_pure_but_impure": (5, 5, "rule 21: a function with relax.force_pure must be pure, and is declared with pure=False"),
    "ndim_is_another_number": (10, 13, "rule 10: ndim is 3, and the shape has 2 dimensions"),
    "tensor_annotation_over_unbound_size": (10, 13, "rule 14: a tensor annotation uses the shape variable k, which is not bound here"),
    "size_is_negative": (10, 13, "rule 14: dimension 0 of a tensor annotation is -9, and no size is negative"),
    "shape_is_held_by_an_unbound_variable": (10, 13, "rule 14: the shape of a tensor annotation is stray, which is not bound here"),
    "shape_is_held_by_a_tensor": (10, 13, 'rule 14: the shape of a tensor annotation is x, which holds R.Tensor((n, 4), "float32"), expected a shape'),
    "shape_variable_of_another_rank": (10, 13, "rule 14: the shape of a tensor annotation is s, which has 2 dimensions, and ndim is 1"),
    "shape_is_computed_in_the_annotation": (10, 13, "rule 14: the shape of a tensor annotation is a Call, expected dimensions or a variable"),
    "shape_annotation_over_unbound_size": (10, 13, "rule 15: a shape annotation uses the shape variable k, which is not bound here"),
    "prim_annotation_over_unbound_size": (10, 13, "rule 16: a prim annotation uses the shape variable k, which is not bound here"),
    "function_described_twice": (10, 13, "rule 17: a function's struct info has either params or derive_func, found both"),
    "function_not_described": (10, 13, "rule 17: a function's struct info has either params or derive_func, found neither"),
    "prim_annotation_of_no_number": (10, 13, "rule 19: a prim annotation has dtype handle, expected an int, uint or float type"),
    "unsupported_dtype": (10, 13, "rule 20: the dtype float32x4 has 4 lanes; in Relax a dtype has one"),
    "prim_value_of_another_dtype": (10, 13, "rule 22: a prim annotation has dtype int32, and its value 3 is int64"),
    "incompatible_argument": (10, 13, 'f: argument 0: expected R.Tensor((2,), "float32"), found R.Shape([2, 3])'),
    "wrong_number_of_arguments": (10, 13, "f takes 1 argument, found 0"),
    "call_of_no_function": (10, 13, "only functions can be called"),
    "sinfo_args_of_a_call_that_takes_none": (10, 17, "a call of relax.add takes no sinfo_args: what it returns is derived"),
    "call_of_unknown_function": (10, 13, "the module has no function nowhere"),
    "unregistered_derivation": (13, 9, "the derivation 'differential.unknown' is not registered"),
    "impure_call_in_dataflow_block": (10, 13, "the call of differential.unknown is impure, inside a dataflow block"),
    "impure_call_in_pure_function": (13, 9, "the call of differential.unknown is impure, inside a pure function"),
    "impure_local_function_called_in_pure_function": (13, 9, "the call of f is impure, inside a pure function"),
    "annotation_contradicts_the_value": (10, 13, 'the value does not fit the annotation of wrong: expected R.Shape(ndim=1), found R.Tensor((n, 4), "float32")'),
    "match_cast_to_something_else_than_declared": (10, 13, 'the match_cast does not give what wrong is declared to be: expected R.Shape(ndim=1), found R.Tensor(dtype="float32", ndim=2)'),
    "return_annotation_contradicts_the_body": (35, 16, 'main does not return what it declares: expected R.Shape, found R.Tuple(R.Tensor((n, 4), "float32"), R.Tuple(R.Tensor(dtype="float32", ndim=1), R.Tensor((4,), "float32")))'),
    "match_cast_never_succeeds": (10, 13, 'this match_cast can never succeed: expected R.Shape(ndim=1), found R.Tensor((n, 4), "float32")'),
    "field_of_no_tuple": (10, 13, "only tuples have fields"),
    "tuple_index_out_of_range": (10, 13, "index 2 is out of range for a tuple of 2"),
    "condition_is_no_bool_scalar": (13, 9, "the condition of an if must be a bool scalar"),
    "operand_of_the_wrong_kind": (10, 17, "add: x1 must be a tensor or a scalar, found a shape"),
    "operator_with_an_argument_too_many": (10, 17, "add: takes 2 operands (x1, x2), found 3"),
    "shapes_that_do_not_fit": (10, 13, "add: the shapes cannot be broadcast"),
    "dtypes_that_do_not_fit": (10, 13, "add: x1 and x2 must have one dtype, found float32 and int64"),
    "axis_that_does_not_exist": (10, 13, "expand_dims: axis 3 is out of range: expected from -3 to 2"),
    "attribute_of_a_wrong_value": (10, 13, "nn.max_pool2d: layout must be a permutation of 'NCHW', found 'XYZW'"),
    "operands_on_two_devices": (10, 13, "add: the operands are on different devices"),
    "tensor_wanted_on_two_devices": (13, 9, "add: what must be on one virtual device is on two"),
    "output_that_cannot_be_allocated": (10, 13, "call_tir: the shape of the output is not known, so it cannot be allocated"),
    "kernel_called_with_what_it_does_not_take": (10, 13, "call_tir: argument 0 does not fit: dimension 0: expected 4, found 5"),
    "inplace_index_of_no_argument": (10, 13, "call_tir_inplace: inplace_indices: there is no argument 1; there are 1, counted from 0"),
    "use_after_reuse_in_place": (10, 13, "fresh is used after it was reused in place"),
}  # fmt: skip
"""What the first way to apply each mutation is answered with: line, column, message."""


def names(table):
    return [item.name for item in table]


def applied(mutation):
    """The module with a mutation applied in the first possible way."""
    broken = mutation.apply(MODULE, First())
    assert isinstance(broken, IRModule)
    return broken


@pytest.mark.parametrize("mutation", MUTATIONS, ids=names(MUTATIONS))
def test_a_mutation_is_refused_with_its_rule_at_its_place(mutation):
    first = check(MODULE, mutation, First())[0]
    assert first.code == mutation.code
    assert (first.span.line, first.span.column, first.message) == EXPECTED[mutation.name]
    text = PROGRAM.splitlines()[first.span.line - 1]
    assert text in first.render()


@pytest.mark.parametrize("mutation", MUTATIONS, ids=names(MUTATIONS))
def test_a_mutation_is_refused_wherever_it_is_applied(mutation):
    for seed in range(3):
        assert check(MODULE, mutation, seed) is not None


def test_every_rule_is_broken_by_a_mutation():
    assert {m.rule for m in MUTATIONS if m.rule is not None} == set(range(1, 23))


def test_every_error_of_derivation_is_provoked_by_a_mutation():
    """Those that a program can make: E3013 to E3015 are about registering operators and building with blocks."""
    codes = {m.code for m in MUTATIONS}
    derivation = {f"E30{i:02d}" for i in range(1, 13)} | {"E3016"}
    operators = {"E3101", "E3102", "E3103", "E3104", "E3105", "E3106", "E3110", "E3111", "E3112"}
    assert derivation | operators | {"E4006"} <= codes


def test_mutations_are_told_by_their_names():
    for table in (MUTATIONS, NEIGHBOURS, TEXT_MUTATIONS):
        assert len(set(names(table))) == len(table)
        assert all(item.doc.endswith(".") for item in table)


def test_a_mutation_leaves_the_program_as_it_is_where_it_does_not_apply():
    nothing = from_source("@I.ir_module\nclass M:\n    @R.function\n    def main(c: R.Object):\n        return c\n")
    by_name = {m.name: m for m in MUTATIONS}
    for name in ("use_dataflow_var_outside_its_block", "use_variable_before_its_binding", "if_in_dataflow_block"):
        assert check(nothing, by_name[name], 0) is None


def test_the_module_that_is_mutated_stays_as_it_was():
    before = MODULE.script()
    for mutation in MUTATIONS:
        mutation.apply(MODULE, First())
    assert MODULE.script() == before
    assert relax.analysis.well_formed(MODULE)


def test_what_is_not_refused_is_told():
    """The checks can fail: they are given mutations that break nothing, or something else than they say."""
    broken = {m.name: m for m in MUTATIONS}["use_unbound_size"]
    harmless = type(broken)("harmless", "E2005", lambda module, choices: module, "Change nothing.")
    with pytest.raises(Unrefused, match="check_well_formed says nothing"):
        check(MODULE, harmless, 0)
    mistaken = type(broken)("mistaken", "E2006", broken.apply, "Break another rule.")
    with pytest.raises(Unrefused, match="check_well_formed says {'E2005'}"):
        check(MODULE, mistaken, 0)
    named = NEIGHBOURS[0]
    breaking = type(named)("breaking", lambda module, choices: applied(broken), "Break it.", "results")
    with pytest.raises(Unrefused, match="refused"):
        check_neighbour(MODULE, breaking, 0)


# ------------------------------------------------------------------------------------------- neighbours


def case(n=2):
    return (np.arange(4 * n, dtype="float32").reshape(n, 4), np.ones(4, "float32"), np.array(n % 2 == 0))


def difference(cases, exact=True):
    """How what two modules do differs; where the first fails, the other may do what it likes."""

    def compare(before, after):
        for args in cases:
            expected = harness.run(Interpreter(before)["main"], args)
            if expected.error is None:
                told = harness.difference(expected, harness.run(Interpreter(after)["main"], args), exact)
                if told is not None:
                    return told
        return None

    return compare


@pytest.mark.parametrize("neighbour", NEIGHBOURS, ids=names(NEIGHBOURS))
def test_a_neighbour_is_accepted_and_means_the_same(neighbour):
    same = difference([case(0), case(1), case(2)])
    for choices in (First(), 1, 2):
        assert check_neighbour(MODULE, neighbour, choices, same) is not None


def test_a_difference_is_seen():
    other = from_source(PROGRAM.replace("R.negative(t)", "R.exp(t)"))
    assert difference([case()])(MODULE, other) is not None


# ------------------------------------------------------------------------------------------- text


@pytest.mark.parametrize("mutation", TEXT_MUTATIONS, ids=names(TEXT_MUTATIONS))
def test_a_typing_error_is_answered_with_a_place_in_the_text(mutation):
    for seed in range(12):
        found = check_text(PROGRAM, mutation, seed)
        assert found is not None
        if mutation.breaks:
            assert found[0].span is not None


def test_an_undefined_name_is_pointed_at():
    mutation = {m.name: m for m in TEXT_MUTATIONS}["undefined_name"]
    broken = mutation.apply(PROGRAM, First())
    [found] = refusal(lambda: from_source(broken))
    assert (found.code, found.message) == ("E1002", "`undefined_name` is not defined")
    line = broken.splitlines()[found.span.line - 1]
    assert line[found.span.column - 1 :].startswith("undefined_name")


# ------------------------------------------------------------------------------------------- random programs

short = settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))


@short
@given(generator.programs(), st.integers(0, 10**6))
def test_random_programs(program, seed):
    check_program(generator.HEADER + program.text, seed, count=3)


@short
@given(generator.programs(failing=False), st.sampled_from(NEIGHBOURS), st.integers(0, 10**6))
def test_neighbours_of_random_programs(program, neighbour, seed):
    with harness.quiet():
        module = program.module()
    cases = [generator.inputs(program, sizes, seed) for sizes in generator.SIZES[:2]]
    check_neighbour(module, neighbour, seed, difference(cases))


@short
@given(mutated_programs(generator.programs().map(lambda program: program.module())))
def test_broken_programs_are_a_strategy(broken):
    mutation, module = broken
    if mutation.stage == "rules":
        assert {d.code for d in check_well_formed(module)} == {mutation.code}
    assert scan(module).functions
    assert re.search("class Module", module.script())
