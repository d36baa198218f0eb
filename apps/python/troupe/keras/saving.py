"""Saved models, and classes of your own that they have."""

from __future__ import annotations

import typing

from . import layers
from .models import load_model, save_model

Made = typing.TypeVar("Made", bound=typing.Type[layers.Layer])


def register_keras_serializable(package: str = "Custom",
                                name: typing.Optional[str] = None) -> typing.Callable[[Made], Made]:
    """A decorator: models with layers of this class are read back without custom_objects."""
    def register(cls: Made) -> Made:
        layers._CUSTOM[name or cls.__name__] = cls
        return cls

    return register


__all__ = ["load_model", "register_keras_serializable", "save_model"]
