"""The base of layers: how they are called, built and named, and who holds their weights.

A layer is called on symbolic tensors (Input() and what other layers return), which builds a model; within call() of
another layer; or on values, which computes at once. Its function is C++'s (class NativeLayer) or the Python of its
call(). Weights belong to layers: models that share a layer share them.
"""

from __future__ import annotations

import inspect
import operator
import threading
import typing
import weakref

import numpy as np

from ... import _troupe
from ..._core import DTypeLike, ShapeLike, Tensor, TensorLike, Variable
from .. import _arrays, _names, _parts, _trees, constraints, initializers, regularizers
from ..activations import ActivationLike
from ..constraints import ConstraintLike
from ..initializers import InitializerLike
from ..regularizers import RegularizerLike

_native = _troupe.keras
Shape = typing.Sequence[typing.Optional[int]]
Form = typing.Tuple[str, typing.Optional[list]]  # dtype and shape as C++ names them
Layout = typing.Tuple[typing.Callable[[np.ndarray], np.ndarray], typing.Callable[[np.ndarray], np.ndarray]]
Made = typing.TypeVar("Made", bound="Layer")

_calling = threading.local()


def layers_being_called() -> list:
    """The layers whose call() runs on this thread, the innermost last."""
    if not hasattr(_calling, "stack"):
        _calling.stack = []
    return _calling.stack


class Call(typing.NamedTuple):
    """A call of a layer on symbolic tensors."""

    layer: "Layer"
    args: tuple
    kwargs: dict
    results: typing.List["KerasTensor"]


class KerasTensor:
    """A tensor before any data: what Input() and calls of layers return. Unknown dimensions, like the batch, are None.

    >>> from troupe.keras import Input, layers
    >>> x = Input(shape=(8,), name="x")
    >>> layers.Dense(3)(x).shape
    (None, 3)
    """

    def __init__(self, symbol: typing.Any, form: Form, layer: "Layer", sources: typing.Sequence["KerasTensor"] = (),
                 name: typing.Optional[str] = None):
        self._symbol = symbol
        self._form = form
        self._layer = layer
        self._sources = list(sources)
        self._call: typing.Any = None  # the Call that returned it
        self._mask: typing.Optional[KerasTensor] = None
        self._lengths: typing.Optional[KerasTensor] = None  # of a mask: the steps of each sequence
        self.name = name or layer.name

    @property
    def shape(self) -> typing.Tuple[typing.Any, ...]:
        return tuple(self._form[1] or ())

    @property
    def dtype(self) -> str:
        return _names.keras_dtype(self._form[0])

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def __repr__(self) -> str:
        return f"<KerasTensor shape={self.shape}, dtype={self.dtype}, name={self.name}>"

    def __bool__(self) -> bool:
        raise TypeError("a symbolic tensor has no value yet: decide by values in call() of a layer or in a callback")

    def _joined(self, other: typing.Any, kind: str) -> typing.Any:
        from . import merging

        if not isinstance(other, KerasTensor):
            return NotImplemented
        return getattr(merging, kind)()([self, other])

    def _scaled(self, factor: float, offset: float) -> KerasTensor:
        from .preprocessing import Rescaling

        return Rescaling(factor, offset)(self)

    def __add__(self, other: typing.Any) -> KerasTensor:
        return self._scaled(1.0, float(other)) if isinstance(other, (int, float)) else self._joined(other, "Add")

    def __sub__(self, other: typing.Any) -> KerasTensor:
        return self._scaled(1.0, -float(other)) if isinstance(other, (int, float)) else self._joined(other, "Subtract")

    def __mul__(self, other: typing.Any) -> KerasTensor:
        return self._scaled(float(other), 0.0) if isinstance(other, (int, float)) else self._joined(other, "Multiply")

    def __truediv__(self, other: typing.Any) -> KerasTensor:
        return self._scaled(1.0 / float(other), 0.0) if isinstance(other, (int, float)) else NotImplemented

    def __radd__(self, other: typing.Any) -> KerasTensor:
        return self._scaled(1.0, float(other))

    def __rsub__(self, other: typing.Any) -> KerasTensor:
        return self._scaled(-1.0, float(other))

    def __rmul__(self, other: typing.Any) -> KerasTensor:
        return self._scaled(float(other), 0.0)

    def __neg__(self) -> KerasTensor:
        return self._scaled(-1.0, 0.0)


