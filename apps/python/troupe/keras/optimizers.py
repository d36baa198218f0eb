"""Optimizers and schedules of learning rates: those of troupe.optimizers, which models are compiled with.

    >>> get("adam").learning_rate
    0.001
"""

from __future__ import annotations

import typing

from .. import optimizers as _optimizers
from ..optimizers import *  # noqa: F401,F403
from ..optimizers import Optimizer, Schedule, schedules

OptimizerLike = typing.Union[str, dict, Optimizer]
_CLASSES: typing.Dict[str, typing.Any] = {name: value for name, value in vars(_optimizers).items()
            if isinstance(value, type) and issubclass(value, Optimizer) and value is not Optimizer}


def get(identifier: OptimizerLike) -> Optimizer:
    """The optimizer of a name, a configuration or an object.

    >>> type(get("SGD")).__name__
    'SGD'
    """
    if isinstance(identifier, Optimizer):
        return identifier
    if isinstance(identifier, dict):
        return deserialize(identifier)
    for name, cls in _CLASSES.items():
        if isinstance(identifier, str) and name.lower() == identifier.lower():
            return cls()
    raise ValueError(f"there is no optimizer {identifier!r}; there are: {', '.join(sorted(_CLASSES))}")


def serialize(optimizer: Optimizer) -> dict:
    """An optimizer as JSON can hold it.

    >>> deserialize(serialize(get("sgd"))).learning_rate
    0.01
    """
    rate = optimizer.learning_rate
    options = {k: v for k, v in optimizer._options.items() if k != "learning_rate"}
    written = {"schedule": rate._name, "options": rate._options} if isinstance(rate, Schedule) else rate
    return {"class_name": type(optimizer).__name__, "name": optimizer._name, "learning_rate": written,
            "options": options, **{k: getattr(optimizer, k) for k in ("clipnorm", "clipvalue", "global_clipnorm")}}


def deserialize(config: dict) -> Optimizer:
    """The optimizer that serialize() wrote."""
    cls = _CLASSES[config["class_name"]]
    made = cls.__new__(cls)
    made._name = config["name"]
    rate = config["learning_rate"]
    if isinstance(rate, dict):
        rate = Schedule(rate["schedule"], rate["options"])
    Optimizer.__init__(made, rate, config["options"],
                       **{k: config[k] for k in ("clipnorm", "clipvalue", "global_clipnorm")})
    return made


def native_text(optimizer: Optimizer) -> str:
    """The options as C++ reads them."""
    return str(optimizer._optimizer)


def is_scheduled(optimizer: Optimizer) -> bool:
    return isinstance(optimizer.learning_rate, Schedule)


def base_rate(optimizer: Optimizer) -> float:
    """The learning rate; 0 for a schedule."""
    rate = optimizer.learning_rate
    return 0.0 if isinstance(rate, Schedule) else float(rate)
