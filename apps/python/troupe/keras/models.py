"""Models: Sequential, Model(inputs, outputs), and classes of your own with call().

    >>> from troupe.keras import Input, Model, Sequential, layers
    >>> digits = Sequential([Input((28, 28)), layers.Flatten(), layers.Dense(10)])
    >>> x = Input((4,))
    >>> both = Model(inputs=x, outputs=[layers.Dense(2)(x), layers.Dense(1)(x)])
    >>> digits.count_params(), len(both.outputs)
    (7850, 2)
"""

from __future__ import annotations

import json
import os
import typing

import numpy as np

from .. import TensorFile, _troupe, save_npz, save_safetensors
from .._core import Variable
from . import _arrays, _data, _names, _parts, _summary, _training, _trees
from .layers import base
from .callbacks import Path
from .layers.base import InputLayer, KerasTensor, Layer, NativeLayer

_native = _troupe.keras


def _layers_between(inputs: typing.Sequence[KerasTensor],
                    outputs: typing.Sequence[KerasTensor]) -> typing.List[Layer]:
    """All layers that outputs need, those far from the outputs first, as Keras lists them."""
    order: typing.Dict[int, KerasTensor] = {}  # calls by any result, inputs before what needs them
    ends = {id(t) for t in inputs}

    def visit(start: KerasTensor) -> None:
        open_: list = [(start, False)]
        while open_:
            tensor, done = open_.pop()
            if id(tensor) in order:
                continue
            if done or id(tensor) in ends:
                order[id(tensor)] = tensor
                continue
            open_.append((tensor, True))
            open_.extend((source, False) for source in reversed(tensor._sources))

    for output in outputs:
        visit(output)
    for tensor in inputs:
        order.setdefault(id(tensor), tensor)
    depth: typing.Dict[int, int] = {}
    for tensor in reversed(list(order.values())):
        own = depth.setdefault(id(tensor), 0)
        if id(tensor) not in ends:
            for source in tensor._sources:
                depth[id(source)] = max(depth.get(id(source), 0), own + 1)
    found: dict = {}
    for tensor in order.values():
        layer = tensor._layer
        place = found.get(id(layer))
        found[id(layer)] = (layer, max(depth[id(tensor)], place[1] if place else 0))
    return [layer for layer, _ in sorted(found.values(), key=lambda pair: -pair[1])]


