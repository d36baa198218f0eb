"""Callbacks of fit, by Keras's names. Those that decide are C++'s; one of your own overrides methods of Callback.

    >>> class Watch(Callback):
    ...     def on_epoch_end(self, epoch, logs=None):
    ...         if logs["loss"] < 0.1:
    ...             self.model.stop_training = True

They run on the thread that called fit. In them the model may be evaluated, used and saved.
"""

from __future__ import annotations

import csv
import os
import typing

from .. import _troupe

_native = _troupe.keras
Path = typing.Union[str, "os.PathLike[str]"]
Logs = typing.Optional[typing.Dict[str, float]]


class Callback:
    """What is called around training; `model` and `params` are set."""

    def __init__(self) -> None:
        self.model: typing.Any = None
        self.params: dict = {}

    def set_model(self, model: typing.Any) -> None:
        self.model = model

    def set_params(self, params: dict) -> None:
        self.params = params

    def on_train_begin(self, logs: Logs = None) -> None:
        pass

    def on_train_end(self, logs: Logs = None) -> None:
        pass

    def on_epoch_begin(self, epoch: int, logs: Logs = None) -> None:
        pass

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        pass

    def on_train_batch_begin(self, batch: int, logs: Logs = None) -> None:
        """Called before a batch counts; batches are computed ahead."""

    def on_train_batch_end(self, batch: int, logs: Logs = None) -> None:
        """Called after each batch, with the means of the epoch so far."""

    def _decision(self, model: typing.Any) -> typing.Optional[_native.Callback]:
        """The C++ callback that decides for it; None: it decides nothing there."""
        return None


class History(Callback):
    """The figures of all epochs: what fit returns."""

    def __init__(self) -> None:
        super().__init__()
        self.epoch: typing.List[int] = []
        self.history: typing.Dict[str, typing.List[float]] = {}

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        self.epoch.append(epoch)
        for name, value in (logs or {}).items():
            self.history.setdefault(name, []).append(value)


class _Monitor(Callback):
    def __init__(self, monitor: str, mode: str):
        super().__init__()
        if mode not in ("auto", "min", "max"):
            raise ValueError(f"{type(self).__name__}: mode {mode!r} is none of auto, min, max")
        self.monitor, self.mode = monitor, mode


class EarlyStopping(_Monitor):
    """Stops when a figure gets no better for `patience` epochs.

    >>> EarlyStopping(monitor="val_loss", patience=3, restore_best_weights=True).patience
    3
    """

    def __init__(self, monitor: str = "val_loss", min_delta: float = 0, patience: int = 0, verbose: int = 0,
                 mode: str = "auto", baseline: typing.Optional[float] = None, restore_best_weights: bool = False,
                 start_from_epoch: int = 0):
        super().__init__(monitor, mode)
        if baseline is not None:
            raise ValueError("EarlyStopping: baseline is not supported: stop in a callback of your own")
        self.min_delta, self.patience, self.verbose = abs(float(min_delta)), int(patience), verbose
        self.restore_best_weights, self.start_from_epoch = bool(restore_best_weights), int(start_from_epoch)
        self.stopped_epoch = 0
        self.best: typing.Optional[float] = None
        self.best_epoch = 0

    def on_train_begin(self, logs: Logs = None) -> None:
        self.stopped_epoch, self.best, self._last = 0, None, -1

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        self._last = epoch
        now = (logs or {}).get(self.monitor, float("nan"))
        best = float("nan") if self.best is None else self.best
        if epoch >= self.start_from_epoch and _native.is_better(self.monitor, self.mode, now, best, self.min_delta):
            self.best, self.best_epoch = now, epoch

    def on_train_end(self, logs: Logs = None) -> None:
        if self._last + 1 < self.params.get("epochs", 0):
            self.stopped_epoch = self._last
            if self.verbose:
                print(f"Epoch {self._last + 1}: early stopping")

    def _decision(self, model: typing.Any) -> typing.Optional[_native.Callback]:
        return _native.early_stopping(self.monitor, self.min_delta, self.patience, self.mode,
                                      self.restore_best_weights, self.start_from_epoch)


class ReduceLROnPlateau(_Monitor):
    """Multiplies the learning rate by `factor` when a figure gets no better."""

    def __init__(self, monitor: str = "val_loss", factor: float = 0.1, patience: int = 10, verbose: int = 0,
                 mode: str = "auto", min_delta: float = 1e-4, cooldown: int = 0, min_lr: float = 0.0):
        super().__init__(monitor, mode)
        self.factor, self.patience, self.min_delta = float(factor), int(patience), float(min_delta)
        self.cooldown, self.min_lr = int(cooldown), float(min_lr)

    def _decision(self, model: typing.Any) -> typing.Optional[_native.Callback]:
        from . import optimizers

        rate = optimizers.base_rate(model.optimizer)
        return _native.reduce_on_plateau(self.monitor, self.factor, self.patience, self.mode, self.min_delta,
                                         self.cooldown, self.min_lr / rate if rate else 0.0)


