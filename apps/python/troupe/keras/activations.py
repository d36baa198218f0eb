"""Activation functions by Keras's names: layers take the name, or one of these functions, or a function of yours.

    >>> from troupe.keras import layers
    >>> a, b = layers.Dense(3, activation="relu"), layers.Dense(3, activation=relu)

Called on a tensor, each is a layer: in models that are being built, in call() of layers, and on values.
"""

from __future__ import annotations

import typing

# Names of graph/layers/activations.hpp that differ from Keras's.
_NATIVE = {"linear": "none", "swish": "silu", "hard_swish": "hard_silu"}
ActivationLike = typing.Union[None, str, typing.Callable]
__all__ = [
    "celu", "elu", "exponential", "gelu", "get", "glu", "hard_shrink", "hard_sigmoid", "hard_silu", "hard_swish",
    "hard_tanh", "leaky_relu", "linear", "log_sigmoid", "log_softmax", "mish", "relu", "relu6", "selu", "sigmoid",
    "silu", "soft_shrink", "softmax", "softplus", "softsign", "sparse_plus", "sparse_sigmoid", "squareplus", "swish",
    "tanh", "tanh_shrink",
]
_NAMES = [name for name in __all__ if name != "get"]


def _function(name: str) -> typing.Callable:
    def activation(x: typing.Any) -> typing.Any:
        from .layers.core import Activation

        return Activation(name)(x)

    activation.__name__ = activation.__qualname__ = name
    activation.__doc__ = f"The activation {name} of each element, or along the last dimension: a tensor like x."
    setattr(activation, "_keras_name", name)
    return activation


linear = _function("linear")
relu = _function("relu")
leaky_relu = _function("leaky_relu")
sigmoid = _function("sigmoid")
tanh = _function("tanh")
softplus = _function("softplus")
softmax = _function("softmax")
log_softmax = _function("log_softmax")
relu6 = _function("relu6")
elu = _function("elu")
selu = _function("selu")
celu = _function("celu")
gelu = _function("gelu")
silu = _function("silu")
swish = _function("swish")
mish = _function("mish")
exponential = _function("exponential")
softsign = _function("softsign")
log_sigmoid = _function("log_sigmoid")
hard_sigmoid = _function("hard_sigmoid")
hard_silu = _function("hard_silu")
hard_swish = _function("hard_swish")
hard_tanh = _function("hard_tanh")
hard_shrink = _function("hard_shrink")
soft_shrink = _function("soft_shrink")
tanh_shrink = _function("tanh_shrink")
squareplus = _function("squareplus")
sparse_plus = _function("sparse_plus")
sparse_sigmoid = _function("sparse_sigmoid")
glu = _function("glu")


def get(identifier: ActivationLike) -> typing.Callable:
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