class Model(_training.Trainer, Layer):
    """A model of layers: of inputs and outputs, or with a call() of your own, which is built at its first data.

    >>> class Twice(Model):
    ...     def __init__(self):
    ...         super().__init__()
    ...         from troupe.keras import layers
    ...         self.dense = layers.Dense(3)
    ...     def call(self, x):
    ...         return self.dense(x) + self.dense(x)
    >>> Twice().predict(np.ones((5, 2)), verbose=0).shape
    (5, 3)
    """

    def __init__(self, inputs: typing.Any = None, outputs: typing.Any = None, name: typing.Optional[str] = None,
                 trainable: bool = True, **kwargs: typing.Any):
        functional = type(self) is Model and inputs is not None
        Layer.__init__(self, name=name or (_names.unique_name("functional") if functional else None),
                       trainable=trainable, **kwargs)
        self._set_trainer()
        self._input_tensors: typing.List[KerasTensor] = []
        self._input_tree: typing.Any = None
        self._output_tree: typing.Any = None
        self._network: typing.Any = None  # of C++
        self._inside: typing.Optional[typing.List[Layer]] = None
        self._used: typing.Optional[set] = None  # names of weights in the network
        if inputs is not None or outputs is not None:
            if inputs is None or outputs is None:
                raise ValueError("Model: give both inputs= and outputs=, or neither, and define call()")
            self._join(inputs, outputs)

    # Structure.

    def _join(self, inputs: typing.Any, outputs: typing.Any, kind: str = "network") -> None:
        """Makes the network between symbolic tensors."""
        tensors, results = _trees.flatten(inputs, _is_symbol), _trees.flatten(outputs, _is_symbol)
        if not tensors or not results:
            raise ValueError(f"{self.name!r}: inputs and outputs must be tensors of Input() and of layers")
        for tensor in tensors:
            if not isinstance(tensor._layer, InputLayer):
                raise ValueError(f"{self.name!r}: the input {tensor.name!r} is the result of a layer: begin with "
                                 "Input()")
        self._input_tree, self._output_tree = inputs, outputs
        self._input_tensors = tensors
        names: typing.Dict[str, int] = {}
        self.output_names = []
        for result in results:
            count = names[result.name] = names.get(result.name, -1) + 1
            self.output_names.append(result.name if count == 0 else f"{result.name}_{count}")
        if isinstance(outputs, dict) and len(outputs) == len(results):
            self.output_names = sorted(outputs)
        self._output_tensors = results
        self._inside = _layers_between(tensors, results)
        seen: typing.Dict[str, Layer] = {}
        for layer in self._inside:
            if seen.setdefault(layer.name, layer) is not layer:
                raise ValueError(f"two layers of {self.name!r} are named {layer.name!r}: give one another name")
        self._network = _native.network([t._symbol for t in tensors],
                                        [(n, r._symbol) for n, r in zip(self.output_names, results)], kind)
        self._used = None
        self.built = True

    def _is_python(self) -> bool:
        """Whether its function is a call() of the user's."""
        return type(self).call is not Model.call

    def call(self, *args: typing.Any, **kwargs: typing.Any) -> typing.Any:
        raise NotImplementedError(f"{type(self).__name__} has neither inputs and outputs nor call()")

    @property
    def inputs(self) -> typing.List[KerasTensor]:
        return list(self._input_tensors)

    @property
    def outputs(self) -> typing.List[KerasTensor]:
        self._require_built()
        return list(self._output_tensors)

    @property
    def input(self) -> typing.Any:
        return self._input_tree

    @property
    def output(self) -> typing.Any:
        self._require_built()
        return self._output_tree

    @property
    def input_shape(self) -> typing.Any:
        self._require_built()
        shapes = [t.shape for t in self._input_tensors]
        return shapes[0] if len(shapes) == 1 else shapes

    @property
    def output_shape(self) -> typing.Any:
        self._require_built()
        shapes = [t.shape for t in self._output_tensors]
        return shapes[0] if len(shapes) == 1 else shapes

    @property
    def layers(self) -> typing.List[Layer]:
        """Its layers, inputs among them."""
        return list(self._inside) if self._inside is not None and not self._is_python() else Layer._layers_inside(self)

    def _layers_inside(self) -> typing.List[Layer]:
        return self.layers

    def get_layer(self, name: typing.Optional[str] = None, index: typing.Optional[int] = None) -> Layer:
        """The layer of a name or place."""
        if index is not None:
            return self.layers[index]
        for layer in self.layers:
            if layer.name == name:
                return layer
        raise ValueError(f"{self.name!r} has no layer {name!r}; it has {[layer.name for layer in self.layers]}")

    def _require_built(self) -> None:
        if self._network is None:
            raise ValueError(f"{self.name!r} has no shapes yet: begin it with Input(shape), call build(input_shape), "
                             "or fit it to data")

    def build(self, input_shape: typing.Any = None) -> None:
        """Makes the weights for inputs of this shape, the batch first: (None, 28, 28)."""
        if self._network is None and input_shape is not None and not _native.in_call():
            shapes = input_shape if isinstance(input_shape, list) else [input_shape]
            names = [f"input_{i + 1}" for i in range(len(shapes))] if len(shapes) > 1 else ["input"]
            forms = [_data.InputForm(n, "f32", list(s)[1:]) for n, s in zip(names, shapes)]
            self._build_from(forms, isinstance(input_shape, list))

    def _build_for_data(self, x: typing.Any) -> None:
        """Builds a model that waits for data."""
        if self._network is not None:
            return
        example, named = self._first_of(x), None
        if isinstance(example, dict):
            named = sorted(example)
            arrays = [_data.as_array(example[name]) for name in named]
        elif isinstance(example, (list, tuple)) and len(example) > 1 and _data._is_array(example[0]):
            arrays = [_data.as_array(v) for v in example]
            named = [f"input_{i + 1}" for i in range(len(arrays))]
        else:
            arrays = [_data.as_array(example)]
        forms = []
        for i, array in enumerate(arrays):
            dtype = _arrays.dtype_of_array(array)
            dtype = "f32" if dtype in ("f64", "f16") else dtype
            if isinstance(self, Sequential) and dtype not in ("string",) and not self._takes_integers():
                dtype = "f32"
            forms.append(_data.InputForm(named[i] if named else "input", dtype, list(array.shape[1:])))
        self._build_from(forms, isinstance(example, (list, tuple, dict)) and named is not None,
                         named if isinstance(example, dict) else None)

    @staticmethod
    def _first_of(x: typing.Any) -> typing.Any:
        """x of some examples of any data."""
        source = getattr(x, "_source", x)
        if isinstance(source, _troupe.BatchSource):
            name, dtype, shape = source.components[0]
            return np.zeros((1, *(d or 1 for d in shape or ())), _arrays.numpy_dtype(_names.native_dtype(dtype)))
        if _data.is_arrays(x):
            return x
        if hasattr(x, "__getitem__"):
            batch = x[0]
        elif iter(x) is x:
            raise ValueError("the model has no shapes yet, and a generator can be gone through once: begin the model "
                             "with Input(shape)")
        else:
            batch = next(iter(x))
        return batch[0] if isinstance(batch, tuple) else batch

    def _build_from(self, forms: typing.List[_data.InputForm], several: bool,
                    keys: typing.Optional[typing.List[str]] = None) -> None:
        tensors = [InputLayer(f.shape, dtype=_names.keras_dtype(f.dtype), name=f.name).output for f in forms]
        given: typing.Any = tensors if several else tensors[0]
        if keys is not None:
            given = dict(zip(keys, tensors))
        outputs = self._call_symbols((given,), {})
        single = isinstance(outputs, KerasTensor)
        results = [outputs] if single else _trees.flatten(outputs, _is_symbol)
        self._input_tensors, self._output_tensors = tensors, results
        self._input_tree, self._output_tree = given, outputs
        if isinstance(outputs, dict) and len(outputs) == len(results):
            self.output_names = sorted(outputs)
        else:
            self.output_names = ["output"] if single else [f"output_{i + 1}" for i in range(len(results))]
        self._network = _native.network([t._symbol for t in tensors],
                                        [(n, r._symbol) for n, r in zip(self.output_names, results)], "network")
        self.built = True

    def _make(self, key: str, forms: typing.List[base.Form]) -> _native.Layer:
        return Layer._make(self, key, forms) if self._is_python() else self._network.layer()

    def _bound(self, args: tuple, kwargs: dict) -> typing.Tuple[list, str]:
        if self._is_python():
            return Layer._bound(self, args, kwargs)
        self._require_built()
        tensors = _trees.flatten(args, lambda v: isinstance(v, (KerasTensor, _arrays.Tensor)))
        return tensors, "network"

    def _packed(self, results: list) -> typing.Any:
        if self._is_python():
            return Layer._packed(self, results)
        return _trees.replaced(self._output_tree, _is_symbol, results)

    def _computed(self, args: tuple, kwargs: dict, values: list) -> typing.Any:
        if self._is_python():
            return Layer._computed(self, args, kwargs, values)
        if self._network is None:
            self._build_for_data(args[0].numpy())
        values = [_arrays.as_value(v) for v in _trees.flatten(args, lambda v: isinstance(v, _arrays.Tensor))]
        weights = [(name, _arrays.variable_of(weight)) for name, weight in self._network_weights()]
        return self._packed(_native.apply_eagerly(self._make("network", []), values, weights, base._calling.training))

    def _packed_outputs(self, arrays: list) -> typing.Any:
        return _trees.replaced(self._output_tree, _is_symbol, arrays)

    def _components(self) -> _data.Components:
        self._require_built()
        return _data.Components([_data.InputForm(t.name, t._form[0], list(t.shape[1:])) for t in self._input_tensors],
                                self.output_names)

    # Weights.

    def _network_weights(self) -> typing.List[typing.Tuple[str, typing.Any]]:
        """Weights by their names in the network that C++ trains; without those that no call() uses."""
        prefix = f"{self.name}/" if self._is_python() else ""
        if self._used is None:
            forms = [t._form for t in self._input_tensors]
            self._used = {name for name, _, _, _ in self._network.layer().forms("", forms)[1]}
        return [(prefix + name, weight) for name, weight in self._named_weights() if prefix + name in self._used]

    def _draw(self) -> None:
        if all(weight._drawn() for _, weight in self._network_weights()):
            return
        found = _native.initial_values(self._network, _names.random_seed())
        for name, weight in self._network_weights():
            if not weight._drawn():
                weight._set(found[name])

    def _training_network(self) -> _native.Network:
        """The network, with layers that are not trainable frozen."""
        self._require_built()
        frozen: typing.List[str] = []

        def walk(layers: typing.Sequence[Layer], prefix: str) -> None:
            for layer in layers:
                if not layer.trainable and layer.weights:
                    frozen.append(prefix + layer.name)
                elif isinstance(layer, Model) and not layer._is_python():
                    walk(layer.layers, f"{prefix}{layer.name}/")

        if not self.trainable:
            raise ValueError(f"{self.name!r} is not trainable: set model.trainable = True before it is compiled")
        if not self._is_python():
            walk(self.layers, "")
        return _native.with_frozen(self._network, frozen) if frozen else self._network

    def count_params(self) -> int:
        self._require_built()
        return Layer.count_params(self)

    # Files.

    def _all_native(self) -> bool:
        """Whether C++ knows all its layers."""
        if self._is_python():
            return False
        for layer in self.layers:
            if isinstance(layer, Model):
                if not layer._all_native():
                    return False
            elif not isinstance(layer, InputLayer) and (not isinstance(layer, NativeLayer) or layer._is_python()):
                return False
        return True

    def save(self, filepath: Path, overwrite: bool = True, include_optimizer: bool = True) -> None:
        """Writes a directory: layers, graph, values, and where the training stands. troupe-serve serves it,
        load_model() reads it. A model with Python's functions has no layers that can be written: export() it."""
        path = os.fspath(filepath)
        if not overwrite and os.path.exists(path):
            raise ValueError(f"{path!r} exists, and overwrite is False")
        if not self._all_native():
            raise ValueError(f"{self.name!r} has functions of Python, which a saved model cannot hold: "
                             "export(path) writes a model that predicts, save_weights(path) its values")
        native = self._predictor()
        if not getattr(self, "_fitting", False):
            self._give_values(native)
        native.save(path, {"keras": json.dumps(self._written())})

    def _written(self) -> dict:
        out: dict = {"class_name": type(self).__name__, "config": self.get_config()}
        if self._compiled is not None:
            try:
                out["compile"] = {"optimizer": optimizers_config(self.optimizer),
                                  **{k: _parts.serialized(v) for k, v in self._compiled.items()}}
                json.dumps(out["compile"])
            except (TypeError, ValueError):  # functions of Python
                out.pop("compile", None)
        return out

    def export(self, filepath: Path, format: str = "troupe", verbose: typing.Union[bool, int, str] = True) -> None:
        """Writes a directory for servers: a graph that predicts, and values, without layers."""
        if format not in ("troupe", "tf_saved_model"):
            raise ValueError(f"export: format {format!r} is not supported: it writes the directory that troupe-serve "
                             "serves")
        self._require_built()
        self._draw()
        values = {name: weight._tensor() for name, weight in self._network_weights()}
        _native.export_network(self._network, values, os.fspath(filepath))

    def save_weights(self, filepath: Path, overwrite: bool = True) -> None:
        """Writes the weights by name: .safetensors (also for .weights.h5) or .npz."""
        path = os.fspath(filepath)
        if not overwrite and os.path.exists(path):
            raise ValueError(f"{path!r} exists, and overwrite is False")
        self._require_built()
        self._draw()
        values = {name: _arrays.to_array(weight._tensor()) for name, weight in self._network_weights()}
        (save_npz if path.endswith(".npz") else save_safetensors)(_weights_file(path), values)

    def load_weights(self, filepath: Path, skip_mismatch: bool = False) -> None:
        """Reads weights that save_weights() wrote: by name, or in their order if the names are others."""
        self._require_built()
        path = _weights_file(os.fspath(filepath))
        file = TensorFile(path)
        own = self._network_weights()
        names = dict(zip([name for name, _ in own], [name for name, _ in own]))
        if not set(names) <= set(file):
            ordered = list(file)
            if len(ordered) != len(own):
                raise ValueError(f"{path!r} has {len(ordered)} weights, the model {len(own)}")
            names = dict(zip(names, ordered))
        found = {name: file[names[name]] for name, _ in own}
        for name, weight in own:
            if tuple(found[name].shape) != tuple(weight._shape):
                if skip_mismatch:
                    continue
                raise ValueError(f"{path!r}: {names[name]!r} is {found[name].shape}, but weight {name!r} is "
                                 f"{tuple(weight._shape)}")
        for name, weight in own:
            if tuple(found[name].shape) == tuple(weight._shape):
                weight._set(_arrays.to_tensor(np.array(found[name])))

    def get_config(self) -> dict:
        """Inputs, layers, the tensors each is called on, and outputs, by name: for from_config() and saved models."""
        if self._is_python():
            return Layer.get_config(self)
        return _functional_config(self)

    @classmethod
    def from_config(cls, config: dict, custom_objects: typing.Optional[dict] = None) -> "Model":
        if "layers" not in config:
            return cls(**config)
        return _functional_from_config(config, custom_objects)

    def to_json(self) -> str:
        return json.dumps({"class_name": type(self).__name__, "config": self.get_config()})

    # Text.

    def summary(self, line_length: typing.Optional[int] = None, print_fn: typing.Optional[typing.Callable] = None,
                expand_nested: bool = False) -> None:
        """Prints a table of the layers, as Keras does."""
        (print_fn or print)(self._summary_text(line_length))

    def _summary_text(self, line_length: typing.Optional[int] = None) -> str:
        layers = self.layers
        chain = isinstance(self, Sequential) or self._is_python()
        width = line_length or (80 if chain else 100)
        if chain:
            shares = [0.5, 0.8, 1.0]
            titles = ["Layer (type)", "Output Shape", "Param #"]
        else:
            shares = [0.3, 0.56, 0.74, 1.0]
            titles = ["Layer (type)", "Output Shape", "Param #", "Connected to"]
        ends = [int(width * share) for share in shares]
        columns = [(t, b - a - 4, t == "Param #") for t, a, b in zip(titles, [0, *ends], ends)]
        rows = []
        for layer in layers:
            row = [f"{layer.name} ({type(layer).__name__})", _summary.shape_text(layer.output),
                   f"{layer.count_params():,}" if layer.built else "0"]
            if not chain:
                result = layer.output
                first = _trees.flatten(result, _is_symbol)
                sources = first[0]._sources if first else []
                row.append(", ".join(f"{s._layer.name}[0][0]" for s in sources) or "-")
            rows.append(row)
        trained = sum(int(np.prod(w._shape, dtype=np.int64)) for w in self.trainable_weights)
        other = sum(int(np.prod(w._shape, dtype=np.int64)) for w in self.non_trainable_weights)
        return f'Model: "{self.name}"\n{_summary.table(columns, rows)}\n{_summary.totals(trained, other)}'


