"""Data pipelines: a source, and stages after it. The work between Python's functions is C++.

    import numpy as np
    from troupe import data

    points = data.from_tensors({"x": np.ones((100, 2), np.float32), "y": np.zeros(100, np.int32)})
    for batch in points.shuffle(7).map(lambda e: {**e, "x": e["x"] * 2}).batch(32):
        print(batch["x"].shape)

An element is a dict of NumPy arrays by the names of its components, or a tuple of them, or one array, as the source or
the last function made it. Functions get elements in that form: f({"x": x, "y": y}), f(x, y) or f(x), and return new
ones in any of these forms. They must be pure, and may be called by several threads, one at a time.

The elements of an epoch and their order follow from the description alone, on every task of a cluster. A pipeline is
also what a model is fit to: then the order is its own, and if it ends with batch(), so are its batches.
"""

from __future__ import annotations

import atexit
import builtins
import functools
import os
import typing
import weakref

import numpy as np

from .. import _troupe
from .._core import CompositeTensor, DType, DTypeLike, array, data as tensor
from ..functions import python_function_of
from ..ragged import RaggedTensor
from ..sparse import SparseTensor
from . import images, texts

__all__ = [
    "FixedLenFeature", "Pipeline", "SparseFeature", "VarLenFeature", "csv", "fixed_records", "from_generator",
    "from_tensors", "idx", "image_classes", "image_folder", "images", "json_lines", "npy", "npz", "range", "sample",
    "text_lines", "texts", "tfrecord", "zip",
]

# A component's dtype and shape; None: a dimension that differs from element to element.
Schema = typing.Mapping[str, typing.Tuple[DTypeLike, typing.Optional[typing.Sequence[typing.Optional[int]]]]]
Paths = typing.Union[str, "os.PathLike[str]", typing.Sequence[typing.Union[str, "os.PathLike[str]"]]]
Element = typing.Any  # a dict of arrays, a tuple of arrays, or an array

_open: "weakref.WeakSet[_troupe.Elements]" = weakref.WeakSet()


# Threads that call Python's functions end before the interpreter does.
@atexit.register
def _close_all() -> None:
    for elements in list(_open):
        elements.close()


class FixedLenFeature(typing.NamedTuple):
    """A feature of a tf.train.Example with a fixed number of values, for tfrecord()."""

    shape: typing.Sequence[int]
    dtype: DTypeLike
    default_value: typing.Any = None  # where the feature is missing; None: that is an error


class VarLenFeature(typing.NamedTuple):
    """A feature with any number of values, none if it is missing: a vector [n]."""

    dtype: DTypeLike


class SparseFeature(typing.NamedTuple):
    """A sparse tensor that features hold as lists of equal lengths: the indices in each dimension, and the values."""

    index_key: typing.Union[str, typing.Sequence[str]]
    value_key: str
    dtype: DTypeLike
    size: typing.Union[int, typing.Sequence[int]]  # of each dimension


# Parts of composite tensors, in the order of components.
_PARTS: typing.Dict[str, typing.Tuple[typing.Type[CompositeTensor], typing.Tuple[str, ...]]] = {
    "sparse": (SparseTensor, ("indices", "values", "dense_shape")),
    "ragged": (RaggedTensor, ("values", "row_splits")),
}


def _by_name(made: typing.Mapping[str, typing.Any]) -> typing.Dict[str, typing.Any]:
    """Components by name: those of a sparse tensor are x.indices, x.values and x.dense_shape."""
    named: typing.Dict[str, typing.Any] = {}
    for name, value in made.items():
        parts = next((parts for kind, parts in _PARTS.values() if isinstance(value, kind)), None)
        if parts is None:
            named[name] = value
        else:
            named.update({f"{name}.{part}": getattr(value, part) for part in parts})
    return named


def _named(made: Element) -> typing.Tuple[str, typing.Dict[str, typing.Any]]:
    """The form of an element, and its components by name."""
    if isinstance(made, typing.Mapping):
        return "dict", _by_name(made)
    if isinstance(made, tuple):
        return "tuple", _by_name({f"component_{i}": value for i, value in enumerate(made)})
    return "array", _by_name({"component_0": made})


