"""Recurrent layers: one op for a whole sequence."""

from __future__ import annotations

import typing

import numpy as np

from ... import _troupe
from .. import _names
from .base import (
    ActivationLike, ConstraintLike, InitializerLike, KerasTensor, Layer, Layout, NativeLayer, RegularizerLike,
)

_native = _troupe.keras


def _lengths(mask: KerasTensor, layer: NativeLayer) -> KerasTensor:
    """The number of steps of each sequence of a mask, as a tensor of the model."""
    found = mask._lengths
    if found is None:
        counts = _native.layer("lengths_of_mask", {}, {}, {}).named(_names.unique_name("lengths_of_mask"))
        symbol = counts.call([mask._symbol])[0]
        found = mask._lengths = KerasTensor(symbol, ("i64", [None]), mask._layer, [mask])
    return found


class _Recurrent(NativeLayer):
    _kind, _gates, _states = "simple_rnn", 1, 1
    _keras_gates = [0]  # the places of Keras's gates among ours

    def __init__(self, units: int, activation: ActivationLike, recurrent_activation: ActivationLike, use_bias: bool,
                 kernel: tuple, recurrent: tuple, bias: tuple, return_sequences: bool, return_state: bool,
                 go_backwards: bool, kwargs: dict, reset_after: bool = True):
        for name in ("dropout", "recurrent_dropout"):
            if kwargs.pop(name, 0):
                raise ValueError(f"{type(self).__name__}: {name} is not supported: put a Dropout before the layer")
        for name in ("stateful", "unroll"):
            if kwargs.pop(name, False):
                raise ValueError(f"{type(self).__name__}: {name} is not supported: pass initial_state=, and take the "
                                 "states with return_state=True")
        for name in ("seed", "use_cudnn"):
            kwargs.pop(name, None)
        super().__init__(**kwargs)
        self.units = int(units)
        self.activation = self._activation(activation)
        self.recurrent_activation = self._activation(recurrent_activation)
        self.use_bias, self.reset_after = bool(use_bias), bool(reset_after)
        self.return_sequences, self.return_state = bool(return_sequences), bool(return_state)
        self.go_backwards = bool(go_backwards)
        self._options = {"kernel": self._weight("kernel", *kernel),
                         "recurrent_kernel": self._weight("recurrent_kernel", *recurrent),
                         "bias": {k: v for k, v in self._weight("bias", *bias).items()
                                  if (k, v) != ("initializer", ("zeros", {}))}}

    def _configured(self, key: str) -> tuple:
        return self._kind, {
            "units": self.units, "return_sequences": self.return_sequences, "return_state": self.return_state,
            "go_backwards": self.go_backwards, "takes_lengths": "lengths" in key, "takes_state": "state" in key,
            "activation": self.activation, "recurrent_activation": self.recurrent_activation,
            "reset_after": self.reset_after, "use_bias": self.use_bias, "compute": self._dtype or "",
        }, self._options

    def _inputs(self, inputs: typing.Any, initial_state: typing.Any = None, mask: typing.Any = None,
                training: typing.Optional[bool] = None) -> typing.Tuple[list, str]:
        if isinstance(inputs, (list, tuple)):
            inputs, initial_state = inputs[0], list(inputs[1:])
        states = [] if initial_state is None else (
            list(initial_state) if isinstance(initial_state, (list, tuple)) else [initial_state])
        mask = getattr(inputs, "_mask", None) if mask is None else mask
        key = ("lengths," if mask is not None else "") + ("state" if states else "")
        lengths = [] if mask is None else [_lengths(mask, self)]
        return [inputs, *lengths, *states], key

    def _with_masks(self, results: list, tensors: list) -> typing.Any:
        out = self._packed(results)
        if self.return_sequences:
            (out[0] if isinstance(out, list) else out)._mask = tensors[0]._mask
        return out

    def _layouts(self) -> dict:
        """Ours are [gates units, in]: rows of a gate of a unit, and gates in another order."""
        return gate_layouts(self)


