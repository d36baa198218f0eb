"""Tensors, gradients and graphs: NumPy's functions on the kernels of C++.

    import troupe

    x = troupe.tensor([[1.0, 2.0], [3.0, 4.0]])
    w = troupe.Variable(troupe.ones((2, 1)))
    with troupe.GradientTape() as tape:
        loss = troupe.mean((x @ w - 1) ** 2)
    print(loss, tape.gradient(loss, w))

Functions compute at once, or add nodes for tensors of a troupe.Graph, which a troupe.Session runs. NumPy's arrays are
not copied on their way in nor out.
"""

from __future__ import annotations

import builtins  # the package has a dtype named bool
import importlib
import os
import typing

import numpy as np

from . import _library  # loads _troupe, and comes first
from . import _methods, _troupe
from ._core import DType, Tensor, TensorLike, Variable, array as _array, data as _data
from ._troupe import (
    AbortedError, AlreadyExistsError, CancelledError, DataLossError, DeadlineExceededError, Error,
    FailedPreconditionError, InternalError, InvalidArgumentError, NotFoundError, OutOfRangeError, PermissionDeniedError,
    ResourceExhaustedError, UnauthenticatedError, UnavailableError, UnimplementedError, UnknownError, as_dtype,
    bfloat16, bool, float16, float32, float64, int8, int16, int32, int64, loss_names, metric_names, set_seed,
    set_threads, string, uint8, uint16, uint32, uint64, weighted_mean,
)
from .accumulators import *
from .arrays import *
from .control import *
from .differentiation import *
from .functions import *
from .graphs import *
from .math import *
from .op_libraries import *
from .ragged import *
from .tensors import *

_methods.define()

_Path = typing.Union[str, os.PathLike]


class Model:
    """An ONNX model: graph, inputs and outputs by name."""

    def __init__(self, model: _troupe.Model, threads: int = 0, inference: builtins.bool = False):
        self.graph = Graph(model.graph)
        self.inputs: typing.Dict[str, Tensor] = dict(model.inputs)
        self.outputs: typing.Dict[str, Tensor] = dict(model.outputs)
        # Of outputs that are scores of classes: the labels of their columns.
        self.classes: typing.Dict[str, typing.Sequence] = {**dict(model.integer_classes), **dict(model.string_classes)}
        self.opset = model.opset
        self.producer = model.producer
        self._threads = threads
        self._inference = inference
        self._session: typing.Optional[Session] = None

    def run(self, inputs: typing.Mapping[str, TensorLike]) -> typing.Dict[str, np.ndarray]:
        """{name: array} -> {name: array}, in the order of the model."""
        unknown = [name for name in inputs if name not in self.inputs]
        if unknown:
            raise ValueError(f"the model has no input {unknown[0]!r}; its inputs are {list(self.inputs)}")
        if self._session is None:
            self._session = Session(self.graph, self._threads, self._inference)
            self._session.run(targets=[self.graph.initializer()])
        found = self._session.run({self.inputs[k]: v for k, v in inputs.items()}, list(self.outputs.values()))
        return dict(zip(self.outputs, found))


def import_onnx(path: _Path, weights: str = "constants", threads: int = 0, inference: builtins.bool = False) -> Model:
    """Reads an ONNX file. weights: what initializers become, "constants", "variables" or "trainable". inference: the
    model only predicts; passes that change bits make constants' products faster, and those of 8 bits integers."""
    return Model(_troupe.import_onnx(str(path), weights), threads, inference)


def export_onnx(path: _Path, graph: Graph, inputs: typing.Mapping[str, Tensor], outputs: typing.Mapping[str, Tensor],
                session: typing.Optional[Session] = None) -> None:
    """Writes what computes the outputs as an ONNX file. inputs, outputs: {name: Tensor}, of the model. session: whose
    values its variables have; without one they have their initial values."""
    values = None if session is None else session._session
    _troupe.export_onnx(str(path), graph._graph, list(inputs.items()), list(outputs.items()), values)


