"""Queues of elements between steps, with TensorFlow's rules: what cannot go on waits, in the order of its arrival."""

from __future__ import annotations

import typing

from . import _troupe
from ._core import DTypeLike, Tensor, TensorLike
from .graphs import Graph, native_graph

__all__ = ["FIFOQueue", "PaddingFIFOQueue", "PriorityQueue", "QueueBase", "RandomShuffleQueue"]

Elements = typing.Union[TensorLike, typing.Sequence[TensorLike]]
DTypes = typing.Union[DTypeLike, typing.Sequence[DTypeLike]]
Shapes = typing.Optional[typing.Sequence]


def _as_list(value: typing.Any) -> list:
    return list(value) if isinstance(value, (list, tuple)) else [value]


def _shape(shape: typing.Optional[typing.Sequence]) -> typing.Optional[list]:
    return None if shape is None else [-1 if size is None else size for size in shape]


class QueueBase:
    """A queue of any kind. An element is one tensor for each dtype of the queue. Without a graph, methods run when they
    are called, and block while they must wait: other threads go on, and Ctrl-C or close() in another thread ends it."""

    def __init__(self, queue: _troupe.Queue, components: int):
        self._queue, self._components = queue, components

    def _given(self, vals: Elements) -> list:
        return [vals] if self._components == 1 and not isinstance(vals, (list, tuple)) else list(vals)  # type: ignore

    def _taken(self, found: typing.Sequence[Tensor]) -> typing.Any:
        return found[0] if self._components == 1 else tuple(found)

    def enqueue(self, vals: Elements, name: str = "") -> typing.Optional[Tensor]:
        """Adds an element, a tensor or a list of one for each component, when there is room. Raises CancelledError once
        the queue is closed. In a graph: returns a target.

        >>> q = troupe.queue.FIFOQueue(10, ["int64", "float32"])
        >>> q.enqueue([7, 0.5])
        >>> q.dequeue()
        (Tensor(7, dtype=int64), Tensor(0.5, dtype=float32))
        """
        return self._queue.enqueue(self._given(vals), False, name)

    def enqueue_many(self, vals: Elements, name: str = "") -> typing.Optional[Tensor]:
        """Adds the rows of tensors [n, ...] as n elements.

        >>> q = troupe.queue.FIFOQueue(10, "int64")
        >>> q.enqueue_many(troupe.tensor([1, 2, 3]))
        >>> q.size()
        Tensor(3, dtype=int32)
        """
        return self._queue.enqueue(self._given(vals), True, name)

    def dequeue(self, name: str = "") -> typing.Any:
        """The next element, when there is one: a tensor, or a tuple of several components. Raises OutOfRangeError once
        the queue is closed and empty."""
        return self._taken(self._queue.dequeue(None, False, name))

    def dequeue_many(self, n: TensorLike, name: str = "") -> typing.Any:
        """n elements as rows [n, ...], when they are there; n may be more than the capacity. Raises OutOfRangeError,
        and takes nothing, if the queue is closed with fewer.

        >>> q = troupe.queue.FIFOQueue(10, "int64")
        >>> q.enqueue_many(troupe.tensor([1, 2, 3]))
        >>> q.dequeue_many(2)
        Tensor([1, 2], dtype=int64)
        """
        return self._taken(self._queue.dequeue(n, False, name))

    def dequeue_up_to(self, n: TensorLike, name: str = "") -> typing.Any:
        """Like dequeue_many, but from a queue that is closed what is left, unless that is nothing."""
        return self._taken(self._queue.dequeue(n, True, name))

    def close(self, cancel_pending_enqueues: bool = False) -> typing.Optional[Tensor]:
        """Ends the input: later enqueues fail, and those that wait go on, or fail as well. Elements can still be taken.

        >>> q = troupe.queue.FIFOQueue(10, "int64")
        >>> q.close()
        >>> q.dequeue()  # doctest: +IGNORE_EXCEPTION_DETAIL
        Traceback (most recent call last):
        OutOfRangeError: queue 'FIFOQueue' is closed and has 0 elements left, of 1 wanted
        """
        return self._queue.close(cancel_pending_enqueues)

    def size(self) -> Tensor:
        """How many elements there are, int32 []."""
        return self._queue.size()

    def is_closed(self) -> Tensor:
        """Whether it is closed, bool []."""
        return self._queue.is_closed()


