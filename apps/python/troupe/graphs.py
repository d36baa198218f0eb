"""Graphs of ops, sessions that run them, and ops by name."""

from __future__ import annotations

import typing

import numpy as np

from . import _troupe
from ._core import CompositeTensor, DTypeLike, Tensor, TensorLike, flatten, pack

__all__ = ["Graph", "Session", "gradients", "op", "ops", "signature"]

ops = _troupe.ops
signature = _troupe.signature


def op(op: str, inputs: typing.Sequence[TensorLike] = (), name: str = "", **attributes: typing.Any) -> typing.Any:
    """Any op, by its name: its output, or a list if there are several. It computes, or adds a node if an input is a
    tensor of a graph. signature(op) says what it takes.

    >>> troupe.op("CumSum", [[1, 2, 3], 0], reverse=True)
    Tensor([6, 5, 3], dtype=int64)
    """
    return _troupe.op(op, list(inputs), attributes, name)


def gradients(ys: typing.Sequence[Tensor], xs: typing.Sequence[Tensor]) -> typing.List[typing.Optional[Tensor]]:
    """Adds nodes to a graph: the gradient of the sum of all ys for each x, None where no y depends on it.

    >>> g = troupe.Graph()
    >>> x = g.placeholder("float32", [])
    >>> dx, = troupe.gradients([x * x], [x])
    >>> with troupe.Session(g) as session:
    ...     print(session.run({x: 3}, dx))
    6.0
    """
    return _troupe.gradients(list(ys), list(xs))


class Graph:
    """Nodes joined by tensors, which a Session runs. Functions of troupe, and operators, add nodes for its tensors.

    >>> g = troupe.Graph()
    >>> x = g.placeholder("float32", [None, 2], name="x")
    >>> y = troupe.sum(x * 2, axis=1)
    >>> with troupe.Session(g) as session:
    ...     print(session.run({x: np.ones((3, 2), np.float32)}, y))
    [4. 4. 4.]
    """

    def __init__(self, _graph: typing.Optional[_troupe.Graph] = None):
        self._graph = _graph or _troupe.Graph()

    def placeholder(self, dtype: DTypeLike, shape: typing.Optional[typing.Sequence] = None, name: str = "") -> Tensor:
        """A value to be fed. Unknown dimensions are None; shape None: of any rank."""
        return self._graph.placeholder(dtype, None if shape is None else list(shape), name)

    def constant(self, value: TensorLike, dtype: typing.Optional[DTypeLike] = None, name: str = "") -> Tensor:
        """A value that the graph holds, a copy."""
        return self._graph.constant(value, dtype, name)

    def op(self, op: str, inputs: typing.Sequence[TensorLike] = (), name: str = "", **attributes: typing.Any
           ) -> typing.Any:
        """Adds a node of any op, by its name; returns its output, or a list if there are several."""
        return self._graph.op(op, list(inputs), attributes, name)

    def output(self, name: str) -> Tensor:
        """The output "node" or "node:1"."""
        return self._graph.output(name)

    def device(self, name: str) -> _troupe.DeviceScope:
        """A with statement: nodes added in it run on a device, "CPU:1" or "/job:ps/task:0"."""
        return _troupe.DeviceScope(self._graph, name)

    def initializer(self) -> Tensor:
        """A target that initializes all variables that exist now."""
        return self._graph.initializer()

    def __len__(self) -> int:
        return len(self._graph)

    def __str__(self) -> str:
        return str(self._graph)


def native_graph(graph: typing.Optional[Graph]) -> typing.Optional[_troupe.Graph]:
    """Of a graph, which may be empty; None: of eager mode."""
    return None if graph is None else graph._graph


class Session:
    """Runs steps of a graph, which may grow meanwhile; several threads may run steps at once. Ctrl-C ends a step."""

    def __init__(self, graph: Graph, threads: int = 0, inference: bool = False, cluster: typing.Any = None,
                 container: str = ""):
        """threads: of the CPU device; 0: one for each core. inference: of graphs that only predict; passes that change
        bits make them faster. cluster: a Cluster, on whose devices the graph's nodes may run. container: sessions of
        the cluster that name the same one share variables, queues and the like of one name and device, which outlive
        them (Cluster.reset_container)."""
        task = None if cluster is None else cluster.task
        self._session = _troupe.Session(graph._graph, threads, inference, task, container)

    @typing.overload
    def run(self, feeds: typing.Optional[typing.Mapping[Tensor, TensorLike]], fetches: Tensor,
            targets: typing.Sequence[Tensor] = ()) -> np.ndarray: ...
    @typing.overload
    def run(self, feeds: typing.Optional[typing.Mapping[Tensor, TensorLike]] = None, *, fetches: Tensor,
            targets: typing.Sequence[Tensor] = ()) -> np.ndarray: ...
    @typing.overload
    def run(self, feeds: typing.Optional[typing.Mapping[Tensor, TensorLike]] = None,
            fetches: typing.Sequence[Tensor] = (), targets: typing.Sequence[Tensor] = ()
            ) -> typing.List[np.ndarray]: ...
    def run(self, feeds: typing.Optional[typing.Mapping[typing.Any, typing.Any]] = None,
            fetches: typing.Any = (), targets: typing.Sequence[Tensor] = ()) -> typing.Any:
        """One step: feeds {tensor: value}; returns an array for a tensor, a list of arrays for several. A sparse tensor
        is fed and fetched as one value."""
        given: dict = {}
        for tensor, value in (feeds or {}).items():
            if isinstance(tensor, CompositeTensor):
                given.update(tensor._feeds(value))
            else:
                given[tensor] = value
        if isinstance(fetches, Tensor):
            return self._session.run(given, [fetches], list(targets))[0]
        single = isinstance(fetches, CompositeTensor)
        wanted = [fetches] if single else list(fetches)
        found = pack(wanted, iter(self._session.run(given, flatten(wanted), list(targets))))
        return found[0] if single else found

    def close(self) -> None:
        """Ends the session, and steps of other threads."""
        self._session.close()

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: typing.Any) -> None:
        self.close()
