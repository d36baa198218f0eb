"""troupe-data beside NumPy and, where it is installed, TensorFlow: each reads what the other writes."""

import gzip
import json
import os
import struct
import subprocess

import numpy as np
import pytest

PROGRAM = os.path.join(os.environ["TROUPE_PROGRAMS"], "troupe-data")
DTYPES = ["f4", "f8", "f2", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "b1", ">f4", ">i8", ">u2"]


def run(directory, *arguments):
    done = subprocess.run([PROGRAM, *arguments], cwd=directory, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def elements(directory, *arguments):
    """The elements that troupe-data reads, as a list of dictionaries."""
    return [json.loads(line) for line in run(directory, "head", *arguments, "--json", "--count", "1000").splitlines()]


def columns(directory, *arguments):
    rows = elements(directory, *arguments)
    return {name: np.array([row[name] for row in rows]) for name in rows[0]}


def values(shape, dtype):
    random = np.random.default_rng(7)
    return random.integers(0, 2 if dtype == "b1" else 100, shape).astype(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("order", "CF")
def test_npy_of_numpy_is_read(tmp_path, dtype, order):
    want = values((9, 3, 2), dtype).copy(order)
    np.save(tmp_path / "x.npy", want)
    np.testing.assert_array_equal(columns(tmp_path, "x.npy")["array"], want)
    if order == "C":
        with gzip.open(tmp_path / "y.npy.gz", "wb") as file:
            np.save(file, want)
        np.testing.assert_array_equal(columns(tmp_path, "y.npy.gz")["array"], want)


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_npz_of_numpy_is_read(tmp_path, save):
    want = {"x": values((50, 4), "f4"), "label": values(50, "i8"), "columns": np.asfortranarray(values((50, 2), "u2"))}
    save(tmp_path / "d.npz", **want)
    found = columns(tmp_path, "d.npz")
    assert set(found) == set(want)
    for name, array in want.items():
        np.testing.assert_array_equal(found[name], array, name)
    info = json.loads(run(tmp_path, "info", "d.npz", "--json"))
    assert info["elements"] == 50 and info["addressable"] == (save is np.savez)
    assert "whole" in run(tmp_path, "verify", "d.npz")


def test_numpy_reads_what_convert_writes(tmp_path):
    rng = np.random.default_rng(3)
    x, label = rng.standard_normal((300, 3)).astype("f4"), rng.integers(-9, 9, 300)
    names = ["x_0", "x_1", "x_2", "label"]
    with open(tmp_path / "a.csv", "w", encoding="utf-8") as file:
        file.write(",".join(names) + "\n")
        for row, value in zip(x, label):
            file.write(",".join([str(v) for v in row] + [str(value)]) + "\n")
    run(tmp_path, "convert", "a.csv", "a.npz", "--schema", "x:f32[3],label:i64")
    with np.load(tmp_path / "a.npz") as found:
        np.testing.assert_array_equal(found["x"], x)
        np.testing.assert_array_equal(found["label"], label)
    run(tmp_path, "convert", "a.npz", "a.npy", "--components", "x")
    np.testing.assert_array_equal(np.load(tmp_path / "a.npy"), x)
    run(tmp_path, "convert", "a.npz", "a.jsonl.gz")
    with gzip.open(tmp_path / "a.jsonl.gz", "rt", encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    np.testing.assert_array_equal(np.array([row["x"] for row in rows], "f4"), x)
    statistics = [json.loads(line) for line in run(tmp_path, "stats", "a.npz", "--json").splitlines()]
    np.testing.assert_allclose(statistics[0]["mean"], x.astype("f8").mean(), rtol=1e-12)
    np.testing.assert_allclose(statistics[0]["deviation"], x.astype("f8").std(), rtol=1e-12)
    assert statistics[1]["min"] == label.min() and statistics[1]["max"] == label.max()


def test_idx_is_what_numpy_makes_of_its_bytes(tmp_path):
    images = values((20, 5, 4), "u1")
    with open(tmp_path / "images-idx3-ubyte", "wb") as file:
        file.write(struct.pack(">4B3I", 0, 0, 8, 3, *images.shape) + images.tobytes())
    np.testing.assert_array_equal(columns(tmp_path, "images-idx3-ubyte")["array"], images)
    np.save(tmp_path / "f.npy", values((7, 2), "f8"))
    run(tmp_path, "convert", "f.npy", "f.idx")
    with open(tmp_path / "f.idx", "rb") as file:
        assert struct.unpack(">4B2I", file.read(12)) == (0, 0, 0x0E, 2, 7, 2)
        np.testing.assert_array_equal(np.frombuffer(file.read(), ">f8").reshape(7, 2), values((7, 2), "f8"))


def test_tfrecords_of_tensorflow_are_read_and_ours_by_tensorflow(tmp_path):
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    tf = pytest.importorskip("tensorflow")
    train = tf.train
    images, labels = values((30, 4, 4), "u1"), values(30, "i8")
    for compression, name in (("", "a.tfrecord"), ("GZIP", "a.tfrecord.gz")):
        with tf.io.TFRecordWriter(str(tmp_path / name), compression) as writer:
            for image, label in zip(images, labels):
                writer.write(train.Example(features=train.Features(feature={
                    "image": train.Feature(bytes_list=train.BytesList(value=[image.tobytes()])),
                    "label": train.Feature(int64_list=train.Int64List(value=[label])),
                    "x": train.Feature(float_list=train.FloatList(value=[0.5, -label])),
                })).SerializeToString())
        found = columns(tmp_path, name, "--schema", "image:u8[4,4],label:i64,x:f32[2]")
        np.testing.assert_array_equal(found["image"], images)
        np.testing.assert_array_equal(found["label"], labels)
        np.testing.assert_array_equal(found["x"][:, 1], -labels)
        info = json.loads(run(tmp_path, "info", name, "--json"))
        assert info["schema"] == "image:string,label:i64,x:f32[2]"
        assert "30 elements, whole" in run(tmp_path, "verify", name)
    np.savez(tmp_path / "b.npz", image=images, label=labels)
    form = {"image": tf.io.FixedLenFeature([], tf.string), "label": tf.io.FixedLenFeature([], tf.int64)}
    for compression, name in (("", "b.tfrecord"), ("GZIP", "b.tfrecord.gz")):
        run(tmp_path, "convert", "b.npz", name)
        records = list(tf.data.TFRecordDataset(str(tmp_path / name), compression).as_numpy_iterator())
        parsed = [tf.io.parse_single_example(record, form) for record in records]
        found = np.stack([tf.io.decode_raw(p["image"], tf.uint8).numpy().reshape(4, 4) for p in parsed])
        np.testing.assert_array_equal(found, images)
        np.testing.assert_array_equal([int(p["label"]) for p in parsed], labels)