def gate_layouts(layer: _Recurrent, prefix: str = "") -> dict:
    gates, order = layer._gates, layer._keras_gates
    back = [order.index(i) for i in range(gates)]

    def moved(array: np.ndarray, places: typing.List[int]) -> np.ndarray:
        """[gates units, ...] with gates in another order."""
        parts = array.reshape(gates, -1, *array.shape[1:])
        return parts[places].reshape(array.shape)

    def bias_to(array: np.ndarray) -> np.ndarray:
        if array.shape[0] == gates * layer.units:
            return moved(array, order)
        return np.stack([moved(half, order) for half in np.split(array, 2)])

    def bias_from(array: np.ndarray) -> np.ndarray:
        return moved(array, back) if array.ndim == 1 else np.concatenate([moved(half, back) for half in array])

    kernel = (lambda a: moved(a, order).T, lambda a: moved(np.ascontiguousarray(a.T), back))
    return {f"{prefix}kernel": kernel, f"{prefix}recurrent_kernel": kernel, f"{prefix}bias": (bias_to, bias_from)}


class SimpleRNN(_Recurrent):
    """h = activation(x kernel + h recurrent_kernel + bias): [n, steps, in] -> [n, units].

    >>> from troupe.keras import Input
    >>> SimpleRNN(4)(Input((7, 3))).shape
    (None, 4)
    """

    def __init__(self, units: int, activation: ActivationLike = "tanh", use_bias: bool = True,
                 kernel_initializer: InitializerLike = "glorot_uniform",
                 recurrent_initializer: InitializerLike = "orthogonal", bias_initializer: InitializerLike = "zeros",
                 kernel_regularizer: RegularizerLike = None, recurrent_regularizer: RegularizerLike = None,
                 bias_regularizer: RegularizerLike = None, activity_regularizer: RegularizerLike = None,
                 kernel_constraint: ConstraintLike = None, recurrent_constraint: ConstraintLike = None,
                 bias_constraint: ConstraintLike = None, return_sequences: bool = False, return_state: bool = False,
                 go_backwards: bool = False, **kwargs: typing.Any):
        super().__init__(units, activation, "sigmoid", use_bias,
                         (kernel_initializer, kernel_regularizer, kernel_constraint),
                         (recurrent_initializer, recurrent_regularizer, recurrent_constraint),
                         (bias_initializer, bias_regularizer, bias_constraint), return_sequences, return_state,
                         go_backwards, {**kwargs, "activity_regularizer": activity_regularizer})


class LSTM(_Recurrent):
    """Long short-term memory: [n, steps, in] -> [n, units], or [n, steps, units] with return_sequences.

    >>> from troupe.keras import Input
    >>> LSTM(4, return_sequences=True)(Input((7, 3))).shape
    (None, 7, 4)
    """

    _kind, _gates, _states = "lstm", 4, 2
    _keras_gates = [0, 2, 3, 1]  # Keras: i, f, c, o; ours: i, o, f, c

    def __init__(self, units: int, activation: ActivationLike = "tanh",
                 recurrent_activation: ActivationLike = "sigmoid", use_bias: bool = True,
                 kernel_initializer: InitializerLike = "glorot_uniform",
                 recurrent_initializer: InitializerLike = "orthogonal", bias_initializer: InitializerLike = "zeros",
                 unit_forget_bias: bool = True, kernel_regularizer: RegularizerLike = None,
                 recurrent_regularizer: RegularizerLike = None, bias_regularizer: RegularizerLike = None,
                 activity_regularizer: RegularizerLike = None, kernel_constraint: ConstraintLike = None,
                 recurrent_constraint: ConstraintLike = None, bias_constraint: ConstraintLike = None,
                 return_sequences: bool = False, return_state: bool = False, go_backwards: bool = False,
                 **kwargs: typing.Any):
        super().__init__(units, activation, recurrent_activation, use_bias,
                         (kernel_initializer, kernel_regularizer, kernel_constraint),
                         (recurrent_initializer, recurrent_regularizer, recurrent_constraint),
                         (bias_initializer, bias_regularizer, bias_constraint), return_sequences, return_state,
                         go_backwards, {**kwargs, "activity_regularizer": activity_regularizer})
        if not unit_forget_bias and bias_initializer == "zeros":
            self._options["bias"] = {**self._options["bias"], "initializer": ("zeros", {})}


