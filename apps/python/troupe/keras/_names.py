"""Names of layers, dtypes by Keras's names, and arrays as tensors: shared by the files of troupe.keras."""

from __future__ import annotations

import re
import threading
import typing

from .._core import DTypeLike

_counts: typing.Dict[str, int] = {}
_lock = threading.Lock()
_settings: typing.Dict[str, typing.Any] = {"seed": 0, "policy": "float32"}

_DTYPES = {
    "float16": "f16", "bfloat16": "bf16", "float32": "f32", "float64": "f64", "int8": "i8", "int16": "i16",
    "int32": "i32", "int64": "i64", "uint8": "u8", "uint16": "u16", "uint32": "u32", "uint64": "u64",
    "bool": "bool", "string": "string",
}
_KERAS_DTYPES = {ours: theirs for theirs, ours in _DTYPES.items()}


def snake_case(name: str) -> str:
    """The name that Keras gives a layer of this class.

    >>> snake_case("BatchNormalization"), snake_case("Conv2DTranspose"), snake_case("LSTM")
    ('batch_normalization', 'conv2d_transpose', 'lstm')
    """
    name = re.sub(r"\W+", "", name)
    name = re.sub(r"(.)([A-Z][a-z]+)", r"\1_\2", name)
    return re.sub(r"([a-z])([A-Z])", r"\1_\2", name).lower()


def unique_name(prefix: str) -> str:
    """prefix, then prefix_1, prefix_2: each once until clear_session()."""
    with _lock:
        count = _counts.get(prefix, 0)
        _counts[prefix] = count + 1
    return prefix if count == 0 else f"{prefix}_{count}"


def clear_session() -> None:
    """Numbers names of layers from the beginning again."""
    with _lock:
        _counts.clear()


def set_random_seed(seed: int) -> None:
    """Sets the seed of initial values, shuffles and dropout of models that are made and trained from now on; 0 before.

    >>> set_random_seed(0)
    """
    _settings["seed"] = int(seed)


def random_seed() -> int:
    return _settings["seed"]


def native_dtype(dtype: DTypeLike) -> str:
    """"f32" of "float32", np.float32 or "f32"."""
    text = dtype if isinstance(dtype, str) else getattr(dtype, "name", None) or getattr(dtype, "__name__", str(dtype))
    if text in _KERAS_DTYPES:
        return text
    if text not in _DTYPES:
        raise ValueError(f"dtype {text!r} is none of {', '.join(_DTYPES)}")
    return _DTYPES[text]


def keras_dtype(dtype: str) -> str:
    """"float32" of "f32"."""
    return _KERAS_DTYPES[dtype]
