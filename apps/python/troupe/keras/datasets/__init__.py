"""Data sets that are read from files; nothing is downloaded."""

from . import digits, mnist

__all__ = ["digits", "mnist"]