def _operator(name: str) -> typing.Callable[..., Tensor]:
    function = getattr(operator, name)
    return lambda self, *others: function(self.value, *others)


def _reflected(name: str) -> typing.Callable[..., Tensor]:
    function = getattr(operator, name)
    return lambda self, other: function(other, self.value)


class Weight:
    """A weight of a layer. `numpy()` and `assign()` have Keras's shape; the layer knows how its own differs."""

    def __init__(self, name: str, shape: typing.Sequence[int], dtype: str, trainable: bool, owner: "Layer",
                 layout: typing.Optional[Layout] = None, options: typing.Optional[dict] = None):
        self.name = name
        self._shape = tuple(shape)
        self._dtype = dtype
        self._trained = trainable
        self._owner: typing.Callable[[], typing.Any] = weakref.ref(owner)
        self._layout = layout  # (to Keras's array, from it)
        self._options = options or {}
        # None until it is drawn, or while a variable has the value.
        self._held: typing.Optional[_troupe.Data] = None
        self._variable: typing.Optional[Variable] = None

    @property
    def path(self) -> str:
        return f"{self._owner().name}/{self.name}"

    @property
    def dtype(self) -> str:
        return _names.keras_dtype(self._dtype)

    @property
    def shape(self) -> typing.Tuple[typing.Any, ...]:
        if self._layout is None:
            return self._shape
        return tuple(self._layout[0](np.broadcast_to(np.float32(0), self._shape)).shape)

    @property
    def trainable(self) -> bool:
        return self._trained and self._owner().trainable

    def _drawn(self) -> bool:
        return self._held is not None or self._variable is not None

    def _tensor(self) -> _troupe.Data:
        """The value as C++ holds it."""
        if self._variable is not None:
            return _native.value_of(self._variable)
        if self._held is None:
            self._owner()._draw()
        if self._held is None:
            raise ValueError(f"weight {self.path!r} has no value: no call() uses it")
        return self._held

    def _set(self, tensor: _troupe.Data) -> None:
        if self._variable is not None:
            _native.assign_value(self._variable, tensor)
        else:
            self._held = tensor

    def numpy(self) -> np.ndarray:
        """The value, in Keras's layout."""
        found = _arrays.to_array(self._tensor())
        return found if self._layout is None else np.ascontiguousarray(self._layout[0](found))

    def __array__(self, dtype: typing.Any = None, copy: typing.Optional[bool] = None) -> np.ndarray:
        return np.asarray(self.numpy(), dtype)

    def assign(self, value: typing.Any) -> "Weight":
        """Gives it another value, an array of its shape."""
        array = np.asarray(_arrays.plain(value), _arrays.numpy_dtype(self._dtype))
        if array.shape != self.shape:
            raise ValueError(f"weight {self.path!r} is {self.shape}, but the value is {array.shape}")
        self._set(_arrays.to_tensor(array if self._layout is None else self._layout[1](array)))
        return self

    @property
    def value(self) -> Tensor:
        """The weight as a tensor: within call() of its layer that of the graph, else the value of now."""
        if _native.in_call():
            stack = layers_being_called()
            if not stack or stack[-1] is not self._owner():
                raise ValueError(f"weight {self.path!r} is of another layer: call that layer instead")
            return _native.weight_inside(self.name, self._dtype, list(self._shape), self.trainable, self._options)
        return _arrays.variable_of(self).read()

    def __repr__(self) -> str:
        return f"<Weight path={self.path}, shape={self.shape}, dtype={self.dtype}>"

    __add__, __radd__ = _operator("add"), _reflected("add")
    __sub__, __rsub__ = _operator("sub"), _reflected("sub")
    __mul__, __rmul__ = _operator("mul"), _reflected("mul")
    __truediv__, __rtruediv__ = _operator("truediv"), _reflected("truediv")
    __matmul__, __rmatmul__ = _operator("matmul"), _reflected("matmul")
    __pow__, __rpow__ = _operator("pow"), _reflected("pow")
    __neg__ = _operator("neg")
    __getitem__ = _operator("getitem")
    __lt__ = _operator("lt")
    __le__ = _operator("le")
    __gt__ = _operator("gt")
    __ge__ = _operator("ge")


def is_tensor(value: typing.Any) -> bool:
    return isinstance(value, (KerasTensor, _arrays.Tensor))


class _Slot:
    """Stands for a tensor among the arguments of a call."""


