"""Non-maximum suppression."""

# NumPy's own types leave many types of references unknown.
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# pyright: reportUnknownMemberType=false

from __future__ import annotations

from typing import Any, ClassVar, Literal

import numpy as np

from ... import topi
from ...expr import Call, Tuple, TupleGetItem
from ...ir import RelaxExpr
from ...prim import IntImm
from ...struct_info import PrimStructInfo, TensorStructInfo, TupleStructInfo
from ..dims import tensor
from ..facts import MixedPrecision
from ..nn.activation import wide
from ..operands import FLOATS
from ..operator import Array, Operator, operator
from ..sizes import require_dim, require_rank

Number = TensorStructInfo | PrimStructInfo
LIMITS = ("max_output_boxes_per_class", "iou_threshold", "score_threshold")


class Suppression(Operator):
    """Base class of both forms of non-maximum suppression.

    boxes (images, boxes, 4), scores (images, classes, boxes); the scalars may be tensors of one element.
    """

    __slots__ = ()

    takes = FLOATS

    mixed_precision: ClassVar[MixedPrecision] = MixedPrecision.NEVER

    center_point_box: bool

    def infer(
        self,
        boxes: TensorStructInfo,
        scores: TensorStructInfo,
        max_output_boxes_per_class: TensorStructInfo | PrimStructInfo,
        iou_threshold: TensorStructInfo | PrimStructInfo,
        score_threshold: TensorStructInfo | PrimStructInfo | None = None,
    ) -> TupleStructInfo:
        numbers = (max_output_boxes_per_class, iou_threshold, score_threshold)
        self._require_operands(boxes, scores, dict(zip(LIMITS, numbers, strict=True)))
        return TupleStructInfo((self.rows(scores), tensor((1,), "int64")))

    def rows(self, scores: TensorStructInfo) -> TensorStructInfo:
        """Struct info of the rows (image, class, box)."""
        raise NotImplementedError

    def _require_operands(
        self, boxes: TensorStructInfo, scores: TensorStructInfo, numbers: dict[str, Number | None]
    ) -> None:
        require_rank("boxes", boxes, 3)
        require_rank("scores", scores, 3)
        self.require_dtype(boxes, "boxes", *self.takes)
        self.require_dtype(scores, "scores", *self.takes)
        require_dim("boxes", boxes, 2, 4)
        if boxes.dims is not None:
            require_dim("scores", scores, 0, boxes.dims[0], "the number of images in boxes")
            require_dim("scores", scores, 2, boxes.dims[1], "the number of boxes")
        for name, info in numbers.items():
            classes = ("int", "uint") if name == "max_output_boxes_per_class" else ("float",)
            if isinstance(info, TensorStructInfo):
                self.require_dtype(info, name, *classes)
                require_rank(name, info, 0, 1)
                if info.ndim == 1:
                    require_dim(name, info, 0, 1)
            elif info is not None:
                fits = any(getattr(info.dtype, f"is_{c}") for c in classes)
                self.require(fits, name, "an integer" if "int" in classes else "a floating-point number")

    def selected(self, boxes: Array, scores: Array, most: Any, iou: Any, least: Any) -> list[tuple[int, int, int]]:
        """Compute the rows (image, class, box) in NumPy."""
        boxes, scores = wide(boxes), wide(scores)
        limit = np.asarray(iou).reshape(()).astype(boxes.dtype)
        count = max(int(np.asarray(most).reshape(())), 0)
        rows: list[tuple[int, int, int]] = []
        for b in range(scores.shape[0]):
            low, high = self._corners(boxes[b])
            for c in range(scores.shape[1]):
                score = scores[b, c]
                legal = score >= -np.inf
                if least is not None:
                    legal = score > np.asarray(least).reshape(()).astype(score.dtype)
                candidates = sorted(np.flatnonzero(legal), key=lambda i: (-score[i], i))
                for _ in range(min(count, len(score))):
                    if not candidates:
                        break
                    chosen, *rest = candidates
                    rows.append((b, c, int(chosen)))
                    candidates = [i for i in rest if not _overlap(low, high, chosen, i) > limit]
        return rows

    def _corners(self, boxes: Array) -> tuple[Array, Array]:
        first, second = boxes[:, :2], boxes[:, 2:]
        if self.center_point_box:
            half = second * boxes.dtype.type(0.5)
            return first - half, first + half
        return np.minimum(first, second), np.maximum(first, second)