def _weights_file(path: str) -> str:
    return path if path.endswith((".npz", ".safetensors")) else path + ".safetensors"


def optimizers_config(optimizer: typing.Any) -> dict:
    from . import optimizers

    return optimizers.serialize(optimizer)


class Sequential(Model):
    """Layers one after the other.

    >>> from troupe.keras import layers
    >>> model = Sequential([layers.Dense(3, input_shape=(4,)), layers.Dense(1)])
    >>> model.count_params()
    19
    """

    def __init__(self, layers: typing.Optional[typing.Sequence] = None, trainable: bool = True,
                 name: typing.Optional[str] = None):
        super().__init__(name=name or _names.unique_name("sequential"), trainable=trainable)
        self._chain: typing.List[Layer] = []
        self._begin: typing.Optional[KerasTensor] = None
        for layer in layers or []:
            self.add(layer)

    def _is_python(self) -> bool:
        return False

    def add(self, layer: typing.Any, rebuild: bool = True) -> None:
        """Adds a layer at the end; the first may be Input(shape)."""
        if isinstance(layer, KerasTensor):
            layer = layer._layer
        if isinstance(layer, InputLayer):
            if self._chain or self._begin is not None:
                raise ValueError(f"{self.name!r}: Input must come first")
            self._begin = layer.output
            self._rebuild()
            return
        if not isinstance(layer, Layer):
            if not callable(layer):
                raise TypeError(f"{self.name!r}: {type(layer).__name__} is not a layer")
            from .layers.core import Lambda

            layer = Lambda(layer)
        if any(layer.name == known.name for known in self._chain):
            raise ValueError(f"two layers of {self.name!r} are named {layer.name!r}: give one another name")
        if not self._chain and self._begin is None and layer._input_shape is not None:
            dtype = "int32" if type(layer).__name__ == "Embedding" else "float32"
            self._begin = InputLayer(layer._input_shape, dtype=dtype).output
        elif not self._chain and self._begin is None and isinstance(layer, Model) and layer._input_tensors:
            inner = layer._input_tensors[0]
            self._begin = InputLayer(inner.shape[1:], dtype=inner.dtype).output
        self._chain.append(layer)
        self._rebuild()

    def pop(self, rebuild: bool = True) -> Layer:
        """Removes the last layer."""
        last = self._chain.pop()
        self._network = None
        self._rebuild()
        return last

    def _rebuild(self) -> None:
        if self._begin is None or not self._chain:
            return
        x: typing.Any = self._begin
        if self._network is not None and self._inside:  # only the last layer is new
            x = self._output_tree
            x = self._chain[-1](x)
        else:
            for layer in self._chain:
                x = layer(x)
        self._trainers, self._last = {}, None
        self._join(self._begin, x, "sequential")

    def build(self, input_shape: typing.Any = None) -> None:
        """Makes the weights for inputs of this shape, the batch first."""
        if self._begin is None and input_shape is not None:
            self._begin = InputLayer(tuple(input_shape)[1:], dtype=self._first_dtype()).output
            self._rebuild()

    def _takes_integers(self) -> bool:
        first = next((type(layer).__name__ for layer in self._chain), "")
        return first in ("Embedding", "Rescaling", "IntegerLookup", "CategoryEncoding", "Hashing", "Normalization",
                         "Discretization")

    def _first_dtype(self) -> str:
        first = next((type(layer).__name__ for layer in self._chain), "")
        if first in ("TextVectorization", "StringLookup", "WordPiece"):
            return "string"
        return "int32" if first == "Embedding" else "float32"

    def _build_from(self, forms: typing.List[_data.InputForm], several: bool,
                    keys: typing.Optional[typing.List[str]] = None) -> None:
        if not self._chain:
            raise ValueError(f"{self.name!r} has no layers")
        form = forms[0]
        self._begin = InputLayer(form.shape, dtype=_names.keras_dtype(form.dtype)).output
        self._rebuild()

    @property
    def layers(self) -> typing.List[Layer]:
        return list(self._chain)

    def get_config(self) -> dict:
        from .layers import serialize

        config: dict = {"name": self.name, "layers": [serialize(layer) for layer in self._chain]}
        if self._begin is not None:
            config["input"] = _input_config(self._begin)
        return config

    @classmethod
    def from_config(cls, config: dict, custom_objects: typing.Optional[dict] = None) -> "Sequential":
        from .layers import deserialize

        begin = [InputLayer(**config["input"])] if "input" in config else []
        return cls(begin + [deserialize(c, custom_objects) for c in config["layers"]], name=config.get("name"))


