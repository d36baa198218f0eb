"""Activation functions by Keras's names: layers take the name, or one of these functions, or a function of yours.

    >>> from troupe.keras import layers
    >>> a, b = layers.Dense(3, activation="relu"), layers.Dense(3, activation=relu)

Called on a tensor, each is a layer: in models that are being built, in call() of layers, and on values.
"""

from __future__ import annotations

import typing

# Names of graph/layers/activations.hpp that differ from Keras's.
_NATIVE = {"linear": "none", "swish": "silu", "hard_swish": "hard_silu"}
_NAMES = (
    "linear relu leaky_relu sigmoid tanh softplus softmax log_softmax relu6 elu selu celu gelu silu swish mish "
    "exponential softsign log_sigmoid hard_sigmoid hard_silu hard_swish hard_tanh hard_shrink soft_shrink tanh_shrink "
    "squareplus sparse_plus sparse_sigmoid glu"
).split()


def _function(name: str) -> typing.Callable:
    def activation(x):
        from .layers.core import Activation

        return Activation(name)(x)

    activation.__name__ = activation.__qualname__ = name
    activation.__doc__ = f"The activation {name} of each element, or along the last dimension: a tensor like x."
    activation._keras_name = name
    return activation


for _name in _NAMES:
    globals()[_name] = _function(_name)
__all__ = [*_NAMES, "get"]


def get(identifier) -> typing.Optional[typing.Callable]:
    """The function of a name or function; None: linear.

    >>> get("relu").__name__, get(None).__name__
    ('relu', 'linear')
    """
    if identifier is None:
        return globals()["linear"]
    if callable(identifier):
        return identifier
    if identifier not in _NAMES:
        raise ValueError(f"there is no activation {identifier!r}; there are: {', '.join(_NAMES)}")
    return globals()[identifier]


def native_name(function: typing.Callable) -> typing.Optional[str]:
    """The name in graph/layers; None for a function of the user's."""
    name = getattr(function, "_keras_name", None)
    return None if name is None else _NATIVE.get(name, name)
