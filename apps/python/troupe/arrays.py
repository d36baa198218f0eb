"""Functions of arrays with NumPy's names: shapes, joins, indices, order."""

from __future__ import annotations

import builtins
import typing

from . import _troupe
from ._core import Axis, DTypeLike, ShapeLike, Tensor, TensorLike

__all__ = [
    "argsort", "argwhere", "band_part", "bincount", "boolean_mask", "broadcast_to", "compress", "concatenate", "diag",
    "diagonal", "dynamic_partition", "dynamic_stitch", "expand_dims", "flip", "gather", "gather_nd",
    "histogram_fixed_width", "identity", "invert_permutation", "meshgrid", "moveaxis", "nonzero", "one_hot", "pad",
    "repeat", "reshape", "reverse_sequence", "roll", "scatter_elements", "scatter_nd", "searchsorted", "segment_max",
    "segment_mean", "segment_min", "segment_prod", "segment_sum", "sequence_mask", "set_diag", "shape_of", "sort",
    "split", "squeeze", "stack", "swapaxes", "table_find", "table_lookup", "take", "take_along_axis", "tensor_scatter",
    "tile", "top_k", "transpose", "tril", "triu", "unique", "unstack",
]

Integers = typing.Union[int, typing.Sequence[int]]


def _rank(x: TensorLike, function: str) -> typing.Tuple[Tensor, int]:
    tensor = _troupe.tensor(x)
    if tensor.ndim is None:
        raise ValueError(f"{function}: the rank of the tensor is not known")
    return tensor, tensor.ndim


def _list(value: Integers) -> typing.List[int]:
    return [int(v) for v in value] if isinstance(value, typing.Iterable) else [int(value)]


def identity(x: TensorLike) -> Tensor:
    """x as another tensor.

    >>> troupe.identity([1, 2])
    Tensor([1, 2], dtype=int64)
    """
    return _troupe.identity(x)


def reshape(x: TensorLike, shape: typing.Union[ShapeLike, Tensor]) -> Tensor:
    """The elements in another shape; -1 stands for what is left.

    >>> troupe.reshape([1, 2, 3, 4], (2, -1))
    Tensor([[1, 2],
            [3, 4]], dtype=int64)
    """
    return _troupe.reshape(x, shape)


def transpose(x: TensorLike, axes: typing.Optional[typing.Sequence[int]] = None) -> Tensor:
    """Dimensions in another order; by default reversed.

    >>> troupe.transpose([[1, 2], [3, 4]])
    Tensor([[1, 3],
            [2, 4]], dtype=int64)
    """
    if axes is None:
        return _troupe.transpose(x, None)
    x, rank = _rank(x, "transpose")
    return _troupe.transpose(x, [a + rank if a < 0 else a for a in axes])


def swapaxes(x: TensorLike, axis1: int, axis2: int) -> Tensor:
    """Two dimensions exchanged.

    >>> troupe.swapaxes(troupe.zeros((2, 3, 4)), 0, -1).shape
    (4, 3, 2)
    """
    x, rank = _rank(x, "swapaxes")
    order = list(builtins.range(rank))
    order[axis1], order[axis2] = order[axis2], order[axis1]
    return _troupe.transpose(x, order)


def moveaxis(x: TensorLike, source: Integers, destination: Integers) -> Tensor:
    """Dimensions moved to other places; the others keep their order.

    >>> troupe.moveaxis(troupe.zeros((2, 3, 4)), 0, -1).shape
    (3, 4, 2)
    """
    x, rank = _rank(x, "moveaxis")
    places = {d % rank: s % rank for s, d in zip(_list(source), _list(destination))}
    rest = iter([d for d in builtins.range(rank) if d not in places.values()])
    return _troupe.transpose(x, [places[d] if d in places else next(rest) for d in builtins.range(rank)])


def squeeze(x: TensorLike, axis: Axis = None) -> Tensor:
    """Without dimensions of size 1: those of axis, or all.

    >>> troupe.squeeze([[1, 2]])
    Tensor([1, 2], dtype=int64)
    """
    return _troupe.squeeze(x, axis)


def expand_dims(x: TensorLike, axis: Integers) -> Tensor:
    """With new dimensions of size 1 at these axes of the result.

    >>> troupe.expand_dims([1, 2], 1).shape
    (2, 1)
    """
    return _troupe.expand_dims(x, axis)