def _input_config(tensor: KerasTensor) -> dict:
    return {"shape": list(tensor.shape[1:]), "dtype": tensor.dtype, "name": tensor.name}


def _is_symbol(value: typing.Any) -> bool:
    return isinstance(value, KerasTensor)


def _functional_config(model: Model) -> dict:
    """Calls of layers in order; tensors are {"tensor": ["input", name]} or {"tensor": ["call", number, result]}."""
    from .layers import serialize

    model._require_built()
    calls: list = []
    place: typing.Dict[int, dict] = {id(t): {"tensor": ["input", t.name]} for t in model._input_tensors}

    def places(tree: typing.Any) -> typing.Any:
        return _trees.replaced(tree, _is_symbol, [place[id(t)] for t in _trees.flatten(tree, _is_symbol)])

    open_ = list(reversed(model._output_tensors))
    while open_:
        tensor = open_[-1]
        call = tensor._call
        needed = [] if id(tensor) in place else _trees.flatten((call.args, call.kwargs), _is_symbol)
        missing = [t for t in needed if id(t) not in place]
        if missing:
            open_.extend(reversed(missing))
            continue
        open_.pop()
        if id(tensor) in place:
            continue
        for i, result in enumerate(call.results):
            place[id(result)] = {"tensor": ["call", len(calls), i]}
        calls.append({"layer": call.layer.name, "args": places(list(call.args)), "kwargs": places(call.kwargs)})
    return {"name": model.name, "inputs": [_input_config(t) for t in model._input_tensors],
            "layers": [serialize(layer) for layer in model.layers if not isinstance(layer, InputLayer)],
            "calls": calls, "input_tree": places(model._input_tree), "output_tree": places(model._output_tree)}


