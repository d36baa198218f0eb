"""What weights cost, added to the loss: l1 sum |w| + l2 sum w^2.

    >>> L2(1e-4)
    L2(l2=0.0001)
"""

from __future__ import annotations

import typing

from . import _parts


class Regularizer(_parts.Part):
    """Base class; those of your own cannot be used."""

    def _native(self) -> dict:
        if type(self) not in (L1, L2, L1L2):
            raise ValueError(f"{type(self).__name__} is a regularizer of your own: use L1, L2 or L1L2, or let a layer "
                             "add_loss()")
        return {k: float(v) for k, v in vars(self).items()}


RegularizerLike = typing.Union[None, str, dict, Regularizer, typing.Type[Regularizer]]


class L1(Regularizer):
    def __init__(self, l1: float = 0.01):
        self.l1 = l1


class L2(Regularizer):
    def __init__(self, l2: float = 0.01):
        self.l2 = l2


class L1L2(Regularizer):
    def __init__(self, l1: float = 0.0, l2: float = 0.0):
        self.l1, self.l2 = l1, l2


l1, l2, l1_l2 = L1, L2, L1L2
_CLASSES = {"L1": L1, "L2": L2, "L1L2": L1L2}
_NAMES = {"l1": "L1", "l2": "L2", "l1_l2": "L1L2", "l1l2": "L1L2"}


def get(identifier: RegularizerLike) -> typing.Optional[Regularizer]:
    """The regularizer of a name or a configuration.

    >>> get("l1")
    L1(l1=0.01)
    """
    return _parts.lookup("regularizer", identifier, _CLASSES, _NAMES)
