"""Placement of tensors: a module's statements about virtual devices, propagated (language.md §6).

Every tensor a program computes has a place; what must be on one device shares one, as far as the program says so:

    an operator's tensor operands and its results         a variable and what it is bound to or cast to
    a function's result and what its calls give           a parameter and its arguments, backwards
    an If and its branches, backwards; forwards where they agree

From what annotations, `to_vdevice` and results say, knowledge spreads over these until nothing changes: so it goes
backwards from results as well as forwards. Then hints have their turn, in order, where still nothing is known;
then match_casts that name a device, where they do not contradict each other. Two devices for one place are an
error, which names what says the one and what says the other.

A constant takes the device of its use; an operand of a kernel is no use, since kernels read the host's memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field
from typing import Final, TypeAlias, cast

from ..expr import Binding, Call, Constant, Function, If, MatchCast, SeqExpr, Tuple, TupleGetItem, Var, VarBinding
from ..ir import (
    Diagnostic,
    GlobalVar,
    IRModule,
    Node,
    Op,
    RelaxExpr,
    Span,
    StructInfo,
    VDevice,
    listed_vdevices,
    same_vdevice,
    vdevice_index,
    vdevice_text,
)
from ..ir.sharing import is_excessive
from ..op.base import Operator, operator_of
from ..op.errors import DEVICES, UNLISTED_DEVICE
from ..op.intrinsics import CallDPSPacked, CallInplacePacked, ClosureCall, HintOnDevice, MakeClosure, ToVDevice
from ..runtime.records import dataclass
from ..struct_info import FuncStructInfo, TensorStructInfo, TupleStructInfo

MANY_PLACES: Final = 1000
"""The tensors in a value that have places of their own, though its tuples are few objects."""


@dataclass(frozen=True)
class Known:
    """A virtual device with the statement that places a tensor there, and that statement's span."""

    vdevice: VDevice
    text: str
    span: Span | None
    derived: bool = False
    """True if the placement is inferred rather than written in the program."""


class Location:
    """The virtual device of one tensor. Places that must be the same are joined: `find` gives the representative."""

    __slots__ = ("known", "parent")

    def __init__(self, known: Known | None = None) -> None:
        self.parent: Location | None = None
        self.known = known

    def find(self) -> Location:
        """Return the representative of this location."""
        root = self
        while root.parent is not None:
            root = root.parent
        here = self
        while here.parent is not None:
            here.parent, here = root, here.parent
        return root

    @property
    def vdevice(self) -> VDevice | None:
        """The device, None if it is not known."""
        known = self.find().known
        return None if known is None else known.vdevice


@dataclass(eq=False)
class FuncPlaces:
    """The places of a function's parameters and result."""

    name: str
    params: tuple[Places, ...]
    ret: Places
    closed: bool = False
    """True if all its calls are seen."""


Places: TypeAlias = "Location | tuple[Places, ...] | FuncPlaces | None"
"""The places in a value, shaped as its struct info; None where there are none, or nothing is known of them."""


@dataclass(frozen=True)
class Part:
    """One of several values that flow into another: a branch, an argument."""

    place: Location
    what: str
    span: Span | None
    where: str


@dataclass(eq=False)
class Join:
    """A place that is one of several: known where all of them are known, and agree; they are where it is."""

    result: Location
    parts: list[Part]
    forward: bool = True
    backward: bool = True
    callee: FuncPlaces | None = None
    """The function whose parameter `result` is: it is known forwards only if all calls are seen."""


@dataclass(eq=False)
class Placement:
    """The places of all values of a module. `diagnostics` lists the errors; the rest holds if there are none."""

    variables: dict[Var, Places] = field(default_factory=dict[Var, Places])
    functions: dict[Function, FuncPlaces] = field(default_factory=dict[Function, FuncPlaces])
    """By function: the module's, and literals."""
    constants: dict[Node, list[Location | None]] = field(default_factory=dict[Node, "list[Location | None]"])
    """For each variable (or SeqExpr) the constants in what it is bound to (or in its body), in order."""
    diagnostics: list[Diagnostic] = field(default_factory=list[Diagnostic])


def place_vdevices(mod: IRModule) -> Placement:
    """Infer the virtual devices of all tensors of a module in normal form."""
    return _Placer(mod).run()


