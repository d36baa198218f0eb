"""Looks into the tasks of a cluster while they work: snapshots as objects.

    snapshot = troupe.introspect("http://127.0.0.1:38815/#token=...")
    for report in snapshot.tasks:
        if report.snapshot:
            print(report.task, [(a.kind, a.state, a.waits_for) for a in report.snapshot.actors])

Counters run from the start of their actor: take two snapshots for rates. Names that end with _ns are nanoseconds.
"""

from __future__ import annotations

import dataclasses
import http.client
import json
import typing
import urllib.parse

from . import _troupe

__all__ = [
    "Actor", "ClusterSnapshot", "Device", "Job", "Latency", "Link", "Member", "Pipeline", "RequestLog", "Servable",
    "Shard", "Stage", "Step", "TaskReport", "TaskSnapshot", "TensorUse", "Training", "Wait", "WaitThing", "Waiting",
    "introspect",
]



@dataclasses.dataclass
class Actor:
    """State: "idle", "busy" (with `current`), "waits" (for `waits_for`) or "failed"."""

    kind: str = ""
    name: str = ""
    state: str = ""
    mailbox: int = 0
    mailbox_peak: int = 0
    handled: int = 0
    passed: int = 0
    sent: int = 0
    restarts: int = 0
    busy_ns: int = 0
    current: str = ""
    current_ns: int = 0
    waits_for: str = ""
    waits_ns: int = 0
    messages: typing.Dict[str, int] = dataclasses.field(default_factory=dict)
    peers: typing.Dict[str, int] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass
class TensorUse:
    """Live tensors of one name, type and size."""

    name: str = ""
    type: str = ""
    bytes: int = 0
    count: int = 1


@dataclasses.dataclass
class Device:
    name: str = ""
    type: str = ""
    busy_ns: int = 0
    nodes_run: int = 0
    running: str = ""
    queue: int = 0
    failure: str = ""
    bytes_in_use: int = 0
    peak_bytes: int = 0
    cached_bytes: int = 0
    limit_bytes: int = 0
    allocations: int = 0
    reuses: int = 0
    pinned_bytes: int = 0
    largest: typing.List[TensorUse] = dataclasses.field(default_factory=list)
    recordings: int = 0
    recording_launches: int = 0
    recording_refusals: int = 0
    last_refusal: str = ""


@dataclasses.dataclass
class Shard:
    """A slice of the parameters."""

    shard: int = 0
    job: int = 0
    slices: int = 0
    bytes: int = 0
    version: int = 0
    staged: int = 0
    needed: int = 0
    missing: typing.List[int] = dataclasses.field(default_factory=list)
    parked: int = 0
    counts: typing.Dict[str, int] = dataclasses.field(default_factory=dict)
    staleness: typing.List[int] = dataclasses.field(default_factory=list)
    waits_for: str = ""


@dataclasses.dataclass
class Member:
    task: str = ""
    state: str = ""
    tokens: typing.List[str] = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class Job:
    """The coordinator of a training job."""

    job: int = 0
    mode: str = ""
    stage: str = ""
    view: int = 0
    epoch: int = 0
    epochs: int = 0
    step: int = 0
    steps: int = 0
    members: typing.List[Member] = dataclasses.field(default_factory=list)
    counts: typing.Dict[str, int] = dataclasses.field(default_factory=dict)
    waits_for: str = ""


@dataclasses.dataclass
class Step:
    step: int = 0
    slot: int = 0
    begin_ns: int = 0
    took_ns: int = 0
    loss: float = 0
    examples: int = 0


@dataclasses.dataclass
class Training:
    """Progress of a task's own training loop."""

    mode: str = ""
    epoch: int = 0
    epochs: int = 0
    step: int = 0
    all_steps: int = 0
    steps: int = 0
    examples: int = 0
    loss: float = 0
    doing: str = ""
    doing_ns: int = 0
    metrics: typing.Dict[str, float] = dataclasses.field(default_factory=dict)
    recent: typing.List[Step] = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class Stage:
    """Of a data pipeline, on one task."""

    name: str = ""
    elements: int = 0
    busy_ns: int = 0
    busy: float = 0
    held_bytes: int = 0
    skipped_records: int = 0


@dataclasses.dataclass
class Pipeline:
    data: str = ""
    feeds: int = 0
    made: int = 0
    waited: int = 0
    wanted: int = 0
    making: int = 0
    kept: int = 0
    kept_bytes: int = 0
    makers: int = 0
    ahead: int = 0
    stages: typing.List[Stage] = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class Latency:
    count: int = 0
    sum_ns: int = 0
    longest_ns: int = 0
    buckets: typing.List[int] = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class Servable:
    """A version of a served model."""

    model: str = ""
    version: int = 0
    state: str = ""
    error: str = ""
    labels: typing.List[str] = dataclasses.field(default_factory=list)
    bytes: int = 0
    in_flight: int = 0
    waiting_rows: int = 0
    requests: typing.Dict[str, int] = dataclasses.field(default_factory=dict)
    stages: typing.Dict[str, Latency] = dataclasses.field(default_factory=dict)
    batches: typing.List[int] = dataclasses.field(default_factory=list)
    batch_rows: int = 0


