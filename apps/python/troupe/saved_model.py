"""Saved models: those of Troupe, TensorFlow and ONNX alike are loaded, run and converted; graphs are saved.

    model = troupe.saved_model.load("digits")
    print(model.signatures)
    scores = model.run({"image": images})["scores"]
"""

from __future__ import annotations

import dataclasses
import os
import typing

import numpy as np

from . import _troupe
from ._core import DType, array, data

__all__ = ["Model", "Signature", "TensorSpec", "convert", "load", "save"]

Path = typing.Union[str, "os.PathLike[str]"]


@dataclasses.dataclass
class TensorSpec:
    """Of an input or output: its dtype and shape, None for open dimensions, and its tensor in the graph."""

    dtype: DType
    shape: typing.Optional[typing.List[typing.Optional[int]]]
    tensor: str = ""


@dataclasses.dataclass
class Signature:
    """A function that a model offers."""

    inputs: typing.Dict[str, TensorSpec]
    outputs: typing.Dict[str, TensorSpec]


def _specs(given: typing.Mapping[str, typing.Any]) -> typing.Dict[str, TensorSpec]:
    return {name: TensorSpec(_troupe.as_dtype(dtype), shape, tensor) for name, (tensor, dtype, shape) in given.items()}


class Model:
    """Functions by their signatures. Any number of threads may run them; the interpreter's lock is released."""

    def __init__(self, model: _troupe.SavedModel):
        self._model = model
        self.format: str = model.format
        self.producer: str = model.producer
        self.signatures: typing.Dict[str, Signature] = {
            name: Signature(_specs(inputs), _specs(outputs)) for name, (inputs, outputs) in model.signatures.items()}
        self.assets: typing.Dict[str, bytes] = model.assets
        self.metadata: typing.Dict[str, str] = model.metadata

    def run(self, inputs: typing.Any, signature: typing.Optional[str] = None) -> typing.Dict[str, np.ndarray]:
        """{name: array} of the outputs for {name: array} of the inputs; one array for a signature with one input.
        signature: the only one, "predict" or "serving_default", if not given."""
        name = self._signature(signature)
        if not isinstance(inputs, typing.Mapping):
            names = list(self.signatures[name].inputs)
            if len(names) != 1:
                raise ValueError(f"the signature '{name}' has the inputs {names}: pass {{name: array}}")
            inputs = {names[0]: inputs}
        found = self._model.run(name, {key: data(value) for key, value in inputs.items()})
        return {key: array(value) for key, value in found.items()}

    def predict(self, source: _troupe.BatchSource, signature: typing.Optional[str] = None,
                batch: int = 256) -> typing.Dict[str, np.ndarray]:
        """The outputs, each [n, ...], for all n examples of a pipeline, whose components have the inputs' names."""
        found = self._model.predict(self._signature(signature), source, batch)
        return {key: array(value) for key, value in found.items()}

    def _signature(self, name: typing.Optional[str]) -> str:
        names = list(self.signatures)
        if name is not None:
            if name not in names:
                _troupe.raise_error("not_found", f"the model has no signature '{name}'; it has {names}")
            return name
        usual = [n for n in ("predict", "serving_default") if n in names]
        if len(names) != 1 and not usual:
            raise ValueError(f"the model has the signatures {names}: name one")
        return usual[0] if usual else names[0]


def load(path: Path, threads: int = 0, inference: bool = True) -> Model:
    """Reads a model: a folder of Troupe or TensorFlow, or a file of ONNX, here or at s3://... threads: of the CPU; 0:
    one for each core. inference: with passes that change bits, within tolerances."""
    return Model(_troupe.SavedModel(os.fspath(path), threads, inference))


def save(path: Path, graph: typing.Any, signatures: typing.Mapping[str, typing.Tuple[typing.Mapping, typing.Mapping]],
         values: typing.Optional[typing.Mapping[str, typing.Any]] = None, format: str = "troupe",
         assets: typing.Optional[typing.Mapping[str, bytes]] = None,
         metadata: typing.Optional[typing.Mapping[str, str]] = None) -> None:
    """Writes what computes the outputs of signatures: {name: ({input: tensor}, {output: tensor})}, tensors of the
    graph. values: {name: array} of its variables. format: "troupe", "tensorflow" or "onnx", which has one signature.
    assets: files to go with it; metadata: texts.

    >>> import numpy as np, tempfile, troupe
    >>> g = troupe.Graph()
    >>> x = g.placeholder("f32", [None, 2], name="x")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     troupe.saved_model.save(folder + "/m", g, {"predict": ({"x": x}, {"y": g.op("Neg", [x])})})
    ...     print(troupe.saved_model.load(folder + "/m").run(np.ones((1, 2), np.float32)))
    {'y': array([[-1., -1.]], dtype=float32)}
    """
    def specs(tensors: typing.Mapping[str, typing.Any]) -> typing.Dict[str, tuple]:
        return {name: (t.name, t.dtype.name, None if t.shape is None else list(t.shape))
                for name, t in tensors.items()}

    described = {name: (specs(inputs), specs(outputs)) for name, (inputs, outputs) in signatures.items()}
    given = {name: data(value) for name, value in (values or {}).items()}
    _troupe.save_saved_model(os.fspath(path), graph._graph, described, given, format, dict(assets or {}),
                             dict(metadata or {}))


def convert(source: Path, target: Path, format: str, signature: str = "") -> None:
    """Writes a model of any format in another: "troupe", "tensorflow" or "onnx". signature: the one that ONNX takes."""
    _troupe.convert_saved_model(os.fspath(source), os.fspath(target), format, signature)