def placed(info: StructInfo, places: Places) -> StructInfo:
    """The struct info with the devices that are known; the very object if it says them all."""
    done: dict[tuple[int, int], StructInfo] = {}

    def visit(info: StructInfo, places: Places) -> StructInfo:
        """Place shared struct infos once for each of their places."""
        key = id(info), id(places)
        if key not in done:
            done[key] = rebuilt(info, places)
        return done[key]

    def several(infos: tuple[StructInfo, ...], places: tuple[Places, ...]) -> tuple[StructInfo, ...]:
        new = tuple(map(visit, infos, places))
        return infos if all(a is b for a, b in zip(new, infos, strict=True)) else new

    def rebuilt(info: StructInfo, places: Places) -> StructInfo:
        match info, places:
            case (TensorStructInfo(), Location()):
                vdevice = places.vdevice
                return info if vdevice is None or info.vdevice is not None else info.replace(vdevice=vdevice)
            case (TupleStructInfo(fields), tuple()) if len(fields) == len(places):
                new = several(fields, places)
                return info if new is fields else TupleStructInfo(new, span=info.span)
            case (FuncStructInfo(params, ret), FuncPlaces()) if params is not None:
                if len(params) != len(places.params):
                    return info
                return info.replace(params=several(params, places.params), ret=visit(ret, places.ret))
            case _:
                return info

    return visit(info, places)


def leaves(places: Places) -> list[Location]:
    """The tensors in a value, through tuples; a tuple that occurs in several counts once."""
    locations: dict[Location, None] = {}
    seen: set[int] = set()
    pending = [places]
    while pending:
        current = pending.pop()
        if isinstance(current, Location):
            locations[current] = None
        elif isinstance(current, tuple) and id(current) not in seen:
            seen.add(id(current))
            pending.extend(reversed(current))
    return list(locations)


