"""compile, fit, evaluate and predict of models."""

from __future__ import annotations

import typing

import numpy as np

from .. import _troupe
from .._core import TensorLike
from . import _arrays, _data, _names, _progress, callbacks as callbacks_module, losses as losses_module
from . import metrics as metrics_module
from . import optimizers as optimizers_module

_native = _troupe.keras
Callbacks = typing.Union[None, callbacks_module.Callback, typing.Sequence[callbacks_module.Callback]]


def by_output(value: typing.Any, names: typing.Sequence[str], what: str) -> list:
    """One for each output of a value that is a dict, a list or one for all."""
    if isinstance(value, dict):
        unknown = set(value) - set(names)
        if unknown:
            raise ValueError(f"{what}: there is no output {sorted(unknown)[0]!r}; there are {list(names)}")
        return [value.get(name) for name in names]
    if isinstance(value, (list, tuple)):
        if len(value) != len(names):
            raise ValueError(f"{what}: the model has {len(names)} outputs, but {len(value)} are given")
        return list(value)
    return [value] * len(names)


def metrics_by_output(value: typing.Any, names: typing.Sequence[str], what: str) -> typing.List[list]:
    if value is None:
        return [[] for _ in names]
    if len(names) == 1 and not isinstance(value, dict):
        flat = value[0] if len(value) == 1 and isinstance(value[0], (list, tuple)) else value
        return [list(flat) if isinstance(flat, (list, tuple)) else [flat]]
    lists = by_output(value, names, what)
    return [[] if v is None else list(v) if isinstance(v, (list, tuple)) else [v] for v in lists]


def _metric_of(given: typing.Any) -> _troupe.Metric:
    """As C++ takes it; one that is given by a name keeps this name."""
    metric = metrics_module.get(given)
    if metric is None:
        raise ValueError("a metric is None: give a name, an object or a function")
    return metric._metric(given if isinstance(given, str) else None)


class Reporter:
    """What C++ tells of a training: figures go to the callbacks and to the screen."""

    def __init__(self, model: typing.Any, callbacks: list, progress: _progress.Progress, initial_epoch: int,
                 resumes: bool, rate: float):
        self._model = model
        self._callbacks = callbacks
        self._progress = progress
        self._initial = initial_epoch
        self._first: typing.Optional[int] = 0 if resumes else None
        self._rate = rate
        self._steps_before = 0
        self._last_epoch = initial_epoch
        self._batches = [c for c in callbacks if callbacks_module.wants_batches(c)]
        self.epochs = 0

    def _epoch(self, epoch: int) -> int:
        if self._first is None:
            self._first = epoch
        return self._initial + epoch - self._first

    def begin(self, epoch: int) -> None:
        for callback in self._callbacks:
            callback.on_epoch_begin(epoch, {})
        self._progress.begin(epoch)
        for callback in self._batches:
            callback.on_train_batch_begin(0, {})

    def progress(self, epoch: int, step: int, steps: int, figures: dict) -> bool:
        logs = dict(sorted(figures.items()))
        for callback in self._batches:
            callback.on_train_batch_end(step - 1, logs)
        if self._batches and step != steps:
            for callback in self._batches:
                callback.on_train_batch_begin(step, {})
        self._progress.update(step, steps, logs)
        return bool(self._model.stop_training)

    def epoch(self, number: int, figures: dict, steps: int, seconds: float) -> typing.Tuple[bool, float]:
        """Ends an epoch; returns whether to stop, and the factor of learning rates."""
        epoch = self._epoch(number)
        logs = {k: v for k, v in sorted(figures.items()) if not k.startswith("val_")}
        logs.update({k: v for k, v in sorted(figures.items()) if k.startswith("val_")})
        self._progress.end(steps - self._steps_before, logs)
        self._steps_before = steps
        self.epochs += 1
        for callback in self._callbacks:
            callback.on_epoch_end(epoch, logs)
        if not self._model.stop_training and epoch + 1 < self._model._epochs_of_fit:
            self.begin(epoch + 1)
        factor = 1.0
        if not optimizers_module.is_scheduled(self._model.optimizer):
            factor = float(self._model.optimizer.learning_rate) / self._rate if self._rate else 1.0
        return bool(self._model.stop_training), factor

    def event(self, kind: str, text: str) -> None:
        if kind == "begins_anew":
            return  # the optimizer restarts with other data or options, as the guide says
        print(f"troupe: {text}", flush=True)


