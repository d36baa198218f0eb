"""Sparse tensors with TensorFlow's names: the coordinates of the elements that are there, their values, and the shape
of the whole. The others are zeros.

Functions take and return troupe.SparseTensor, in eager mode, in graphs and in functions that are traced; where they
take one, a matrix of scipy.sparse will do. Gradients flow through values. Indices are in row-major order, each once,
where a function does not say otherwise: reorder() sorts others, coalesce() also adds up those that are there several
times.
"""

from __future__ import annotations

import typing

import numpy as np

from . import _troupe
from ._core import CompositeTensor, DTypeLike, Tensor, TensorLike
from .graphs import Graph

__all__ = ["SparseTensor", "placeholder"]

# What functions take for a sparse tensor: also a matrix of scipy.sparse.
SparseLike = typing.Union["SparseTensor", typing.Any]


class SparseTensor(CompositeTensor):
    """A tensor of `dense_shape` [rank] of which the elements at `indices` [n, rank] are `values` [n], and all others 0.

    Functions that are traced, loops, branches, steps of sessions and tapes take and return it as one value; a trace
    serves any number of elements. `x @ y`, `x * 2`, `x + y`, `-x` and the like are functions of troupe.sparse.

    >>> x = troupe.SparseTensor(indices=[[0, 1], [2, 0]], values=[10., 20.], dense_shape=[3, 2])
    >>> x
    SparseTensor(indices=[[0, 1], [2, 0]], values=[10., 20.], dense_shape=(3, 2))
    >>> x.shape, x.dtype, x.nnz
    ((3, 2), troupe.float32, 2)
    """

    def __init__(self, indices: TensorLike, values: TensorLike, dense_shape: TensorLike) -> None:
        """Raises InvalidArgumentError if the shapes do not fit together. Arrays are not copied; indices and dense_shape
        become int64."""
        self._indices, self._values, self._dense_shape = _troupe.sparse_tensor(indices, values, dense_shape)

    @property
    def indices(self) -> Tensor:
        """Coordinates, int64 [n, rank]."""
        return self._indices

    @property
    def values(self) -> Tensor:
        """The elements that are there, [n]."""
        return self._values

    @property
    def dense_shape(self) -> Tensor:
        """The shape of the whole, int64 [rank]."""
        return self._dense_shape

    @property
    def shape(self) -> typing.Optional[typing.Tuple[typing.Any, ...]]:
        """dense_shape as a tuple, with None where a size is not known; None if the number of dimensions is not."""
        return _troupe.sparse_shape(*self._parts())

    @property
    def dtype(self) -> _troupe.DType:
        """That of the values."""
        return self._values.dtype

    @property
    def ndim(self) -> typing.Union[int, typing.Any]:
        """The number of dimensions; None if it is not known."""
        shape = self.shape
        return None if shape is None else len(shape)

    @property
    def nnz(self) -> typing.Optional[int]:
        """The number of elements that are there; None if it is not known."""
        return self._values.shape[0]

    @property
    def is_eager(self) -> bool:
        """Whether it has a value now, and is not of a graph."""
        return self._values.is_eager

    def with_values(self, values: TensorLike) -> SparseTensor:
        """The same with other values [n].

        >>> troupe.SparseTensor([[1]], [2.], [3]).with_values([5.])
        SparseTensor(indices=[[1]], values=[5.], dense_shape=(3,))
        """
        return SparseTensor(self._indices, values, self._dense_shape)

    @classmethod
    def from_scipy(cls, matrix: typing.Any) -> SparseTensor:
        """Of a matrix or array of scipy.sparse, of any format. Sorted, without repeated coordinates; the values of COO
        and CSR in that form are not copied."""
        if not hasattr(matrix, "tocoo"):
            raise TypeError(f"from_scipy: {type(matrix).__name__} is not of scipy.sparse")
        coo = matrix.tocoo()
        if not coo.has_canonical_format:
            coo = matrix.tocsr(copy=True)
            coo.sum_duplicates()
            coo = coo.tocoo()
        coords = coo.coords if hasattr(coo, "coords") else (coo.row, coo.col)
        indices = np.stack([np.asarray(c, np.int64) for c in coords], axis=1)
        order = np.lexsort(indices.T[::-1])
        if np.array_equal(order, np.arange(len(order))):
            return cls(indices, coo.data, np.asarray(coo.shape, np.int64))
        return cls(indices[order], coo.data[order], np.asarray(coo.shape, np.int64))

    def to_scipy(self) -> typing.Any:
        """A scipy.sparse.coo_matrix on the memory of the values; of a tensor of two dimensions.

        >>> troupe.SparseTensor([[0, 1]], [2.], [2, 2]).to_scipy().toarray()  # doctest: +SKIP
        array([[0., 2.],
               [0., 0.]], dtype=float32)
        """
        import scipy.sparse

        if self.ndim != 2:
            raise ValueError(f"to_scipy: matrices of scipy.sparse have two dimensions, the tensor has {self.ndim}")
        indices = self._indices.numpy()
        return scipy.sparse.coo_matrix((self._values.numpy(), (indices[:, 0], indices[:, 1])), shape=self.shape)

    def __array__(self, dtype: typing.Any = None, copy: typing.Optional[bool] = None) -> np.ndarray:
        raise TypeError("a SparseTensor is no array: troupe.sparse.to_dense(x) makes it one, with memory for all zeros")

    def __repr__(self) -> str:
        parts = [np.array2string(x.numpy(), separator=", ").replace("\n", "") if x.is_eager else repr(x)
                 for x in (self._indices, self._values)]
        return f"SparseTensor(indices={parts[0]}, values={parts[1]}, dense_shape={self.shape})"

    # ---- As one value of functions, loops, steps and tapes
    def _parts(self) -> typing.Tuple[Tensor, Tensor, Tensor]:
        return self._indices, self._values, self._dense_shape

    @classmethod
    def _of_parts(cls, parts: typing.Iterator) -> SparseTensor:
        return cls(next(parts), next(parts), next(parts))

    def _arguments(self) -> typing.Tuple[typing.Sequence[Tensor], str]:
        if not self._dense_shape.is_eager:
            return self._parts(), "SparseTensor"
        return self._parts()[:2], f"SparseTensor{self.shape}"

    def _with_arguments(self, parts: typing.Iterator) -> SparseTensor:
        """A dense shape that has a value is part of the trace."""
        indices, values = next(parts), next(parts)
        return SparseTensor(indices, values, self._dense_shape if self._dense_shape.is_eager else next(parts))

    def _feeds(self, value: SparseLike) -> typing.Mapping[Tensor, TensorLike]:
        given = as_sparse(value)
        wanted, shape = self.shape, given.shape
        if shape is None or wanted is None or len(shape) != len(wanted) or any(
                w is not None and w != s for w, s in zip(wanted, shape)):
            raise ValueError(f"run: a sparse tensor of shape {shape} is fed to one of {wanted}")
        if given.dtype != self.dtype:
            raise ValueError(f"run: {given.dtype} is fed to a sparse tensor of {self.dtype}")
        feeds = {self._indices: given.indices, self._values: given.values}
        if None in wanted:
            feeds[self._dense_shape] = given.dense_shape
        return feeds