class TerminateOnNaN(Callback):
    """Stops after an epoch whose loss is not finite."""

    def _decision(self, model: typing.Any) -> typing.Optional[_native.Callback]:
        return _native.stop_on_nan()


class LearningRateScheduler(Callback):
    """Sets the learning rate of each epoch: schedule(epoch, rate) -> rate."""

    def __init__(self, schedule: typing.Callable, verbose: int = 0):
        super().__init__()
        self.schedule, self.verbose = schedule, verbose

    def on_epoch_begin(self, epoch: int, logs: Logs = None) -> None:
        before = float(self.model.optimizer.learning_rate)
        try:
            rate = self.schedule(epoch, before)
        except TypeError:
            rate = self.schedule(epoch)
        self.model.optimizer.learning_rate = float(rate)
        if self.verbose:
            print(f"\nEpoch {epoch + 1}: LearningRateScheduler setting learning rate to {rate}.")


class ModelCheckpoint(_Monitor):
    """Saves the model, or its weights, after each epoch, or after those that are better than all before."""

    def __init__(self, filepath: Path, monitor: str = "val_loss", verbose: int = 0, save_best_only: bool = False,
                 save_weights_only: bool = False, mode: str = "auto", save_freq: str = "epoch",
                 initial_value_threshold: typing.Optional[float] = None):
        super().__init__(monitor, mode)
        if save_freq != "epoch":
            raise ValueError("ModelCheckpoint: save_freq must be 'epoch': fit(checkpoint=, checkpoint_every=) saves "
                             "every so many steps")
        self.filepath, self.verbose = os.fspath(filepath), verbose
        self.save_best_only, self.save_weights_only = save_best_only, save_weights_only
        self.best = float("nan") if initial_value_threshold is None else float(initial_value_threshold)

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        logs = logs or {}
        if self.save_best_only:
            if self.monitor not in logs:
                raise ValueError(f"ModelCheckpoint: there is no figure {self.monitor!r}; there are {sorted(logs)}")
            now = float(logs[self.monitor])
            if not _native.is_better(self.monitor, self.mode, now, self.best):
                return
            self.best = now
        path = self.filepath.format(epoch=epoch + 1, **logs)
        if self.verbose:
            print(f"\nEpoch {epoch + 1}: saving model to {path}")
        if self.save_weights_only:
            self.model.save_weights(path)
        else:
            self.model.save(path)


class CSVLogger(Callback):
    """Writes a line for each epoch."""

    def __init__(self, filename: Path, separator: str = ",", append: bool = False):
        super().__init__()
        self.filename, self.separator, self.append = os.fspath(filename), separator, append
        self._keys: typing.Optional[list] = None

    def on_train_begin(self, logs: Logs = None) -> None:
        self._keys = None
        if not self.append:
            open(self.filename, "w", encoding="utf-8").close()

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        logs = logs or {}
        first = self._keys is None and os.path.getsize(self.filename) == 0 if os.path.exists(self.filename) else True
        self._keys = self._keys or sorted(logs)
        with open(self.filename, "a", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, delimiter=self.separator, lineterminator="\n")
            if first:
                writer.writerow(["epoch", *self._keys])
            writer.writerow([epoch, *(logs.get(key, "NA") for key in self._keys)])


class TensorBoard(Callback):
    """Writes event files for TensorBoard: figures, histograms of the weights, and the graph, by C++."""

    def __init__(self, log_dir: Path = "logs", **_: typing.Any):
        super().__init__()
        self.log_dir = os.fspath(log_dir)


class LambdaCallback(Callback):
    """Functions as a callback."""

    def __init__(self, on_epoch_begin: typing.Optional[typing.Callable] = None,
                 on_epoch_end: typing.Optional[typing.Callable] = None,
                 on_train_begin: typing.Optional[typing.Callable] = None,
                 on_train_end: typing.Optional[typing.Callable] = None,
                 on_train_batch_begin: typing.Optional[typing.Callable] = None,
                 on_train_batch_end: typing.Optional[typing.Callable] = None, **unknown: typing.Any):
        super().__init__()
        if unknown:
            raise ValueError(f"LambdaCallback: {next(iter(unknown))!r} is not supported")
        for name, function in (("on_epoch_begin", on_epoch_begin), ("on_epoch_end", on_epoch_end),
                               ("on_train_begin", on_train_begin), ("on_train_end", on_train_end),
                               ("on_train_batch_begin", on_train_batch_begin),
                               ("on_train_batch_end", on_train_batch_end)):
            if function is not None:
                setattr(self, name, function)


def wants_batches(callback: Callback) -> bool:
    """Whether it is called after each batch."""
    return any(getattr(callback, name) is not None and getattr(getattr(callback, name), "__func__", callback) is not
               getattr(Callback, name) for name in ("on_train_batch_begin", "on_train_batch_end"))
