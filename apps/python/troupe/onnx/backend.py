"""Troupe as a backend of ONNX (onnx.backend.base): models of the package onnx in, NumPy arrays out.

    import onnx, troupe.onnx.backend as backend

    prepared = backend.prepare(onnx.load("model.onnx"))
    scores, = prepared.run([image])
"""

from __future__ import annotations

import collections
import typing

import ml_dtypes
import numpy as np
import onnx
import onnx.backend.base
from onnx.backend.test.runner import BackendIsNotSupposedToImplementIt

from .. import Error, _troupe
from .._core import array, data

__all__ = ["Backend", "Prepared", "is_compatible", "prepare", "run_model", "run_node", "supports_device"]


def _tensors(value: typing.Any, dtype: str) -> typing.Any:
    if value is None or isinstance(value, _troupe.Data):
        return value
    if isinstance(value, (list, tuple)):
        return [_tensors(item, dtype) for item in value]
    # Older versions of ONNX have the bits of bfloat16 as uint16.
    if dtype == "bfloat16" and np.asarray(value).dtype == np.uint16:
        return data(np.asarray(value).view(ml_dtypes.bfloat16))
    return data(value)


def _arrays(value: typing.Any) -> typing.Any:
    if value is None or isinstance(value, list):
        return value and [_arrays(item) for item in value]
    if value.dtype != "string":
        return array(value)
    # ONNX's strings are text.
    return np.array([text.decode() for text in array(value).reshape(-1)], dtype=object).reshape(value.shape)


class Prepared(onnx.backend.base.BackendRep):
    """A model that runs any number of times, from any number of threads."""

    def __init__(self, model: onnx.ModelProto, inference: bool = False, folder: typing.Optional[str] = None):
        self._program = _troupe.OnnxProgram(model.SerializeToString(), folder, inference)
        self._results = [name for name, *_ in self._program.outputs]

    @property
    def inputs(self) -> typing.List[str]:
        """Names, without those that have an initializer."""
        return [name for name, *_ in self._program.inputs]

    @property
    def outputs(self) -> typing.List[str]:
        return list(self._results)

    def run(self, inputs: typing.Any, **_: typing.Any) -> typing.Tuple[typing.Any, ...]:
        """The outputs, by position and by name. inputs: arrays in the order of the model's, or {name: array}; lists of
        arrays for sequences, None for optional values that are absent."""
        if isinstance(inputs, typing.Mapping):
            unknown = [name for name in inputs if name not in self.inputs]
            if unknown:
                raise ValueError(f"the model has no input {unknown[0]!r}; its inputs are {self.inputs}")
            inputs = [inputs[name] for name in self.inputs]
        elif isinstance(inputs, np.ndarray):
            inputs = [inputs]
        dtypes = [dtype for _, dtype, *_ in self._program.inputs]
        dtypes += [""] * (len(inputs) - len(dtypes))  # of inputs that the model does not have: it says so
        found = self._program.run([_tensors(value, dtype) for value, dtype in zip(inputs, dtypes)])
        names = self._results
        return collections.namedtuple("Outputs", names, rename=True)(*[_arrays(value) for value in found])


class Backend(onnx.backend.base.Backend):
    """Runs on the CPU."""

    @classmethod
    def is_compatible(cls, model: onnx.ModelProto, device: str = "CPU", **_: typing.Any) -> bool:
        """Whether all ops of the model are known, in the way that it uses them."""
        try:
            cls.prepare(model, device)
        except BackendIsNotSupposedToImplementIt:
            return False
        return True

    @classmethod
    def prepare(cls, model: onnx.ModelProto, device: str = "CPU", inference: bool = False,
                folder: typing.Optional[str] = None, **_: typing.Any) -> Prepared:
        """inference: with passes that change bits, within a tolerance. folder: of the model's external data."""
        if not cls.supports_device(device):
            raise ValueError(f"models run on the CPU, not on {device}")
        try:
            return Prepared(model, inference, folder)
        except Error as error:
            if error.code == "unimplemented":
                raise BackendIsNotSupposedToImplementIt(str(error)) from error
            raise

    @classmethod
    def run_node(cls, node: onnx.NodeProto, inputs: typing.Any, device: str = "CPU", outputs_info: typing.Any = None,
                 **options: typing.Any) -> typing.Tuple[typing.Any, ...]:
        """One op, on arrays."""
        names = [name for name in node.input if name]
        values = [inputs[name] for name in names] if isinstance(inputs, typing.Mapping) else list(inputs)
        values = [np.asarray(value) for value in values]
        # onnx before 1.13 has no other function that tells the type of a dtype.
        types = [onnx.helper.make_tensor_value_info(
            name, onnx.numpy_helper.from_array(np.empty(0, value.dtype)).data_type, value.shape)
                 for name, value in zip(names, values)]
        results = [onnx.helper.make_empty_tensor_value_info(name) for name in node.output if name]
        graph = onnx.helper.make_graph([node], "node", types, results)
        opset = options.pop("opset_version", onnx.defs.onnx_opset_version())
        model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid(node.domain, opset)])
        return cls.prepare(model, device, **options).run(values)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        return device == "CPU"


is_compatible = Backend.is_compatible
prepare = Backend.prepare
run_model = Backend.run_model
run_node = Backend.run_node
supports_device = Backend.supports_device