# A value of elements: its name, "tensor", "sparse" or "ragged", the place of its first component.
_Value = typing.Tuple[str, str, int]


def _formed(form: str, wanted: typing.Sequence[_Value], components: typing.Sequence[typing.Any]) -> Element:
    values = []
    for _, kind, first in wanted:
        if kind in _PARTS:
            composite, parts = _PARTS[kind]
            values.append(composite._of_parts(iter(components[first : first + len(parts)])))
        else:
            values.append(components[first])
    if form == "dict":
        return {name: value for (name, _, _), value in builtins.zip(wanted, values)}
    return tuple(values) if form == "tuple" else values[0]


def _name(dtype: DTypeLike) -> str:
    return _troupe.as_dtype(dtype).name


def _components(schema: Schema) -> list:
    return [(name, _name(dtype), None if shape is None else list(shape)) for name, (dtype, shape) in schema.items()]


def _inferred(what: str, elements: typing.Sequence[typing.Mapping[str, typing.Any]]) -> Schema:
    """Finds what the first elements have in common. Sparse and ragged tensors may have any number of values."""
    if not elements:
        raise ValueError(f"{what}: there are no elements to see what it returns: give its schema")
    schema = {name: (t.dtype, list(t.shape)) for name, t in ((n, tensor(v)) for n, v in elements[0].items())}
    for element in elements[1:]:
        for name, value in element.items():
            found = list(tensor(value).shape)
            dtype, shape = schema[name]
            if len(found) != len(shape):
                raise ValueError(f"{what}: '{name}' is of rank {len(shape)} in one element, {len(found)} in another")
            schema[name] = dtype, [a if a == b else None for a, b in builtins.zip(shape, found)]
    for name, (dtype, shape) in list(schema.items()):
        stem, _, part = name.rpartition(".")
        if part in ("indices", "values", "row_splits") and (f"{stem}.row_splits" in schema
                                                            or f"{stem}.dense_shape" in schema):
            schema[name] = dtype, [None, *shape[1:]]
    return schema


def _tensors(what: str, names: typing.Sequence[str], made: Element) -> list:
    """The components by name; those of a tuple, and an array, in their order."""
    form, named = _named(made)
    if form == "dict":
        if set(named) != set(names):
            raise ValueError(f"{what} returned {list(named)}: its schema has {list(names)}")
        return [tensor(named[name]) for name in names]
    values = list(named.values())
    if len(values) != len(names):
        raise ValueError(f"{what} returned {len(values)} components: its schema has {list(names)}")
    return [tensor(value) for value in values]


def _paths(paths: Paths) -> typing.List[str]:
    return [os.fspath(paths)] if isinstance(paths, (str, os.PathLike)) else [os.fspath(p) for p in paths]


def _name_of(function: typing.Callable, name: typing.Optional[str]) -> str:
    while isinstance(function, functools.partial):
        function = function.func
    return name or str(getattr(function, "__name__", type(function).__name__))