def _functional_from_config(config: dict, custom_objects: typing.Optional[dict]) -> Model:
    from .layers import deserialize

    inputs = {c["name"]: InputLayer(**c).output for c in config["inputs"]}
    layers = {c["config"]["name"]: deserialize(c, custom_objects) for c in config["layers"]}
    made: typing.List[typing.List[KerasTensor]] = []

    def is_place(value: typing.Any) -> bool:
        return isinstance(value, dict) and set(value) == {"tensor"}

    def tensors(tree: typing.Any) -> typing.Any:
        found = [p["tensor"] for p in _trees.flatten(tree, is_place)]
        return _trees.replaced(tree, is_place, [inputs[p[1]] if p[0] == "input" else made[p[1]][p[2]] for p in found])

    for call in config["calls"]:
        results = layers[call["layer"]](*tensors(call["args"]), **tensors(call["kwargs"]))
        made.append(_trees.flatten(results, _is_symbol)[0]._call.results)
    return Model(tensors(config["input_tree"]), tensors(config["output_tree"]), name=config["name"])


def from_config(written: dict, custom_objects: typing.Optional[dict] = None) -> Model:
    """The model of {"class_name", "config"}, without values."""
    if written["class_name"] == "Sequential":
        return Sequential.from_config(written["config"], custom_objects)
    return Model.from_config(written["config"], custom_objects)


