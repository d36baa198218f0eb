"""Conditional accumulators: gradients that are taken together once enough are there, with TensorFlow's rules."""

from __future__ import annotations

import typing

from . import _troupe
from ._core import DTypeLike, Tensor, TensorLike
from .graphs import Graph, native_graph

__all__ = ["ConditionalAccumulator", "SparseConditionalAccumulator"]


def _dims(shape: typing.Optional[typing.Sequence]) -> typing.Optional[list]:
    return None if shape is None else [-1 if size is None else size for size in shape]


class ConditionalAccumulator:
    """Gradients of one floating dtype and shape. reduction_type: "mean" or "sum". graph: the troupe.Graph to add ops
    to; None: eager mode.

    >>> a = troupe.ConditionalAccumulator("float32", [2])
    >>> a.apply_grad([1.0, 2.0])
    >>> a.apply_grad([3.0, 4.0])
    >>> a.take_grad(2)
    Tensor([2., 3.], dtype=float32)
    """

    def __init__(self, dtype: DTypeLike, shape: typing.Optional[typing.Sequence] = None, reduction_type: str = "mean",
                 name: str = "", graph: typing.Optional[Graph] = None, device: str = ""):
        self._accumulator = _troupe.conditional_accumulator(native_graph(graph), dtype, _dims(shape),
                                                            reduction_type.lower(), name, device)

    def apply_grad(self, grad: TensorLike, local_step: TensorLike = 0) -> typing.Optional[Tensor]:
        """Gives a gradient of step local_step; one of a step before the accumulator's own is dropped."""
        return self._accumulator.apply_grad(grad, local_step)

    def take_grad(self, num_required: TensorLike) -> Tensor:
        """The mean, or sum, of all gradients, once num_required are there. Begins the accumulator's next step."""
        return self._accumulator.take_grad(num_required)

    def num_accumulated(self) -> Tensor:
        """How many gradients are there, int32 []."""
        return self._accumulator.num_accumulated()

    def set_global_step(self, new_global_step: TensorLike) -> typing.Optional[Tensor]:
        """Sets the accumulator's step: gradients of earlier ones are dropped from now on."""
        return self._accumulator.set_global_step(new_global_step)


class SparseConditionalAccumulator:
    """Gradients of rows of a variable of this shape, as (indices int64 [n], values [n, ...]).

    >>> a = troupe.SparseConditionalAccumulator("float32", [3, 1])
    >>> a.apply_grad([0, 2], [[1.0], [2.0]])
    >>> a.apply_grad([2], [[4.0]])
    >>> a.take_grad(2)
    (Tensor([0, 2], dtype=int64), Tensor([[1.],
            [3.]], dtype=float32))
    """

    def __init__(self, dtype: DTypeLike, shape: typing.Optional[typing.Sequence] = None, reduction_type: str = "mean",
                 name: str = "", graph: typing.Optional[Graph] = None, device: str = ""):
        self._accumulator = _troupe.sparse_conditional_accumulator(native_graph(graph), dtype, _dims(shape),
                                                                   reduction_type.lower(), name, device)

    def apply_grad(self, indices: TensorLike, values: TensorLike,
                   local_step: TensorLike = 0) -> typing.Optional[Tensor]:
        """Gives the rows of a gradient of step local_step; those of earlier steps are dropped."""
        return self._accumulator.apply_grad(indices, values, local_step)

    def take_grad(self, num_required: TensorLike) -> typing.Tuple[Tensor, Tensor]:
        """(indices, values) of the rows that gradients touch, ascending, once num_required gradients are there: each
        row the mean over those that touch it, or the sum."""
        return self._accumulator.take_grad(num_required)

    def num_accumulated(self) -> Tensor:
        """How many gradients are there, int32 []."""
        return self._accumulator.num_accumulated()

    def set_global_step(self, new_global_step: TensorLike) -> typing.Optional[Tensor]:
        """Sets the accumulator's step: gradients of earlier ones are dropped from now on."""
        return self._accumulator.set_global_step(new_global_step)
