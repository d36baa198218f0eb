"""Functions of tensors, for call() of layers: those of troupe, and activations.

    >>> import troupe
    >>> float(sum(troupe.tensor([1.0, 2.0])))
    3.0
"""

from .activations import *  # noqa: F401,F403
from ..math import *  # noqa: F401,F403
from ..tensors import *  # noqa: F401,F403
