"""Optimizers, with the names and defaults of Keras, and schedules of learning rates.

    optimizer = troupe.optimizers.Adam(learning_rate=1e-3)
    with troupe.GradientTape() as tape:
        loss = ...
    optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))

They update variables of eager mode, and are what troupe.keras compiles models with.
"""

from __future__ import annotations

import json
import typing

from . import _troupe
from ._core import Tensor, TensorLike, Variable
from .differentiation import IndexedSlices, _changed, clip_by_global_norm, clip_by_norm

__all__ = [
    "Adadelta", "Adagrad", "Adam", "AdamW", "Adamax", "Ftrl", "Lion", "Momentum", "Nadam", "Optimizer", "RMSprop",
    "SGD", "schedules",
]


def _text(value: typing.Any) -> str:
    """As the options of C++ are written."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_text(v) for v in value) + "]"
    if isinstance(value, str):
        return json.dumps(value)
    if isinstance(value, (int, float)):
        return repr(float(value)) if isinstance(value, float) else str(value)
    return str(value)


def _call(name: str, options: typing.Mapping[str, typing.Any]) -> str:
    return f"{name}({', '.join(f'{k}={_text(v)}' for k, v in options.items() if v is not None)})"


class Schedule:
    """A learning rate that depends on the number of updates so far."""

    def __init__(self, name: str, options: typing.Mapping[str, typing.Any], warm_up: int = 0):
        self._name, self._options = name, dict(options)
        if warm_up:
            self._options["warm_up"] = warm_up

    def __str__(self) -> str:
        return _call(self._name, self._options)

    __repr__ = __str__

    def __call__(self, step: int) -> float:
        """The rate of the update after `step` others."""
        return _troupe.Optimizer(f"sgd(learning_rate={self})").learning_rate_at(step)


class schedules:
    """Schedules of learning rates. warm_up: updates before, in which the rate grows from 0."""

    @staticmethod
    def ExponentialDecay(initial_learning_rate: float, decay_steps: int, decay_rate: float, staircase: bool = False,
                         warm_up: int = 0) -> Schedule:
        """initial_learning_rate decay_rate^(step / decay_steps); staircase: with a whole exponent.

        >>> troupe.optimizers.schedules.ExponentialDecay(0.1, 10, 0.5)(20)
        0.025
        """
        return Schedule("step" if staircase else "exponential",
                        {"rate": initial_learning_rate, "factor": decay_rate, "every": decay_steps}, warm_up)

    @staticmethod
    def PiecewiseConstantDecay(boundaries: typing.Sequence[int], values: typing.Sequence[float],
                               warm_up: int = 0) -> Schedule:
        """values[i + 1] after boundaries[i].

        >>> troupe.optimizers.schedules.PiecewiseConstantDecay([10], [0.1, 0.01])(11)
        0.01
        """
        return Schedule("piecewise", {"rates": list(values), "from": [b + 1 for b in boundaries]}, warm_up)

    @staticmethod
    def CosineDecay(initial_learning_rate: float, decay_steps: int, alpha: float = 0.0, warm_up: int = 0) -> Schedule:
        """Half a cosine from initial_learning_rate down to alpha times it.

        >>> troupe.optimizers.schedules.CosineDecay(0.1, 100)(100)
        0.0
        """
        return Schedule("cosine", {"rate": initial_learning_rate, "end": alpha * initial_learning_rate,
                                   "steps": decay_steps}, warm_up)

    @staticmethod
    def PolynomialDecay(initial_learning_rate: float, decay_steps: int, end_learning_rate: float = 0.0001,
                        power: float = 1.0, warm_up: int = 0) -> Schedule:
        """From initial_learning_rate to end_learning_rate by a power of the rest of the way.

        >>> troupe.optimizers.schedules.PolynomialDecay(0.1, 100, 0.0)(50)
        0.05
        """
        return Schedule("polynomial", {"rate": initial_learning_rate, "end": end_learning_rate, "power": power,
                                       "steps": decay_steps}, warm_up)


LearningRate = typing.Union[float, Schedule]


class Optimizer:
    """Turns gradients into updates of variables, and keeps what it needs from one to the next.

    clipnorm, clipvalue, global_clipnorm: gradients are cut to this norm each, to this value, to this norm of all.
    """

    _name = ""

    def __init__(self, learning_rate: LearningRate, options: typing.Mapping[str, typing.Any],
                 clipnorm: typing.Optional[float] = None, clipvalue: typing.Optional[float] = None,
                 global_clipnorm: typing.Optional[float] = None):
        if sum(c is not None for c in (clipnorm, clipvalue, global_clipnorm)) > 1:
            raise ValueError("give one of clipnorm, clipvalue and global_clipnorm")
        self.clipnorm, self.clipvalue, self.global_clipnorm = clipnorm, clipvalue, global_clipnorm
        self._options = {"learning_rate": learning_rate, **options}
        self._optimizer = _troupe.Optimizer(_call(self._name, self._options))
        self.iterations = 0

    @property
    def learning_rate(self) -> LearningRate:
        """A float or a Schedule; may be set between updates."""
        return self._options["learning_rate"]

    @learning_rate.setter
    def learning_rate(self, rate: LearningRate) -> None:
        changed = {**self._options, "learning_rate": rate}
        self._optimizer.change(_call(self._name, changed))
        self._options = changed

    @property
    def variables(self) -> typing.List[Variable]:
        """What it keeps for the variables that it has updated."""
        return self._optimizer.variables()

    def apply_gradients(self, grads_and_vars: typing.Iterable[
            typing.Tuple[typing.Union[TensorLike, IndexedSlices, None], Variable]]) -> None:
        """Updates each variable once. Variables whose gradient is None are left out. Of IndexedSlices only the rows are
        updated: others keep their values and what the optimizer keeps for them; `gradient.to_tensor()` updates all.
        """
        pairs = [(gradient, variable) for gradient, variable in grads_and_vars if gradient is not None]
        if not pairs:
            raise ValueError(f"{type(self).__name__}: no variable has a gradient")
        gradients = self._clipped([gradient for gradient, _ in pairs])
        self._optimizer.apply(gradients, [variable for _, variable in pairs])
        self.iterations += 1

    def minimize(self, loss: typing.Callable[[], Tensor], variables: typing.Sequence[Variable]) -> Tensor:
        """Computes loss(), a scalar, updates the variables by its gradients, and returns its value.

        >>> w = troupe.Variable([4.0])
        >>> optimizer = troupe.optimizers.SGD(0.25)
        >>> for _ in range(10):
        ...     loss = optimizer.minimize(lambda: troupe.sum(w * w), [w])
        >>> w
        Variable([0.00390625], dtype=float32)
        """
        if self.clipnorm is self.clipvalue is self.global_clipnorm is None:
            value = self._optimizer.minimize(loss, list(variables))
            self.iterations += 1
            return value
        tape = _troupe.Tape(False, True)
        tape.enter()
        try:
            value = loss()
        finally:
            tape.exit()
        self.apply_gradients(zip(tape.gradients([value], list(variables), []), variables))
        return value

    def _clipped(self, gradients: list) -> list:
        if self.clipvalue is not None:
            limit: float = self.clipvalue
            return [_changed(g, lambda v: _troupe.clip(v, -limit, limit)) for g in gradients]
        if self.clipnorm is not None:
            return [clip_by_norm(g, self.clipnorm) for g in gradients]
        if self.global_clipnorm is not None:
            return clip_by_global_norm(gradients, self.global_clipnorm)[0]
        return gradients

    def __repr__(self) -> str:
        return f"troupe.optimizers.{type(self).__name__}({', '.join(f'{k}={v!r}' for k, v in self._options.items())})"


def _decay(rate: typing.Optional[float]) -> typing.Optional[float]:
    return rate or None


class SGD(Optimizer):
    """Gradient descent: w -= learning_rate g. With a momentum: that of Momentum.

    >>> troupe.optimizers.SGD(0.1, momentum=0.9)
    troupe.optimizers.SGD(learning_rate=0.1, momentum=0.9, nesterov=False)
    """

    _name = "sgd"

    def __init__(self, learning_rate: LearningRate = 0.01, momentum: float = 0.0, nesterov: bool = False,
                 weight_decay: typing.Optional[float] = None, **clipping: typing.Optional[float]):
        options: dict = {"weight_decay": _decay(weight_decay)} if weight_decay else {}
        if momentum:
            self._name = "momentum"
            options = {"momentum": momentum, "nesterov": nesterov, **options}
        super().__init__(learning_rate, options, **clipping)


class Momentum(SGD):
    """Gradient descent with a momentum (Polyak 1964), or Nesterov's."""

    def __init__(self, learning_rate: LearningRate = 0.01, momentum: float = 0.9, nesterov: bool = False,
                 weight_decay: typing.Optional[float] = None, **clipping: typing.Optional[float]):
        super().__init__(learning_rate, momentum, nesterov, weight_decay, **clipping)


