"""Graphs of Troupe from Python: NumPy arrays in, NumPy arrays out.

    import numpy as np, troupe

    g = troupe.Graph()
    x = g.placeholder("f32", [None, 3], name="x")
    w = g.constant(np.ones((3, 2), np.float32))
    y = g.op("Relu", [g.op("MatMul", [x, w])])
    with troupe.Session(g) as session:
        out = session.run({x: np.zeros((4, 3), np.float32)}, y)

    model = troupe.import_onnx("resnet50.onnx")
    outputs = model.run({"image": image})
    troupe.export_onnx("relu.onnx", g, {"x": x}, {"y": y})

Arrays are neither copied on their way in nor out. ops() lists the ops, signature("MatMul") says what one takes.
"""

import collections.abc
import importlib
import math
import typing

import numpy as np

from . import _library  # loads _troupe
from . import _troupe
from ._troupe import (
    Error, Output, Tensor, gradients, loss_names, metric_names, ops, signature, weighted_mean,
)

try:
    import ml_dtypes

    _bfloat16 = np.dtype(ml_dtypes.bfloat16)
except ImportError:  # bf16 arrays are then of uint16
    _bfloat16 = None

__all__ = [
    "Error", "Graph", "Metric", "Model", "Output", "Session", "Tensor", "TensorFile", "array", "export_onnx",
    "gradients", "import_onnx", "load_npy", "loss", "loss_names", "metric", "metric_names", "ops", "save_npy",
    "save_npz", "save_safetensors", "signature", "tensor", "weighted_mean",
]


def tensor(value, dtype: str = "") -> Tensor:
    """A tensor on the memory of an array, or of what numpy.asarray makes of the value."""
    if isinstance(value, Tensor):
        return value
    array = np.asarray(value)
    if array.dtype.kind in "OUS":
        items = [s if isinstance(s, bytes) else str(s).encode() for s in array.reshape(-1).tolist()]
        return Tensor.from_strings(items, list(array.shape))
    if _bfloat16 is not None and array.dtype == _bfloat16:
        array, dtype = array.view(np.uint16), "bf16"
    if array.ndim > 0:
        array = np.ascontiguousarray(array)
    return Tensor.from_array(array, dtype)


def array(value: Tensor) -> np.ndarray:
    """An array on the memory of a tensor; strings are copied, as objects of type bytes."""
    found = value.array()
    if value.dtype == "string":
        out = np.empty(math.prod(value.shape), dtype=object)
        out[:] = found
        return out.reshape(value.shape)
    if value.dtype == "bf16" and _bfloat16 is not None:
        return found.view(_bfloat16)
    return found


class Graph:
    """Nodes joined by tensors. Every method adds one node and returns its outputs."""

    def __init__(self, _graph=None):
        self._graph = _graph or _troupe.Graph()

    def placeholder(self, dtype: str, shape: typing.Optional[typing.Sequence] = None, name: str = "") -> Output:
        """A value to be fed. Unknown dimensions are None; shape None: of any rank."""
        return self._graph.placeholder(dtype, None if shape is None else list(shape), name)

    def constant(self, value, dtype: str = "", name: str = "") -> Output:
        return self._graph.constant(tensor(value, dtype), name)

    def op(self, op: str, inputs: typing.Sequence = (), name: str = "", **attributes):
        """Adds a node of any op, by its name; returns its output, or a list if there are several."""
        given = {k: tensor(v) if isinstance(v, np.ndarray) else v for k, v in attributes.items()}
        outputs = self._graph.op(op, [i if isinstance(i, Output) else self.constant(i) for i in inputs], given, name)
        return outputs[0] if len(outputs) == 1 else outputs

    def output(self, name: str) -> Output:
        """The output "node" or "node:1"."""
        return self._graph.output(name)

    def device(self, name: str):
        """A with statement: nodes added in it run on a device, "CPU:1" or "/job:ps/task:0"."""
        return _troupe.DeviceScope(self._graph, name)

    def initializer(self) -> Output:
        """A target that initializes all variables that exist now."""
        return self._graph.initializer()

    def __len__(self):
        return len(self._graph)

    def __str__(self):
        return str(self._graph)


