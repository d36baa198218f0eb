"""Nested lists, tuples and dicts of tensors, as calls of layers take and return them."""

from __future__ import annotations

import typing


def flatten(tree: typing.Any, is_leaf: typing.Callable) -> list:
    """The leaves of a tree, from left to right; dicts by their keys.

    >>> flatten({"b": [1, "x"], "a": (2,)}, lambda v: isinstance(v, int))
    [2, 1]
    """
    found: list = []
    _walk(tree, lambda leaf: found.append(leaf) if is_leaf(leaf) else None, is_leaf)
    return found


def replaced(tree: typing.Any, is_leaf: typing.Callable, leaves: typing.Sequence) -> typing.Any:
    """The same tree with these leaves instead.

    >>> replaced([1, {"k": 2}], lambda v: isinstance(v, int), [5, 6])
    [5, {'k': 6}]
    """
    rest = iter(leaves)
    return _walk(tree, lambda leaf: next(rest) if is_leaf(leaf) else leaf, is_leaf)


def _walk(tree: typing.Any, use: typing.Callable, is_leaf: typing.Callable) -> typing.Any:
    if is_leaf(tree):
        return use(tree)
    if isinstance(tree, dict):
        try:
            keys = sorted(tree)
        except TypeError:  # of several types, in a dict that no layer takes or returns
            keys = list(tree)
        done = {key: _walk(tree[key], use, is_leaf) for key in keys}
        return {key: done[key] for key in tree}
    if isinstance(tree, (list, tuple)):
        items = [_walk(item, use, is_leaf) for item in tree]
        return items if isinstance(tree, list) else tuple(items)
    return use(tree)
