"""The precision of products: float32, mixed_float16 or mixed_bfloat16, of models compiled from now on.

    >>> set_global_policy("mixed_bfloat16"); dtype_policy()
    'mixed_bfloat16'
    >>> set_global_policy("float32")
"""

from . import _names


def set_global_policy(policy: str) -> None:
    if policy not in ("float32", "mixed_float16", "mixed_bfloat16"):
        raise ValueError(f"policy {policy!r} is none of float32, mixed_float16, mixed_bfloat16")
    _names._settings["policy"] = policy


set_dtype_policy = set_global_policy


def global_policy() -> str:
    return _names._settings["policy"]


dtype_policy = global_policy
