"""Keras's names on Troupe: layers, models, losses, metrics, optimizers and callbacks, computed and trained by C++.

    >>> import numpy as np
    >>> from troupe.keras import layers, models
    >>> model = models.Sequential([layers.Input((4,)), layers.Dense(8, activation="relu"), layers.Dense(3)])
    >>> model.compile(optimizer="adam", loss="mse")
    >>> history = model.fit(np.ones((16, 4)), np.ones((16, 3)), epochs=1, verbose=0)
    >>> model.predict(np.ones((2, 4)), verbose=0).shape
    (2, 3)
"""

from __future__ import annotations

import atexit

from .. import _troupe
from . import (
    activations, backend, callbacks, constraints, datasets, initializers, layers, losses, metrics, mixed_precision,
    models, ops, optimizers, regularizers, saving, utils,
)
from .layers import Input, KerasTensor, Layer
from .models import Model, Sequential

# Models and their threads end before the interpreter does.
atexit.register(_troupe.keras.close_all)

__all__ = [
    "Input", "KerasTensor", "Layer", "Model", "Sequential", "activations", "backend", "callbacks", "constraints",
    "datasets", "initializers", "layers", "losses", "metrics", "mixed_precision", "models", "ops", "optimizers",
    "regularizers", "saving", "utils",
]