def as_sparse(x: SparseLike) -> SparseTensor:
    """A SparseTensor as it is; of a matrix of scipy.sparse, or of (indices, values, dense_shape), another."""
    if isinstance(x, SparseTensor):
        return x
    if hasattr(x, "tocoo"):
        return SparseTensor.from_scipy(x)
    if isinstance(x, tuple) and len(x) == 3:
        return SparseTensor(*x)
    raise TypeError(f"{type(x).__name__} is no sparse tensor: troupe.sparse.from_dense(x) makes one of a tensor")


def placeholder(graph: Graph, dtype: DTypeLike, shape: typing.Sequence, name: str = "sparse") -> SparseTensor:
    """A sparse tensor of a graph, to be fed: sizes that are not known are None.

    >>> g = troupe.Graph()
    >>> x = troupe.sparse.placeholder(g, "float32", [None, 3])
    >>> with troupe.Session(g) as session:
    ...     print(session.run({x: troupe.SparseTensor([[1, 2]], [5.], [2, 3])}, x))
    SparseTensor(indices=[[1, 2]], values=[5.], dense_shape=(2, 3))
    """
    sizes = [-1 if size is None else size for size in shape]
    return SparseTensor(*_troupe.sparse_placeholder(graph._graph, dtype, sizes, name))
