"""Data of fit, evaluate and predict as batches of C++: arrays, which are not copied; data sets of troupe.data; and
whatever makes batches in Python: generators, data sets of other packages, utils.Sequence."""

from __future__ import annotations

import itertools
import typing

import numpy as np

from .. import _troupe
from . import _arrays, _names

_native = _troupe.keras
WEIGHTS = "sample_weight"


class InputForm(typing.NamedTuple):
    """What a model takes: the name of an input, its dtype as C++ names it, and the shape of an example."""

    name: str
    dtype: str
    shape: typing.Optional[list]


def is_arrays(x: typing.Any) -> bool:
    """Whether it is an array or a list, tuple or dict of them, rather than something that makes batches."""
    if isinstance(x, (list, tuple)):
        return len(x) > 0 and all(_is_array(v) or not hasattr(v, "__iter__") or isinstance(v, (list, str)) for v in x)
    if isinstance(x, dict):
        return all(_is_array(v) or isinstance(v, (list, tuple)) for v in x.values())
    return _is_array(x)


def _is_array(x: typing.Any) -> bool:
    return isinstance(x, np.ndarray) or (hasattr(x, "__array__") and hasattr(x, "shape"))


def as_array(value: typing.Any) -> np.ndarray:
    return np.asarray(_arrays.plain(value))


def _typed(array: np.ndarray, dtype: typing.Optional[str]) -> np.ndarray:
    """Of a dtype that a component has: floats of 64 bits become f32, unless the model wants them."""
    if dtype is not None and dtype != "string":
        return np.asarray(array, _arrays.numpy_dtype(dtype))
    if array.dtype.kind in "OUS":
        return array
    return np.asarray(array, np.float32) if array.dtype == np.float64 else array


class Components:
    """How batches are named for C++: by inputs, then targets, then weights of examples."""

    def __init__(self, inputs: typing.Sequence[InputForm], outputs: typing.Sequence[str]):
        self.inputs = list(inputs)
        taken = {i.name for i in inputs}
        self.outputs = list(outputs)
        self.targets = []
        for name in outputs:
            target = "y" if len(outputs) == 1 else f"y_{name}"
            while target in taken:
                target += "_"
            taken.add(target)
            self.targets.append(target)

    def named(self, x: typing.Any, y: typing.Any = None,
              weights: typing.Any = None) -> typing.List[typing.Tuple[str, np.ndarray]]:
        """The arrays of some examples by component."""
        out = [(form.name, _typed(array, form.dtype)) for form, array in zip(self.inputs, self._inputs(x))]
        rank = {form.name: form.shape for form in self.inputs}
        out = [(name, _as_examples(array, rank[name], name)) for name, array in out]
        if y is not None:
            out += [(name, _typed(array, None)) for name, array in zip(self.targets, self._outputs(y))]
        if weights is not None:
            out.append((WEIGHTS, np.asarray(as_array(weights), np.float32).reshape(-1)))
        return out

    def _inputs(self, x: typing.Any) -> typing.List[np.ndarray]:
        if isinstance(x, dict):
            missing = [i.name for i in self.inputs if i.name not in x]
            if missing:
                raise ValueError(f"the data has no array for input {missing[0]!r}; it has {sorted(x)}")
            return [as_array(x[i.name]) for i in self.inputs]
        if len(self.inputs) == 1:
            single = isinstance(x, (list, tuple)) and len(x) == 1 and _is_array(x[0])
            return [as_array(x[0] if single else x)]
        if not isinstance(x, (list, tuple)) or len(x) != len(self.inputs):
            raise ValueError(f"the model has {len(self.inputs)} inputs, {[i.name for i in self.inputs]}: give a list "
                             "or a dict of as many arrays")
        return [as_array(v) for v in x]

    def _outputs(self, y: typing.Any) -> typing.List[np.ndarray]:
        if isinstance(y, dict):
            missing = [name for name in self.outputs if name not in y]
            if missing:
                raise ValueError(f"the data has no targets for output {missing[0]!r}; it has {sorted(y)}")
            return [as_array(y[name]) for name in self.outputs]
        if len(self.outputs) == 1:
            return [as_array(y[0] if isinstance(y, (list, tuple)) and len(y) == 1 and _is_array(y[0]) else y)]
        if not isinstance(y, (list, tuple)) or len(y) != len(self.outputs):
            raise ValueError(f"the model has {len(self.outputs)} outputs, {self.outputs}: give targets as a list or a "
                             "dict of as many arrays")
        return [as_array(v) for v in y]