def weight_options(initializer: typing.Any = None, regularizer: typing.Optional[regularizers.Regularizer] = None,
                   constraint: typing.Optional[constraints.Constraint] = None) -> typing.Tuple[dict, typing.Any]:
    """How C++ treats a weight, and a function that makes its first value, if that is Python's."""
    out: dict = {}
    function = None
    if isinstance(initializer, initializers.Initializer) and initializer._kind or hasattr(initializer, "_KINDS"):
        out["initializer"] = initializer._native()
    elif initializer is not None:
        out["initializer"], function = ("zeros", {}), initializer
    if regularizer is not None:
        out.update(regularizer._native())
    if constraint is not None:
        out["constraint"] = constraint._native()
    return out, function


class Layer:
    """A function with weights. One of your own has __init__, build (which may add weights), and call.

    >>> import numpy as np
    >>> from troupe.keras import Sequential, layers
    >>> class Scale(layers.Layer):
    ...     def build(self, input_shape):
    ...         self.factor = self.add_weight(shape=(input_shape[-1],), initializer="ones")
    ...     def call(self, x):
    ...         return x * self.factor
    >>> model = Sequential([layers.Input((3,)), Scale()])
    >>> model.predict(np.ones((2, 3)), verbose=0).shape
    (2, 3)
    """

    def __new__(cls: typing.Type[Made], *args: typing.Any, **kwargs: typing.Any) -> Made:
        self = object.__new__(cls)
        object.__setattr__(self, "_attached", {})
        self._made_of = (args, kwargs)
        return self

    def __init__(self, *, name: typing.Optional[str] = None, trainable: bool = True,
                 dtype: typing.Optional[DTypeLike] = None, activity_regularizer: RegularizerLike = None,
                 input_shape: typing.Optional[typing.Sequence] = None,
                 batch_input_shape: typing.Optional[typing.Sequence] = None, input_dim: typing.Optional[int] = None,
                 **unknown: typing.Any):
        if unknown:
            raise TypeError(f"{type(self).__name__} has no argument {next(iter(unknown))!r}")
        if activity_regularizer is not None:
            raise ValueError(f"{type(self).__name__}: activity_regularizer is not supported: add_loss() in a layer "
                             "of your own does the same")
        self.name = str(name) if name else _names.unique_name(_names.snake_case(type(self).__name__))
        self.trainable = trainable
        self.built = False
        if batch_input_shape is not None:
            input_shape = tuple(batch_input_shape)[1:]
        if input_dim is not None:
            input_shape = (input_dim,)
        self._input_shape = None if input_shape is None else tuple(input_shape)
        self._dtype = None if dtype is None else _names.native_dtype(getattr(dtype, "compute_dtype", dtype))
        self._weights: typing.Dict[str, Weight] = {}
        self._first_values: typing.Dict[str, typing.Callable] = {}
        self._natives: typing.Dict[str, _native.Layer] = {}  # by the form of the call
        self._calls: dict = {}    # arguments of call() by the number of tensors
        self._results: typing.Any = None  # what call() returned, with slots
        self._children: typing.Dict[str, Layer] = {}
        self._forms: typing.List[Form] = []  # of the first inputs
        self._input: typing.Any = None
        self._output: typing.Any = None

    def __setattr__(self, name: str, value: typing.Any) -> None:
        if type(value) is Weight:
            self._attached[name] = value
            self.__dict__.pop(name, None)
        else:
            super().__setattr__(name, value)

    def __getattr__(self, name: str) -> typing.Any:
        """A weight; in call() its tensor in the graph."""
        attached = self.__dict__.get("_attached", {})
        if name not in attached:
            raise AttributeError(f"{type(self).__name__} {self.__dict__.get('name', '')!r} has no attribute {name!r}")
        return attached[name].value if _native.in_call() else attached[name]

    # What subclasses define.

    def build(self, input_shape: typing.Any) -> None:
        """Makes weights for inputs of this shape, with the batch as None: a list of shapes for several inputs."""

    def call(self, *args: typing.Any, **kwargs: typing.Any) -> typing.Any:
        """Computes the results of tensors; `training` and `mask` are optional arguments."""
        raise NotImplementedError(f"{type(self).__name__} has no call(): define call(self, x)")

    def get_config(self) -> dict:
        """The arguments that make the same layer: those of __init__ as JSON can hold them."""
        args, kwargs = self._made_of
        bound = inspect.signature(type(self).__init__).bind(None, *args, **kwargs)
        config: dict = {}
        for name, value in list(bound.arguments.items())[1:]:
            kind = bound.signature.parameters[name].kind
            if kind is inspect.Parameter.VAR_KEYWORD:
                config.update(value)
            else:
                config[name] = value
        config = {name: _parts.serialized(value) for name, value in config.items()}
        config["name"] = self.name
        return config

    @classmethod
    def from_config(cls, config: dict) -> "Layer":
        from . import deserialize

        given: typing.Dict[str, typing.Any] = {
            k: deserialize(v) if isinstance(v, dict) and "class_name" in v and "config" in v else v
            for k, v in config.items()}
        return cls(**given)

    # Weights.

    def add_weight(self, shape: typing.Sequence[int] = (), initializer: InitializerLike = None,
                   dtype: typing.Optional[DTypeLike] = None, trainable: bool = True,
                   regularizer: RegularizerLike = None, constraint: ConstraintLike = None,
                   name: typing.Optional[str] = None, **_: typing.Any) -> Weight:
        """A new weight of this layer, drawn by glorot_uniform, or zeros for a vector, without an initializer."""
        if isinstance(shape, int):
            shape = (shape,)
        name = name or "weight"
        if name in self._weights:
            name = f"{name}_{sum(other.rsplit('_', 1)[0] == name or other == name for other in self._weights)}"
        first = initializers.get(initializer or ("glorot_uniform" if len(shape) > 1 else "zeros"))
        options, function = weight_options(first, regularizers.get(regularizer), constraints.get(constraint))
        made = Weight(name, shape, _names.native_dtype(dtype or "float32"), trainable, self, options=options)
        if function is not None:
            made.assign(function(tuple(shape), dtype=made.dtype))
        self._weights[name] = made
        return made

    def add_loss(self, loss: Tensor) -> None:
        """Adds a scalar to the loss of the model that is trained; called in call()."""
        if _native.in_call():
            _native.add_loss(loss)

    def _layers_inside(self) -> typing.List["Layer"]:
        """The layers among its attributes, in the order of these."""
        found: dict = {}
        for name, value in vars(self).items():
            if name not in ("_children", "_input", "_output", "_made_of"):
                for layer in _trees.flatten(value, lambda v: isinstance(v, Layer)):
                    found[id(layer)] = layer
        for layer in self._children.values():
            found.setdefault(id(layer), layer)
        return list(found.values())

    def _named_weights(self) -> typing.List[typing.Tuple[str, Weight]]:
        """All weights by their names below this layer's."""
        out = list(self._weights.items())
        for layer in self._layers_inside():
            out += [(f"{layer.name}/{name}", weight) for name, weight in layer._named_weights()]
        return out

    @property
    def weights(self) -> typing.List[Weight]:
        """Its weights and those of layers inside, each once."""
        return list({id(w): w for _, w in self._named_weights()}.values())

    variables = weights

    @property
    def trainable_weights(self) -> typing.List[Weight]:
        return [w for w in self.weights if w.trainable] if self.trainable else []

    @property
    def non_trainable_weights(self) -> typing.List[Weight]:
        trained = {id(w) for w in self.trainable_weights}
        return [w for w in self.weights if id(w) not in trained]

    @property
    def trainable_variables(self) -> list:
        """The trained weights as variables of eager mode, for GradientTape and optimizers."""
        return [_arrays.variable_of(w) for w in self.trainable_weights]

    @property
    def non_trainable_variables(self) -> list:
        return [_arrays.variable_of(w) for w in self.non_trainable_weights]

    def get_weights(self) -> typing.List[np.ndarray]:
        """Their values, in Keras's layouts."""
        return [w.numpy() for w in self.weights]

    def set_weights(self, weights: typing.Sequence) -> None:
        """Gives them other values: as many arrays as get_weights() returns, of the same shapes."""
        own = self.weights
        if len(weights) != len(own):
            raise ValueError(f"{self.name!r} has {len(own)} weights, but {len(weights)} values are given")
        for weight, value in zip(own, weights):
            weight.assign(value)

    def count_params(self) -> int:
        """The number of elements of all weights."""
        if not self.built:
            raise ValueError(f"{self.name!r} has no weights yet: call it, or give its model an Input")
        return sum(int(np.prod(w._shape, dtype=np.int64)) for w in self.weights)

    @property
    def input(self) -> typing.Any:
        return self._input

    @property
    def output(self) -> typing.Any:
        return self._output

    def _draw(self) -> None:
        """Gives all weights that have no value their first ones."""
        inputs = [_native.input(f"input_{i}", (shape or [])[1:], dtype) for i, (dtype, shape) in enumerate(self._forms)]
        layer = next(iter(self._natives.values()), None) or self._native_layer("")
        results = [(f"output_{i}", y) for i, y in enumerate(layer.call(inputs))]
        self._take(_native.initial_values(_native.network(inputs, results, "network"), _names.random_seed()), self.name)

    def _take(self, values: dict, prefix: str = "") -> None:
        """Sets those weights that have no value yet."""
        for name, weight in self._named_weights():
            found = values.get(f"{prefix}/{name}" if prefix else name)
            if found is not None and not weight._drawn():
                weight._set(found)

    # Calls.

    def __call__(self, *args: typing.Any, **kwargs: typing.Any) -> typing.Any:
        tensors = _trees.flatten((args, kwargs), is_tensor)
        if any(isinstance(t, KerasTensor) for t in tensors):
            return self._call_symbols(args, kwargs)
        if _native.in_call() and tensors:
            return self._call_inside(args, kwargs)
        return self._call_eagerly(args, kwargs)

    def _bound(self, args: tuple, kwargs: dict) -> typing.Tuple[list, str]:
        """The tensors of a call in order, and the key of the C++ layer that takes them."""
        tensors = _trees.flatten((args, kwargs), is_tensor)
        self._calls[len(tensors)] = _trees.replaced((args, kwargs), is_tensor, [_Slot() for _ in tensors])
        return tensors, "python"

    def _layer_for(self, key: str, forms: typing.List[Form]) -> _native.Layer:
        """The C++ layer, made at the first call."""
        if key not in self._natives:
            self._forms = self._forms or forms
            self._natives[key] = self._make(key, forms).named(self.name)
        return self._natives[key]

    def _make(self, key: str, forms: typing.List[Form]) -> _native.Layer:
        me = weakref.ref(self)

        def apply(outputs: list, training: bool) -> list:
            return typing.cast(Layer, me())._apply(outputs, training)

        kind = _names.snake_case(type(self).__name__)
        made, _ = _native.python_layer(apply, kind, 1).forms(self.name, forms)
        return _native.python_layer(apply, kind, len(made))

    def _apply(self, outputs: list, training: bool) -> list:
        """Runs call() on tensors of a graph or on values."""
        args, kwargs = _trees.replaced(self._calls[len(outputs)], lambda v: isinstance(v, _Slot), outputs)
        stack = layers_being_called()
        stack.append(self)
        try:
            if not self.built:
                self._build_for(outputs if len(outputs) > 1 else outputs[0])
            if "training" not in kwargs and "training" in inspect.signature(self.call).parameters:
                kwargs = {**kwargs, "training": training}
            made = self.call(*args, **kwargs)
        finally:
            stack.pop()
        results = _trees.flatten(made, is_tensor)
        if not results:
            raise TypeError(f"call() of {self.name!r} returned {type(made).__name__}, not a tensor")
        self._results = _trees.replaced(made, is_tensor, [_Slot() for _ in results])
        return results

    def _build_for(self, inputs: typing.Any) -> None:
        shapes = [tuple(x.shape) for x in inputs] if isinstance(inputs, list) else tuple(inputs.shape)
        self.built = True
        self.build(shapes)

    def _packed(self, results: list) -> typing.Any:
        """Tensors in the form in which call() returned them."""
        if self._results is not None:
            return _trees.replaced(self._results, lambda v: isinstance(v, _Slot), results)
        return results[0] if len(results) == 1 else results

    def _call_symbols(self, args: tuple, kwargs: dict) -> typing.Any:
        tensors, key = self._bound(args, kwargs)
        forms = [t._form for t in tensors]
        layer = self._layer_for(key, forms)
        made, weights = layer.forms(self.name, forms)
        self._adopt(weights)
        results = [KerasTensor(symbol, form, self, tensors) for symbol, form in zip(layer.call(
            [t._symbol for t in tensors]), made)]
        for result in results:
            result._call = Call(self, args, kwargs, results)
        out = self._with_masks(results, tensors)
        self._input, self._output = (tensors[0] if len(tensors) == 1 else tensors), out
        return out

    def _with_masks(self, results: list, tensors: list) -> typing.Any:
        return self._packed(results)

    def _call_inside(self, args: tuple, kwargs: dict) -> typing.Any:
        stack = layers_being_called()
        if stack:
            known = stack[-1]._children.setdefault(self.name, self)
            if known is not self:
                raise ValueError(f"two layers of {stack[-1].name!r} are named {self.name!r}: give one another name")
        tensors, key = self._bound(args, kwargs)
        layer = self._prepared(key, [_arrays.form_of(t) for t in tensors])
        return self._packed(layer.call_inside(self.name, tensors))

    def _call_eagerly(self, args: tuple, kwargs: dict) -> typing.Any:
        """Computes at once. `training` holds for the layers inside, too."""
        def is_value(value: typing.Any) -> bool:
            return isinstance(value, (_arrays.Tensor, _arrays.Variable, np.ndarray, np.generic))

        values = [_arrays.as_value(v) for v in _trees.flatten((args, kwargs), is_value)]
        args, kwargs = _trees.replaced((args, kwargs), is_value, values)
        outer = getattr(_calling, "training", False)
        _calling.training = bool(kwargs["training"]) if kwargs.get("training") is not None else outer
        try:
            return self._computed(args, kwargs, values)
        finally:
            _calling.training = outer

    def _computed(self, args: tuple, kwargs: dict, values: list) -> typing.Any:
        """Runs call() on values."""
        if not self.built:
            self._build_for(values if len(values) > 1 else values[0])
        if "training" not in kwargs and "training" in inspect.signature(self.call).parameters:
            kwargs = {**kwargs, "training": _calling.training}
        return self.call(*args, **kwargs)

    def _prepared(self, key: str, forms: typing.List[Form]) -> _native.Layer:
        """The C++ layer, with its weights known."""
        first = not self.built
        layer = self._layer_for(key, forms)
        if first:
            self._adopt(layer.forms(self.name, forms)[1])
        return layer

    def _adopt(self, weights: list) -> None:
        """Makes weights of what C++ made: of a layer whose function is Python's there is nothing to do."""
        self.built = True


