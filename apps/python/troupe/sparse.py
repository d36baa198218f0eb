"""Sparse tensors with TensorFlow's names: the coordinates of the elements that are there, their values, and the shape
of the whole. The others are zeros.

Functions take and return troupe.SparseTensor, in eager mode, in graphs and in functions that are traced; where they
take one, a matrix of scipy.sparse will do. Gradients flow through values. Indices are in row-major order, each once,
where a function does not say otherwise: reorder() sorts others, coalesce() also adds up those that are there several
times.
"""

from __future__ import annotations

import importlib
import typing

import numpy as np

from . import _troupe
from ._core import Axis, CompositeTensor, DTypeLike, Tensor, TensorLike
from ._troupe import IndexedSlices
from .graphs import Graph
from .ragged import RaggedTensor

__all__ = [
    "SparseTensor", "add", "coalesce", "concat", "divide", "expand_dims", "eye", "fill_empty_rows", "from_dense",
    "map_values", "mask", "matmul", "maximum", "minimum", "multiply", "placeholder", "reduce_max", "reduce_sum",
    "reorder", "reset_shape", "reshape", "retain", "sampled_matmul", "segment_mean", "segment_sqrt_n", "segment_sum",
    "slice", "softmax", "sparse_dense_matmul", "split", "to_dense", "to_indicator", "to_ragged", "transpose",
]

# Functions take a matrix of scipy.sparse for a sparse tensor, too.
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
        """Of a matrix or array of scipy.sparse, of any format, in row-major order, with repeated elements added up. The
        values of one that is so already are not copied."""
        if not hasattr(matrix, "tocoo"):
            raise TypeError(f"from_scipy: {type(matrix).__name__} is not of scipy.sparse")
        coo = matrix.tocoo()
        indices = _coordinates(coo)
        if _ascend(indices):
            return cls(indices, coo.data, np.asarray(coo.shape, np.int64))
        coo = coo.copy()
        coo.sum_duplicates()
        indices = _coordinates(coo)
        order = np.lexsort(indices.T[::-1])
        return cls(indices[order], coo.data[order], np.asarray(coo.shape, np.int64))

    def to_scipy(self) -> typing.Any:
        """A scipy.sparse.coo_matrix on the memory of the values; of a tensor of two dimensions.

        >>> troupe.SparseTensor([[0, 1]], [2.], [2, 2]).to_scipy().toarray()  # doctest: +SKIP
        array([[0., 2.],
               [0., 0.]], dtype=float32)
        """
        if self.ndim != 2:
            raise ValueError(f"to_scipy: matrices of scipy.sparse have two dimensions, the tensor has {self.ndim}")
        indices = self._indices.numpy()
        scipy_sparse = importlib.import_module("scipy.sparse")
        return scipy_sparse.coo_matrix((self._values.numpy(), (indices[:, 0], indices[:, 1])), shape=self.shape)

    def __array__(self, dtype: typing.Any = None, copy: typing.Optional[bool] = None) -> np.ndarray:
        raise TypeError("a SparseTensor is no array: troupe.sparse.to_dense(x) makes it one, with memory for all zeros")

    def __repr__(self) -> str:
        parts = [np.array2string(x.numpy(), separator=", ").replace("\n", "") if x.is_eager else repr(x)
                 for x in (self._indices, self._values)]
        return f"SparseTensor(indices={parts[0]}, values={parts[1]}, dense_shape={self.shape})"

    __array_priority__ = 1000
    __array_ufunc__ = None

    def __matmul__(self, other: TensorLike) -> Tensor:
        return sparse_dense_matmul(self, other)

    def __rmatmul__(self, other: TensorLike) -> Tensor:
        return _troupe.transpose(sparse_dense_matmul(self, other, adjoint_a=True, adjoint_b=True), [1, 0])

    def __mul__(self, other: typing.Any) -> SparseTensor:
        return multiply(self, other)

    __rmul__ = __mul__

    def __truediv__(self, other: TensorLike) -> SparseTensor:
        return divide(self, other)

    def __add__(self, other: typing.Any) -> typing.Any:
        return add(self, other)

    __radd__ = __add__

    def __sub__(self, other: typing.Any) -> typing.Any:
        return add(self, -other)

    def __rsub__(self, other: typing.Any) -> typing.Any:
        return add(-self, other)

    def __neg__(self) -> SparseTensor:
        return self.with_values(-self._values)

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