class Trainer:
    """The part of a model that learns."""

    output_names: typing.List[str]

    # What models define.

    def _training_network(self) -> _native.Network:
        raise NotImplementedError

    def _components(self) -> _data.Components:
        raise NotImplementedError

    def _network_weights(self) -> typing.List[typing.Tuple[str, typing.Any]]:
        raise NotImplementedError

    def _draw(self) -> None:
        raise NotImplementedError

    def _build_for_data(self, x: typing.Any) -> None:
        raise NotImplementedError

    def _packed_outputs(self, arrays: list) -> typing.Any:
        raise NotImplementedError

    # What they have of this class.

    def _set_trainer(self) -> None:
        self.optimizer: typing.Any = None
        self.stop_training = False
        self.history: typing.Optional[callbacks_module.History] = None
        self._compiled: typing.Optional[dict] = None
        self._trainers: dict = {}
        self._last: typing.Any = None     # the C++ model that trained last
        self._loaded: typing.Any = None   # that of a saved model, for the first training
        self._epochs_of_fit = 0

    def compile(self, optimizer: optimizers_module.OptimizerLike = "rmsprop", loss: typing.Any = None,
                loss_weights: typing.Any = None, metrics: typing.Any = None, weighted_metrics: typing.Any = None,
                run_eagerly: bool = False, steps_per_execution: int = 1, jit_compile: typing.Union[bool, str] = "auto",
                auto_scale_loss: bool = True) -> None:
        """Sets how the model learns: an optimizer, a loss and metrics, by names or objects; of several outputs as
        lists or dicts by the outputs' names.

        >>> from troupe.keras import Sequential, layers
        >>> model = Sequential([layers.Input((4,)), layers.Dense(3, activation="softmax")])
        >>> model.compile(optimizer="adam", loss="sparse_categorical_crossentropy", metrics=["accuracy"])
        """
        self.optimizer = optimizers_module.get(optimizer)
        self._compiled = {"loss": loss, "loss_weights": loss_weights, "metrics": metrics,
                          "weighted_metrics": weighted_metrics}
        self._trainers, self._last = {}, None

    @property
    def compiled(self) -> bool:
        return self._compiled is not None

    @property
    def loss(self) -> typing.Any:
        return None if self._compiled is None else self._compiled["loss"]

    def _output_training(self, targets: typing.Sequence[str], weighted: bool) -> typing.List[dict]:
        names = self.output_names
        given = self._compiled or {}
        losses = [losses_module.get(v) for v in by_output(given["loss"], names, "loss")]
        weights = by_output(given["loss_weights"], names, "loss_weights")
        metrics = metrics_by_output(given["metrics"], names, "metrics")
        counted = metrics_by_output(given["weighted_metrics"], names, "weighted_metrics")
        out = []
        for i, (name, loss) in enumerate(zip(names, losses)):
            of: typing.Dict[str, typing.Any] = {
                "output": name, "target": targets[i] if targets else "",
                "metrics": [_metric_of(m) for m in metrics[i]],
                "weighted_metrics": [_metric_of(m) for m in counted[i]]}
            if loss is not None:
                of["loss"] = loss._loss()
            if weights[i] is not None:
                of["weight"] = float(weights[i])
            if weighted:
                of["sample_weights"] = _data.WEIGHTS
            out.append(of)
        return out

    def _trainer(self, batches: _data.Batches, components: _data.Components) -> _native.Model:
        """The C++ model for data of this form, with the values of now."""
        if self._compiled is None:
            raise ValueError("compile the model first: model.compile(optimizer='adam', loss='mse')")
        targets = components.targets if batches.targets is None else batches.targets
        options = optimizers_module.native_text(self.optimizer)
        key = (tuple(targets), batches.weighted, options)
        if key not in self._trainers:
            self._trainers = {k: v for k, v in self._trainers.items() if k and k[2] == options}
            made = self._loaded or _native.Model(self._training_network())
            self._loaded = None
            made.compile(options, self._output_training(targets, batches.weighted), self._more_options())
            self._trainers[key] = made
        return self._trainers[key]

    def _more_options(self) -> dict:
        precisions = {"mixed_float16": "f16", "mixed_bfloat16": "bf16"}
        more: typing.Dict[str, typing.Any] = {"precision": precisions.get(_names._settings["policy"], "f32")}
        for name, option in (("clipvalue", "clip_value"), ("clipnorm", "clip_norm"),
                             ("global_clipnorm", "clip_global_norm")):
            value = getattr(self.optimizer, name, None)
            if value:
                more[option] = float(value)
        return more

    def _give_values(self, native: _native.Model) -> None:
        """Gives a C++ model the values of the weights."""
        self._draw()
        native.set_parameters({name: weight._tensor() for name, weight in self._network_weights()})

    def _take_values(self, native: _native.Model) -> None:
        """Takes the values of a C++ model as those of the weights."""
        found = native.parameters()
        for name, weight in self._network_weights():
            weight._set(found[name])

    def fit(self, x: typing.Any = None, y: typing.Any = None, batch_size: typing.Optional[int] = None, epochs: int = 1,
            verbose: typing.Union[int, str] = "auto", callbacks: Callbacks = None, validation_split: float = 0.0,
            validation_data: typing.Any = None, shuffle: bool = True,
            class_weight: typing.Optional[typing.Mapping[int, float]] = None,
            sample_weight: typing.Optional[TensorLike] = None, initial_epoch: int = 0,
            steps_per_epoch: typing.Optional[int] = None, validation_steps: typing.Optional[int] = None,
            validation_batch_size: typing.Optional[int] = None, validation_freq: int = 1, *,
            seed: typing.Optional[int] = None, mode: str = "", slots: int = 1, micro_batches: int = 1,
            checkpoint: str = "", checkpoint_every: int = 0, publish: str = "") -> callbacks_module.History:
        """Trains on x and y: arrays [n, ...], dicts or lists of them, or in x data that makes batches (x, y). Returns
        the figures of all epochs. Ctrl-C ends it soon; the model keeps the values of that moment.

        On a cluster, mode is 'sync' with parameter servers, 'allreduce' without; or one with its options:
        'sync(slots=4, backups=1)', 'ssp(staleness=2)', 'async(aggregate=2)'. slots, micro_batches, checkpoint,
        checkpoint_every, publish and seed are those of TrainingOptions in C++.

        >>> from troupe.keras import Sequential, layers
        >>> model = Sequential([layers.Input((2,)), layers.Dense(1)])
        >>> model.compile("sgd", "mse")
        >>> history = model.fit(np.ones((8, 2)), np.ones(8), epochs=2, verbose=0)
        >>> len(history.history["loss"])
        2
        """
        if validation_freq != 1:
            raise ValueError("validation_freq must be 1: the model is evaluated after each epoch")
        if self._compiled is None:
            raise ValueError("compile the model before fit: model.compile(optimizer='adam', loss='mse')")
        if mode and slots != 1:
            raise ValueError(f"give slots with the mode: mode='{mode.split('(')[0]}(slots={slots})'")
        if validation_split:
            (x, y, sample_weight), validation_data = _data.split(x, y, sample_weight, validation_split)
            if validation_data[2] is None:
                validation_data = validation_data[:2]
        batch = batch_size or 32
        self._build_for_data(x)
        components = self._components()
        weighted = sample_weight is not None or class_weight is not None or (
            isinstance(validation_data, tuple) and len(validation_data) == 3) or None
        train = _data.batches_of(components, x, y, sample_weight, class_weight=class_weight, steps=steps_per_epoch,
                                 batch=batch, shuffle=bool(shuffle), weighted=weighted)
        validation = self._validation(components, validation_data, train, validation_steps,
                                      validation_batch_size or batch)
        given = [callbacks] if isinstance(callbacks, callbacks_module.Callback) else list(callbacks or [])
        self.history = callbacks_module.History()
        given.insert(0, self.history)
        self.stop_training, self._epochs_of_fit = False, int(epochs)
        for callback in given:
            callback.set_model(self)
            callback.set_params({"epochs": int(epochs), "steps": steps_per_epoch, "verbose": verbose})
        if epochs <= initial_epoch:
            return self.history
        for callback in given:
            callback.on_train_begin({})
        progress = _progress.Progress(verbose, int(epochs))
        reporter = Reporter(self, given, progress, initial_epoch, bool(checkpoint), 0.0)
        reporter.begin(initial_epoch)
        reporter._rate = optimizers_module.base_rate(self.optimizer)
        native = self._trainer(train, components)
        options = {
            "epochs": int(epochs) - initial_epoch, "batch": train.batch or batch,
            "evaluation_batch": max(validation_batch_size or batch, 128),
            "seed": _names.random_seed() if seed is None else int(seed), "mode": str(mode), "slots": int(slots),
            "micro_batches": int(micro_batches), "checkpoint": str(checkpoint), "checkpoint_every": checkpoint_every,
            "publish": str(publish), "each_step": bool(reporter._batches),
            "callbacks": [d for d in (c._decision(self) for c in given) if d is not None],
        }
        for callback in given:
            if isinstance(callback, callbacks_module.TensorBoard):
                options["tensorboard"] = callback.log_dir
        self._give_values(native)
        self._last, self._fitting = native, True
        try:
            self.fit_result = native.fit(train.source, None if validation is None else validation.source, options,
                                         reporter)
        except _troupe.Error:
            for source in (train, validation):
                if source is not None and source.python is not None and source.python.error is not None:
                    raise source.python.error
            raise
        finally:
            self._fitting = False
            self._take_values(native)
        for callback in given:
            callback.on_train_end({k: v[-1] for k, v in self.history.history.items()})
        return self.history

    def _validation(self, components: _data.Components, data: typing.Any, train: _data.Batches,
                    steps: typing.Optional[int], batch: int) -> typing.Optional[_data.Batches]:
        if data is None:
            return None
        if isinstance(data, (tuple, list)) and 2 <= len(data) <= 3:
            x, y, weights = (*data, None)[:3]
        else:
            x, y, weights = data, None, None
        return _data.batches_of(components, x, y, weights, steps=steps, batch=batch, weighted=train.weighted or None)

    @typing.overload
    def evaluate(self, x: typing.Any = None, y: typing.Any = None, batch_size: typing.Optional[int] = None,
                 verbose: typing.Union[int, str] = "auto", sample_weight: typing.Optional[TensorLike] = None,
                 steps: typing.Optional[int] = None, callbacks: Callbacks = None, *,
                 return_dict: typing.Literal[True]) -> typing.Dict[str, typing.Any]: ...

    @typing.overload
    def evaluate(self, x: typing.Any = None, y: typing.Any = None, batch_size: typing.Optional[int] = None,
                 verbose: typing.Union[int, str] = "auto", sample_weight: typing.Optional[TensorLike] = None,
                 steps: typing.Optional[int] = None, callbacks: Callbacks = None,
                 return_dict: bool = False) -> typing.Any: ...

    def evaluate(self, x: typing.Any = None, y: typing.Any = None, batch_size: typing.Optional[int] = None,
                 verbose: typing.Union[int, str] = "auto", sample_weight: typing.Optional[TensorLike] = None,
                 steps: typing.Optional[int] = None, callbacks: Callbacks = None,
                 return_dict: bool = False) -> typing.Any:
        """The loss and the metrics of x and y: a number, a list in the order of metrics_names, or a dict."""
        self._build_for_data(x)
        components = self._components()
        batches = _data.batches_of(components, x, y, sample_weight, steps=steps, batch=batch_size or 32)
        native = self._trainer(batches, components)
        progress = _progress.Progress(verbose)
        found = self._run(native, batches, lambda: native.evaluate(batches.source, max(batch_size or 0, 128)))
        figures = {name: value if isinstance(value, float) else np.array(_arrays.to_array(value))
                   for name, value in found.items()}
        steps_done = -(-(batches.examples or 0) // (batch_size or 32))
        progress.end(steps_done, {k: v for k, v in sorted(figures.items()) if isinstance(v, float)})
        figures = {name: figures[name] for name in ["loss", *sorted(set(figures) - {"loss"})]}
        self._figure_names = list(figures)
        if return_dict:
            return figures
        return next(iter(figures.values())) if len(figures) == 1 else list(figures.values())

    def _run(self, native: _native.Model, batches: _data.Batches, run: typing.Callable) -> typing.Any:
        """Runs a C++ model on the values of now; raises what the data raised."""
        if not getattr(self, "_fitting", False):
            self._give_values(native)
        try:
            return run()
        except _troupe.Error:
            if batches.python is not None and batches.python.error is not None:
                raise batches.python.error
            raise

    @property
    def metrics_names(self) -> typing.List[str]:
        """The names of what evaluate returns."""
        return list(getattr(self, "_figure_names", ["loss"]))

    def predict(self, x: typing.Any, batch_size: typing.Optional[int] = None, verbose: typing.Union[int, str] = "auto",
                steps: typing.Optional[int] = None, callbacks: Callbacks = None) -> typing.Any:
        """The outputs of all examples of x: an array [n, ...], or as many as the model has outputs.

        >>> from troupe.keras import Sequential, layers
        >>> Sequential([layers.Input((2,)), layers.Dense(3)]).predict(np.ones((5, 2)), verbose=0).shape
        (5, 3)
        """
        self._build_for_data(x)
        components = self._components()
        batches = _data.batches_of(components, x, steps=steps, batch=batch_size or 32, with_targets=False)
        native = self._predictor()
        progress = _progress.Progress(verbose)
        found = self._run(native, batches, lambda: native.predict(batches.source, max(batch_size or 0, 128)))
        arrays = [np.array(_arrays.to_array(found[name]), copy=None) for name in self.output_names]
        progress.end(-(-len(arrays[0]) // (batch_size or 32)), {})
        return self._packed_outputs(arrays)

    def _predictor(self) -> _native.Model:
        """A C++ model that predicts: that of the last training, whose callbacks may call this, or a new one."""
        if self._last is not None:
            return self._last
        if None not in self._trainers:
            made = _native.Model(self._training_network())
            made.compile("sgd(learning_rate=0.01)", [], {})
            self._trainers[None] = made
        return self._trainers[None]

    def train_on_batch(self, x: typing.Any, y: typing.Any = None, sample_weight: typing.Optional[TensorLike] = None,
                       class_weight: typing.Optional[typing.Mapping[int, float]] = None,
                       return_dict: bool = False) -> typing.Any:
        """Trains on one batch; costs as much as preparing a fit. The figures are those before the update."""
        count = len(_data.as_array(next(iter(x.values())) if isinstance(x, dict) else x))
        history = self.fit(x, y, batch_size=count, verbose=0, shuffle=False, sample_weight=sample_weight,
                           class_weight=class_weight)
        figures = {name: values[-1] for name, values in history.history.items()}
        if return_dict:
            return figures
        ordered = [figures.pop("loss"), *figures.values()]
        return ordered[0] if len(ordered) == 1 else ordered

    def test_on_batch(self, x: typing.Any, y: typing.Any = None, sample_weight: typing.Optional[TensorLike] = None,
                      return_dict: bool = False) -> typing.Any:
        """evaluate() of one batch."""
        return self.evaluate(x, y, verbose=0, sample_weight=sample_weight, return_dict=return_dict)

    def predict_on_batch(self, x: typing.Any) -> typing.Any:
        """predict() of one batch."""
        return self.predict(x, verbose=0)
