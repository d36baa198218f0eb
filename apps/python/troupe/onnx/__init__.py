"""ONNX models: read, run, written.

    model = troupe.onnx.load("resnet50.onnx")
    outputs = model.run({"image": image})
    troupe.onnx.save("relu.onnx", graph, {"x": x}, {"y": y})

troupe.onnx.backend is what ONNX's own tests and tools of other projects run models with (onnx.backend.base).
"""

from __future__ import annotations

import importlib
import typing

from .. import Model
from .. import export_onnx as save
from .. import import_onnx as load

if typing.TYPE_CHECKING:
    from . import backend

__all__ = ["Model", "backend", "load", "save"]


# It imports the package onnx, which nothing else needs.
def __getattr__(name: str) -> typing.Any:
    if name == "backend":
        return importlib.import_module(".backend", __name__)
    raise AttributeError(f"module 'troupe.onnx' has no attribute {name!r}")