def _coordinates(coo: typing.Any) -> np.ndarray:
    """Of a COO matrix of SciPy: int64 [n, rank]."""
    coords = coo.coords if hasattr(coo, "coords") else (coo.row, coo.col)
    return np.stack([np.asarray(c, np.int64) for c in coords], axis=1)


def _ascend(indices: np.ndarray) -> bool:
    """Whether coordinates are in row-major order, each once."""
    steps = np.diff(indices, axis=0)
    later = np.zeros(len(steps), bool)
    for axis in reversed(range(indices.shape[1])):
        later = (steps[:, axis] > 0) | ((steps[:, axis] == 0) & later)
    return bool(later.all())


def as_sparse(x: SparseLike) -> SparseTensor:
    """A SparseTensor as it is; of a matrix of scipy.sparse, or of (indices, values, dense_shape), another."""
    if isinstance(x, SparseTensor):
        return x
    if hasattr(x, "tocoo"):
        return SparseTensor.from_scipy(x)
    if isinstance(x, tuple) and len(x) == 3:
        return SparseTensor(*x)
    raise TypeError(f"{type(x).__name__} is no sparse tensor: troupe.sparse.from_dense(x) makes one of a tensor")


def _of(x: SparseLike) -> typing.Tuple[Tensor, Tensor, Tensor]:
    return as_sparse(x)._parts()


def _is_sparse(x: typing.Any) -> bool:
    return isinstance(x, SparseTensor) or hasattr(x, "tocoo")


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


# ---- To and from dense tensors
def from_dense(x: TensorLike) -> SparseTensor:
    """The elements of a tensor that are not 0; of strings, not empty.

    >>> troupe.sparse.from_dense([[0., 2.], [3., 0.]])
    SparseTensor(indices=[[0, 1], [1, 0]], values=[2., 3.], dense_shape=(2, 2))
    """
    return SparseTensor(*_troupe.sparse_from_dense(x))


def to_dense(x: SparseLike, default_value: typing.Optional[TensorLike] = None, validate_indices: bool = True) -> Tensor:
    """The whole tensor, with default_value, by default 0, where no element is.

    Raises InvalidArgumentError if elements are not in row-major order, each once; without validate_indices the last of
    several counts.

    >>> troupe.sparse.to_dense(troupe.SparseTensor([[0, 1]], [2.], [2, 2]), default_value=-1.)
    Tensor([[-1.,  2.],
            [-1., -1.]], dtype=float32)
    """
    return _troupe.sparse_to_dense(_of(x), default_value, validate_indices)


def to_indicator(ids: SparseLike, vocab_size: int) -> Tensor:
    """For integers [..., n]: bool [..., vocab_size], True at each id of a row.

    >>> troupe.sparse.to_indicator(troupe.SparseTensor([[0, 0], [0, 1], [1, 0]], [2, 0, 1], [2, 2]), 3)
    Tensor([[ True, False,  True],
            [False,  True, False]], dtype=bool)
    """
    return _troupe.sparse_to_indicator(_of(ids), vocab_size)


def to_ragged(x: SparseLike) -> RaggedTensor:
    """The values by rows of dimension 0, without their other coordinates.

    >>> troupe.sparse.to_ragged(troupe.SparseTensor([[0, 0], [2, 0], [2, 1]], [5, 6, 7], [3, 2]))
    RaggedTensor([[5], [], [6, 7]])
    """
    return RaggedTensor(*_troupe.sparse_to_ragged(_of(x)))


