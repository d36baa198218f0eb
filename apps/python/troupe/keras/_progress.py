"""What fit, evaluate and predict print: a line for each epoch, and on terminals a bar before it."""

from __future__ import annotations

import sys
import time
import typing

_WIDTH = 20


def figures_text(figures: typing.Mapping[str, float]) -> str:
    """" - accuracy: 0.9000 - loss: 0.3000": small numbers with an exponent.

    >>> figures_text({"accuracy": 0.9, "loss": 2e-5})
    ' - accuracy: 0.9000 - loss: 2.0000e-05'
    """
    return "".join(f" - {name}: {value:.4f}" if abs(value) > 1e-3 or value == 0 else f" - {name}: {value:.4e}"
                   for name, value in figures.items())


def duration_text(seconds: float) -> str:
    """Of a step.

    >>> duration_text(0.0123), duration_text(2.5), duration_text(2e-5)
    ('12ms', '2s', '20us')
    """
    if seconds >= 1:
        return f"{seconds:.0f}s"
    return f"{seconds * 1e3:.0f}ms" if seconds >= 1e-3 else f"{seconds * 1e6:.0f}us"


class Progress:
    """verbose: 0 nothing, 1 bars, 2 a line for each epoch."""

    def __init__(self, verbose: typing.Union[int, str], epochs: typing.Optional[int] = None):
        self._verbose = 1 if verbose == "auto" else verbose
        self._epochs = epochs
        self._terminal = self._verbose == 1 and sys.stdout.isatty()
        self._began = time.monotonic()

    def begin(self, epoch: int) -> None:
        self._began = time.monotonic()
        if self._verbose and self._epochs is not None:
            print(f"Epoch {epoch + 1}/{self._epochs}", flush=True)

    def update(self, step: int, steps: int, figures: typing.Mapping[str, float]) -> None:
        if not self._terminal:
            return
        spent = time.monotonic() - self._began
        left = f"{spent / step * (steps - step):.0f}s" if steps and step else f"{spent:.0f}s"
        print(f"\r\033[K{self._bar(step, steps)} {left} {duration_text(spent / max(step, 1))}/step"
              f"{figures_text(figures)}", end="", flush=True)

    def end(self, steps: int, figures: typing.Mapping[str, float]) -> None:
        if not self._verbose:
            return
        spent = time.monotonic() - self._began
        each = duration_text(spent / max(steps, 1))
        if self._verbose == 1:
            start = "\r\033[K" if self._terminal else ""
            print(f"{start}{self._bar(steps, steps)} {spent:.0f}s {each}/step{figures_text(figures)}", flush=True)
        else:
            print(f"{steps}/{steps} - {spent:.0f}s - {each}/step{figures_text(figures)}", flush=True)

    def _bar(self, step: int, steps: int) -> str:
        done = _WIDTH * step // steps if steps else 0
        return f"{step}/{steps or 'Unknown'} {'━' * done}{'─' * (_WIDTH - done)}"