class Pipeline(_troupe.Pipeline):
    """Elements in an order that is described, not stored. Every method returns a new pipeline.

    >>> import troupe
    >>> [int(n) for n in troupe.data.range(10).filter(lambda n: n % 2 == 0).take(3)]
    [0, 2, 4]
    """

    def __init__(self, pipeline: _troupe.Pipeline, form: str = "dict"):
        super().__init__(pipeline)
        self._form = form

    @property
    def schema(self) -> typing.Dict[str, typing.Tuple[DType, typing.Optional[typing.List[typing.Optional[int]]]]]:
        """(dtype, shape) of each component of an element."""
        return {name: (_troupe.as_dtype(dtype), shape) for name, dtype, shape in self._elements()}

    @property
    def size(self) -> typing.Optional[int]:
        """Elements of an epoch; None: not known before they are read."""
        return self._size()

    @property
    def addressable(self) -> bool:
        """Whether any element can be made alone from its number."""
        return not self._forward_because()

    def __len__(self) -> int:
        size = self._size()
        if size is None:
            raise TypeError("the number of elements is not known before they are read")
        return size

    def __iter__(self) -> typing.Iterator[Element]:
        return self.iterate()

    def iterate(self, epoch: int = 0, threads: typing.Optional[int] = None) -> typing.Iterator[Element]:
        """The elements of an epoch. Where making them is slow, threads make them ahead: as many as there are cores
        unless given; 0: none."""
        if threads is None:
            threads = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        elements = _troupe.Elements(self, epoch, threads)
        _open.add(elements)
        values = self._composites()
        try:
            while (element := elements.next()) is not None:
                yield _formed(self._form, values, [array(t) for t in element])
        finally:
            elements.close()

    def __repr__(self) -> str:
        return self.describe().rstrip()

    # ---- Functions of elements
    def map(self, function: typing.Union[typing.Callable[..., Element], _troupe.Transformation],
            schema: typing.Optional[Schema] = None, name: typing.Optional[str] = None,
            seed: typing.Optional[int] = None) -> Pipeline:
        """What the function makes of each element; a function of troupe.data.images or texts runs without Python.

        schema: {name: (dtype, shape)} of the results. Without it, the first 8 elements are made, now, to see: a
        dimension that differs among them may have any size. seed: the function also gets a numpy.random.Generator,
        `rng=`, which follows from the seed, the epoch and the element's number: the same on every task.

        >>> import numpy as np, troupe
        >>> p = troupe.data.from_tensors((np.arange(3), np.ones(3))).map(lambda n, x: {"sum": n + x})
        >>> [float(e["sum"]) for e in p]
        [1.0, 2.0, 3.0]

        A @troupe.function is called once, now, with tensors; its ops then run without Python, on many threads at once.
        troupe.random's numbers in it follow from the seed, the epoch and the element's number: give each function of a
        pipeline another seed. It has no variables, loops or branches.

        >>> @troupe.function
        ... def halved(n, x):
        ...     return n, x / 2
        >>> [float(x) for n, x in troupe.data.from_tensors((np.arange(3), np.ones(3))).map(halved)]
        [0.5, 0.5, 0.5]
        """
        if isinstance(function, _troupe.Transformation):
            return Pipeline(self._transform(function), self._form)
        plain = python_function_of(function)
        what = _name_of(plain or function, name)
        if plain is not None:
            if schema is not None:
                raise ValueError(f"map {what}: the schema of a function that is traced follows from its ops: give none")
            traced, form_of = self._traced(plain)
            return Pipeline(self._map_traced(what, traced, seed or 0), form_of())
        call = self._caller(function, seed)
        form = "dict"
        if schema is None:
            made = [_named(call(e, 0, i)) for i, e in enumerate(self._first(8))]
            form = made[0][0] if made else form
            schema = _inferred(f"map {what}", [components for _, components in made])
        elif len(schema) == 1 and "component_0" in schema:
            form = "array"
        names = list(schema)

        def mapped(element: list, epoch: int, number: int) -> list:
            return _tensors(f"map {what}", names, call(element, epoch, number))

        return Pipeline(self._map(what, _components(schema), mapped), form)

    def filter(self, function: typing.Callable[..., typing.Any], name: typing.Optional[str] = None) -> Pipeline:
        """The elements for which the function is true. A @troupe.function is traced, as in map(): it returns one
        boolean, and draws no random numbers.

        >>> import troupe
        >>> [int(n) for n in troupe.data.range(6).filter(troupe.function(lambda n: n % 3 == 0))]
        [0, 3]
        """
        plain = python_function_of(function)
        if plain is not None:
            return self._like(self._filter_traced(_name_of(plain, name), self._traced(plain)[0]))
        call = self._caller(function)
        return self._like(self._filter(_name_of(function, name), lambda element: bool(call(element, 0, 0))))

    def flat_map(self, function: typing.Callable[..., typing.Iterable[Element]],
                 schema: typing.Optional[Schema] = None, name: typing.Optional[str] = None) -> Pipeline:
        """The elements that the function makes of each, one after the other. schema: as of map(). A @troupe.function
        is traced, as in map(), and returns them as rows.

        >>> import troupe
        >>> [int(n) for n in troupe.data.range(2).flat_map(troupe.function(lambda n: troupe.stack([n, n + 5])))]
        [0, 5, 1, 6]
        """
        what = _name_of(function, name)
        if python_function_of(function) is not None:
            return self.map(function, schema, name).unbatch()
        call = self._caller(function)
        form = "dict"
        if schema is None:
            made = [_named(m) for i, e in enumerate(self._first(8)) for m in call(e, 0, i)]
            form = made[0][0] if made else form
            schema = _inferred(f"flat_map {what}", [components for _, components in made])
        names = list(schema)

        def mapped(element: list, epoch: int, number: int) -> list:
            return [_tensors(f"flat_map {what}", names, m) for m in call(element, epoch, number)]

        return Pipeline(self._flat_map(what, _components(schema), mapped), form)

    def interleave(self, function: typing.Callable[..., Pipeline], cycle: int = 16, block: int = 1,
                   name: typing.Optional[str] = None) -> Pipeline:
        """The elements of the pipelines that the function makes of elements: of `cycle` of them at a time, `block`
        elements each in turn."""
        if python_function_of(function) is not None:
            raise ValueError("interleave: its function makes pipelines, so it cannot be traced: give it without "
                             "@troupe.function")
        call = self._caller(function)
        first = self._first(1)
        if not first:
            raise ValueError("interleave: there are no elements to see what the function returns")
        example = call(first[0], 0, 0)
        made = self._interleave(_name_of(function, name), example._elements(), lambda e: call(e, 0, 0), cycle, block)
        return Pipeline(made, example._form)

    def skip_damaged(self) -> Pipeline:
        """Leaves out elements that the stages before find damaged, such as images."""
        return self._like(self._skip_damaged())

    # ---- Some of the elements, and their order
    def take(self, count: int) -> Pipeline:
        """The first elements."""
        return self._like(self._take(count))

    def skip(self, count: int) -> Pipeline:
        """All but the first elements."""
        return self._like(self._skip(count))

    def shard(self, shards: int, index: int) -> Pipeline:
        """Elements index, index + shards, and so on."""
        return self._like(self._shard(shards, index))

    def repeat(self, times: int) -> Pipeline:
        """All elements, several times."""
        return self._like(self._repeat(times))

    def shuffle(self, seed: int = 0, buffer: int = 1 << 16, each_epoch: bool = True) -> Pipeline:
        """Another order, in each epoch another one. Of a pipeline that is not addressable, each block of `buffer`
        elements is shuffled.

        >>> import troupe
        >>> sorted(int(n) for n in troupe.data.range(5).shuffle(7))
        [0, 1, 2, 3, 4]
        """
        return self._like(self._shuffle(seed, buffer, each_epoch))

    def concatenate(self, after: Pipeline) -> Pipeline:
        """These elements, then those of a pipeline with the same schema."""
        return self._like(self._concatenate(after))

    def cache(self, path: typing.Union[str, "os.PathLike[str]", None] = None, limit: int = 1 << 30) -> Pipeline:
        """The elements of the first epoch in each epoch, made once and kept: in a file if there is a path, else in
        memory, up to `limit` bytes."""
        return self._like(self._cache(limit) if path is None else self._cache_file(os.fspath(path)))

    def enumerate(self, component: str = "index") -> Pipeline:
        """Adds the element's number in its epoch as a component."""
        return self._like(self._enumerate(component), "dict" if self._form == "dict" else "tuple")

    # ---- Elements together, and apart
    def batch(self, size: int, drop_rest: bool = False) -> Pipeline:
        """`size` elements as one, each component with a first dimension. drop_rest: not of fewer.

        >>> import troupe
        >>> [b.tolist() for b in troupe.data.range(5).batch(2)]
        [[0, 1], [2, 3], [4]]
        """
        return self._like(self._batch(size, drop_rest))

    def padded_batch(self, size: int, padding: typing.Optional[typing.Mapping[str, typing.Any]] = None,
                     drop_rest: bool = False) -> Pipeline:
        """As batch(), of elements whose shapes differ: dimensions that do are filled up to the largest of the batch
        with `padding`, a scalar by component; 0 or "" if not given."""
        return self._like(self._padded_batch(size, self._padding(padding), drop_rest))

    def sparse_batch(self, size: int, drop_rest: bool = False) -> Pipeline:
        """As batch(), of elements with vectors of different lengths: these become a troupe.SparseTensor with a row for
        each element; sparse tensors become one with a dimension in front. Memory follows the values.

        >>> import numpy as np, troupe
        >>> counts = troupe.data.range(3).map(lambda n: {"x": np.full(n, n)})
        >>> batch, = counts.sparse_batch(3)
        >>> batch["x"]
        SparseTensor(indices=[[1, 0], [2, 0], [2, 1]], values=[1, 2, 2], dense_shape=(3, 2))
        """
        return self._like(self._sparse_batch(size, drop_rest))

    def ragged_batch(self, size: int, drop_rest: bool = False) -> Pipeline:
        """As batch(), of elements whose leading dimensions differ: these become a troupe.RaggedTensor, with a row for
        each element.

        >>> import numpy as np, troupe
        >>> counts = troupe.data.range(3).map(lambda n: {"x": np.full(n, n)})
        >>> batch, = counts.ragged_batch(3)
        >>> batch["x"].tolist()
        [[], [1], [2, 2]]
        """
        return self._like(self._ragged_batch(size, drop_rest))

    def bucketed_batch(self, component: str, boundaries: typing.Sequence[int], sizes: typing.Sequence[int],
                       padding: typing.Optional[typing.Mapping[str, typing.Any]] = None,
                       drop_rest: bool = False) -> Pipeline:
        """Batches of elements of like length, the first dimension of a component: of sizes[0] elements below
        boundaries[0], and so on. One size more than boundaries."""
        made = self._bucketed_batch(component, list(boundaries), list(sizes), self._padding(padding), drop_rest)
        return self._like(made)

    def unbatch(self) -> Pipeline:
        """The rows of all components as elements."""
        return self._like(self._unbatch())

    def window(self, size: int, shift: int = 1) -> Pipeline:
        """`size` elements in a row as one, of which each begins `shift` after the one before; whole ones only."""
        return self._like(self._window(size, shift))

    # ----
    def _like(self, pipeline: _troupe.Pipeline, form: typing.Optional[str] = None) -> Pipeline:
        return Pipeline(pipeline, form or self._form)

    def _padding(self, padding: typing.Optional[typing.Mapping[str, typing.Any]]) -> list:
        if not padding:
            return []
        unknown = [name for name in padding if name not in self.schema]
        if unknown:
            raise ValueError(f"padding of {unknown[0]!r}, which is no component: they are {list(self.schema)}")
        return [_scalar(padding.get(name, "" if dtype.name == "string" else 0), dtype)
                for name, (dtype, _) in self.schema.items()]

    def _traced(self, function: typing.Callable) -> typing.Tuple[typing.Callable, typing.Callable[[], str]]:
        """A function from tensors to the names and values of its results, and what tells their form once it has run."""
        values, form = self._composites(), self._form
        found = ["dict"]

        def trace(tensors: typing.Sequence[typing.Any]) -> typing.Tuple[list, list]:
            given = _formed(form, values, tensors)
            found[0], made = _named(function(*given) if form == "tuple" else function(given))
            return list(made), list(made.values())

        return trace, lambda: found[0]

    def _caller(self, function: typing.Callable, seed: typing.Optional[int] = None) -> typing.Callable:
        values, form = self._composites(), self._form

        def call(element: list, epoch: int, number: int) -> typing.Any:
            given = _formed(form, values, [array(t) for t in element])
            arguments = given if form == "tuple" else (given,)
            if seed is None:
                return function(*arguments)
            rng = np.random.Generator(np.random.Philox(np.random.SeedSequence([seed, epoch, number])))
            return function(*arguments, rng=rng)

        return call