def eye(num_rows: int, num_columns: typing.Optional[int] = None, dtype: DTypeLike = "float32") -> SparseTensor:
    """Ones on the diagonal of a matrix.

    >>> troupe.sparse.eye(2, 3)
    SparseTensor(indices=[[0, 0], [1, 1]], values=[1., 1.], dense_shape=(2, 3))
    """
    columns = num_rows if num_columns is None else num_columns
    places = np.arange(min(num_rows, columns))
    return SparseTensor(np.stack([places, places], axis=1), _troupe.cast(np.ones(len(places), np.float32), dtype),
                        [num_rows, columns])


# ---- Order
def reorder(x: SparseLike) -> SparseTensor:
    """In row-major order, of elements in any; those with the same coordinates keep their order.

    >>> troupe.sparse.reorder(troupe.SparseTensor([[1, 0], [0, 1]], [1., 2.], [2, 2]))
    SparseTensor(indices=[[0, 1], [1, 0]], values=[2., 1.], dense_shape=(2, 2))
    """
    return SparseTensor(*_troupe.sparse_reorder(_of(x)))


def coalesce(x: SparseLike) -> SparseTensor:
    """In row-major order, elements with the same coordinates added up.

    >>> troupe.sparse.coalesce(troupe.SparseTensor([[1, 0], [0, 1], [1, 0]], [1., 2., 4.], [2, 2]))
    SparseTensor(indices=[[0, 1], [1, 0]], values=[2., 5.], dense_shape=(2, 2))
    """
    return SparseTensor(*_troupe.sparse_coalesce(_of(x)))


# ---- Products
def sparse_dense_matmul(sp_a: SparseLike, b: TensorLike, adjoint_a: bool = False, adjoint_b: bool = False) -> Tensor:
    """The product of a sparse matrix [m, k] and a dense one [k, n], or vector [k]: dense. adjoint_a, adjoint_b: with
    the transpose. Elements may be in any order, and repeated ones add up.

    >>> x = troupe.SparseTensor([[0, 1], [1, 0]], [2., 3.], [2, 2])
    >>> troupe.sparse.sparse_dense_matmul(x, [[1., 2.], [3., 4.]])
    Tensor([[6., 8.],
            [3., 6.]], dtype=float32)
    """
    dense = _troupe.tensor(b)
    if dense.ndim != 1:
        return _troupe.sparse_dense_matmul(_of(sp_a), dense, adjoint_a, adjoint_b)
    column = _troupe.expand_dims(dense, -1)
    return _troupe.squeeze(_troupe.sparse_dense_matmul(_of(sp_a), column, adjoint_a, False), -1)


matmul = sparse_dense_matmul


def sampled_matmul(indices: TensorLike, x: TensorLike, y: TensorLike) -> Tensor:
    """The elements of x y^T at coordinates [n, 2], for x [m, k] and y [p, k]: [n]. The whole product is never there.

    >>> troupe.sparse.sampled_matmul([[0, 1], [1, 1]], [[1., 2.], [3., 4.]], [[0., 0.], [1., 1.]])
    Tensor([3., 7.], dtype=float32)
    """
    return _troupe.sampled_matmul(indices, x, y)


# ---- Elementwise
def add(a: typing.Any, b: typing.Any, threshold: float = 0.0) -> typing.Any:
    """The sum of two sparse tensors of the same shape, without sums of a magnitude below the threshold; or of a sparse
    and a dense one, which is dense.

    >>> x = troupe.SparseTensor([[0]], [1.], [3])
    >>> troupe.sparse.add(x, troupe.SparseTensor([[2]], [5.], [3]))
    SparseTensor(indices=[[0], [2]], values=[1., 5.], dense_shape=(3,))
    >>> troupe.sparse.add(x, [1., 1., 1.])
    Tensor([2., 1., 1.], dtype=float32)
    """
    if _is_sparse(a) and _is_sparse(b):
        return SparseTensor(*_troupe.sparse_add(_of(a), _of(b), threshold))
    return _troupe.sparse_dense_add(_of(a), b) if _is_sparse(a) else _troupe.sparse_dense_add(_of(b), a)


