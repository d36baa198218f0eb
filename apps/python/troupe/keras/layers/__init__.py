"""The layers of troupe.keras, by Keras's names: those of graph/layers, and functions of Python.

    >>> from troupe.keras import layers
    >>> layers.Dense(10, activation="relu").name.startswith("dense")
    True
"""

from __future__ import annotations

import typing

from . import attention, convolution, core, merging, normalization, preprocessing, recurrent, reshaping
from .attention import *  # noqa: F401,F403
from .base import Input, InputLayer, KerasTensor, Layer, NativeLayer
from .convolution import *  # noqa: F401,F403
from .core import *  # noqa: F401,F403
from .merging import *  # noqa: F401,F403
from .normalization import *  # noqa: F401,F403
from .preprocessing import *  # noqa: F401,F403
from .recurrent import *  # noqa: F401,F403
from .reshaping import *  # noqa: F401,F403

_FILES = (attention, convolution, core, merging, normalization, preprocessing, recurrent, reshaping)


def _classes() -> typing.Dict[str, typing.Type[Layer]]:
    found: typing.Dict[str, typing.Type[Layer]] = {"InputLayer": InputLayer}
    for file in _FILES:
        for name, value in vars(file).items():
            if isinstance(value, type) and issubclass(value, Layer) and not name.startswith("_"):
                found[name] = value
    return found


_CUSTOM: typing.Dict[str, typing.Type[Layer]] = {}


def serialize(layer: Layer) -> dict:
    """The class and configuration of a layer.

    >>> serialize(Flatten(name="f"))
    {'class_name': 'Flatten', 'config': {'name': 'f'}}
    """
    return {"class_name": type(layer).__name__, "config": layer.get_config()}


def deserialize(config: dict, custom_objects: typing.Optional[dict] = None) -> Layer:
    """The layer of a configuration. Classes of your own are custom_objects, or registered."""
    name = config["class_name"]
    made = (custom_objects or {}).get(name) or _CUSTOM.get(name) or _classes().get(name)
    if made is None:
        from .. import _parts, constraints, initializers, models, regularizers

        parts: typing.Dict[str, typing.Any] = {
            **initializers._CLASSES, **regularizers._CLASSES, **constraints._CLASSES}
        if name in parts:
            return parts[name](**config["config"])
        if name in ("Sequential", "Functional", "Model"):
            return models.from_config(config, custom_objects)
        raise ValueError(f"there is no layer {name!r}: pass custom_objects={{{name!r}: its class}}, or register it by "
                         "keras.saving.register_keras_serializable()")
    return made.from_config(config["config"])