def _as_examples(array: np.ndarray, shape: typing.Optional[list], name: str) -> np.ndarray:
    """[n, ...] with a dimension of 1 more or less, if the input has it so."""
    if array.ndim == 0:
        raise ValueError(f"input {name!r}: the data is one number, not an array with a row for each example")
    if shape is None:
        return array
    if array.ndim == len(shape) and shape[-1:] == [1]:
        return array[..., np.newaxis]
    if array.ndim == len(shape) + 2 and array.shape[-1] == 1:
        return array[..., 0]
    return array


def class_weights_of(y: np.ndarray, weights: typing.Mapping[int, float]) -> np.ndarray:
    """The weight of each example's class: y is classes or rows."""
    y = np.asarray(y)
    classes = y.argmax(-1) if y.ndim == 2 and y.shape[1] > 1 else y.reshape(-1)
    unknown = set(np.unique(classes).tolist()) - set(weights)
    if unknown:
        raise ValueError(f"class_weight has no weight for class {sorted(unknown)[0]}")
    return np.vectorize(weights.__getitem__, otypes=[np.float32])(classes.astype(np.int64))


class Batches(typing.NamedTuple):
    """A source of C++ and what is known of it."""

    source: typing.Any
    weighted: bool                     # has weights of examples
    examples: typing.Optional[int]
    python: typing.Optional["PythonBatches"]
    targets: typing.Optional[typing.List[str]]  # components; None: those of Components
    batch: typing.Optional[int] = None


class PythonBatches:
    """Batches of an iterable, for C++: an object (epoch, step) -> tensors of the step, or None after the last."""

    def __init__(self, data: typing.Any, components: Components, with_targets: bool, steps: typing.Optional[int],
                 class_weight: typing.Optional[typing.Mapping[int, float]], weighted: typing.Optional[bool] = None):
        self._components = components
        self._with_targets = with_targets
        self._steps = steps
        self._class_weight = class_weight
        self._sequence = data if hasattr(data, "__getitem__") and hasattr(data, "__len__") else None
        self._data: typing.Any = data
        self._endless = steps is not None
        self._iterator: typing.Any = None
        self._next = 0
        self._epoch: typing.Optional[int] = None
        self.error: typing.Optional[BaseException] = None
        first = self._first()
        self.weighted = weighted or any(name == WEIGHTS for name, _ in first)
        self._forced = bool(weighted)
        first = self._named(self._peeked)
        self.form = [(name, _arrays.dtype_of_array(array), self._shape(name, array)) for name, array in first]

    def _shape(self, name: str, array: np.ndarray) -> list:
        dims = {i.name: i.shape for i in self._components.inputs}.get(name)
        return [None if dims is not None and i < len(dims) and dims[i] is None else int(d)
                for i, d in enumerate(array.shape[1:])]

    def _first(self) -> typing.List[typing.Tuple[str, np.ndarray]]:
        if self._sequence is not None:
            self._peeked = self._sequence[0]
        else:
            self._iterator = iter(self._data)
            self._peeked = next(self._iterator, None)
            if self._peeked is None:
                raise ValueError("the data has no batch")
            if self._iterator is self._data:
                self._data = None  # can be gone through once
            self._iterator = itertools.chain([self._peeked], self._iterator)
        self._forced = False
        return self._named(self._peeked)

    def _named(self, batch: typing.Any) -> typing.List[typing.Tuple[str, np.ndarray]]:
        if not isinstance(batch, (tuple, list)) or not self._with_targets and not isinstance(batch, tuple):
            batch = (batch,)
        x, y, weights = (*batch, None, None)[:3]
        if not self._with_targets:
            return self._components.named(x)
        if y is None:
            raise ValueError("batches must be (x, y) or (x, y, weights): this one has no targets")
        if self._class_weight is not None and weights is None:
            weights = class_weights_of(y, self._class_weight)
        if weights is None and self._forced:
            weights = np.ones(len(as_array(y)), np.float32)
        return self._components.named(x, y, weights)

    def _restart(self, epoch: int) -> None:
        if self._sequence is not None:
            if self._epoch is not None and epoch != self._epoch and hasattr(self._sequence, "on_epoch_end"):
                self._sequence.on_epoch_end()
        elif self._endless and self._iterator is not None and self._epoch is not None and self._data is None:
            pass  # the next epoch goes on where this one ended
        elif self._epoch is not None or self._iterator is None:
            if self._data is None:
                raise ValueError("a generator can be gone through once: give steps_per_epoch, or an object whose "
                                 "iter() begins anew")
            self._iterator = iter(self._data)
        self._epoch, self._next = epoch, 0

    def __call__(self, epoch: int, step: int) -> typing.Optional[typing.List[_troupe.Data]]:
        try:
            if step == 0 or epoch != self._epoch:
                self._restart(epoch)
            if step != self._next:
                raise ValueError(f"batch {step} of the data is wanted after batch {self._next - 1}")
            self._next += 1
            if self._steps is not None and step >= self._steps:
                return None
            if self._sequence is not None:
                if step >= len(self._sequence):
                    return None
                batch = self._sequence[step]
            else:
                batch = next(self._iterator, None)
                if batch is None and self._endless and self._data is not None and step > 0:
                    self._iterator = iter(self._data)
                    batch = next(self._iterator, None)
                if batch is None:
                    return None
            return [_arrays.to_tensor(np.ascontiguousarray(array)) for _, array in self._named(batch)]
        except BaseException as error:
            self.error = error
            raise


