"""The few functions of keras.backend that programs use."""

from ._names import clear_session


def floatx() -> str:
    """The dtype of weights."""
    return "float32"


def epsilon() -> float:
    return 1e-7


def image_data_format() -> str:
    return "channels_last"


__all__ = ["clear_session", "epsilon", "floatx", "image_data_format"]