def broadcast_to(x: TensorLike, shape: ShapeLike) -> Tensor:
    """Repeated to a shape.

    >>> troupe.broadcast_to([1, 2], (2, 2))
    Tensor([[1, 2],
            [1, 2]], dtype=int64)
    """
    return _troupe.broadcast_to(x, shape)


def concatenate(tensors: typing.Sequence[TensorLike], axis: int = 0) -> Tensor:
    """Tensors one after the other along an axis.

    >>> troupe.concatenate([[1, 2], [3]])
    Tensor([1, 2, 3], dtype=int64)
    """
    return _troupe.concatenate(tensors, axis)


def stack(tensors: typing.Sequence[TensorLike], axis: int = 0) -> Tensor:
    """Tensors of one shape along a new axis.

    >>> troupe.stack([[1, 2], [3, 4]], axis=1)
    Tensor([[1, 3],
            [2, 4]], dtype=int64)
    """
    return _troupe.stack(tensors, axis)


def unstack(x: TensorLike, axis: int = 0) -> typing.Tuple[Tensor, ...]:
    """The slices along an axis, whose size must be known.

    >>> troupe.unstack([[1, 2], [3, 4]])
    (Tensor([1, 2], dtype=int64), Tensor([3, 4], dtype=int64))
    """
    return _troupe.unstack(x, axis)


def split(x: TensorLike, indices_or_sections: Integers, axis: int = 0) -> typing.Tuple[Tensor, ...]:
    """Equal parts along an axis, or parts that begin at these places.

    >>> troupe.split([1, 2, 3, 4], [1])
    (Tensor([1], dtype=int64), Tensor([2, 3, 4], dtype=int64))
    """
    if isinstance(indices_or_sections, int):
        return _troupe.split(x, indices_or_sections, axis)
    x, rank = _rank(x, "split")
    size = x.shape[axis % rank]
    ends = [min(max(i + size if i < 0 else i, 0), size) for i in _list(indices_or_sections)] + [size]
    sizes, begin = [], 0
    for end in ends:
        sizes.append(max(end - begin, 0))
        begin = max(begin, end)
    return _troupe.split_sizes(x, sizes, axis)


def tile(x: TensorLike, reps: Integers) -> Tensor:
    """The whole tensor repeated along each dimension.

    >>> troupe.tile([1, 2], 2)
    Tensor([1, 2, 1, 2], dtype=int64)
    """
    x, rank = _rank(x, "tile")
    counts = _list(reps)
    if len(counts) > rank:
        x = _troupe.expand_dims(x, list(builtins.range(len(counts) - rank)))
    return _troupe.tile(x, [1] * (rank - len(counts)) + counts)


def repeat(x: TensorLike, repeats: Integers, axis: typing.Optional[int] = None) -> Tensor:
    """Each element repeated along an axis; without one, of all elements in their order.

    >>> troupe.repeat([1, 2], 2)
    Tensor([1, 1, 2, 2], dtype=int64)
    """
    if axis is None:
        x, axis = _troupe.reshape(x, -1), 0
    return _troupe.repeat(x, repeats, axis)


def flip(x: TensorLike, axis: Axis = None) -> Tensor:
    """Reversed along axes; by default, all.

    >>> troupe.flip([1, 2, 3])
    Tensor([3, 2, 1], dtype=int64)
    """
    x, rank = _rank(x, "flip")
    return _troupe.flip(x, list(builtins.range(rank)) if axis is None else _list(axis))


def roll(x: TensorLike, shift: Integers, axis: Axis = None) -> Tensor:
    """Elements moved by shift places along axes; those that leave come back at the other end.

    >>> troupe.roll([1, 2, 3, 4], 1)
    Tensor([4, 1, 2, 3], dtype=int64)
    """
    if axis is None:
        x, rank = _rank(x, "roll")
        return _troupe.reshape(_troupe.roll(_troupe.reshape(x, -1), _list(shift), [0]), x.shape)
    axes, shifts = _list(axis), _list(shift)
    return _troupe.roll(x, shifts * len(axes) if len(shifts) == 1 else shifts, axes)