def loss(kind: str, outputs: Tensor, targets: Tensor, **options: typing.Any) -> Tensor:
    """The loss of each example, [n]: kind is one of loss_names(), options are the fields of LossOptions."""
    return _troupe.loss(kind, outputs, targets, options)


class Metric:
    """Sums over the examples of a batch, which are added up, and the result of the total."""

    def __init__(self, metric: _troupe.Metric):
        self._metric = metric
        self.name = metric.name

    def sums(self, outputs: Tensor, targets: typing.Optional[Tensor] = None,
             weights: typing.Optional[Tensor] = None) -> Tensor:
        """Of a batch of outputs and targets; weights: of each example."""
        return self._metric.sums(outputs, targets, weights)

    def result(self, sums: TensorLike) -> typing.Any:
        """A float, or an array if the metric has several results."""
        found = _array(self._metric.result(_data(sums)))
        return float(found) if found.ndim == 0 else found


def metric(kind: str, **options: typing.Any) -> Metric:
    """kind is one of metric_names(), which are functions of graph/metrics and losses; options are their fields."""
    return Metric(_troupe.metric(kind, options))


class TensorFile(typing.Mapping[str, np.ndarray]):
    """The arrays of a .safetensors or .npz file by name, each read when it is asked for."""

    def __init__(self, path: _Path):
        text = str(path)
        self._file = _troupe.NpzFile(text) if text.endswith(".npz") else _troupe.SafetensorsFile(text)
        self._names = dict.fromkeys(self._file.names())
        self.metadata: typing.Dict[str, str] = getattr(self._file, "metadata", {})

    def __getitem__(self, name: str) -> np.ndarray:
        if name not in self._names:
            raise KeyError(name)
        return _array(self._file.read(name))

    def __iter__(self) -> typing.Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def save_safetensors(path: _Path, tensors: typing.Mapping[str, TensorLike],
                     metadata: typing.Optional[typing.Mapping[str, str]] = None) -> None:
    """Writes {name: array}, durably and atomically. metadata: {text: text}."""
    _troupe.write_safetensors(str(path), [(k, _data(v)) for k, v in tensors.items()], dict(metadata or {}))


def save_npz(path: _Path, tensors: typing.Mapping[str, TensorLike], compress: builtins.bool = False,
             zip64: builtins.bool = False) -> None:
    """Writes {name: array} as NumPy does, durably and atomically. zip64: records of 64 bits even where not needed."""
    _troupe.write_npz(str(path), [(k, _data(v)) for k, v in tensors.items()], compress, zip64)


def load_npy(path: _Path) -> np.ndarray:
    """The array of a .npy file."""
    return _array(_troupe.read_npy(str(path)))


def save_npy(path: _Path, value: TensorLike) -> None:
    """Writes an array, durably and atomically."""
    _troupe.write_npy(str(path), _data(value))


if typing.TYPE_CHECKING:
    from . import (
        data, debugging, fft, image, keras, launch, linalg, lookup, nn, onnx, optimizers, quantization, queue, random,
        saved_model, serving, signal, sparse, strings,
    )
    from .cluster import Cluster
    from .introspection import introspect
    from .sparse import SparseTensor

# Imported when they are first used.
_LAZY = {
    "data", "debugging", "fft", "image", "keras", "launch", "linalg", "lookup", "nn", "onnx", "optimizers",
    "quantization", "queue", "random", "saved_model", "serving", "signal", "sparse", "strings",
}
_LAZY_NAMES = {"Cluster": "cluster", "SparseTensor": "sparse", "introspect": "introspection"}


# Type checkers know these by their imports above.
if not typing.TYPE_CHECKING:
    def __getattr__(name: str) -> typing.Any:
        if name in _LAZY:
            return importlib.import_module("." + name, __name__)
        if name in _LAZY_NAMES:
            return getattr(importlib.import_module("." + _LAZY_NAMES[name], __name__), name)
        raise AttributeError(f"module 'troupe' has no attribute {name!r}")


def __dir__() -> typing.List[str]:
    return sorted(set(globals()) | _LAZY | set(_LAZY_NAMES))