def _scalar(value: typing.Any, dtype: DTypeLike) -> _troupe.Data:
    return _troupe.data_of(value, dtype)


# ---- Sources in memory
def from_tensors(components: Element) -> Pipeline:
    """The rows of arrays with equal first dimensions: a dict of them, a tuple, or one. They are not copied.

    >>> import numpy as np, troupe
    >>> for x, y in troupe.data.from_tensors((np.eye(2, dtype=np.float32), np.array([5, 6]))):
    ...     print(x, y)
    [1. 0.] 5
    [0. 1.] 6
    """
    form, named = _named(components)
    return Pipeline(_troupe.pipeline_of_tensors([(name, tensor(value)) for name, value in named.items()]), form)


def range(*bounds: int) -> Pipeline:
    """Numbers, int64: range(end), range(begin, end) or range(begin, end, step)."""
    numbers = builtins.range(*bounds)
    return Pipeline(_troupe.pipeline_range(numbers.start, numbers.stop, numbers.step, "number"), "array")


def from_generator(function: typing.Callable[[], typing.Iterable[Element]], schema: typing.Optional[Schema] = None,
                   name: typing.Optional[str] = None) -> Pipeline:
    """What iterating over function() gives, the same each time. schema: as of Pipeline.map().

    >>> import troupe
    >>> squares = troupe.data.from_generator(lambda: ({"square": n * n} for n in range(4)))
    >>> [int(e["square"]) for e in squares]
    [0, 1, 4, 9]
    """
    what = _name_of(function, name)
    form = "dict"
    if schema is None:
        made = [_named(element) for _, element in builtins.zip(builtins.range(8), function())]
        form = made[0][0] if made else form
        schema = _inferred(f"from_generator {what}", [components for _, components in made])
    names = list(schema)

    def begin() -> typing.Iterator[list]:
        return (_tensors(f"from_generator {what}", names, element) for element in function())

    return Pipeline(_troupe.pipeline_of_generator(what, _components(schema), begin), form)