def pad(x: TensorLike, pad_width: typing.Any, mode: str = "constant", constant_values: float = 0) -> Tensor:
    """Elements added before and after those of each dimension: pad_width is n, (before, after), or a list of pairs.
    Modes: constant, reflect, edge, symmetric, wrap.

    >>> troupe.pad([1, 2], (1, 2))
    Tensor([0, 1, 2, 0, 0], dtype=int64)
    """
    x, rank = _rank(x, "pad")
    if isinstance(pad_width, int):
        pad_width = [(pad_width, pad_width)] * rank
    elif len(pad_width) == 2 and all(isinstance(w, int) for w in pad_width):
        pad_width = [tuple(pad_width)] * rank
    return _troupe.pad(x, [(int(a), int(b)) for a, b in pad_width], mode, constant_values)


def triu(x: TensorLike, k: int = 0) -> Tensor:
    """Matrices with zeros below diagonal k.

    >>> troupe.triu([[1, 2], [3, 4]])
    Tensor([[1, 2],
            [0, 4]], dtype=int64)
    """
    return _troupe.triu(x, k)


def tril(x: TensorLike, k: int = 0) -> Tensor:
    """Matrices with zeros above diagonal k.

    >>> troupe.tril([[1, 2], [3, 4]])
    Tensor([[1, 0],
            [3, 4]], dtype=int64)
    """
    return _troupe.tril(x, k)


def diagonal(x: TensorLike, k: int = 0) -> Tensor:
    """Diagonal k of matrices.

    >>> troupe.diagonal([[1, 2], [3, 4]])
    Tensor([1, 4], dtype=int64)
    """
    return _troupe.diag_part(x, k)


def diag(x: TensorLike, k: int = 0) -> Tensor:
    """Of a vector: the matrix with it on diagonal k; of a matrix: its diagonal k.

    >>> troupe.diag([1, 2])
    Tensor([[1, 0],
            [0, 2]], dtype=int64)
    """
    x, rank = _rank(x, "diag")
    return _troupe.diag(x, k) if rank == 1 else _troupe.diag_part(x, k)


def meshgrid(*xs: TensorLike, indexing: str = "xy") -> typing.Tuple[Tensor, ...]:
    """Vectors as the coordinates of a grid.

    >>> troupe.meshgrid([1, 2], [3, 4])[0]
    Tensor([[1, 2],
            [1, 2]], dtype=int64)
    """
    vectors = [_troupe.reshape(x, -1) for x in xs]
    if indexing not in ("xy", "ij"):
        raise ValueError(f"meshgrid: indexing is 'xy' or 'ij', not {indexing!r}")
    order = list(builtins.range(len(vectors)))
    if indexing == "xy" and len(vectors) > 1:
        order[:2] = [1, 0]
    shape = [vectors[i].shape[0] for i in order]
    out = []
    for n, vector in enumerate(vectors):
        own = [1] * len(shape)
        own[order.index(n)] = -1
        out.append(_troupe.broadcast_to(_troupe.reshape(vector, own), shape))
    return tuple(out)


def shape_of(x: TensorLike) -> Tensor:
    """The shape as a tensor, int64 [rank]; for tensors of a graph, that of the step.

    >>> troupe.shape_of([[1, 2, 3]])
    Tensor([1, 3], dtype=int64)
    """
    return _troupe.shape_of(x)


def take(x: TensorLike, indices: TensorLike, axis: typing.Optional[int] = None) -> Tensor:
    """Slices by index along an axis, of all elements in their order by default. Negative indices count from the end.

    >>> troupe.take([10, 20, 30], [2, 0, -1])
    Tensor([30, 10, 30], dtype=int64)
    """
    if axis is None:
        x, axis = _troupe.reshape(x, -1), 0
    return _troupe.gather(x, indices, axis, 0)


def gather(x: TensorLike, indices: TensorLike, axis: int = 0, batch_dims: int = 0) -> Tensor:
    """Slices by index along an axis, by default rows; leading batch_dims dimensions are common to both.

    >>> troupe.gather([[1, 2], [3, 4]], [1, 1, 0])
    Tensor([[3, 4],
            [3, 4],
            [1, 2]], dtype=int64)
    """
    return _troupe.gather(x, indices, axis, batch_dims)


def gather_nd(x: TensorLike, indices: TensorLike, batch_dims: int = 0) -> Tensor:
    """Slices x[indices[..., :]].

    >>> troupe.gather_nd([[1, 2], [3, 4]], [[0, 1], [1, 0]])
    Tensor([2, 3], dtype=int64)
    """
    return _troupe.gather_nd(x, indices, batch_dims)