def multiply(x: SparseLike, y: typing.Any) -> SparseTensor:
    """By a dense tensor, which is broadcast to x's shape, or the elements that two sparse tensors both have. Zeros of x
    stay zeros, also beside infinities.

    >>> troupe.sparse.multiply(troupe.SparseTensor([[0, 0], [1, 1]], [1., 2.], [2, 2]), [10., 20.])
    SparseTensor(indices=[[0, 0], [1, 1]], values=[10., 40.], dense_shape=(2, 2))
    """
    if _is_sparse(y):
        return SparseTensor(*_troupe.sparse_multiply(_of(x), _of(y)))
    return SparseTensor(*_troupe.sparse_dense_multiply(_of(x), y))


def divide(x: SparseLike, y: TensorLike) -> SparseTensor:
    """By a dense tensor, which is broadcast to x's shape. Zeros of x stay zeros, also beside zeros.

    >>> troupe.sparse.divide(troupe.SparseTensor([[0, 0], [1, 1]], [1., 2.], [2, 2]), [2., 4.])
    SparseTensor(indices=[[0, 0], [1, 1]], values=[0.5, 0.5], dense_shape=(2, 2))
    """
    return SparseTensor(*_troupe.sparse_dense_divide(_of(x), y))


def maximum(a: SparseLike, b: SparseLike) -> SparseTensor:
    """The larger of two sparse tensors' elements, where one of them has an element; the other counts as 0 there.

    >>> troupe.sparse.maximum(troupe.SparseTensor([[0]], [-1.], [3]), troupe.SparseTensor([[2]], [5.], [3]))
    SparseTensor(indices=[[0], [2]], values=[0., 5.], dense_shape=(3,))
    """
    return SparseTensor(*_troupe.sparse_maximum(_of(a), _of(b)))


def minimum(a: SparseLike, b: SparseLike) -> SparseTensor:
    """The smaller of two sparse tensors' elements, as maximum().

    >>> troupe.sparse.minimum(troupe.SparseTensor([[0]], [-1.], [3]), troupe.SparseTensor([[2]], [5.], [3]))
    SparseTensor(indices=[[0], [2]], values=[-1.,  0.], dense_shape=(3,))
    """
    return SparseTensor(*_troupe.sparse_minimum(_of(a), _of(b)))


def softmax(x: SparseLike) -> SparseTensor:
    """exp(x) over its sum, of the elements that are there, in each row along the last dimension.

    >>> troupe.sparse.softmax(troupe.SparseTensor([[0, 0], [0, 2], [1, 1]], [1., 1., 7.], [2, 3]))
    SparseTensor(indices=[[0, 0], [0, 2], [1, 1]], values=[0.5, 0.5, 1. ], dense_shape=(2, 3))
    """
    return SparseTensor(*_troupe.sparse_softmax(_of(x)))


def map_values(op: typing.Callable[..., Tensor], *args: typing.Any, **kwargs: typing.Any) -> SparseTensor:
    """op(*args, **kwargs), where a sparse tensor stands for its values, as the values of the first.

    >>> troupe.sparse.map_values(troupe.sqrt, troupe.SparseTensor([[1]], [4.], [3]))
    SparseTensor(indices=[[1]], values=[2.], dense_shape=(3,))
    """
    found = [x for x in (*args, *kwargs.values()) if isinstance(x, SparseTensor)]
    if not found:
        raise ValueError("map_values: no argument is a SparseTensor")
    plain = [x.values if isinstance(x, SparseTensor) else x for x in args]
    named = {k: x.values if isinstance(x, SparseTensor) else x for k, x in kwargs.items()}
    return found[0].with_values(op(*plain, **named))


