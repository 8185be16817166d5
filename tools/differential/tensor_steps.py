"""Steps that compute tensors from tensors: the operators, by family."""

from __future__ import annotations

from .kinds import FLOATS, INTS, Tensor, Value, annotation, is_static, literal
from .writer import Core, is_float, step

ROUNDING = ("abs", "negative", "ceil", "floor", "round", "trunc", "sign", "square")
TESTS = ("isnan", "isinf", "isfinite")


class TensorSteps(Core):
    """Operators."""

    # ------------------------------------------------------------------------------ element-wise

    @step(weight=3)
    def unary(self) -> bool | None:
        v = self.tensor()
        if v is None:
            return False
        dtype, name = v.kind.dtype, ""
        if dtype == "bool":
            name = self.choices.pick(("logical_not", "bitwise_not"))
        elif self.choices.chance(15) and v.exact:
            self.bind(f"R.{self.choices.pick(TESTS)}({v.name})", Tensor(v.kind.dims, "bool"), 1, True, True)
            return None
        elif not is_float(dtype):
            name = self.choices.pick((*ROUNDING, "bitwise_not"))
        elif v.exact:
            name = self.choices.pick((*ROUNDING, "nn.relu", "builtin.stop_lift_params"))
        else:
            name = self.choices.pick(("abs", "negative", "nn.relu", "square"))
        bound = v.bound**2 if name == "square" else v.bound + 1
        self.settle(f"R.{name}({v.name})", v.kind, bound, v.exact)

    def constant(self, dtype: str) -> tuple[str, float]:
        """A scalar constant and its size."""
        if dtype == "bool":
            number: object = self.choices.chance(50)
        elif is_float(dtype):
            number = self.choices.pick((0.0, 1.0, 2.0, -1.0, -2.0, -0.0, 0.5, float("inf"), float("nan")))
        elif dtype == "uint8":
            number = self.choices.pick((1, 2, 0, 255))
        else:
            number = self.choices.pick((1, 2, 0, -1, -3))
        return literal(number, dtype), 3

    def exact_constant(self, dtype: str) -> str:
        text, _ = self.constant(dtype)
        return text.replace("0.5", "4.0")

    def broadcasts(self, v: Tensor, w: Tensor) -> bool:
        """Whether w surely broadcasts to v's shape."""
        if len(w.dims) > len(v.dims):
            return False
        tail = v.dims[len(v.dims) - len(w.dims) :]
        return all(a == b or b == "1" for a, b in zip(tail, w.dims, strict=True))

    def partner(self, v: Value) -> Value | None:
        """A tensor that broadcasts to the shape of another."""
        return self.tensor(v.kind.dtype, accept=lambda w: self.broadcasts(v.kind, w.kind))

    @step(weight=4)
    def binary(self) -> bool | None:
        v = self.tensor(*FLOATS, *INTS)
        if v is None:
            return False
        w = self.partner(v)
        exact, dtype = v.exact, v.kind.dtype
        if w is None or self.choices.chance(30):
            other, bound = self.exact_constant(dtype), 4.0
        else:
            other, bound, exact = w.name, w.bound, exact and w.exact
        name = self.choices.pick(("add", "subtract", "maximum", "minimum", "multiply", "multiply"))
        a, b = (other, v.name) if self.choices.chance(40) else (v.name, other)
        result = v.bound * bound if name == "multiply" else v.bound + bound
        if dtype == "int64" and name == "multiply":
            self.bind(f'R.mod(R.multiply({a}, {b}), R.const(17, "int64"))', v.kind, 17, True, True)
            return None
        self.settle(f"R.{name}({a}, {b})", v.kind, result, exact)

    @step(weight=2)
    def comparison(self) -> bool | None:
        v = self.tensor(exact=True)
        if v is None:
            return False
        w = self.partner(v)
        other = w.name if w is not None and w.exact and not self.choices.chance(40) else None
        names = ["equal", "not_equal", "less", "less_equal", "greater", "greater_equal"]
        name = self.choices.pick(names)
        self.bind(
            f"R.{name}({v.name}, {other or self.exact_constant(v.kind.dtype)})",
            Tensor(v.kind.dims, "bool"),
            1,
            True,
            True,
        )

    @step()
    def logic_and_bits(self) -> bool | None:
        v = self.tensor("bool", *INTS)
        w = v and self.partner(v)
        if w is None:
            return False
        names = ["bitwise_and", "bitwise_or", "bitwise_xor"]
        if v.kind.dtype == "bool":
            names += ["logical_and", "logical_or", "logical_xor"] * 2
        name = self.choices.pick(names)
        self.bind(f"R.{name}({v.name}, {w.name})", v.kind, 255, True, True)

    @step(weight=1)
    def shift(self) -> bool | None:
        v = self.tensor(*INTS)
        w = v and self.partner(v)
        if w is None:
            return False
        amount = f'R.mod(R.abs({w.name}), R.const(5, "{w.kind.dtype}"))' if w.kind.dtype != "uint8" else (
            f'R.mod({w.name}, R.const(5, "uint8"))')  # fmt: skip
        self.bind(f"R.{self.choices.pick(('left_shift', 'right_shift'))}({v.name}, {amount})", v.kind, 255)

    @step(weight=1)
    def division(self) -> bool | None:
        """Of floats by powers of two, and of integers; by zero in programs that may fail."""
        v = self.tensor(*FLOATS, *INTS)
        if v is None:
            return False
        dtype = v.kind.dtype
        if is_float(dtype):
            if self.choices.chance(50) or not v.exact:
                divisor = literal(self.choices.pick((2.0, -4.0)), dtype)
                self.bind(f"R.divide({v.name}, {divisor})", v.kind, v.bound, False, True)
                return None
            name = self.choices.pick(("floor_divide", "mod", "floor_mod"))
            divisor = literal(self.choices.pick((2.0, -4.0)), dtype)
            self.bind(f"R.{name}({v.name}, {divisor})", v.kind, v.bound + 1, True, True)
            return None
        name = self.choices.pick(("divide", "floor_divide", "mod", "floor_mod"))
        w = self.partner(v)
        if w is not None and self.failing and self.choices.chance(50):
            self.note("division that may fail")
            divisor = w.name
        else:
            divisor = literal(self.choices.pick((2, 3, 1)), dtype)
        self.bind(f"R.{name}({v.name}, {divisor})", v.kind, v.bound, True, True)

    @step(weight=1)
    def power(self) -> bool | None:
        v = self.tensor(*INTS)
        if v is None:
            return False
        self.bind(f"R.power({v.name}, {literal(self.choices.pick((2, 0, 3)), v.kind.dtype)})", v.kind, 255)

    @step()
    def where(self) -> bool | None:
        v = self.tensor()
        c = v and self.tensor("bool", accept=lambda c: self.broadcasts(v.kind, c.kind))
        w = c and self.partner(v)
        if w is None:
            return False
        a, b = (v, w) if self.choices.chance(70) else (w, v)
        exact = v.exact and w.exact
        self.bind(f"R.where({c.name}, {a.name}, {b.name})", v.kind, max(v.bound, w.bound), exact, True)

    @step()
    def clip(self) -> bool | None:
        v = self.tensor(*FLOATS, *INTS)
        if v is None:
            return False
        low, high = self.choices.pick(((0, 2), (-1, 1), (1, 5)))
        low = max(low, 0) if v.kind.dtype == "uint8" else low
        self.bind(f"R.clip({v.name}, {low}, {high})", v.kind, 5, v.exact, True)

    @step()
    def astype(self) -> bool | None:
        v = self.tensor(exact=True)
        if v is None:
            return False
        dtype = self.choices.pick(("float32", "int64", "float16", "int32", "uint8", "bool", "int8", "float64"))
        bound = max(v.bound, 255) if v.kind.dtype in INTS or dtype in INTS else v.bound
        if dtype == "float16" and bound > 200:
            return False
        self.bind(f'R.astype({v.name}, "{dtype}")', Tensor(v.kind.dims, dtype), bound, True, True)

    @step(weight=1)
    def scalar_operand(self) -> bool | None:
        """A scalar of the program as an operand of a tensor operator."""
        v = self.tensor("int64")
        if v is None or not self.dims:
            return False
        n = self.choices.pick(self.dims)
        self.bind(f"R.add({v.name}, R.prim_value({n}))", v.kind, v.bound + self.size(n), True, True)

    # ------------------------------------------------------------------------------ movement

    @step(weight=2)
    def reshape(self) -> bool | None:
        v = self.tensor()
        if v is None:
            return False
        dims = v.kind.dims
        total = " * ".join(dims) if dims else "1"
        total = f"({total})" if len(dims) > 1 else total
        options: list[tuple[str, tuple[str, ...]]] = [
            ("R.flatten({})", (total,)),
            (f"R.reshape({{}}, ({total},))", (total,)),
            (f"R.reshape({{}}, (1, {', '.join(dims)}))", ("1", *dims)),
            (f"R.reshape({{}}, ({', '.join(dims[::-1])},))" if dims else "R.reshape({}, (1, 1))",
             dims[::-1] or ("1", "1")),
            (f"R.expand_dims({{}}, {len(dims)})", (*dims, "1")),
        ]  # fmt: skip
        if dims and dims[0] not in ("0",) and v.fresh:  # an operator's result, whose shape the parser knows
            options.append(("R.reshape({}, (-1,))", (total,)))
        if "1" in dims:
            at = dims.index("1")
            options += [(f"R.squeeze({{}}, {at})", (*dims[:at], *dims[at + 1 :]))] * 3
        text, result = self.choices.pick(options)
        if "-1" in text and len(dims) > 1:
            return False
        if not self.fits(result):
            return False
        self.bind(text.format(v.name), Tensor(result, v.kind.dtype), v.bound, v.exact, True)

    @step(weight=2)
    def movement(self) -> bool | None:
        v = self.tensor(ndim=(1, 2, 3))
        if v is None:
            return False
        name, dims = v.name, v.kind.dims
        axis = self.choices.integer(0, len(dims) - 1)
        at = lambda dim: (*dims[:axis], dim, *dims[axis + 1 :])  # noqa: E731
        size = dims[axis]
        grown = self.dim()
        options = [
            (f"R.flip({name}, axis={axis})", dims),
            (f"R.permute_dims({name})", dims[::-1]),
            (f"R.repeat({name}, 2, axis={axis})", at(f"({size} * 2)")),
            (f"R.tile({name}, ({'1, ' * (len(dims) - 1)}2))", (*dims[:-1], f"({dims[-1]} * 2)")),
            (f"R.concat([{name}, {name}], axis={axis})", at(f"({size} * 2)")),
            (f"R.stack([{name}, {name}], axis=0)", ("2", *dims)),
            (f"R.expand_dims({name}, {axis})", (*dims[:axis], "1", *dims[axis:])),
            (f"R.broadcast_to({name}, ({', '.join((grown, *dims))}))", (grown, *dims)),
            (f"R.split({name}, 1, axis={axis})[0]", dims),
        ]
        text, result = self.choices.pick(options)
        if not self.fits(result):
            return False
        self.bind(text, Tensor(result, v.kind.dtype), v.bound, v.exact, True)

    @step()
    def concat(self) -> bool | None:
        v = self.tensor(ndim=(1, 2, 3))
        if v is None:
            return False
        dims = v.kind.dims
        axis = self.choices.integer(0, len(dims) - 1)
        rest = lambda kind: (*kind.dims[:axis], *kind.dims[axis + 1 :])  # noqa: E731
        w = self.tensor(v.kind.dtype, ndim=(len(dims),), accept=lambda w: rest(w.kind) == rest(v.kind))
        if w is None:
            return False
        result = (*dims[:axis], f"({dims[axis]} + {w.kind.dims[axis]})", *dims[axis + 1 :])
        if not self.fits(result):
            return False
        text = f"R.concat([{v.name}, {w.name}], axis={axis})"
        whole = self.bind(text, Tensor(result, v.kind.dtype), max(v.bound, w.bound), v.exact and w.exact, True)
        if self.choices.chance(40):  # take it apart again
            part = f"R.strided_slice({whole.name}, [{axis}], [{dims[axis]}], [{result[axis]}])"
            self.bind(part, w.kind, w.bound, w.exact, True)

    @step(weight=1)
    def wide_concat(self) -> bool | None:
        """Many operands, mostly one value; and one of their places taken again."""
        v = self.tensor(ndim=(1, 2))
        if v is None:
            return False
        dims, size = v.kind.dims, v.kind.dims[0]
        count = self.choices.integer(3, 24)
        if not self.fits((f"({size} * {count})", *dims[1:])):
            return False
        self.note("wide concat")
        whole = self.fresh("w")
        self.line(f"{whole} = R.concat([{', '.join([v.name] * count)}], axis=0)")
        place = self.choices.integer(0, count - 1)
        part = f"R.strided_slice({whole}, [0], [{size} * {place}], [{size} * {place + 1}])"
        self.bind(part, v.kind, v.bound, v.exact, True)

    @step()
    def split(self) -> bool | None:
        v = self.tensor(ndim=(1, 2))
        if v is None:
            return False
        dims, dtype = v.kind.dims, v.kind.dtype
        axis = self.choices.integer(0, len(dims) - 1)
        t = self.fresh("t")
        at = lambda dim: (*dims[:axis], dim, *dims[axis + 1 :])  # noqa: E731
        if is_static(dims[axis]) and int(dims[axis]) >= 2:
            self.line(f"{t} = R.split({v.name}, [1], axis={axis})")
            second = at(str(int(dims[axis]) - 1))
            self.bind(f"{t}[0]", Tensor(at("1"), dtype), v.bound, v.exact, True)
            self.bind(f"{t}[1]", Tensor(second, dtype), v.bound, v.exact, True)
            return None
        if not self.fits(at(f"({dims[axis]} * 2)")):
            return False
        self.line(f"{t} = R.split(R.concat([{v.name}, {v.name}], axis={axis}), 2, axis={axis})")
        self.bind(f"{t}[{self.choices.integer(0, 1)}]", v.kind, v.bound, v.exact, True)

    @step()
    def strided_slice(self) -> bool | None:
        v = self.tensor(ndim=(1, 2, 3))
        if v is None:
            return False
        dims, axis = v.kind.dims, self.choices.integer(0, len(v.kind.dims) - 1)
        at = lambda dim: (*dims[:axis], dim, *dims[axis + 1 :])  # noqa: E731
        size = dims[axis]
        options = [
            ("[0]", f"[{size}]", "", dims),
            ("[-1]", f"[-({size}) - 1]", ", [-1]", dims),
            ("[0]", f"[{size}]", ", [2]", at(f"(({size} + 1) // 2)")),
            ("[1]", f"[{size}]", "", at(f"T.max({size} - 1, 0)")),
            ("[0]", "[1]", "", at(f"T.min({size}, 1)")),
        ]
        begin, end, strides, result = self.choices.pick(options)
        if not self.fits(result):
            return False
        text = f"R.strided_slice({v.name}, [{axis}], {begin}, {end}{strides})"
        self.bind(text, Tensor(result, v.kind.dtype), v.bound, v.exact, True)

    @step()
    def take(self) -> bool | None:
        v = self.tensor(ndim=(1, 2, 3))
        if v is None:
            return False
        dims, axis = v.kind.dims, self.choices.integer(0, len(v.kind.dims) - 1)
        index = self.tensor("int64", "int32", ndim=(0, 1, 2), exact=True)
        mode, nan = self.choices.pick(("wrap", "clip", "fast", "nan")), is_float(v.kind.dtype)
        if (mode == "fast" and not self.failing) or (mode == "nan" and not nan):
            mode = "clip"
        if mode in ("wrap", "clip") and not self.failing and not is_static(dims[axis]):
            # nothing can be taken of a dimension of size 0
            if not nan:
                return False
            mode = "nan"
        if mode in ("wrap", "clip", "fast") and dims[axis] == "0":
            return False
        if index is None or self.choices.chance(40):
            text, shape = self.choices.pick((('R.const([0, 0], "int64")', ("2",)), ('R.const(0, "int64")', ())))
        else:
            text, shape = index.name, index.kind.dims
        result = (*dims[:axis], *shape, *dims[axis + 1 :])
        if not self.fits(result):
            return False
        self.note(f"take {mode}")
        self.bind(
            f'R.take({v.name}, {text}, axis={axis}, mode="{mode}")',
            Tensor(result, v.kind.dtype), v.bound, v.exact, True,
        )  # fmt: skip

    # ------------------------------------------------------------------------------ creation

    @step()
    def creation(self) -> bool | None:
        dims = tuple(self.dim() for _ in range(self.choices.integer(0, 2)))
        if not self.fits(dims):
            return False
        dtype = self.choices.pick(("float32", "int64", "bool", "int32", "float16", "uint8", "int8", "float64"))
        like = self.tensor()
        shape = f"({''.join(dim + ', ' for dim in dims)})"
        options = [f'R.zeros({shape}, "{dtype}")', f'R.ones({shape}, "{dtype}")',
                   f'R.full({shape}, {self.exact_constant(dtype)}, "{dtype}")']  # fmt: skip
        kind = Tensor(dims, dtype)
        if like is not None and self.choices.chance(40):
            kind = like.kind
            options = [f"R.zeros_like({like.name})", f"R.ones_like({like.name})",
                       f"R.full_like({like.name}, {self.exact_constant(kind.dtype)})"]  # fmt: skip
        self.bind(self.choices.pick(options), kind, 3 if kind.dtype != "uint8" else 255, True, True)

    @step(weight=1)
    def arange(self) -> bool | None:
        dim = self.dim()
        if not self.fits((dim,)):
            return False
        dtype = self.choices.pick(("int64", "float32", "int32"))
        kind = Tensor((dim,), dtype)
        self.bind(f'R.arange(0, {dim}, 1, dtype="{dtype}")', kind, self.size(dim), True, True)

    @step(weight=1)
    def constant_tensor(self) -> bool | None:
        dtype = self.choices.pick(("float32", "int64", "bool", "float16", "int8", "uint8"))
        numbers = {"bool": "[True, False]", "uint8": "[1, 200]"}.get(dtype, "[[1, 2], [-3, 0]]")
        dims = ("2",) if dtype in ("bool", "uint8") else ("2", "2")
        if is_float(dtype):
            numbers = "[[1.0, -0.0], [-3.0, 0.0]]"
        self.bind(f'R.const({numbers}, "{dtype}")', Tensor(dims, dtype), 200, True, True)

    # ------------------------------------------------------------------------------ reductions

    @step()
    def reduction(self) -> bool | None:
        v = self.tensor(*FLOATS, *INTS, ndim=(1, 2, 3))
        if v is None:
            return False
        dims, axis = v.kind.dims, self.choices.integer(0, len(v.kind.dims) - 1)
        every = self.choices.chance(15)
        keep = self.choices.chance(30)
        names = ["sum", "max", "min", "sum", "prod"] if v.exact else ["sum", "max", "min"]
        name = self.choices.pick(names)
        operand, bound, exact = v.name, v.bound, v.exact
        if name in ("sum", "prod") and is_float(v.kind.dtype):
            limit = (1, 1) if name == "prod" else (2, 2)
            operand, bound = f"R.clip({v.name}, -{limit[0]}, {limit[1]})", limit[0]
        if name == "sum":
            count = self.size("*".join(dims)) if every else self.size(dims[axis])
            bound *= count
        if every:
            result = ("1",) * len(dims) if keep else ()
            text = f"R.{name}({operand}, keepdims={keep})"
        else:
            result = dims[:axis] + (("1",) if keep else ()) + dims[axis + 1 :]
            text = f"R.{name}({operand}, axis={axis}, keepdims={keep})"
        if name in ("max", "min"):
            bound = 1e9  # of nothing, the limits of the dtype
            if is_float(v.kind.dtype):
                text, bound = f"R.clip({text}, -9, 9)", 9
        self.settle(text, Tensor(result, v.kind.dtype), bound, exact)

    @step(weight=1)
    def mean(self) -> bool | None:
        v = self.tensor("float32", "float64", ndim=(1, 2))
        if v is None or not self.choices.chance(50):
            return False
        self.bind(f"R.mean({v.name}, axis=0)", Tensor(v.kind.dims[1:], v.kind.dtype), v.bound, False, True)

    @step(weight=1)
    def index_of_extreme(self) -> bool | None:
        v = self.tensor(*FLOATS, *INTS, ndim=(1, 2), exact=True)
        if v is None:
            return False
        axis = self.choices.integer(0, len(v.kind.dims) - 1)
        if not self.failing and not (is_static(v.kind.dims[axis]) and v.kind.dims[axis] != "0"):
            return False  # of nothing, an error
        result = (*v.kind.dims[:axis], *v.kind.dims[axis + 1 :])
        name = self.choices.pick(("argmax", "argmin"))
        self.bind(f"R.{name}({v.name}, axis={axis})", Tensor(result, "int64"), 99, True, True)

    @step(weight=1)
    def cumsum(self) -> bool | None:
        v = self.tensor(*INTS, "float32", ndim=(1, 2), exact=True)
        if v is None:
            return False
        axis = self.choices.integer(0, len(v.kind.dims) - 1)
        operand, bound = v.name, v.bound * self.size(v.kind.dims[axis])
        if is_float(v.kind.dtype):
            operand, bound = f"R.clip({v.name}, -2, 2)", 2 * self.size(v.kind.dims[axis])
        exclusive = ", exclusive=True" if self.choices.chance(30) else ""
        self.settle(f"R.cumsum({operand}, axis={axis}{exclusive})", v.kind, bound)

    @step()
    def matmul(self) -> bool | None:
        v = self.tensor("float32", "float64", "int32", "int64", ndim=(1, 2, 3))
        inner = v and v.kind.dims[-1]
        w = v and self.tensor(
            v.kind.dtype, ndim=(1, 2), accept=lambda w: w.kind.dims[max(0, len(w.kind.dims) - 2)] == inner
        )
        if w is None:
            return False
        result = v.kind.dims[:-1] + (w.kind.dims[-1:] if len(w.kind.dims) == 2 else ())
        if not self.fits(result):
            return False
        a, b = v.name, w.name
        if is_float(v.kind.dtype):
            a, b = (f"R.clip({name}, -3, 3)" for name in (a, b))
        text = f"R.matmul({a}, {b})"
        if is_float(v.kind.dtype):
            text = f"R.clip({text}, -9, 9)"
        self.bind(text, Tensor(result, v.kind.dtype), 9, v.exact and w.exact, True)

    # ------------------------------------------------------------------- as many as the data give

    @step()
    def data_dependent(self) -> bool | None:
        """unique or nonzero, whose length gets a name by a match_cast."""
        v = self.tensor(exact=True, ndim=(0, 1, 2))
        if v is None:
            return False
        total = max(1, self.size("*".join(v.kind.dims) or "1"))
        if total > 64:
            return False
        u = self.fresh("u")
        if self.choices.chance(50):
            self.line(f"{u} = R.unique({v.name})")
            k = self.shape_variable(total)
            kind = Tensor((k,), v.kind.dtype)
        else:
            self.line(f"{u} = R.nonzero({v.name})")
            k = self.shape_variable(total)
            kind = Tensor((str(len(v.kind.dims)), k), "int64")
        self.match(u, kind, v.bound, fresh=True)

    def match(self, source: str, kind: Tensor, bound: float, exact: bool = True, fresh: bool = False) -> Value:
        """A match_cast to a kind."""
        name = self.fresh("w")
        self.line(f"{name} = R.match_cast({source}, {annotation(kind)})")
        return self.add(Value(name, kind, bound, exact, fresh))
