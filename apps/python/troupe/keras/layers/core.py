"""Dense, Embedding, activations, and layers around other layers or functions."""

from __future__ import annotations

import typing

import numpy as np

from ... import _troupe
from ...nn import Integers
from .base import (
    ActivationLike, ConstraintLike, Form, InitializerLike, KerasTensor, Layer, Layout, NativeLayer, RegularizerLike,
    Weight,
)

_native = _troupe.keras


class Dense(NativeLayer):
    """activation(x kernel + bias): [..., in] -> [..., units].

    >>> from troupe.keras import Input
    >>> Dense(10, activation="relu")(Input((4,))).shape
    (None, 10)
    """

    _supports_masking = True

    def __init__(self, units: int, activation: ActivationLike = None, use_bias: bool = True,
                 kernel_initializer: InitializerLike = "glorot_uniform", bias_initializer: InitializerLike = "zeros",
                 kernel_regularizer: RegularizerLike = None, bias_regularizer: RegularizerLike = None,
                 activity_regularizer: RegularizerLike = None, kernel_constraint: ConstraintLike = None,
                 bias_constraint: ConstraintLike = None, **kwargs: typing.Any):
        super().__init__(activity_regularizer=activity_regularizer, **kwargs)
        self.units = int(units)
        self.use_bias = use_bias
        self.activation = self._activation(activation)
        self._options = {"kernel": self._weight("kernel", kernel_initializer, kernel_regularizer, kernel_constraint),
                         "bias": self._weight("bias", bias_initializer, bias_regularizer, bias_constraint)}

    def _configured(self, key: str) -> tuple:
        return "dense", {"units": self.units, "activation": self.activation, "use_bias": bool(self.use_bias),
                         "compute": self._dtype or ""}, self._options

    @property
    def kernel(self) -> Weight:
        return self._weights["kernel"]

    @property
    def bias(self) -> typing.Optional[Weight]:
        return self._weights.get("bias")


class Embedding(NativeLayer):
    """Rows of a table [input_dim, output_dim]: ids [...] -> [..., output_dim]. With mask_zero, layers after it that
    know masks leave out the steps whose id is 0.

    >>> from troupe.keras import Input
    >>> Embedding(1000, 8)(Input((5,), dtype="int32")).shape
    (None, 5, 8)
    """

    def __init__(self, input_dim: int, output_dim: int, embeddings_initializer: InitializerLike = "uniform",
                 embeddings_regularizer: RegularizerLike = None, embeddings_constraint: ConstraintLike = None,
                 mask_zero: bool = False, weights: typing.Any = None, input_length: typing.Optional[int] = None,
                 **kwargs: typing.Any):
        if input_length is not None and "input_shape" not in kwargs:
            kwargs["input_shape"] = (input_length,)
        super().__init__(**kwargs)
        self.input_dim, self.output_dim, self.mask_zero = int(input_dim), int(output_dim), bool(mask_zero)
        self._options = {
            "table": self._weight("table", embeddings_initializer, embeddings_regularizer, embeddings_constraint)}
        if weights is not None:
            first = np.asarray(weights[0] if isinstance(weights, (list, tuple)) else weights)
            self._first_values["table"] = lambda shape, dtype: first

    def _configured(self, key: str) -> tuple:
        return "embedding", {"vocabulary": self.input_dim, "units": self.output_dim,
                             "mask_zero": self.mask_zero}, self._options

    def _packed(self, results: list) -> typing.Any:
        if self.mask_zero and isinstance(results[0], KerasTensor):
            results[0]._mask = results[1]
        return results[0]


class Activation(NativeLayer):
    """An activation by its name, or a function of your own.

    >>> from troupe.keras import Input
    >>> Activation("softmax")(Input((4,))).shape
    (None, 4)
    """

    _supports_masking = True

    def __init__(self, activation: ActivationLike, **kwargs: typing.Any):
        super().__init__(**kwargs)
        self.activation = self._activation(activation)

    def _configured(self, key: str) -> tuple:
        return "activation", {"activation": self.activation}


class ReLU(Activation):
    """max(x, 0), or relu6 with max_value=6, or leaky with negative_slope."""

    def __init__(self, max_value: typing.Optional[float] = None, negative_slope: float = 0.0, threshold: float = 0.0,
                 **kwargs: typing.Any):
        if threshold:
            raise ValueError("ReLU: a threshold other than 0 is not supported: use Lambda")
        super().__init__("relu", **kwargs)
        if max_value is None and negative_slope == 0:
            return
        if max_value == 6 and negative_slope == 0:
            self.activation = "relu6"
        elif max_value is None and negative_slope == 0.2:
            self.activation = "leaky_relu"
        else:
            from ... import clip, nn

            self._after = lambda x: nn.leaky_relu(x, negative_slope) if max_value is None else clip(x, 0, max_value)


