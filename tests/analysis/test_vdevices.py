"""Placement of tensors on virtual devices: struct info with the devices that are known of a value."""

from __future__ import annotations

from relax.analysis.vdevices import FuncPlaces, Known, Location, leaves, placed
from relax.ir import VDevice
from relax.struct_info import FuncStructInfo, ObjectStructInfo, TensorStructInfo, TupleStructInfo

DEVICE, OTHER = VDevice("llvm", 1), VDevice("llvm", 2)
VECTOR, THERE = TensorStructInfo((4,)), TensorStructInfo((4,), vdevice=DEVICE)


def at(device):
    return Location(Known(device, "x", None))


def test_tensors_are_placed_where_nothing_is_said_of_them():
    assert placed(VECTOR, at(DEVICE)) == THERE
    assert placed(VECTOR, Location()) is VECTOR
    assert placed(THERE, at(OTHER)) is THERE
    assert placed(ObjectStructInfo(), None) == ObjectStructInfo()


def test_parts_that_are_shared_are_placed_once():
    pair, places = TupleStructInfo([VECTOR, THERE]), (at(DEVICE), at(DEVICE))
    both = placed(TupleStructInfo([pair, pair]), (places, places))
    assert both.fields[0] is both.fields[1]
    assert both.fields[0] == TupleStructInfo([THERE, THERE])
    assert placed(pair, (Location(), Location())) is pair
    assert len(leaves((places, places))) == 2


def test_functions_are_placed_by_their_parameters_and_result():
    info = FuncStructInfo([VECTOR], VECTOR)
    known = FuncPlaces("f", (at(DEVICE),), at(OTHER))
    assert placed(info, known) == FuncStructInfo([THERE], TensorStructInfo((4,), vdevice=OTHER))
    assert placed(info, FuncPlaces("g", (), at(OTHER))) is info  # of another number of parameters