def model_from_json(text: str, custom_objects: typing.Optional[dict] = None) -> Model:
    return from_config(json.loads(text), custom_objects)


def load_model(filepath: Path, custom_objects: typing.Optional[dict] = None, compile: bool = True) -> Model:
    """The model of a directory that save() wrote: layers, values, how it was compiled, and where its training stands.
    Throws NotFound for a path without a saved model."""
    path = os.fspath(filepath)
    metadata = _native.metadata_of(path)
    if "keras" not in metadata:
        raise ValueError(f"{path!r} is a saved model that was not written by Model.save(): troupe-serve and the C++ "
                         "API read it")
    written = json.loads(metadata["keras"])
    model = from_config(written, custom_objects)
    native = _native.Model.load(path)
    model._take_values(native)
    if compile and "compile" in written:
        from . import optimizers

        given = dict(written["compile"])
        model.compile(optimizer=optimizers.deserialize(given.pop("optimizer")), **given)
        model._loaded = native
    return model


def clone_model(model: Model) -> Model:
    """The same layers with other weights."""
    return from_config({"class_name": "Sequential" if isinstance(model, Sequential) else "Model",
                        "config": model.get_config()})


def save_model(model: Model, filepath: Path, overwrite: bool = True) -> None:
    model.save(filepath, overwrite)


Functional = Model
