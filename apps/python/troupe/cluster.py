"""The task of a cluster that this process is.

    import troupe

    with troupe.Cluster.from_environment() as cluster:     # python -m troupe.launch --ps 1 --workers 2 train.py
        if not cluster.is_chief:
            cluster.serve()                                # until the chief ends
        else:
            g = troupe.Graph()
            with g.device("/job:ps/task:0"):
                y = g.op("MatMul", [...])
            with troupe.Session(g, cluster=cluster) as session:
                ...
"""

from __future__ import annotations

import atexit
import sys
import time
import typing

import numpy as np

from . import _troupe
from ._core import array, data as tensor

__all__ = ["Cluster", "Group"]


class Cluster:
    """A cluster that this process is a task of, or a client of. Models train on it, and sessions of it run on the
    devices of all its tasks."""

    def __init__(self, task: _troupe.Task):
        self.task = task
        atexit.register(task.close)

    @classmethod
    def from_environment(cls, threads: int = 0, arguments: typing.Optional[typing.List[str]] = None) -> Cluster:
        """Joins the cluster that troupe.launch has started, or that of --cluster FILE with --job JOB and --task INDEX;
        without these the process is a task by itself. Takes these options off `arguments`, sys.argv if not given.
        Waits until the tasks of the cluster are there. threads: of the CPU device; 0: its share of the cores.

        >>> import troupe
        >>> with troupe.Cluster.from_environment(arguments=["train.py"]) as cluster:
        ...     print(cluster.name, cluster.devices)
        /job:local/task:0 ['/job:local/task:0/device:CPU:0']
        """
        given = sys.argv if arguments is None else arguments
        task, left = _troupe.task_from_command_line(list(given), threads)
        given[:] = left
        return cls(task)

    @classmethod
    def client(cls, cluster_file: str, timeout: float = 60) -> Cluster:
        """Joins the cluster of a file as a client, which lends no device."""
        return cls(_troupe.client_of(str(cluster_file), timeout))

    @property
    def name(self) -> str:
        """"/job:worker/task:0"."""
        return self.task.name

    @property
    def job(self) -> str:
        return self.task.job

    @property
    def index(self) -> int:
        return self.task.index

    @property
    def is_chief(self) -> bool:
        """Whether this is worker 0, or a task by itself."""
        return self.index == 0 and self.job in ("worker", "local")

    @property
    def addresses(self) -> typing.Dict[str, typing.List[str]]:
        """"host:port" of the tasks of each job; none for a task by itself."""
        return self.task.addresses

    @property
    def devices(self) -> typing.List[str]:
        """Those of this task, and of the others that it has met."""
        return self.task.devices

    @property
    def introspection(self) -> typing.Optional[str]:
        """The address of this task for introspect() and browsers; None: it has none."""
        return self.task.introspection

    def wait_for(self, job: str, index: int, timeout: typing.Optional[float] = None) -> bool:
        """Waits until another task can be reached; False: not within `timeout` seconds."""
        return self.task.await_link(job, index, timeout) != 0

    def serve(self) -> None:
        """Lends this task's devices until the chief has ended."""
        link = self.task.await_link("worker", 0, None)
        while self.task.await_link("worker", 0, 0.0) == link:
            time.sleep(0.05)

    def group(self, name: str = "workers", job: str = "worker", timeout: float = 120) -> Group:
        """All tasks of a job, of which this is one, for collectives: each task makes the same calls in the same
        order."""
        members = [(job, i) for i in range(len(self.addresses.get(job, [])))]
        return Group(_troupe.Group(self.task, name, members, timeout))

    def reset_container(self, container: str) -> None:
        """Forgets the variables, queues and the like of a container (Session) on all tasks; sessions that have used
        them keep them until they close. Raises UnavailableError for a task that is gone."""
        self.task.reset_container(container)

    def close(self) -> None:
        """Leaves the cluster, once models and sessions that use it are closed."""
        self.task.close()
        atexit.unregister(self.task.close)

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *_: typing.Any) -> None:
        self.close()


class Group:
    """Tasks that work on arrays together. All of them name an operation alike."""

    def __init__(self, group: _troupe.Group):
        self._group = group

    @property
    def rank(self) -> int:
        return self._group.rank

    @property
    def ranks(self) -> int:
        return self._group.ranks

    def all_reduce(self, value: typing.Any, reduction: str = "sum", name: str = "all_reduce") -> np.ndarray:
        """The sum, mean or max of the arrays of all tasks, elementwise; the same bits on all."""
        return array(self._group.all_reduce(tensor(value), reduction, name))

    def broadcast(self, value: typing.Any, root: int = 0, name: str = "broadcast") -> np.ndarray:
        """The array of one task; those of the others only give shape and dtype."""
        return array(self._group.broadcast(tensor(value), root, name))

    def all_gather(self, value: typing.Any, name: str = "all_gather") -> typing.List[np.ndarray]:
        """The arrays of all tasks, by rank."""
        return [array(t) for t in self._group.all_gather(tensor(value), name)]

    def barrier(self, name: str = "barrier") -> None:
        """Returns once all tasks have called it."""
        self._group.barrier(name)
