"""A saved model is read without Troupe: its metadata as JSON, its values by safetensors (--with-python installs it)."""

import hashlib
import json
import os
import pathlib
import subprocess

import pytest

safetensors = pytest.importorskip("safetensors.numpy")

SAVES = pathlib.Path(os.environ.get("TROUPE_PROGRAMS", "")) / "example_save_load"
DTYPES = {"float32": "f32", "float64": "f64", "int64": "i64", "int32": "i32"}


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    if not SAVES.exists():
        pytest.skip(f"there is no program {SAVES}")
    path = tmp_path_factory.mktemp("saved") / "model"
    subprocess.run([SAVES, path], check=True, stdout=subprocess.DEVNULL)
    return path


def test_metadata_has_the_hash_of_each_file(model):
    info = json.loads((model / "metadata.json").read_text(encoding="utf-8"))
    assert {"model.pb", "values.safetensors", "optimizer.safetensors"} <= set(info["files"])
    for name, file in info["files"].items():
        content = (model / name).read_bytes()
        assert len(content) == file["bytes"]
        assert hashlib.sha256(content).hexdigest() == file["sha256"], name


def test_values_have_the_hash_of_the_parameters(model):
    values = safetensors.load_file(model / "values.safetensors")
    assert any(name.endswith("dense/kernel") for name in values)
    digest = hashlib.sha256()
    for name, value in sorted(values.items(), key=lambda item: item[0].encode()):
        shape = ",".join(map(str, value.shape))
        digest.update(f"{name}\0{DTYPES[str(value.dtype)]}\0[{shape}]\0".encode() + value.tobytes())
    assert digest.hexdigest() == json.loads((model / "metadata.json").read_text())["params_sha256"]


def test_the_optimizer_has_slots_of_the_values(model):
    values = safetensors.load_file(model / "values.safetensors")
    slots = safetensors.load_file(model / "optimizer.safetensors")
    for name, value in values.items():
        assert slots[f"{name}/adam_m"].shape == value.shape