class _Placer:
    """Walk the functions of a module, unify locations, and propagate known devices."""

    def __init__(self, mod: IRModule) -> None:
        self.mod = mod
        self.listed = listed_vdevices(mod)
        self.out = Placement()
        self.globals: dict[str, FuncPlaces] = {}
        self.joins: list[Join] = []
        self.joins_of: dict[Location, Join] = {}
        """For a parameter of a function, its arguments."""
        self.hints: list[tuple[Location, Known]] = []
        self.casts: list[tuple[Location, Known]] = []
        self.owner: Node = mod
        self.where = ""
        self.reported: set[object] = set()

    def run(self) -> Placement:
        functions = [(g, f) for g, f in self.mod.functions.items() if isinstance(f, Function)]
        for global_var, function in functions:
            places = self.signature(function, global_var.name_hint)
            places.closed = "global_symbol" not in function.attrs
            self.globals[global_var.name_hint] = places
        for global_var, function in functions:
            self.where = f"in {global_var.name_hint}"
            self.body(function, self.globals[global_var.name_hint])
        self.spread()
        for location, known in self.hints:
            self.learn(location, known)
        for location, known in _agreed(self.casts):
            self.learn(location, known)
        return self.out

    # ------------------------------------------------------------------------ places of struct info

    def places(self, info: StructInfo | None, text: str, span: Span | None, derived: bool = False) -> Places:
        """New places for a value of this struct info, which is called `text`.

        Two fields of one tuple may be on two devices though their struct info is one object; only where these are very
        many, an object has the same places wherever it stands.
        """
        of_object: dict[int, Places] | None = (
            {} if isinstance(info, TupleStructInfo | FuncStructInfo) and is_excessive(info, MANY_PLACES) else None
        )

        def places_of(info: StructInfo | None, text: str, derived: bool) -> Places:
            if of_object is None:
                return new(info, text, derived)
            if id(info) not in of_object:
                of_object[id(info)] = new(info, text, derived)
            return of_object[id(info)]

        def new(info: StructInfo | None, text: str, derived: bool) -> Places:
            match info:
                case TensorStructInfo(vdevice=vdevice):
                    return Location(None if vdevice is None else self.known(vdevice, text, span, derived))
                case TupleStructInfo(fields):
                    return tuple(places_of(item, f"{text}[{i}]", derived) for i, item in enumerate(fields))
                case FuncStructInfo(params, ret) if params is not None:
                    places = tuple(places_of(item, f"parameter {i} of {text}", False) for i, item in enumerate(params))
                    return FuncPlaces(text, places, places_of(ret, f"the result of {text}", False))
                case _:
                    return None

        return places_of(info, text, derived)

    def known(self, vdevice: VDevice, text: str, span: Span | None, derived: bool = False) -> Known:
        """Record a statement about a device, which the module must list."""
        key = (vdevice.target, vdevice.vdevice_id, vdevice.memory_scope)
        if vdevice_index(vdevice, self.listed) is None and key not in self.reported:
            self.reported.add(key)
            message = f"{text}: the module does not list the virtual device {vdevice.target}:{vdevice.vdevice_id}"
            names = ", ".join(vdevice_text(item, self.listed) for item in self.listed)
            hint = 'list it in I.module_global_infos({"vdevice": [...]})'
            self.complain(UNLISTED_DEVICE, message, span, (f"it lists {names}",), hint)
        return Known(vdevice, text, span, derived)

    # ------------------------------------------------------------------------------------ functions

    def signature(self, function: Function, name: str) -> FuncPlaces:
        params: list[Places] = []
        for param in function.params:
            info, text = param.struct_info_, f"parameter {param.name_hint} of {name}"
            places = self.places(info, text, param.span or (None if info is None else info.span))
            self.out.variables[param] = places
            params.append(places)
        ret = function.ret_struct_info
        span = None if ret is None else ret.span
        result = self.places(ret, f"the result of {name}", span or function.span, span is None)
        signature = self.out.functions[function] = FuncPlaces(name, tuple(params), result)
        return signature

    def body(self, function: Function, places: FuncPlaces) -> None:
        result = self.sequence(cast(SeqExpr, function.body))
        ret = function.ret_struct_info
        span = None if ret is None else ret.span
        self.connect(places.ret, result, f"the result of {places.name}", span or function.span)

    def sequence(self, seq: SeqExpr) -> Places:
        for block in seq.blocks:
            for binding in block.bindings:
                self.binding(binding)
        outer, self.owner = self.owner, seq
        result = self.value(seq.body)
        self.owner = outer
        return result

    # ------------------------------------------------------------------------------------- bindings

    def binding(self, binding: Binding) -> None:
        var = binding.var
        outer, self.owner = self.owner, var
        if isinstance(binding, MatchCast):
            span = binding.struct_info.span or binding.span or var.span
            own = self.places(binding.struct_info, var.name_hint, span)
            self.cast(own, self.value(binding.value), f"the match_cast to {var.name_hint}", span)
        else:
            value = cast(VarBinding, binding).value
            # Another name has the value's places: they may be very many where tuples share parts.
            named = var.annotation is None and isinstance(value, Tuple | TupleGetItem | Var)
            own = self.bound(var, value, None) if named else None
            if isinstance(value, Function):
                own = self.local_function(var, value)
            elif own is None:
                span = value.span or binding.span or var.span
                derived = var.annotation is None
                own = self.places(var.struct_info_, var.name_hint, var.span or span, derived)
                self.connect(own, self.bound(var, value, own), var.name_hint, span)
        self.out.variables[var] = own
        self.owner = outer

    def local_function(self, var: Var, function: Function) -> FuncPlaces:
        """A function literal, which may call itself by its variable; an annotation of that is the function's own."""
        places = self.signature(function, var.name_hint)
        places.closed = True
        self.out.variables[var] = places
        self.body(function, places)
        own = self.places(var.struct_info_, var.name_hint, var.span)
        self.connect(own, places, var.name_hint, function.span, escapes=False)
        return places

    def cast(self, own: Places, value: Places, description: str, span: Span | None) -> None:
        """A cast that names a device is a check; one that does not leaves the value where it is."""
        for mine, theirs in _pairs(own, value):
            self.cast_part(mine, theirs, description, span)

    def cast_part(self, own: Places, value: Places, description: str, span: Span | None) -> None:
        match own, value:
            case (Location(), Location()) if own.known is not None and value.find().known is None:
                self.casts.append((value, own.known))
            case _:
                self.connect(own, value, description, span)

    def bound(self, var: Var, value: RelaxExpr, own: Places) -> Places:
        """The places of what a variable is bound to."""
        match value:
            case If(cond, yes, no):
                self.value(cond)
                branches = [self.sequence(cast(SeqExpr, yes)), self.sequence(cast(SeqExpr, no))]
                self.join(own, branches, f"the if that gives {var.name_hint}", value.span)
                return own
            case Call():
                return self.call(value, var)
            case TupleGetItem(source, index):
                fields = self.value(source)
                return fields[index] if isinstance(fields, tuple) and index < len(fields) else None
            case _:
                return self.value(value)

    def value(self, leaf: RelaxExpr, kernel: bool = False) -> Places:
        """The places of a leaf; a function that is not called here may be called by anybody."""
        match leaf:
            case Var():
                return _escaped(self.out.variables.get(leaf))
            case GlobalVar(name):
                return _escaped(self.globals.get(name))
            case Tuple(fields):
                return tuple(self.value(item, kernel) for item in fields)
            case Constant():
                location = None if kernel else Location()
                self.out.constants.setdefault(self.owner, []).append(location)
                return location
            case _:
                return None

    # ---------------------------------------------------------------------------------------- calls

    def call(self, call: Call, var: Var) -> Places:
        """The places of a call's result."""
        if isinstance(call.op, Op):
            return self.operator_call(call, var)
        args = tuple(self.value(arg) for arg in call.args)
        result = self.places(call.struct_info_, var.name_hint, call.span, True)
        callee = self.globals.get(call.op.name_hint) if isinstance(call.op, GlobalVar) else None
        if isinstance(call.op, Var):
            callee_places = self.out.variables.get(call.op)
            callee = callee_places if isinstance(callee_places, FuncPlaces) else None
        self.apply(callee, args, result, call.span)
        return result

    def operator_call(self, call: Call, var: Var) -> Places:
        operator = operator_of(call)
        kernel = operator is not None and operator.propagates_vdevice
        args = tuple(self.value(arg, kernel) for arg in call.args)
        result = self.places(call.struct_info_, var.name_hint, call.span, True)
        match operator:
            case ToVDevice(dst):
                return Location(self.known(dst, f"what to_vdevice gives {var.name_hint}", call.span))
            case HintOnDevice(dst):
                known = self.known(dst, f"what hint_on_device gives {var.name_hint}", call.span)
                self.hints += [(location, known) for location in leaves(args[0])]
                return Location(known)
            case CallInplacePacked(indices):
                fields = result if isinstance(result, tuple) else (result,)
                for result_field, index in zip(fields, indices, strict=True):
                    if index >= 0:
                        self.connect(result_field, args[index + 1], "call_inplace_packed", call.span)
            case None:
                pass
            case _:
                self.other_call(operator, args, result, call.span)
        return result

    def other_call(self, operator: Operator, args: tuple[Places, ...], result: Places, span: Span | None) -> None:
        match operator:
            case ClosureCall():
                callee, given = args
                self.apply(callee, given, result, span)
            case MakeClosure():
                self.captured(args[0], args[1], result, span)
            case CallDPSPacked():
                for location in leaves(result):
                    parts = [Part(arg, "call_dps_packed", span, self.where) for arg in leaves(args[1])]
                    self.joins.append(Join(location, parts, backward=False))
            case _ if operator.propagates_vdevice:
                together = [*leaves(args), *leaves(result)]
                for other in together[1:]:
                    self.connect(together[0], other, operator.short_name, span)
            case _:
                pass

    def apply(self, callee: Places, args: Places, result: Places, span: Span | None) -> None:
        """A call: arguments are where the parameters are, its result is where the function's is."""
        if not isinstance(callee, FuncPlaces) or not isinstance(args, tuple):
            return
        for index, (param, arg) in enumerate(zip(callee.params, args, strict=False)):
            self.argument(callee, param, arg, f"argument {index} of {callee.name}", span)
        self.connect(callee.ret, result, f"the result of {callee.name}", span)

    def argument(self, callee: FuncPlaces, param: Places, arg: Places, description: str, span: Span | None) -> None:
        for mine, theirs in _pairs(param, arg):
            if not (isinstance(mine, Location) and isinstance(theirs, Location)):
                self.connect(mine, theirs, description, span)
                continue
            join = self.joins_of.get(mine)
            if join is None:
                join = self.joins_of[mine] = Join(mine, [], callee=callee)
                self.joins.append(join)
            join.parts.append(Part(theirs, description, span, self.where))

    def captured(self, callee: Places, values: Places, result: Places, span: Span | None) -> None:
        """make_closure: the last parameters are given, those before them are the result's."""
        if not isinstance(callee, FuncPlaces) or not isinstance(values, tuple):
            return
        kept = len(callee.params) - len(values)
        for param, value in zip(callee.params[kept:], values, strict=False):
            self.argument(callee, param, value, f"what {callee.name} captures", span)
        self.connect(result, FuncPlaces(callee.name, callee.params[:kept], callee.ret), callee.name, span)

    # --------------------------------------------------------------------------------- what is one

    def connect(self, a: Places, b: Places, description: str, span: Span | None, escapes: bool = True) -> None:
        """Unify the locations of two values."""
        for mine, theirs in _pairs(a, b):
            match mine, theirs:
                case (Location(), Location()):
                    self.unite(mine, theirs, description, span)
                case (FuncPlaces(), FuncPlaces()) if mine is not theirs:
                    if escapes:
                        mine.closed = theirs.closed = False
                    self.connect(mine.params, theirs.params, f"a parameter of {description}", span)
                    self.connect(mine.ret, theirs.ret, f"the result of {description}", span)
                case _:
                    pass

    def unite(self, a: Location, b: Location, description: str, span: Span | None) -> None:
        a, b = a.find(), b.find()
        if a is b:
            return
        if a.known is not None and b.known is not None and not same_vdevice(a.known.vdevice, b.known.vdevice):
            self.conflict(description, span, a.known, b.known)
            return
        b.parent = a
        if a.known is None or (a.known.derived and b.known is not None):
            a.known = b.known

    def join(self, result: Places, parts: Sequence[Places], description: str, span: Span | None) -> None:
        """Record that a value is one of several."""
        seen: set[tuple[int, ...]] = set()

        def visit(result: Places, parts: Sequence[Places]) -> None:
            match result:
                case Location():
                    joined = [Part(part, description, span, self.where) for part in parts if isinstance(part, Location)]
                    self.joins.append(Join(result, joined, forward=len(joined) == len(parts)))
                case tuple():
                    key = (id(result), *map(id, parts))
                    if key in seen:
                        return
                    seen.add(key)
                    for index, item in enumerate(result):
                        fields = [part[index] for part in parts if isinstance(part, tuple) and index < len(part)]
                        visit(item, fields)
                case _:
                    for part in parts:
                        self.connect(result, part, description, span)

        visit(result, parts)

    # ------------------------------------------------------------------------------------ spreading

    def learn(self, location: Location, known: Known) -> None:
        """Set a location's device if it is unknown."""
        root = location.find()
        if root.known is None:
            root.known = known
            self.spread()

    def spread(self) -> None:
        """Propagate known devices through the joins in both directions until a fixed point."""
        changed = True
        while changed:
            changed = False
            for join in (*reversed(self.joins), *self.joins):
                changed |= self.pass_join(join)

    def pass_join(self, join: Join) -> bool:
        """Propagate known devices through one join; return True if anything changed."""
        result, changed = join.result.find(), False
        if result.known is not None:
            for part in join.parts if join.backward else ():
                location = part.place.find()
                if location.known is None:
                    location.known, changed = result.known, True
                elif not same_vdevice(location.known.vdevice, result.known.vdevice):
                    self.where = part.where
                    self.conflict(part.what, part.span, result.known, location.known)
            return changed
        sources = [location for part in join.parts if (location := part.place.find()) is not result]
        open_end = join.callee is not None and not join.callee.closed
        if not join.forward or open_end or not sources:
            return False
        first = sources[0].known
        if first is None or not all(same_vdevice(first.vdevice, location.vdevice) for location in sources):
            return False
        result.known = first
        return True

    # ----------------------------------------------------------------------------------- complaints

    def conflict(self, description: str, span: Span | None, a: Known, b: Known) -> None:
        key = (description, span)
        if key in self.reported:
            return
        self.reported.add(key)
        message = f"{description}: what must be on one virtual device is on two"
        notes = tuple(self.told(known) for known in (a, b))
        self.complain(DEVICES, message, span, notes, "move one of them with R.to_vdevice")

    def told(self, known: Known) -> str:
        suffix = "" if known.span is None else f" ({known.span})"
        return f"{known.text} is on {vdevice_text(known.vdevice, self.listed)}{suffix}"

    def complain(self, code: str, message: str, span: Span | None, notes: tuple[str, ...], hint: str) -> None:
        self.out.diagnostics.append(Diagnostic(code, message, span, self.where, notes, hint))


def _pairs(a: Places, b: Places) -> Iterator[tuple[Places, Places]]:
    """The parts of two values that are in the same fields, in order; those of two tuples once, wherever these stand."""
    seen: set[tuple[int, int]] = set()
    pending = [(a, b)]
    while pending:
        one, other = pending.pop()
        if not (isinstance(one, tuple) and isinstance(other, tuple)):
            yield one, other
        elif (id(one), id(other)) not in seen:
            seen.add((id(one), id(other)))
            pending.extend(reversed(list(zip(one, other, strict=False))))


def _escaped(places: Places) -> Places:
    if isinstance(places, FuncPlaces):
        places.closed = False
    return places


def _agreed(casts: Iterable[tuple[Location, Known]]) -> list[tuple[Location, Known]]:
    """The places on which casts agree."""
    said: dict[Location, list[Known]] = {}
    for location, known in casts:
        said.setdefault(location.find(), []).append(known)
    return [
        (location, known[0])
        for location, known in said.items()
        if all(same_vdevice(known[0].vdevice, other.vdevice) for other in known)
    ]