@dataclasses.dataclass
class RequestLog:
    written: int = 0
    bytes: int = 0
    left_out: typing.Dict[str, int] = dataclasses.field(default_factory=dict)
    errors: int = 0
    error: str = ""


@dataclasses.dataclass
class Link:
    """To another task."""

    peer: str = ""
    up: bool = False
    shared_memory: bool = False
    suspect: bool = False
    stalled: bool = False
    bytes_sent: int = 0
    bytes_received: int = 0
    frames_sent: int = 0
    frames_received: int = 0
    queued_frames: int = 0
    queued_bytes: int = 0
    credit: int = 0
    window: int = 0
    heard_ns: int = 0
    progress_ns: int = 0


@dataclasses.dataclass
class WaitThing:
    """What waits, or is waited for."""

    id: str = ""
    text: str = ""
    task: str = ""
    state: str = ""
    for_ns: int = 0


@dataclasses.dataclass
class Wait:
    waiter: str = ""
    awaited: str = ""
    kind: str = ""
    text: str = ""
    have: int = 0
    need: int = 0
    for_ns: int = 0


@dataclasses.dataclass
class Waiting:
    things: typing.List[WaitThing] = dataclasses.field(default_factory=list)
    waits: typing.List[Wait] = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class TaskSnapshot:
    format: int = 1
    task: str = ""
    cluster: str = ""
    incarnation: str = ""
    pid: int = 0
    version: str = ""
    unix_ns: int = 0
    uptime_ns: int = 0
    failure: str = ""
    actors: typing.List[Actor] = dataclasses.field(default_factory=list)
    devices: typing.List[Device] = dataclasses.field(default_factory=list)
    shards: typing.List[Shard] = dataclasses.field(default_factory=list)
    job: typing.Optional[Job] = None
    training: typing.Optional[Training] = None
    pipelines: typing.List[Pipeline] = dataclasses.field(default_factory=list)
    servables: typing.List[Servable] = dataclasses.field(default_factory=list)
    request_log: typing.Optional[RequestLog] = None
    links: typing.List[Link] = dataclasses.field(default_factory=list)
    waiting: Waiting = dataclasses.field(default_factory=Waiting)


@dataclasses.dataclass
class TaskReport:
    """A task's snapshot, or why there is none."""

    task: str = ""
    address: str = ""
    answered: bool = False
    error: str = ""
    took_ns: int = 0
    snapshot: typing.Optional[TaskSnapshot] = None


@dataclasses.dataclass
class ClusterSnapshot:
    format: int = 1
    cluster: str = ""
    asked: str = ""
    unix_ns: int = 0
    tasks: typing.List[TaskReport] = dataclasses.field(default_factory=list)


def _made(kind: typing.Any, value: typing.Any) -> typing.Any:
    """JSON as an object of a type of this module; members that it does not know are left out."""
    if value is None or kind in (int, float, str, bool):
        return value
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is typing.Union:
        return _made(arguments[0], value)
    if origin is list:
        return [_made(arguments[0], item) for item in value]
    if origin is dict:
        return {key: _made(arguments[1], item) for key, item in value.items()}
    types = _types(kind)
    return kind(**{name: _made(types[name], item) for name, item in value.items() if name in types})


_cache: typing.Dict[type, typing.Dict[str, typing.Any]] = {}


def _types(kind: type) -> typing.Dict[str, typing.Any]:
    if kind not in _cache:
        _cache[kind] = typing.get_type_hints(kind)
    return _cache[kind]


def introspect(address: str, token: str = "", timeout: float = 10) -> ClusterSnapshot:
    """Asks a task about itself and all others of its cluster. address: "host:port", with the cluster's token; or
    "http://host:port/#token=...", as Cluster.introspection has it and programs print it.

    >>> import troupe
    >>> with troupe.Cluster.from_environment(arguments=["train.py", "--introspect-port", "0"]) as cluster:
    ...     snapshot = troupe.introspect(cluster.introspection)
    >>> snapshot.tasks[0].snapshot.devices[0].name
    '/job:local/task:0/device:CPU:0'
    """
    url = urllib.parse.urlsplit(address if "//" in address else "//" + address)
    if url.fragment.startswith("token="):
        token = url.fragment[len("token="):]
    if not url.hostname or not url.port:
        raise ValueError(f"introspect: {address!r} is no host:port")
    kind = http.client.HTTPSConnection if url.scheme == "https" else http.client.HTTPConnection
    connection = kind(url.hostname, url.port, timeout=timeout)
    try:
        connection.request("GET", "/snapshot", headers={"Authorization": "Bearer " + token} if token else {})
        answer = connection.getresponse()
        body = answer.read()
    finally:
        connection.close()
    if answer.status != 200:
        said = body.decode(errors="replace")[:300].strip()
        code = "unauthenticated" if answer.status == 401 else "unavailable"
        _troupe.raise_error(code, f"{url.hostname}:{url.port} answers {answer.status}: {said}")
    return _made(ClusterSnapshot, json.loads(body))
