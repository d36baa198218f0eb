"""Ragged tensors: rows of different lengths, one after the other."""

from __future__ import annotations

import typing

from . import _troupe
from ._core import CompositeTensor, Tensor, TensorLike
from .tensors import cast, tensor

__all__ = ["RaggedTensor"]


class RaggedTensor(CompositeTensor):
    """Rows of different lengths: row i is values[row_splits[i]:row_splits[i + 1]]. values [m, ...], row_splits int64
    [rows + 1], from 0 to m.

    Functions that are traced, loops, branches, steps of sessions and tapes take and return it as one value; a trace
    serves any number of rows and values. Gradients flow through values.

    >>> x = troupe.RaggedTensor.from_row_lengths([1.0, 2.0, 3.0], [2, 0, 1])
    >>> x
    RaggedTensor([[1.0, 2.0], [], [3.0]])
    >>> x.sum()
    Tensor([3., 0., 3.], dtype=float32)
    """

    def __init__(self, values: TensorLike, row_splits: TensorLike) -> None:
        """Raises ValueError if row_splits are not integers [rows + 1]; arrays are not copied."""
        self._values = values if isinstance(values, Tensor) else tensor(values)
        splits = row_splits if isinstance(row_splits, Tensor) else tensor(row_splits, "int64")
        if splits.shape is not None and len(splits.shape) != 1:
            raise ValueError(f"RaggedTensor: row_splits are of shape {splits.shape}, expected [rows + 1]")
        self._row_splits = splits if splits.dtype == "int64" else cast(splits, "int64")

    @property
    def values(self) -> Tensor:
        """The rows, one after the other: [m, ...]."""
        return self._values

    @property
    def row_splits(self) -> Tensor:
        """Where rows begin and end in values: int64 [rows + 1]."""
        return self._row_splits

    def with_values(self, values: TensorLike) -> RaggedTensor:
        """Rows of the same lengths with other values.

        >>> troupe.RaggedTensor.from_row_lengths([1, 2, 3], [2, 1]).with_values([7, 8, 9])
        RaggedTensor([[7, 8], [9]])
        """
        return RaggedTensor(values, self._row_splits)

    @staticmethod
    def from_row_lengths(values: TensorLike, row_lengths: TensorLike) -> RaggedTensor:
        """Rows with these lengths [rows], whose sum is the number of values.

        >>> troupe.RaggedTensor.from_row_lengths([5, 6, 7], [1, 2]).row_splits
        Tensor([0, 1, 3], dtype=int64)
        """
        return RaggedTensor(*_troupe.ragged_from_row_lengths(values, row_lengths))

    @staticmethod
    def from_tensor(x: TensorLike, lengths: TensorLike) -> RaggedTensor:
        """The first lengths[i] elements of row i of x [rows, k, ...]: lengths [rows], from 0 to k.

        >>> troupe.RaggedTensor.from_tensor([[1, 2], [3, 4]], [1, 2]).tolist()
        [[1], [3, 4]]
        """
        return RaggedTensor(*_troupe.ragged_from_tensor(x, lengths))

    def row_lengths(self) -> Tensor:
        """The number of values of each row: int64 [rows].

        >>> troupe.strings.split(["a b", "", "c"]).row_lengths()
        Tensor([2, 0, 1], dtype=int64)
        """
        return _troupe.ragged_row_lengths(self.values, self.row_splits)

    def row_ids(self) -> Tensor:
        """The row of each value: int64 [m].

        >>> troupe.strings.split(["a b", "", "c"]).row_ids()
        Tensor([0, 0, 2], dtype=int64)
        """
        return _troupe.row_ids(self.values, self.row_splits)

    def to_tensor(self, default_value: typing.Optional[TensorLike] = None) -> Tensor:
        """[rows, k, ...]: rows filled up to the longest with default_value; None: 0, "" of strings.

        >>> troupe.RaggedTensor.from_row_lengths([1, 2, 3], [2, 1]).to_tensor(default_value=-1)
        Tensor([[ 1,  2],
                [ 3, -1]], dtype=int64)
        """
        return _troupe.ragged_to_tensor(self.values, self.row_splits, default_value)

    def sum(self) -> Tensor:
        """Of each row: [rows, ...]; 0 where there are no values.

        >>> troupe.RaggedTensor.from_row_lengths([1, 2, 3], [2, 1]).sum()
        Tensor([3, 3], dtype=int64)
        """
        return _troupe.ragged_sum(self.values, self.row_splits)

    def mean(self) -> Tensor:
        """Of each row: [rows, ...]; 0 where there are no values.

        >>> troupe.RaggedTensor.from_row_lengths([1.0, 2.0, 3.0], [2, 1]).mean()
        Tensor([1.5, 3. ], dtype=float32)
        """
        return _troupe.ragged_mean(self.values, self.row_splits)

    def max(self) -> Tensor:
        """Of each row: [rows, ...]; the least number of the dtype where there are no values.

        >>> troupe.RaggedTensor.from_row_lengths([1, 2, 3], [2, 1]).max()
        Tensor([2, 3], dtype=int64)
        """
        return _troupe.ragged_max(self.values, self.row_splits)

    def min(self) -> Tensor:
        """Of each row: [rows, ...]; the greatest number of the dtype where there are no values.

        >>> troupe.RaggedTensor.from_row_lengths([1, 2, 3], [2, 1]).min()
        Tensor([1, 3], dtype=int64)
        """
        return _troupe.ragged_min(self.values, self.row_splits)

    def tolist(self) -> typing.List[list]:
        """The rows as lists.

        >>> troupe.strings.split(["a b", "c"]).tolist()
        [[b'a', b'b'], [b'c']]
        """
        values, splits = self.values.tolist(), self.row_splits.tolist()
        return [values[begin:end] for begin, end in zip(splits, splits[1:])]

    def __repr__(self) -> str:
        if self._values.is_eager and self._row_splits.is_eager:
            return f"RaggedTensor({self.tolist()})"
        return f"RaggedTensor(values={self._values!r}, row_splits={self._row_splits!r})"

    # ---- As one value of functions, loops, steps and tapes
    def _parts(self) -> typing.Tuple[Tensor, Tensor]:
        return self._values, self._row_splits

    @classmethod
    def _of_parts(cls, parts: typing.Iterator) -> RaggedTensor:
        return cls(next(parts), next(parts))

    def _feeds(self, value: typing.Any) -> typing.Mapping[Tensor, TensorLike]:
        if not isinstance(value, RaggedTensor):
            raise ValueError(f"run: a ragged tensor is fed with a troupe.RaggedTensor, not {type(value).__name__}")
        return {self._values: value.values, self._row_splits: value.row_splits}