def zip(*pipelines: Pipeline) -> Pipeline:
    """An element of each, with the components of all; as many as the shortest has. Names must differ."""
    form = "dict" if all(p._form == "dict" for p in pipelines) else "tuple"
    if form == "tuple":  # components without names get new ones
        pipelines = tuple(_renamed(p, f"pipeline_{i}_") for i, p in enumerate(pipelines))
    return Pipeline(_troupe.zip_pipelines(list(pipelines)), form)


def sample(pipelines: typing.Sequence[Pipeline], weights: typing.Sequence[float], seed: int = 0) -> Pipeline:
    """Elements of pipelines with one schema, each drawn with its weight."""
    return Pipeline(_troupe.sample_pipelines(list(pipelines), list(weights), seed), pipelines[0]._form)


def _renamed(pipeline: Pipeline, prefix: str) -> Pipeline:
    schema = {prefix + name: about for name, about in pipeline.schema.items()}
    made = pipeline._map("rename", _components(schema), lambda element, epoch, number: element)
    return Pipeline(made, pipeline._form)


# ---- Sources in files. A path may be a pattern with * and ?, and an address: https://..., s3://...
def csv(paths: Paths, separator: str = ",", quotes: bool = True, header: bool = True,
        columns: typing.Optional[typing.Mapping[str, DTypeLike]] = None, addressable: bool = False,
        skip_damaged: bool = False) -> Pipeline:
    """The rows of CSV files. columns: {name: dtype} of all columns, "" for one to pass over; else those of the first
    file, inferred. addressable: by number, through an index that is made beside each file."""
    given = None if columns is None else [(name, _name(dtype) if dtype else "") for name, dtype in columns.items()]
    return Pipeline(_troupe.pipeline_csv(_paths(paths), separator, quotes, header, given, addressable, skip_damaged))