def take_along_axis(x: TensorLike, indices: TensorLike, axis: int) -> Tensor:
    """x[indices[i, j], j] for axis 0 of a matrix; likewise for other axes and ranks.

    >>> troupe.take_along_axis([[3, 1, 2]], [[1, 2, 0]], axis=1)
    Tensor([[1, 2, 3]], dtype=int64)
    """
    return _troupe.take_along_axis(x, indices, axis)


def tensor_scatter(x: TensorLike, indices: TensorLike, updates: TensorLike, reduction: str = "none") -> Tensor:
    """x with slices x[indices[..., :]] replaced by updates[...]; reduction: "add", "sub", "mul", "max", "min" of both.

    >>> troupe.tensor_scatter([1, 2, 3], [[0], [2]], [10, 30])
    Tensor([10,  2, 30], dtype=int64)
    """
    return _troupe.tensor_scatter(x, indices, updates, reduction)


def scatter_elements(x: TensorLike, indices: TensorLike, updates: TensorLike, axis: int = 0, reduction: str = "none"
                     ) -> Tensor:
    """x with x[indices[i, j], j] = updates[i, j] for axis 0 of a matrix; likewise for other axes and ranks.

    >>> troupe.scatter_elements([1, 2, 3], [2, 0], [30, 10])
    Tensor([10,  2, 30], dtype=int64)
    """
    return _troupe.scatter_elements(x, indices, updates, axis, reduction)


def scatter_nd(indices: TensorLike, updates: TensorLike, shape: ShapeLike) -> Tensor:
    """Zeros of a shape, with updates added to slices.

    >>> troupe.scatter_nd([[1], [1]], [2, 3], (3,))
    Tensor([0, 5, 0], dtype=int64)
    """
    return _troupe.scatter_nd(indices, updates, shape)


def argwhere(x: TensorLike) -> Tensor:
    """The indices of elements that are not 0: int64 [n, rank].

    >>> troupe.argwhere([0, 3, 0, 5])
    Tensor([[1],
            [3]], dtype=int64)
    """
    return _troupe.argwhere(x)


def boolean_mask(x: TensorLike, mask: TensorLike, axis: int = 0) -> Tensor:
    """Slices where the mask, whose shape is that of x from an axis on, is true.

    >>> troupe.boolean_mask([1, 2, 3], [True, False, True])
    Tensor([1, 3], dtype=int64)
    """
    return _troupe.boolean_mask(x, mask, axis)


def one_hot(indices: TensorLike, depth: int, axis: int = -1, dtype: DTypeLike = "float32", on_value: float = 1,
            off_value: float = 0) -> Tensor:
    """on_value at the place along a new axis that is the index, off_value elsewhere.

    >>> troupe.one_hot([0, 2], 3)
    Tensor([[1., 0., 0.],
            [0., 0., 1.]], dtype=float32)
    """
    return _troupe.one_hot(indices, depth, axis, dtype, on_value, off_value)


def sequence_mask(lengths: TensorLike, maxlen: int) -> Tensor:
    """Whether places are below each length: bool [..., maxlen].

    >>> troupe.sequence_mask([1, 3], 3)
    Tensor([[ True, False, False],
            [ True,  True,  True]], dtype=bool)
    """
    return _troupe.sequence_mask(lengths, maxlen)


def sort(x: TensorLike, axis: int = -1, descending: bool = False) -> Tensor:
    """Elements along an axis in ascending order, NaN last; stable.

    >>> troupe.sort([3, 1, 2])
    Tensor([1, 2, 3], dtype=int64)
    """
    return _troupe.sort(x, axis, descending)


def argsort(x: TensorLike, axis: int = -1, descending: bool = False) -> Tensor:
    """The indices that sort.

    >>> troupe.argsort([3, 1, 2])
    Tensor([1, 2, 0], dtype=int64)
    """
    return _troupe.argsort(x, axis, descending)


def top_k(x: TensorLike, k: int, axis: int = -1, largest: bool = True) -> typing.Tuple[Tensor, Tensor]:
    """The k greatest elements along an axis in descending order, or the least in ascending order, and their indices.

    >>> troupe.top_k([3, 1, 2], 2)
    (Tensor([3, 2], dtype=int64), Tensor([0, 2], dtype=int64))
    """
    return _troupe.top_k(x, k, axis, largest)