class Session:
    """Runs steps of a graph, which may grow meanwhile. The interpreter's lock is released while a step runs."""

    def __init__(self, graph: Graph, threads: int = 0, inference: bool = False, cluster=None):
        """threads: of the CPU device; 0: one for each core. inference: of graphs that only predict; passes that change
        bits make them faster. cluster: a Cluster, on whose devices the graph's nodes may run."""
        task = None if cluster is None else cluster.task
        self._session = _troupe.Session(graph._graph, threads, inference, task)

    def run(self, feeds: typing.Optional[typing.Mapping] = None, fetches=(), targets: typing.Sequence = ()):
        """One step: feeds {Output: array}; returns an array for an Output, a list of arrays for several."""
        single = isinstance(fetches, Output)
        found = self._session.run(
            [(k, tensor(v)) for k, v in (feeds or {}).items()], [fetches] if single else list(fetches), list(targets)
        )
        return array(found[0]) if single else [array(f) for f in found]

    def close(self):
        self._session.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class Model:
    """An ONNX model: graph, inputs and outputs by name."""

    def __init__(self, model, threads: int = 0, inference: bool = False):
        self.graph = Graph(model.graph)
        self.inputs = dict(model.inputs)
        self.outputs = dict(model.outputs)
        # Of outputs that are scores of classes: the labels of their columns.
        self.classes = dict(model.integer_classes) | dict(model.string_classes)
        self.opset = model.opset
        self.producer = model.producer
        self._threads = threads
        self._inference = inference
        self._session = None

    def run(self, inputs: typing.Mapping) -> dict:
        """{name: array} -> {name: array}, in the order of the model."""
        unknown = [name for name in inputs if name not in self.inputs]
        if unknown:
            raise ValueError(f"the model has no input {unknown[0]!r}; its inputs are {list(self.inputs)}")
        if self._session is None:
            self._session = Session(self.graph, self._threads, self._inference)
            self._session.run(targets=[self.graph.initializer()])
        found = self._session.run({self.inputs[k]: v for k, v in inputs.items()}, list(self.outputs.values()))
        return dict(zip(self.outputs, found))


def import_onnx(path, weights: str = "constants", threads: int = 0, inference: bool = False) -> Model:
    """Reads an ONNX file. weights: what initializers become, "constants", "variables" or "trainable". inference: the
    model only predicts; passes that change bits make constants' products faster, and those of 8 bits integers."""
    return Model(_troupe.import_onnx(str(path), weights), threads, inference)


def export_onnx(path, graph: Graph, inputs: typing.Mapping, outputs: typing.Mapping, session=None):
    """Writes what computes the outputs as an ONNX file. inputs, outputs: {name: Output}, of the model. session: whose
    values its variables have; without one they have their initial values."""
    values = None if session is None else session._session
    _troupe.export_onnx(str(path), graph._graph, list(inputs.items()), list(outputs.items()), values)


def loss(kind: str, outputs: Output, targets: Output, **options) -> Output:
    """The loss of each example, [n]: kind is one of loss_names(), options are the fields of LossOptions."""
    return _troupe.loss(kind, outputs, targets, options)


class Metric:
    """Sums over the examples of a batch, which are added up, and the result of the total."""

    def __init__(self, metric):
        self._metric = metric
        self.name = metric.name

    def sums(self, outputs: Output, targets: typing.Optional[Output] = None,
             weights: typing.Optional[Output] = None) -> Output:
        return self._metric.sums(outputs, targets, weights)

    def result(self, sums):
        """A float, or an array if the metric has several results."""
        found = array(self._metric.result(tensor(sums)))
        return float(found) if found.ndim == 0 else found


def metric(kind: str, **options) -> Metric:
    """kind is one of metric_names(), which are functions of graph/metrics and losses; options are their fields."""
    return Metric(_troupe.metric(kind, options))


class TensorFile(collections.abc.Mapping):
    """The arrays of a .safetensors or .npz file by name, each read when it is asked for."""

    def __init__(self, path):
        is_npz = str(path).endswith(".npz")
        self._file = _troupe.NpzFile(str(path)) if is_npz else _troupe.SafetensorsFile(str(path))
        self._names = dict.fromkeys(self._file.names())
        self.metadata = {} if is_npz else self._file.metadata

    def __getitem__(self, name: str) -> np.ndarray:
        if name not in self._names:
            raise KeyError(name)
        return array(self._file.read(name))

    def __iter__(self):
        return iter(self._names)

    def __len__(self):
        return len(self._names)


def save_safetensors(path, tensors: typing.Mapping, metadata: typing.Optional[typing.Mapping] = None):
    """Writes {name: array}, durably and atomically. metadata: {text: text}."""
    _troupe.write_safetensors(str(path), [(k, tensor(v)) for k, v in tensors.items()], dict(metadata or {}))


def save_npz(path, tensors: typing.Mapping, compress: bool = False, zip64: bool = False):
    """Writes {name: array} as NumPy does, durably and atomically. zip64: records of 64 bits even where not needed."""
    _troupe.write_npz(str(path), [(k, tensor(v)) for k, v in tensors.items()], compress, zip64)


def load_npy(path) -> np.ndarray:
    return array(_troupe.read_npy(str(path)))


def save_npy(path, value):
    """Writes an array, durably and atomically."""
    _troupe.write_npy(str(path), tensor(value))


# Imported when they are first used.
_LAZY = {"data", "keras", "launch", "onnx", "saved_model", "serving"}
_LAZY_NAMES = {"Cluster": "cluster", "introspect": "introspection"}


def __getattr__(name: str):
    if name in _LAZY:
        return importlib.import_module("." + name, __name__)
    if name in _LAZY_NAMES:
        return getattr(importlib.import_module("." + _LAZY_NAMES[name], __name__), name)
    raise AttributeError(f"module 'troupe' has no attribute {name!r}")


def __dir__():
    return sorted(set(globals()) | _LAZY | set(_LAZY_NAMES))