class Adagrad(Optimizer):
    """Duchi, Hazan & Singer 2011; epsilon is added outside of the root."""

    _name = "adagrad"

    def __init__(self, learning_rate: LearningRate = 0.001, initial_accumulator_value: float = 0.1, epsilon: float =
                 1e-7, weight_decay: typing.Optional[float] = None, **clipping: typing.Optional[float]):
        super().__init__(learning_rate,
                         {"initial_accumulator": initial_accumulator_value, "epsilon": epsilon, "weight_decay":
                          _decay(weight_decay)}, **clipping)


class RMSprop(Optimizer):
    """Hinton's, with a momentum; centered: by the variance of gradients (Graves 2013)."""

    _name = "rmsprop"

    def __init__(self, learning_rate: LearningRate = 0.001, rho: float = 0.9, momentum: float = 0.0, epsilon: float
                 = 1e-7, centered: bool = False, weight_decay: typing.Optional[float] = None, **clipping:
                 typing.Optional[float]):
        super().__init__(learning_rate,
                         {"rho": rho, "momentum": momentum, "epsilon": epsilon, "centered": centered, "weight_decay":
                          _decay(weight_decay)}, **clipping)


class Adam(Optimizer):
    """Kingma & Ba 2015; amsgrad: Reddi, Kale & Kumar 2018."""

    _name = "adam"

    def __init__(self, learning_rate: LearningRate = 0.001, beta_1: float = 0.9, beta_2: float = 0.999, epsilon:
                 float = 1e-7, amsgrad: bool = False, **clipping: typing.Optional[float]):
        super().__init__(learning_rate,
                         {"beta1": beta_1, "beta2": beta_2, "epsilon": epsilon, "amsgrad": amsgrad}, **clipping)