@typing.overload
def unique(x: TensorLike) -> Tensor: ...
@typing.overload
def unique(x: TensorLike, return_index: bool = False, return_inverse: bool = False, return_counts: bool = False
           ) -> typing.Any: ...
def unique(x: TensorLike, return_index: bool = False, return_inverse: bool = False, return_counts: bool = False
           ) -> typing.Any:
    """The elements without repetitions, in ascending order; and, if wanted, the index of the first of each, for each
    element its place in them, and how often each occurs.

    >>> troupe.unique([3, 1, 3], return_counts=True)
    (Tensor([1, 3], dtype=int64), Tensor([1, 2], dtype=int64))
    """
    values, index, inverse, counts = _troupe.unique(x, True)
    wanted = [values] + [t for t, is_wanted in
                         ((index, return_index), (inverse, return_inverse), (counts, return_counts)) if is_wanted]
    return tuple(wanted) if len(wanted) > 1 else values


def searchsorted(sorted_sequence: TensorLike, values: TensorLike, side: str = "left") -> Tensor:
    """Where each value would be inserted to keep the order: before equal elements, or with side="right" after them.

    >>> troupe.searchsorted([1, 3, 5], [3, 4])
    Tensor([1, 2], dtype=int64)
    """
    if side not in ("left", "right"):
        raise ValueError(f"searchsorted: side is 'left' or 'right', not {side!r}")
    return _troupe.searchsorted(sorted_sequence, values, side == "right")


def bincount(x: TensorLike, minlength: int = 0) -> Tensor:
    """How often 0, 1, 2, ... occur.

    >>> troupe.bincount([1, 1, 3])
    Tensor([0, 2, 0, 1], dtype=int64)
    """
    return _troupe.bincount(x, minlength)


def segment_sum(x: TensorLike, segment_ids: TensorLike, num_segments: int) -> Tensor:
    """Sums of the rows with equal ids, which may come in any order; rows with negative ids are left out.

    >>> troupe.segment_sum([1.0, 2.0, 3.0], [0, 1, 0], 2)
    Tensor([4., 2.], dtype=float32)
    """
    return _troupe.segment_sum(x, segment_ids, num_segments)


def segment_mean(x: TensorLike, segment_ids: TensorLike, num_segments: int) -> Tensor:
    """Means of the rows with equal ids, which may come in any order; rows with negative ids are left out.

    >>> troupe.segment_mean([1.0, 2.0, 3.0], [0, 1, 0], 2)
    Tensor([2., 2.], dtype=float32)
    """
    return _troupe.segment_mean(x, segment_ids, num_segments)


def segment_max(x: TensorLike, segment_ids: TensorLike, num_segments: int) -> Tensor:
    """The greatest of the rows with equal ids, which may come in any order; rows with negative ids are left out.

    >>> troupe.segment_max([1.0, 2.0, 3.0], [0, 1, 0], 2)
    Tensor([3., 2.], dtype=float32)
    """
    return _troupe.segment_max(x, segment_ids, num_segments)


def segment_min(x: TensorLike, segment_ids: TensorLike, num_segments: int) -> Tensor:
    """The least of the rows with equal ids, which may come in any order; rows with negative ids are left out.

    >>> troupe.segment_min([1.0, 2.0, 3.0], [0, 1, 0], 2)
    Tensor([1., 2.], dtype=float32)
    """
    return _troupe.segment_min(x, segment_ids, num_segments)


def segment_prod(x: TensorLike, segment_ids: TensorLike, num_segments: int) -> Tensor:
    """Products of the rows with equal ids, which may come in any order; rows with negative ids are left out.

    >>> troupe.segment_prod([1.0, 2.0, 3.0], [0, 1, 0], 2)
    Tensor([3., 2.], dtype=float32)
    """
    return _troupe.segment_prod(x, segment_ids, num_segments)


def set_diag(x: TensorLike, diagonal: TensorLike, k: int = 0) -> Tensor:
    """Matrices [..., m, n] with their diagonal k replaced.

    >>> troupe.set_diag([[1, 2], [3, 4]], [0, 0])
    Tensor([[0, 2],
            [3, 0]], dtype=int64)
    """
    return _troupe.set_diag(x, diagonal, k)