def batches_of(components: Components, x: typing.Any, y: typing.Any = None, weights: typing.Any = None, *,
               class_weight: typing.Optional[typing.Mapping[int, float]] = None, steps: typing.Optional[int] = None,
               batch: int = 32, shuffle: bool = False, with_targets: bool = True,
               weighted: typing.Optional[bool] = None) -> Batches:
    """The batches of any data. weighted: whether they must have weights of examples, which are 1 otherwise."""
    source = getattr(x, "_source", x)
    if isinstance(source, _troupe.BatchSource):
        names = [name for name, _, _ in source.components]
        targets = [t for t in components.targets if t in names] or None
        own = _native.batch_of(source)
        if steps is not None:
            source = _native.chosen(source, True, steps, batch)
        return Batches(source, WEIGHTS in names, source.examples, None, targets or [], own)
    if not is_arrays(x):
        python = PythonBatches(x, components, with_targets, steps, class_weight, weighted)
        return Batches(_native.python_batches(python.form, python, None), python.weighted, None, python, None)
    if with_targets and y is None:
        raise ValueError("y is missing: give the targets of x")
    if class_weight is not None:
        factors = class_weights_of(as_array(y), class_weight)
        weights = factors if weights is None else factors * as_array(weights)
    named = components.named(x, y if with_targets else None, weights)
    if weighted and weights is None:
        named.append((WEIGHTS, np.ones(len(named[0][1]), np.float32)))
    rows = {name: len(array) for name, array in named}
    if len(set(rows.values())) > 1:
        raise ValueError(f"arrays of the data have different numbers of examples: {rows}")
    source = _native.arrays([(name, _arrays.to_tensor(np.ascontiguousarray(array))) for name, array in named])
    if steps is not None or not shuffle:
        source = _native.chosen(source, shuffle, steps, batch)
    return Batches(source, any(name == WEIGHTS for name, _ in named), len(named[0][1]), None, None)


def split(x: typing.Any, y: typing.Any, weights: typing.Any, part: float) -> typing.List[tuple]:
    """Both parts of arrays: all but the last part of the examples, and these, which share memory."""
    def cut(value: typing.Any, whole_slice: slice) -> typing.Any:
        if value is None:
            return None
        if isinstance(value, dict):
            return {k: as_array(v)[whole_slice] for k, v in value.items()}
        if isinstance(value, (list, tuple)) and value and _is_array(value[0]):
            return [as_array(v)[whole_slice] for v in value]
        return as_array(value)[whole_slice]

    if not is_arrays(x):
        raise ValueError("validation_split needs arrays: give validation_data for other data")
    if not 0 < part < 1:
        raise ValueError(f"validation_split must be between 0 and 1, not {part}")
    first = next(iter(x.values())) if isinstance(x, dict) else x[0] if (
        isinstance(x, (list, tuple)) and _is_array(x[0])) else x
    count = len(as_array(first))
    at = int(np.floor(count * (1.0 - part)))
    if at in (0, count):
        raise ValueError(f"validation_split {part} of {count} examples leaves nothing for one part")
    return [tuple(cut(v, s) for v in (x, y, weights)) for s in (slice(None, at), slice(at, None))]
