"""Hash tables whose entries change."""

from __future__ import annotations

import typing

from . import _troupe
from ._core import DTypeLike, Tensor, TensorLike
from .graphs import Graph, native_graph

__all__ = ["MutableHashTable"]


class MutableHashTable:
    """Entries of keys, int64 or strings, and values of one dtype and shape. default_value: of keys that are not there,
    which says the shape as well. graph: the troupe.Graph to add ops to; None: eager mode.

    >>> table = troupe.lookup.MutableHashTable("int64", "float32", [0.0, 0.0])
    >>> table.insert([3, 5], [[1.0, 2.0], [3.0, 4.0]])
    >>> table.lookup([5, 6])
    Tensor([[3., 4.],
            [0., 0.]], dtype=float32)
    >>> len(table.export()[0])
    2
    """

    def __init__(self, key_dtype: DTypeLike, value_dtype: DTypeLike, default_value: TensorLike, name: str = "",
                 graph: typing.Optional[Graph] = None, device: str = ""):
        self._default = _troupe.data_of(default_value, value_dtype).array()
        self._table = _troupe.mutable_hash_table(native_graph(graph), key_dtype, value_dtype,
                                                 list(self._default.shape), name, device)

    def insert(self, keys: TensorLike, values: TensorLike) -> typing.Optional[Tensor]:
        """Adds entries, or replaces the values of keys [...] that are there; values are [...keys, ...value]."""
        return self._table.insert(keys, values, False)

    def lookup(self, keys: TensorLike, default_value: typing.Optional[TensorLike] = None) -> Tensor:
        """The values [...keys, ...value]; for keys that are not there default_value: one value, or one for each key."""
        return self._table.lookup(keys, self._default if default_value is None else default_value)

    def __getitem__(self, keys: TensorLike) -> Tensor:
        """lookup(keys)."""
        return self.lookup(keys)

    def remove(self, keys: TensorLike) -> typing.Optional[Tensor]:
        """Removes entries; keys that are not there are passed over."""
        return self._table.remove(keys)

    def size(self) -> Tensor:
        """How many entries there are, int64 []."""
        return self._table.size()

    def export(self) -> typing.Tuple[Tensor, Tensor]:
        """All (keys [n], values [n, ...value]): what a save keeps of the table."""
        return self._table.export()

    def import_entries(self, keys: TensorLike, values: TensorLike) -> typing.Optional[Tensor]:
        """Replaces all entries by these."""
        return self._table.insert(keys, values, True)