def band_part(x: TensorLike, num_lower: int, num_upper: int) -> Tensor:
    """Matrices [..., m, n] with zeros outside a band: so many diagonals below the main one and above it stay, all if
    negative.

    >>> troupe.band_part([[1, 2], [3, 4]], 0, -1)
    Tensor([[1, 2],
            [0, 4]], dtype=int64)
    """
    return _troupe.band_part(x, num_lower, num_upper)


def reverse_sequence(x: TensorLike, lengths: TensorLike, seq_axis: int = 1, batch_axis: int = 0) -> Tensor:
    """Entry b of the batch with its first lengths[b] elements along seq_axis reversed.

    >>> troupe.reverse_sequence([[1, 2, 3], [4, 5, 6]], [2, 3])
    Tensor([[2, 1, 3],
            [6, 5, 4]], dtype=int64)
    """
    return _troupe.reverse_sequence(x, lengths, seq_axis, batch_axis)


def nonzero(x: TensorLike) -> typing.Tuple[Tensor, ...]:
    """The indices of elements that are not 0: a vector for each dimension.

    >>> troupe.nonzero([0, 3, 0, 5])
    (Tensor([1, 3], dtype=int64),)
    """
    return _troupe.unstack(_troupe.non_zero(x), 0)


def compress(condition: TensorLike, x: TensorLike, axis: typing.Optional[int] = None) -> Tensor:
    """Slices along an axis where a vector is true, which may be shorter; by default, of all elements in their order.

    >>> troupe.compress([False, True], [[1, 2], [3, 4]], axis=0)
    Tensor([[3, 4]], dtype=int64)
    """
    if axis is None:
        x, axis = _troupe.reshape(x, -1), 0
    return _troupe.compress(condition, x, axis)


def dynamic_partition(x: TensorLike, partitions: TensorLike, num_partitions: int) -> typing.Tuple[Tensor, ...]:
    """Part p has the rows of x whose partition is p.

    >>> troupe.dynamic_partition([1, 2, 3], [0, 1, 0], 2)
    (Tensor([1, 3], dtype=int64), Tensor([2], dtype=int64))
    """
    return _troupe.dynamic_partition(x, partitions, num_partitions)


def dynamic_stitch(indices: typing.Sequence[TensorLike], data: typing.Sequence[TensorLike]) -> Tensor:
    """Row indices[i][j] of the result is data[i][j], of several the last; rows without an index are zeros.

    >>> troupe.dynamic_stitch([[0, 2], [1]], [[1, 3], [2]])
    Tensor([1, 2, 3], dtype=int64)
    """
    return _troupe.dynamic_stitch(list(indices), list(data))


def invert_permutation(x: TensorLike) -> Tensor:
    """The place of each of 0, 1, ..., n - 1 in a permutation [n].

    >>> troupe.invert_permutation([2, 0, 1])
    Tensor([1, 2, 0], dtype=int64)
    """
    return _troupe.invert_permutation(x)


def histogram_fixed_width(values: TensorLike, value_range: typing.Sequence[float], nbins: int = 100) -> Tensor:
    """How many values lie in each of equal bins of (low, high); those outside count in the first or last: int64
    [nbins].

    >>> troupe.histogram_fixed_width([-1., 0.1, 0.9, 5.], (0., 1.), 2)
    Tensor([2, 2], dtype=int64)
    """
    return _troupe.histogram_fixed_width(values, list(value_range), nbins)


def table_lookup(x: TensorLike, keys: TensorLike, values: TensorLike, default: TensorLike) -> Tensor:
    """values[i] where x equals keys[i], else a default. Keys [n] are distinct numbers or strings.

    >>> troupe.table_lookup(["b", "x"], ["a", "b"], [1, 2], -1)
    Tensor([ 2, -1], dtype=int64)
    """
    return _troupe.table_lookup(x, keys, values, default)


def table_find(x: TensorLike, keys: TensorLike) -> Tensor:
    """The place of each element of x in keys [n], -1 if it is not there; int64.

    >>> troupe.table_find(["b", "x"], ["a", "b"])
    Tensor([ 1, -1], dtype=int64)
    """
    return _troupe.table_find(x, keys)