def _dense_feature(feature: typing.Tuple[typing.Any, ...]) -> typing.Tuple[typing.Any, typing.Any, typing.Any]:
    """Its dtype, its shape and what is taken where it is missing."""
    if isinstance(feature, VarLenFeature):
        return feature.dtype, [None], []
    if isinstance(feature, FixedLenFeature):
        return feature.dtype, feature.shape, feature.default_value
    return feature[0], feature[1], feature[2] if len(feature) > 2 else None


def tfrecord(paths: Paths, features: typing.Optional[typing.Mapping[str, typing.Tuple[typing.Any, ...]]] = None,
             addressable: bool = False, skip_damaged: bool = False) -> Pipeline:
    """The records of TFRecord files. features: of the tf.train.Example that each is, by name: FixedLenFeature,
    VarLenFeature, SparseFeature, (dtype, shape) or (dtype, shape, otherwise); without them an element is the record
    itself, as bytes."""
    if features is None:
        return Pipeline(_troupe.pipeline_tfrecord(_paths(paths), None, [], addressable, skip_damaged), "array")
    wanted: list = []
    sparse: list = []
    for name, feature in features.items():
        if isinstance(feature, SparseFeature):
            keys = [feature.index_key] if isinstance(feature.index_key, str) else list(feature.index_key)
            size = [feature.size] if isinstance(feature.size, int) else list(feature.size)
            sparse.append((name, keys, feature.value_key, _name(feature.dtype), size))
            continue
        dtype, shape, otherwise = _dense_feature(feature)
        wanted.append((name, _name(dtype), list(shape), None if otherwise is None else _scalar(otherwise, dtype)))
    return Pipeline(_troupe.pipeline_tfrecord(_paths(paths), wanted, sparse, addressable, skip_damaged))