class LeakyReLU(NativeLayer):
    """x where x > 0, else negative_slope x."""

    _supports_masking = True

    def __init__(self, negative_slope: float = 0.3, alpha: typing.Optional[float] = None, **kwargs: typing.Any):
        super().__init__(**kwargs)
        self.negative_slope = float(negative_slope if alpha is None else alpha)

    def _configured(self, key: str) -> tuple:
        if self.negative_slope == 0.2:
            return "activation", {"activation": "leaky_relu"}
        return "prelu", {}, {"slope": {"initializer": ("constant", {"value": self.negative_slope})}}

    def _make(self, key: str, forms: typing.List[Form]) -> _native.Layer:
        made = super()._make(key, forms)
        return made if self.negative_slope == 0.2 else made.frozen()


class PReLU(NativeLayer):
    """x where x > 0, else alpha x, with a learnt alpha of x's shape; along shared_axes it is the same.

    >>> from troupe.keras import Input
    >>> PReLU(shared_axes=[1])(Input((5, 3))).shape
    (None, 5, 3)
    """

    _supports_masking = True

    def __init__(self, alpha_initializer: InitializerLike = "zeros", alpha_regularizer: RegularizerLike = None,
                 alpha_constraint: ConstraintLike = None, shared_axes: typing.Optional[Integers] = None,
                 **kwargs: typing.Any):
        super().__init__(**kwargs)
        self.shared_axes = [] if shared_axes is None else [shared_axes] if isinstance(shared_axes, int) else list(
            shared_axes)
        self._options = {"slope": self._weight("slope", alpha_initializer, alpha_regularizer, alpha_constraint)}

    def _configured(self, key: str) -> tuple:
        return "prelu", {"shared_axes": self.shared_axes}, self._options


class ELU(Activation):
    """x where x > 0, else exp(x) - 1."""

    def __init__(self, alpha: float = 1.0, **kwargs: typing.Any):
        if alpha != 1.0:
            raise ValueError("ELU: an alpha other than 1 is not supported: use Lambda")
        super().__init__("elu", **kwargs)


class Softmax(Activation):
    """exp(x) / sum of exp(x) along the last dimension."""

    def __init__(self, axis: int = -1, **kwargs: typing.Any):
        if axis != -1:
            raise ValueError("Softmax: only axis=-1 is supported: Permute before and after")
        super().__init__("softmax", **kwargs)


class Lambda(Layer):
    """A function of tensors as a layer. A model that has one is saved by export(), as a graph that predicts.

    >>> from troupe.keras import Input
    >>> Lambda(lambda x: x)(Input((4,))).shape
    (None, 4)
    """

    def __init__(self, function: typing.Callable, output_shape: typing.Any = None, mask: typing.Any = None,
                 arguments: typing.Optional[dict] = None, **kwargs: typing.Any):
        super().__init__(**kwargs)
        self.function = function
        self.arguments = arguments or {}

    def call(self, inputs: typing.Any, **kwargs: typing.Any) -> typing.Any:
        return self.function(inputs, **self.arguments, **kwargs)


class _Around(NativeLayer):
    """A layer around another."""

    def __init__(self, layer: Layer, **kwargs: typing.Any):
        super().__init__(**kwargs)
        self.layer = layer

    def _inner(self, key: str = "") -> _native.Layer:
        """The C++ layer inside, whose weights are this layer's."""
        if not isinstance(self.layer, NativeLayer) or self.layer._is_python():
            raise ValueError(f"{type(self).__name__} takes a layer of C++, not {type(self.layer).__name__}, whose "
                             "function is Python's")
        return self.layer._native_layer(key)

    def _layers_inside(self) -> typing.List[Layer]:
        return []


class TimeDistributed(_Around):
    """The layer on each step alone: [n, steps, ...] -> [n, steps, ...].

    >>> from troupe.keras import Input
    >>> TimeDistributed(Dense(4))(Input((7, 3))).shape
    (None, 7, 4)
    """

    _supports_masking = True

    def _configured(self, key: str) -> tuple:
        return "time_distributed", {}, {}, {"layer": self._inner()}

    def _layouts(self) -> typing.Dict[str, Layout]:
        return self.layer._layouts()


class Residual(_Around):
    """activation(layer(x) + x), or + shortcut(x).

    >>> from troupe.keras import Input
    >>> Residual(Dense(3))(Input((3,))).shape
    (None, 3)
    """

    def __init__(self, layer: Layer, shortcut: typing.Optional[Layer] = None, activation: ActivationLike = None,
                 **kwargs: typing.Any):
        super().__init__(layer, **kwargs)
        self.shortcut = shortcut
        self.activation = self._activation(activation)

    def _configured(self, key: str) -> tuple:
        layers = {"body": self._inner()}
        if self.shortcut is not None:
            layers["shortcut"] = self.shortcut._native_layer("")
        return "residual", {"activation": self.activation}, {}, layers


class Masking(NativeLayer):
    """Is not supported: Embedding(mask_zero=True) makes masks."""

    def __init__(self, mask_value: float = 0.0, **kwargs: typing.Any):
        raise ValueError("Masking is not supported: masks are made by Embedding(mask_zero=True), or given as mask=")