# ---- Reductions
def reduce_sum(x: SparseLike, axis: Axis = None, keepdims: bool = False, output_is_sparse: bool = False) -> typing.Any:
    """Sums over an axis, several, or all of them: dense, or with output_is_sparse of the groups that have elements.

    >>> x = troupe.SparseTensor([[0, 0], [0, 2], [2, 1]], [1., 2., 7.], [3, 3])
    >>> troupe.sparse.reduce_sum(x, axis=1)
    Tensor([3., 0., 7.], dtype=float32)
    >>> troupe.sparse.reduce_sum(x, axis=1, output_is_sparse=True)
    SparseTensor(indices=[[0], [2]], values=[3., 7.], dense_shape=(3,))
    """
    found = SparseTensor(*_troupe.sparse_reduce_sum_sparse(_of(x), axis, keepdims))
    return found if output_is_sparse else to_dense(found)


def reduce_max(x: SparseLike, axis: Axis = None, keepdims: bool = False, output_is_sparse: bool = False) -> typing.Any:
    """The largest of the elements that are there, as reduce_sum(): 0 where there is none.

    >>> troupe.sparse.reduce_max(troupe.SparseTensor([[0, 0], [0, 2]], [-1., -2.], [2, 3]), axis=1)
    Tensor([-1.,  0.], dtype=float32)
    """
    found = SparseTensor(*_troupe.sparse_reduce_max_sparse(_of(x), axis, keepdims))
    return found if output_is_sparse else to_dense(found)


# ---- Shapes
def slice(x: SparseLike, start: TensorLike, size: TensorLike) -> SparseTensor:
    """The box of size[d] elements from start[d] on in each dimension d; -1: to the end. Larger sizes are cut.

    >>> troupe.sparse.slice(troupe.SparseTensor([[0, 0], [1, 2]], [1., 2.], [2, 3]), [0, 1], [2, -1])
    SparseTensor(indices=[[1, 1]], values=[2.], dense_shape=(2, 2))
    """
    return SparseTensor(*_troupe.sparse_slice(_of(x), start, size))


def concat(axis: int, sp_inputs: typing.Sequence[SparseLike]) -> SparseTensor:
    """Joins sparse tensors along an axis; their other dimensions are the same.

    >>> x = troupe.SparseTensor([[0, 1]], [1.], [1, 2])
    >>> troupe.sparse.concat(1, [x, x])
    SparseTensor(indices=[[0, 1], [0, 3]], values=[1., 1.], dense_shape=(1, 4))
    """
    return SparseTensor(*_troupe.sparse_concat([_of(x) for x in sp_inputs], axis))


def split(x: SparseLike, num_split: int, axis: int = 0) -> typing.List[SparseTensor]:
    """Parts along an axis, as equal as can be, the larger ones first.

    >>> [part.shape for part in troupe.sparse.split(troupe.SparseTensor([[1, 0]], [1.], [3, 2]), 2)]
    [(2, 2), (1, 2)]
    """
    found = _troupe.sparse_split(_of(x), num_split, axis)
    return [SparseTensor(*found[i:i + 3]) for i in range(0, len(found), 3)]


def reshape(x: SparseLike, shape: TensorLike) -> SparseTensor:
    """The same elements in another shape, one size of which may be -1.

    >>> troupe.sparse.reshape(troupe.SparseTensor([[1, 0]], [1.], [2, 3]), [-1])
    SparseTensor(indices=[[3]], values=[1.], dense_shape=(6,))
    """
    return SparseTensor(*_troupe.sparse_reshape(_of(x), shape))


def transpose(x: SparseLike, perm: typing.Optional[typing.Sequence[int]] = None) -> SparseTensor:
    """Dimension i of the result is perm[i] of x; by default in reverse.

    >>> troupe.sparse.transpose(troupe.SparseTensor([[0, 1], [1, 0]], [1., 2.], [2, 3]))
    SparseTensor(indices=[[0, 1], [1, 0]], values=[2., 1.], dense_shape=(3, 2))
    """
    return SparseTensor(*_troupe.sparse_transpose(_of(x), None if perm is None else list(perm)))