class AdamW(Optimizer):
    """Adam with decoupled weight decay (Loshchilov & Hutter 2019)."""

    _name = "adamw"

    def __init__(self, learning_rate: LearningRate = 0.001, beta_1: float = 0.9, beta_2: float = 0.999, epsilon:
                 float = 1e-7, amsgrad: bool = False, weight_decay: typing.Optional[float] = 0.004, **clipping:
                 typing.Optional[float]):
        super().__init__(learning_rate,
                         {"beta1": beta_1, "beta2": beta_2, "epsilon": epsilon, "amsgrad": amsgrad, "weight_decay":
                          weight_decay}, **clipping)


class Adamax(Optimizer):
    """Adam by the greatest gradient (Kingma & Ba 2015)."""

    _name = "adamax"

    def __init__(self, learning_rate: LearningRate = 0.001, beta_1: float = 0.9, beta_2: float = 0.999, epsilon:
                 float = 1e-7, weight_decay: typing.Optional[float] = None, **clipping: typing.Optional[float]):
        super().__init__(learning_rate,
                         {"beta1": beta_1, "beta2": beta_2, "epsilon": epsilon, "weight_decay": _decay(weight_decay)},
                          **clipping)


class Nadam(Optimizer):
    """Adam with Nesterov's momentum (Dozat 2016)."""

    _name = "nadam"

    def __init__(self, learning_rate: LearningRate = 0.001, beta_1: float = 0.9, beta_2: float = 0.999, epsilon:
                 float = 1e-7, weight_decay: typing.Optional[float] = None, **clipping: typing.Optional[float]):
        super().__init__(learning_rate,
                         {"beta1": beta_1, "beta2": beta_2, "epsilon": epsilon, "weight_decay": _decay(weight_decay)},
                          **clipping)


class Adadelta(Optimizer):
    """Zeiler 2012, with a learning rate."""

    _name = "adadelta"

    def __init__(self, learning_rate: LearningRate = 0.001, rho: float = 0.95, epsilon: float = 1e-7, weight_decay:
                 typing.Optional[float] = None, **clipping: typing.Optional[float]):
        super().__init__(learning_rate,
                         {"rho": rho, "epsilon": epsilon, "weight_decay": _decay(weight_decay)}, **clipping)


class Ftrl(Optimizer):
    """McMahan et al. 2013."""

    _name = "ftrl"

    def __init__(self, learning_rate: LearningRate = 0.001, learning_rate_power: float = -0.5,
                 initial_accumulator_value: float = 0.1, l1_regularization_strength: float = 0.0,
                 l2_regularization_strength: float = 0.0, l2_shrinkage_regularization_strength: float = 0.0, beta:
                 float = 0.0, weight_decay: typing.Optional[float] = None, **clipping: typing.Optional[float]):
        super().__init__(learning_rate,
                         {"learning_rate_power": learning_rate_power, "initial_accumulator": initial_accumulator_value,
                          "l1": l1_regularization_strength, "l2": l2_regularization_strength, "l2_shrinkage":
                          l2_shrinkage_regularization_strength, "beta": beta, "weight_decay": _decay(weight_decay)},
                          **clipping)


class Lion(Optimizer):
    """Chen et al. 2023."""

    _name = "lion"

    def __init__(self, learning_rate: LearningRate = 0.001, beta_1: float = 0.9, beta_2: float = 0.99, weight_decay:
                 typing.Optional[float] = None, **clipping: typing.Optional[float]):
        super().__init__(learning_rate,
                         {"beta1": beta_1, "beta2": beta_2, "weight_decay": _decay(weight_decay)}, **clipping)