def json_lines(paths: Paths, fields: typing.Mapping[str, typing.Tuple[typing.Any, ...]], addressable: bool = False,
               skip_damaged: bool = False) -> Pipeline:
    """The objects of files with one per line. fields: {name: (dtype, shape)} or {name: (dtype, shape, json)}, whose
    JSON text is read where the field is missing; "a.b" is the field b of a."""
    wanted = [(name, _name(f[0]), list(f[1]), f[2] if len(f) > 2 else None) for name, f in fields.items()]
    return Pipeline(_troupe.pipeline_json_lines(_paths(paths), wanted, addressable, skip_damaged))


def text_lines(paths: Paths, skip_empty: bool = False, addressable: bool = False) -> Pipeline:
    """The lines of text files, as bytes."""
    return Pipeline(_troupe.pipeline_text_lines(_paths(paths), skip_empty, addressable), "array")


def fixed_records(paths: Paths, record_bytes: int, header_bytes: int = 0, footer_bytes: int = 0,
                  addressable: bool = False) -> Pipeline:
    """Records of a fixed number of bytes each."""
    made = _troupe.pipeline_fixed_records(_paths(paths), record_bytes, header_bytes, footer_bytes, addressable)
    return Pipeline(made, "array")


def npy(pattern: typing.Union[str, "os.PathLike[str]"], component: str = "array") -> Pipeline:
    """The rows of the arrays of .npy files; only those that are wanted are read."""
    return Pipeline(_troupe.pipeline_npy(os.fspath(pattern), component))


def npz(pattern: typing.Union[str, "os.PathLike[str]"], arrays: typing.Sequence[str] = ()) -> Pipeline:
    """The rows of the arrays of .npz files, by name; all arrays unless given."""
    return Pipeline(_troupe.pipeline_npz(os.fspath(pattern), list(arrays)))


def idx(components: typing.Mapping[str, typing.Union[str, "os.PathLike[str]"]]) -> Pipeline:
    """The rows of IDX files, MNIST's format: {"image": path, "label": path}."""
    return Pipeline(_troupe.pipeline_idx([(name, os.fspath(path)) for name, path in components.items()]))


def image_folder(directory: typing.Union[str, "os.PathLike[str]"], channels: int = 3, decode: bool = True) -> Pipeline:
    """JPEG and PNG images of folders, one class per folder: "image" uint8 [height, width, channels], and "label".
    decode=False: "image" is the file's bytes, for images.decode_and_resize()."""
    return Pipeline(_troupe.pipeline_image_folder(os.fspath(directory), channels, decode))


def image_classes(directory: typing.Union[str, "os.PathLike[str]"]) -> typing.List[str]:
    """The names of an image folder's classes, by label."""
    return _troupe.image_classes(os.fspath(directory))