class FIFOQueue(QueueBase):
    """First in, first out. dtypes: of the components; shapes: theirs, as far as known (None: unknown). graph: the
    troupe.Graph to add ops to; None: eager mode. device: a CPU, on which its elements are.

    >>> q = troupe.queue.FIFOQueue(2, "float32", shapes=[[2]])
    >>> q.enqueue([[1.0, 2.0]])
    >>> q.dequeue()
    Tensor([1., 2.], dtype=float32)
    """

    def __init__(self, capacity: int, dtypes: DTypes, shapes: Shapes = None, name: str = "",
                 graph: typing.Optional[Graph] = None, device: str = ""):
        kinds = _as_list(dtypes)
        super().__init__(_troupe.fifo_queue(native_graph(graph), capacity, kinds, [_shape(s) for s in shapes or []],
                                            name, device), len(kinds))


class RandomShuffleQueue(QueueBase):
    """Each element leaves as likely as any other; while the queue is open min_after_dequeue of them stay. The order
    follows from the seed and the order of arrival.

    >>> q = troupe.queue.RandomShuffleQueue(10, 0, "int64", shapes=[[]], seed=1)
    >>> q.enqueue_many(troupe.arange(5))
    >>> sorted(q.dequeue_many(5).numpy().tolist())
    [0, 1, 2, 3, 4]
    """

    def __init__(self, capacity: int, min_after_dequeue: int, dtypes: DTypes, shapes: Shapes = None, seed: int = 0,
                 name: str = "", graph: typing.Optional[Graph] = None, device: str = ""):
        kinds = _as_list(dtypes)
        super().__init__(_troupe.random_shuffle_queue(native_graph(graph), capacity, min_after_dequeue, kinds,
                                                      [_shape(s) for s in shapes or []], seed, name, device),
                         len(kinds))


class PaddingFIFOQueue(QueueBase):
    """First in, first out. Elements may differ in the sizes that shapes leave open (None): dequeue_many and
    dequeue_up_to pad them with zeros, or empty strings, to the largest.

    >>> q = troupe.queue.PaddingFIFOQueue(10, "int64", shapes=[[None]])
    >>> q.enqueue(troupe.tensor([1, 2]))
    >>> q.enqueue(troupe.tensor([3]))
    >>> q.dequeue_many(2)
    Tensor([[1, 2],
            [3, 0]], dtype=int64)
    """

    def __init__(self, capacity: int, dtypes: DTypes, shapes: typing.Sequence, name: str = "",
                 graph: typing.Optional[Graph] = None, device: str = ""):
        kinds = _as_list(dtypes)
        super().__init__(_troupe.padding_queue(native_graph(graph), capacity, kinds, [_shape(s) for s in shapes],
                                               name, device), len(kinds))


class PriorityQueue(QueueBase):
    """The element with the lowest priority first, of equal ones the oldest. The priority, int64 [], is the first
    component of what is enqueued and dequeued; types and shapes are those of the others.

    >>> q = troupe.queue.PriorityQueue(10, "string", shapes=[[]])
    >>> q.enqueue([5, "later"])
    >>> q.enqueue([1, "first"])
    >>> q.dequeue()
    (Tensor(1, dtype=int64), Tensor(b'first', dtype=string))
    """

    def __init__(self, capacity: int, types: DTypes, shapes: Shapes = None, name: str = "",
                 graph: typing.Optional[Graph] = None, device: str = ""):
        kinds = _as_list(types)
        super().__init__(_troupe.priority_queue(native_graph(graph), capacity, kinds,
                                                [_shape(s) for s in shapes or []], name, device), len(kinds) + 1)
