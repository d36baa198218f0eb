"""Ops and devices of one's own, from libraries in C++."""

from __future__ import annotations

import os
import re
import types
import typing

from . import _troupe
from ._core import TensorLike

__all__ = ["OpLibrary", "load_device_library", "load_op_library"]


class OpLibrary(types.ModuleType):
    """A loaded library. Its functions are its ops: inputs by place or name, a list for one that is a list, attributes
    by name. They return the output, or a list if there are several, and compute at once, in a tape or a function that
    is traced, or add a node for tensors of a troupe.Graph."""

    version: str  # the library's own
    sha256: str  # of its file
    ops: typing.Dict[str, str]  # the op that a function calls

    def __repr__(self) -> str:
        return f"<op library {self.__name__} {self.version} from {self.__file__}>"


def _snake_case(op: str) -> str:
    """MyOp2D is my_op2_d, as in TensorFlow."""
    words = re.sub(r"([A-Z]+)([A-Z][a-z])", r"\1_\2", op)
    return re.sub(r"([a-z\d])([A-Z])", r"\1_\2", words).lower()


def _function(op: str, inputs: typing.List[str], lists: typing.List[bool], signature: str,
              library: str) -> typing.Callable[..., typing.Any]:
    def call(*args: TensorLike, name: str = "", **attributes: typing.Any) -> typing.Any:
        if len(args) > len(inputs):
            raise TypeError(f"{signature} takes {len(inputs)} inputs, not {len(args)}")
        given = list(args)
        for i, other in enumerate(inputs):
            if i >= len(given):
                if other not in attributes:
                    raise TypeError(f"{signature} lacks input {other!r}")
                given.append(attributes.pop(other))
            elif other in attributes:
                raise TypeError(f"{signature} is given input {other!r} twice")
        flat: typing.List[typing.Any] = []
        for value, is_list in zip(given, lists):
            flat += typing.cast(typing.List[typing.Any], value) if is_list else [value]
        return _troupe.op(op, flat, attributes, name)

    call.__name__ = call.__qualname__ = _snake_case(op)
    call.__module__ = library
    call.__doc__ = f"{signature}: an op of the library {library}."
    return call


def load_op_library(path: typing.Union[str, os.PathLike]) -> OpLibrary:
    """Loads a shared library of ops (docs/guide/op-libraries.md) into this process, for good, and returns it as a
    module whose functions are its ops: the op MyOp is the function my_op. All tensors and graphs can use them, also
    those made before. The same file again gives the same ops. Raises NotFoundError if there is no such file,
    InvalidArgumentError if it is no library of ops, FailedPreconditionError if it was built for another Troupe,
    AlreadyExistsError if one of its names is taken.

    >>> troupe.load_op_library("no_ops.so")  # doctest: +IGNORE_EXCEPTION_DETAIL
    Traceback (most recent call last):
    NotFoundError: op library /home/me/no_ops.so: there is no such file, or it cannot be read
    """
    name, version, sha256, place, ops = _troupe.load_op_library(os.fspath(path))
    library = OpLibrary(name, f"Ops of the library {name} {version}.")
    library.__file__ = place
    library.version, library.sha256 = version, sha256
    library.ops = {_snake_case(op): op for op, *_ in ops}
    for op, inputs, lists, signature in ops:
        setattr(library, _snake_case(op), _function(op, inputs, lists, signature, name))
    return library


def load_device_library(path: typing.Union[str, os.PathLike]) -> str:
    """Loads a plug-in with devices of any type (docs/guide/gpus.md) before the first op, and returns their type. Nodes
    of sessions, and of models that train or are served, run on its devices where these have kernels for them, otherwise
    on the CPU; g.device("TPU:1") chooses one. Ops of eager mode run on the CPU. Scripts of a cluster are given
    --device-library instead. Raises NotFoundError if it cannot be opened or is none of this Troupe,
    FailedPreconditionError after the first op.

    >>> troupe.load_device_library("no_tpu.so")  # doctest: +IGNORE_EXCEPTION_DETAIL
    Traceback (most recent call last):
    NotFoundError: device library /home/me/no_tpu.so: no /home/me/no_tpu.so
    """
    return _troupe.load_device_library(os.fspath(path))