def _inputs(inputs: typing.Any, mask: typing.Any = None,
            training: typing.Optional[bool] = None) -> typing.Tuple[list, str]:
    return (list(inputs) if isinstance(inputs, (list, tuple)) else [inputs]), ""


class NativeLayer(Layer):
    """A layer of graph/layers. Subclasses define _configured(key) -> (kind, options, weights, layers inside)."""

    _supports_masking = False

    def __init__(self, **kwargs: typing.Any):
        super().__init__(**kwargs)
        self._after: typing.Optional[typing.Callable] = None  # an activation that is a function of Python

    def _configured(self, key: str) -> tuple:
        raise NotImplementedError

    def _layouts(self) -> dict:
        """By the name of a weight: functions to Keras's array and from it."""
        return {}

    def _activation(self, identifier: ActivationLike) -> str:
        """The name for C++; a function of Python is called on the result."""
        from .. import activations

        function = activations.get(identifier)
        name = activations.native_name(function)
        if name is None:
            self._after = function
        return name or "none"

    def _weight(self, name: str, initializer: InitializerLike = None, regularizer: RegularizerLike = None,
                constraint: ConstraintLike = None) -> dict:
        options, function = weight_options(initializers.get(initializer), regularizers.get(regularizer),
                                           constraints.get(constraint))
        if function is not None:
            self._first_values[name] = function
        return options

    def _is_python(self) -> bool:
        return type(self).call is not NativeLayer.call or self._after is not None

    def call(self, inputs: typing.Any, *args: typing.Any, **kwargs: typing.Any) -> typing.Any:
        """The layer's own function, for a call() that overrides this one."""
        kwargs.pop("training", None)
        tensors, key = self._inputs(inputs, *args, **kwargs)
        forms: typing.List[Form] = [_arrays.form_of(t) for t in tensors]
        layer = self._native_layer(key)
        self._forms = self._forms or forms
        self._adopt_native(layer.forms("", forms)[1], "")
        if _native.in_call():
            results = layer.call_inside("", tensors)
        else:
            weights = [(name, _arrays.variable_of(weight)) for name, weight in self._weights.items()]
            results = _native.apply_eagerly(layer, tensors, weights, _calling.training)
        out = results[0] if len(results) == 1 else results
        return out if self._after is None else self._after(out)

    def _inputs(self, *args: typing.Any, **kwargs: typing.Any) -> typing.Tuple[list, str]:
        """The tensors that C++ takes, in order, and the key of the form of the call."""
        return _inputs(*args, **kwargs)

    def _bound(self, args: tuple, kwargs: dict) -> typing.Tuple[list, str]:
        return super()._bound(args, kwargs) if self._is_python() else self._inputs(*args, **kwargs)

    def _computed(self, args: tuple, kwargs: dict, values: list) -> typing.Any:
        if self._is_python():
            return super()._computed(args, kwargs, values)
        kwargs.pop("training", None)
        return self._applied(*self._inputs(*args, **kwargs))

    def _applied(self, tensors: list, key: str) -> typing.Any:
        """The C++ layer on values."""
        layer = self._prepared(key, [_arrays.form_of(t) for t in tensors])
        weights = [(name, _arrays.variable_of(weight)) for name, weight in self._weights.items()]
        return self._packed(_native.apply_eagerly(layer, tensors, weights, _calling.training))

    def _make(self, key: str, forms: typing.List[Form]) -> _native.Layer:
        return super()._make(key, forms) if self._is_python() else self._native_layer(key)

    def _native_layer(self, key: str) -> _native.Layer:
        if ("native", key) not in self._calls:
            configured: typing.List[typing.Any] = [*self._configured(key), {}, {}]
            kind, options, weights, layers = configured[:4]
            given = {name: found for name, found in weights.items() if found}
            self._calls["native", key] = _native.layer(
                kind, {k: v for k, v in options.items() if not (isinstance(v, list) and not v)}, given, layers)
        return self._calls["native", key]

    def _adopt(self, weights: list) -> None:
        if not self._is_python():
            self._adopt_native(weights, self.name + "/")
        self.built = True

    def _adopt_native(self, weights: list, prefix: str) -> None:
        layouts = self._layouts()
        for name, dtype, shape, trained in weights:
            name = name[len(prefix):]
            if name in self._weights:
                continue
            made = self._weights[name] = Weight(name, shape, dtype, trained, self, layouts.get(name))
            if name in self._first_values:
                made.assign(self._first_values[name](made.shape, dtype=made.dtype))

    def _with_masks(self, results: list, tensors: list) -> typing.Any:
        out = self._packed(results)
        if self._supports_masking and isinstance(out, KerasTensor):
            out._mask = next((t._mask for t in tensors if t._mask is not None), None)
        return out


