"""What initializers, regularizers, constraints and activations share: each is made from a name, a dict or an object."""

from __future__ import annotations

import typing


def serialized(value: typing.Any) -> typing.Any:
    """Of an argument of a layer: what JSON can hold."""
    if hasattr(value, "get_config"):
        return {"class_name": type(value).__name__, "config": value.get_config()}
    if isinstance(value, (list, tuple)):
        return [serialized(v) for v in value]
    if isinstance(value, dict):
        return {k: serialized(v) for k, v in value.items()}
    if callable(value):
        raise ValueError(f"the function {getattr(value, '__name__', value)!r} cannot be written with the model")
    if hasattr(value, "tolist"):
        return value.tolist()
    return value


def lookup(what: str, identifier: typing.Any, classes: typing.Mapping[str, type],
           names: typing.Mapping[str, str]) -> typing.Any:
    """The object of an identifier: None, a name, {"class_name", "config"}, a class or an object."""
    if identifier is None:
        return None
    if isinstance(identifier, str):
        found = classes.get(names.get(identifier, identifier))
        if found is None:
            raise ValueError(f"there is no {what} {identifier!r}; there are: {', '.join(sorted(names))}")
        return found()
    if isinstance(identifier, dict):
        return classes[identifier["class_name"]](**identifier.get("config", {}))
    return identifier() if isinstance(identifier, type) else identifier


Made = typing.TypeVar("Made", bound="Part")


class Part:
    """Something with a configuration: its arguments, which are its attributes."""

    def get_config(self) -> dict:
        return dict(vars(self))

    @classmethod
    def from_config(cls: typing.Type[Made], config: dict) -> Made:
        return cls(**config)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{k}={v!r}' for k, v in vars(self).items())})"
