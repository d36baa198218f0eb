"""Snapshots of tasks as objects."""

import dataclasses
import doctest
import json
import pathlib
import re
import urllib.request

import pytest
import troupe
from troupe import introspection

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def cluster():
    with troupe.Cluster.from_environment(arguments=["test", "--introspect-port", "0"]) as made:
        yield made


def test_examples_of_the_documentation():
    assert doctest.testmod(introspection).failed == 0


def test_a_snapshot_has_all_that_json_has(cluster):
    address, _, token = cluster.introspection.partition("/#token=")
    request = urllib.request.Request(address + "/snapshot", headers={"Authorization": "Bearer " + token})
    raw = json.load(urllib.request.urlopen(request, timeout=10))
    assert dataclasses.asdict(introspection._made(introspection.ClusterSnapshot, raw)) == raw


def test_all_fields_of_snapshots_are_known():
    text = (ROOT / "actors/introspection/snapshot_json.cpp").read_text(encoding="utf-8")
    lists = re.findall(r"^TROUPE_JSON\((\w+), ([^)]*)\)", text, re.MULTILINE)
    assert len(lists) > 15
    for name, fields in lists:
        plain = name if hasattr(introspection, name) else name.replace("Snapshot", "").replace("Record", "")
        known = [field.name for field in dataclasses.fields(getattr(introspection, plain))]
        assert known == re.split(r",\s*", fields), name


def test_address_and_token(cluster):
    address, _, token = cluster.introspection.partition("/#token=")
    snapshot = troupe.introspect(address[len("http://"):], token)
    assert snapshot.tasks[0].snapshot.task == "/job:local/task:0"
    assert {actor.kind for actor in snapshot.tasks[0].snapshot.actors} >= {"node", "scheduler", "device"}
    with pytest.raises(troupe.Error, match="401") as caught:
        troupe.introspect(address, "wrong")
    assert caught.value.code == "unauthenticated"
    with pytest.raises(ValueError, match="no host:port"):
        troupe.introspect("localhost")
    with pytest.raises(OSError):
        troupe.introspect("127.0.0.1:1")


def test_members_of_later_versions_are_left_out():
    made = introspection._made(introspection.ClusterSnapshot, {"cluster": "c", "mood": "good"})
    assert made.cluster == "c" and made.tasks == []