def _overlap(low: Array, high: Array, a: Any, b: Any) -> Any:
    common = np.maximum(np.minimum(high[a], high[b]) - np.maximum(low[a], low[b]), 0)
    inner = common[0] * common[1]
    one, other = (high[a] - low[a]).prod(), (high[b] - low[b]).prod()
    if not (inner > 0 and one > 0 and other > 0):
        return low.dtype.type(0)
    return inner / (one + other - inner)


@operator("relax.vision.padded_non_max_suppression")
class PaddedNonMaxSuppression(Suppression):
    """all_class_non_max_suppression with one row per score; unused rows hold -1."""

    center_point_box: bool = False
    compute = topi.vision.padded_non_max_suppression

    def rows(self, scores: TensorStructInfo) -> TensorStructInfo:
        if scores.dims is None:
            return tensor(None, "int64", 2)
        images, classes, number = scores.dims
        return tensor((images * classes * number, IntImm("int64", 3)), "int64")

    def reference(self, boxes: Array, scores: Array, most: Any, iou: Any, least: Any = None) -> list[Array]:
        rows = self.selected(boxes, scores, most, iou, least)
        out = np.full((scores.size, 3), -1, np.int64)
        out[: len(rows)] = np.asarray(rows, np.int64).reshape(-1, 3)
        return [out, np.array([len(rows)], np.int64)]


@operator("relax.vision.leading_rows")
class LeadingRows(Operator):
    """The first rows of the data; `count`, a tensor of one element, holds their number."""

    mixed_precision: ClassVar[MixedPrecision] = MixedPrecision.FOLLOW
    packed: ClassVar[str | None] = "relax.run.leading_rows"

    def infer(self, data: TensorStructInfo, count: TensorStructInfo) -> TensorStructInfo:
        self.require(data.ndim != 0, "data", "a tensor of at least 1 dimension")
        self.require_dtype(count, "count", "int", "uint")
        require_rank("count", count, 1)
        require_dim("count", count, 0, 1)
        return tensor(None, data.dtype, data.ndim)

    def reference(self, data: Array, count: Array) -> Array:
        return data[: max(int(count[0]), 0)]


@operator("relax.vision.all_class_non_max_suppression")
class AllClassNonMaxSuppression(Suppression):
    """(indices, count): the boxes of each image and class that no better one covers, as rows (image, class, box).

    boxes (images, boxes, 4) hold (y1, x1, y2, x2) of two opposite corners, or with `center_point_box` (x, y, width,
    height) around a centre; scores (images, classes, boxes). Of each class the box with the highest score is taken, and
    those whose intersection over union with it is above `iou_threshold` are dropped, until
    `max_output_boxes_per_class` are taken or none is left. Only boxes with a score above `score_threshold` count. Of
    equal scores the first box wins. `count`, of shape (1,), is the number of rows.
    """

    output_format: Literal["onnx"] = "onnx"
    center_point_box: bool = False

    def rows(self, scores: TensorStructInfo) -> TensorStructInfo:
        return tensor(None, "int64", 2)

    def legalize(self, builder: Any, call: Call) -> RelaxExpr:
        """Lower to the padded form, followed by a cut to `count` rows."""
        if not self.can_compute(call):
            return call
        form = PaddedNonMaxSuppression(center_point_box=self.center_point_box)
        padded = builder.emit(form.raw_call(call.args, (), call.span))
        rows, count = (builder.emit(TupleGetItem(padded, i, span=call.span)) for i in range(2))
        return Tuple((builder.emit(LeadingRows().raw_call((rows, count), (), call.span)), count))

    def reference(self, boxes: Array, scores: Array, most: Any, iou: Any, least: Any = None) -> list[Array]:
        rows = self.selected(boxes, scores, most, iou, least)
        return [np.asarray(rows, np.int64).reshape(-1, 3), np.array([len(rows)], np.int64)]