def expand_dims(x: SparseLike, axis: int) -> SparseTensor:
    """With a dimension of size 1 at this place of the result.

    >>> troupe.sparse.expand_dims(troupe.SparseTensor([[1]], [2.], [3]), 0)
    SparseTensor(indices=[[0, 1]], values=[2.], dense_shape=(1, 3))
    """
    return SparseTensor(*_troupe.sparse_expand_dims(_of(x), axis))


def retain(x: SparseLike, to_retain: TensorLike) -> SparseTensor:
    """The elements for which to_retain, bool [n], is True.

    >>> x = troupe.SparseTensor([[0], [1]], [1., -1.], [3])
    >>> troupe.sparse.retain(x, x.values > 0)
    SparseTensor(indices=[[0]], values=[1.], dense_shape=(3,))
    """
    return SparseTensor(*_troupe.sparse_retain(_of(x), to_retain))


def reset_shape(x: SparseLike, new_shape: typing.Optional[TensorLike] = None) -> SparseTensor:
    """In another shape that has room for all elements; by default the smallest.

    >>> troupe.sparse.reset_shape(troupe.SparseTensor([[0, 1], [1, 0]], [1., 2.], [7, 7])).shape
    (2, 2)
    """
    return SparseTensor(*_troupe.sparse_reset_shape(_of(x), new_shape))


def fill_empty_rows(x: SparseLike, default_value: TensorLike) -> typing.Tuple[SparseTensor, Tensor]:
    """With the element default_value at [row, 0, ...] of each row that has none; and which rows had none, bool [rows].

    >>> filled, empty = troupe.sparse.fill_empty_rows(troupe.SparseTensor([[1, 2]], [5.], [3, 4]), -1.)
    >>> filled
    SparseTensor(indices=[[0, 0], [1, 2], [2, 0]], values=[-1.,  5., -1.], dense_shape=(3, 4))
    >>> empty
    Tensor([ True, False,  True], dtype=bool)
    """
    found = _troupe.sparse_fill_empty_rows(_of(x), default_value)
    return SparseTensor(*found[:3]), found[3]


# ---- Rows
def mask(a: IndexedSlices, mask_indices: TensorLike) -> IndexedSlices:
    """IndexedSlices without the rows with these numbers.

    >>> slices = troupe.IndexedSlices([[1.], [2.], [3.]], [4, 7, 9], dense_shape=(10, 1))
    >>> troupe.sparse.mask(slices, [7])
    IndexedSlices(values=[[1.], [3.]], indices=[4, 9], dense_shape=(10, 1))
    """
    indices = a.indices
    keep = _troupe.all(_troupe.expand_dims(indices, -1) != _troupe.tensor(mask_indices), -1, False)
    return IndexedSlices(_troupe.compress(keep, a.values, 0), _troupe.compress(keep, indices, 0), a.dense_shape)


def segment_sum(data: TensorLike, indices: TensorLike, segment_ids: TensorLike) -> Tensor:
    """Sums of the rows data[indices] with the same id: ids ascend, the last one says how many sums there are.

    >>> troupe.sparse.segment_sum([[1., 2.], [3., 4.], [5., 6.]], [0, 2, 2], [0, 0, 1])
    Tensor([[6., 8.],
            [5., 6.]], dtype=float32)
    """
    return _troupe.sparse_segment_sum(data, indices, segment_ids)


def segment_mean(data: TensorLike, indices: TensorLike, segment_ids: TensorLike) -> Tensor:
    """Means, as segment_sum().

    >>> troupe.sparse.segment_mean([[1., 2.], [3., 4.]], [0, 1], [0, 0])
    Tensor([[2., 3.]], dtype=float32)
    """
    return _troupe.sparse_segment_mean(data, indices, segment_ids)


def segment_sqrt_n(data: TensorLike, indices: TensorLike, segment_ids: TensorLike) -> Tensor:
    """Sums over the root of how many rows they have, as segment_sum().

    >>> troupe.sparse.segment_sqrt_n([[1.], [3.]], [0, 1, 1, 1], [0, 0, 0, 0])
    Tensor([[5.]], dtype=float32)
    """
    return _troupe.sparse_segment_sqrt_n(data, indices, segment_ids)