class GRU(_Recurrent):
    """Gated recurrent unit: [n, steps, in] -> [n, units], or [n, steps, units] with return_sequences."""

    _kind, _gates = "gru", 3
    _keras_gates = [0, 1, 2]

    def __init__(self, units: int, activation: ActivationLike = "tanh",
                 recurrent_activation: ActivationLike = "sigmoid", use_bias: bool = True,
                 kernel_initializer: InitializerLike = "glorot_uniform",
                 recurrent_initializer: InitializerLike = "orthogonal", bias_initializer: InitializerLike = "zeros",
                 kernel_regularizer: RegularizerLike = None, recurrent_regularizer: RegularizerLike = None,
                 bias_regularizer: RegularizerLike = None, activity_regularizer: RegularizerLike = None,
                 kernel_constraint: ConstraintLike = None, recurrent_constraint: ConstraintLike = None,
                 bias_constraint: ConstraintLike = None, return_sequences: bool = False, return_state: bool = False,
                 go_backwards: bool = False, reset_after: bool = True, **kwargs: typing.Any):
        super().__init__(units, activation, recurrent_activation, use_bias,
                         (kernel_initializer, kernel_regularizer, kernel_constraint),
                         (recurrent_initializer, recurrent_regularizer, recurrent_constraint),
                         (bias_initializer, bias_regularizer, bias_constraint), return_sequences, return_state,
                         go_backwards, {**kwargs, "activity_regularizer": activity_regularizer}, reset_after)


class Bidirectional(NativeLayer):
    """A recurrent layer and another of its kind that goes backwards, whose results are merged.

    >>> from troupe.keras import Input
    >>> Bidirectional(GRU(4))(Input((7, 3))).shape
    (None, 8)
    """

    _MERGES = {"concat": "concat", "sum": "sum", "mul": "multiply", "ave": "average", None: "none"}

    def __init__(self, layer: _Recurrent, merge_mode: typing.Optional[str] = "concat", weights: typing.Any = None,
                 backward_layer: typing.Optional[_Recurrent] = None, **kwargs: typing.Any):
        super().__init__(**kwargs)
        if not isinstance(layer, _Recurrent):
            raise ValueError(f"Bidirectional takes SimpleRNN, GRU or LSTM, not {type(layer).__name__}")
        if merge_mode not in self._MERGES:
            raise ValueError(f"Bidirectional: merge_mode {merge_mode!r} is none of concat, sum, mul, ave and None")
        if backward_layer is not None and not backward_layer.go_backwards:
            raise ValueError("Bidirectional: backward_layer must have go_backwards=True")
        self.forward_layer, self.backward_layer, self.merge_mode = layer, backward_layer or layer, merge_mode

    def _configured(self, key: str) -> tuple:
        inside = {}
        for name, layer, backwards in (("forward", self.forward_layer, self.forward_layer.go_backwards),
                                       ("backward", self.backward_layer, not self.forward_layer.go_backwards)):
            kind, options, weights = layer._configured(key)
            options = {**options, "go_backwards": backwards, "keep_order": name == "backward"}
            inside[name] = _native.layer(kind, options, {k: v for k, v in weights.items() if v}, {})
        return "bidirectional", {"merge": self._MERGES[self.merge_mode]}, {}, inside

    def _inputs(self, inputs: typing.Any, initial_state: typing.Any = None, mask: typing.Any = None,
                training: typing.Optional[bool] = None) -> typing.Tuple[list, str]:
        return self.forward_layer._inputs(inputs, initial_state, mask)

    def _with_masks(self, results: list, tensors: list) -> typing.Any:
        out = self._packed(results)
        if self.forward_layer.return_sequences:
            for result in results[:1]:
                result._mask = tensors[0]._mask
        return out

    def _layers_inside(self) -> typing.List[Layer]:
        return []

    def _layouts(self) -> typing.Dict[str, Layout]:
        return {**gate_layouts(self.forward_layer, "forward/"), **gate_layouts(self.backward_layer, "backward/")}