class InputLayer(Layer):
    """The beginning of a model: shape is that of an example; or batch_shape, with the batch first."""

    def __init__(self, shape: typing.Union[int, Shape, None] = None, batch_size: typing.Optional[int] = None,
                 dtype: typing.Optional[DTypeLike] = None, batch_shape: typing.Optional[Shape] = None,
                 name: typing.Optional[str] = None, input_shape: typing.Union[int, Shape, None] = None,
                 **unknown: typing.Any):
        super().__init__(name=name or _names.unique_name("input_layer"))
        if unknown:
            raise ValueError(f"Input: the argument {next(iter(unknown))!r} is not supported")
        if batch_shape is not None:
            shape = tuple(batch_shape)[1:]
        if shape is None:
            shape = input_shape
        if shape is None:
            raise ValueError("Input: give the shape of an example, like Input(shape=(28, 28))")
        shape = (shape,) if isinstance(shape, int) else tuple(shape)
        self.built = True
        self._dtype: str = _names.native_dtype(dtype or "float32")
        dims = [None if d is None else int(d) for d in shape]
        symbol = _native.input(self.name, dims, self._dtype)
        self._output = self._input = KerasTensor(symbol, (self._dtype, [None, *dims]), self, (), self.name)

    @property
    def batch_shape(self) -> typing.Tuple[typing.Any, ...]:
        return self._output.shape

    @property
    def dtype(self) -> str:
        return _names.keras_dtype(self._dtype)


def Input(shape: typing.Union[int, Shape, None] = None, batch_size: typing.Optional[int] = None,
          dtype: typing.Optional[DTypeLike] = None, batch_shape: typing.Optional[Shape] = None,
          name: typing.Optional[str] = None, **unknown: typing.Any) -> KerasTensor:
    """An input of a model: shape is that of an example, in which None is a size that differs between batches.

    >>> Input(shape=(28, 28), dtype="uint8", name="image")
    <KerasTensor shape=(None, 28, 28), dtype=uint8, name=image>
    """
    return InputLayer(shape, batch_size, dtype, batch_shape, name, **unknown).output
