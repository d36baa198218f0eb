"""Ragged tensors: values, graphs, functions, gradients, and batches of pipelines."""

import os

import numpy as np
import pytest
import troupe
from troupe import data


def rows(*lists):
    return troupe.RaggedTensor.from_row_lengths(np.concatenate([np.float32(x) for x in lists]), [len(x) for x in lists])


def test_rows_come_and_go():
    x = rows([1, 2], [], [3, 4, 5])
    assert x.tolist() == [[1, 2], [], [3, 4, 5]]
    assert x.row_splits.tolist() == [0, 2, 2, 5] and x.row_lengths().tolist() == [2, 0, 3]
    assert x.row_ids().tolist() == [0, 0, 2, 2, 2]
    dense = x.to_tensor(default_value=9)
    assert dense.tolist() == [[1, 2, 9], [9, 9, 9], [3, 4, 5]] and dense.dtype == troupe.float32
    assert troupe.RaggedTensor.from_tensor(dense, x.row_lengths()).tolist() == x.tolist()
    assert troupe.strings.split(["a b", ""]).to_tensor().tolist() == [[b"a", b"b"], [b"", b""]]
    assert troupe.RaggedTensor([5, 6], [0, 0, 2]).tolist() == [[], [5, 6]]


def test_rows_are_reduced_as_numpy_does():
    rng = np.random.default_rng(1)
    lists = [rng.random((n, 3)) for n in (4, 1, 7)]
    x = troupe.RaggedTensor.from_row_lengths(np.concatenate(lists), [len(row) for row in lists])
    for name in "sum", "mean", "max", "min":
        wanted = [getattr(row, name)(axis=0) for row in lists]
        np.testing.assert_allclose(getattr(x, name)(), wanted, rtol=1e-12, err_msg=name)
    assert rows([], [1]).mean().tolist() == [0, 1]


def test_graphs_functions_and_gradients_take_them():
    x = rows([1, 2], [], [3, 4, 5])
    g = troupe.Graph()
    inside = troupe.RaggedTensor(g.placeholder("f32", [None]), g.placeholder("i64", [None]))
    with troupe.Session(g) as session:
        assert session.run({inside: x}, inside.sum()).tolist() == [3, 0, 12]
        assert session.run({inside: x}, inside.to_tensor()).shape == (3, 3)
        assert session.run({inside: x}, inside.with_values(inside.values + 1)).tolist() == [[2, 3], [], [4, 5, 6]]
        with pytest.raises(ValueError, match="fed with a troupe.RaggedTensor, not list"):
            session.run({inside: [1]}, inside.sum())

    @troupe.function
    def doubled(ragged):
        return ragged.with_values(ragged.values * 2), ragged.mean()

    for given in x, rows([7], [1, 2, 3, 4, 5, 6]), rows([1]):
        twice, mean = doubled(given)
        assert twice.tolist() == [[2 * v for v in row] for row in given.tolist()]
        assert mean.tolist() == given.mean().tolist()
    assert doubled.traces == 1

    with troupe.GradientTape() as tape:
        tape.watch(x.values)
        loss = troupe.sum(x.mean() ** 2) + troupe.sum(x.to_tensor() ** 2)
    np.testing.assert_allclose(tape.gradient(loss, x.values), np.float32([1.5, 1.5, 8 / 3, 8 / 3, 8 / 3])
                               + 2 * x.values.numpy(), rtol=1e-6)


def test_row_splits_that_are_none_are_errors():
    for splits in [0, 4], [0, 3, 1, 5], [1, 5]:
        with pytest.raises(troupe.InvalidArgumentError, match="RowIds"):
            troupe.RaggedTensor([1, 2, 3, 4, 5], splits).sum()
    with pytest.raises(ValueError, match=r"row_splits are of shape \(1, 2\)"):
        troupe.RaggedTensor([1, 2], [[0, 2]])


def words(n=7):
    return data.range(n).map(lambda i: {"number": i, "words": np.arange(i % 4) + 10 * i},
                             schema={"number": ("int64", []), "words": ("int64", [None])})


def test_batches_have_rows_of_any_length():
    batches = list(words().ragged_batch(3))
    assert [b["number"].tolist() for b in batches] == [[0, 1, 2], [3, 4, 5], [6]]
    assert [b["words"].tolist() for b in batches] == [
        [[], [10], [20, 21]], [[30, 31, 32], [], [50]], [[60, 61]]]
    assert len(list(words().ragged_batch(3, drop_rest=True))) == 2
    sparse = next(iter(words().sparse_batch(3)))["words"]
    assert sparse.indices.tolist() == [[1, 0], [2, 0], [2, 1]]
    assert sparse.values.tolist() == [10, 20, 21] and sparse.shape == (3, 2)
    with pytest.raises(troupe.InvalidArgumentError, match="'words' has the parts of a ragged tensor"):
        words().ragged_batch(3).unbatch()


def test_functions_of_elements_take_and_return_ragged_tensors():
    batches = words().ragged_batch(3)
    sums = [s.tolist() for s in batches.map(lambda e: e["words"].sum())]
    assert sums == [[0, 10, 41], [93, 0, 50], [121]]
    same = batches.map(lambda e: {"words": e["words"], "mean": e["words"].mean()})
    assert [b["words"].tolist() for b in same] == [b["words"].tolist() for b in batches]

    @troupe.function
    def more(e):
        return {"words": e["words"].with_values(e["words"].values + 1)}

    assert next(iter(batches.map(more)))["words"].tolist() == [[], [11], [21, 22]]
    pair = data.zip(data.range(2), data.range(2).map(lambda n: np.full(int(n), 7))).ragged_batch(2)
    number, sevens = next(iter(pair))
    assert number.tolist() == [0, 1] and sevens.tolist() == [[], [7]]


def test_elements_may_be_sparse():
    def matrix(n):
        return {"m": troupe.SparseTensor(np.arange(n).repeat(2).reshape(n, 2), np.ones(n), [4, n + 1])}

    matrices = data.range(4).map(matrix)
    assert [e["m"].shape for e in matrices] == [(4, 1), (4, 2), (4, 3), (4, 4)]
    batches = [b["m"] for b in matrices.sparse_batch(3)]
    assert [b.shape for b in batches] == [(3, 4, 3), (1, 4, 4)]
    assert batches[0].indices.tolist() == [[1, 0, 0], [2, 0, 0], [2, 1, 1]]
    assert [b["m"].nnz for b in matrices.sparse_batch(3).map(lambda e: {"m": e["m"].with_values(e["m"].values * 2)})
            ] == [3, 3]
    with pytest.raises(troupe.InvalidArgumentError, match="'m' has the parts of a sparse tensor: use sparse_batch"):
        matrices.batch(2)


def test_files_keep_sparse_and_ragged_tensors(tmp_path):
    batches = words().map(lambda e: {"words": e["words"]}, schema={"words": ("int64", [None])})
    kept = [batches.ragged_batch(3).cache(tmp_path / "ragged"), batches.sparse_batch(3).cache(tmp_path / "sparse")]
    for _ in range(2):  # made, and read
        ragged, sparse = ([b["words"] for b in pipeline] for pipeline in kept)
        assert [x.tolist() for x in ragged] == [[[], [10], [20, 21]], [[30, 31, 32], [], [50]], [[60, 61]]]
        assert [x.values.tolist() for x in sparse] == [[10, 20, 21], [30, 31, 32, 50], [60, 61]]
        assert [x.shape for x in sparse] == [(3, 2), (3, 3), (1, 2)]
    parts = {name: getattr(sparse[0], name) for name in ("indices", "values", "dense_shape")}
    troupe.save_npz(tmp_path / "x.npz", parts)
    troupe.save_safetensors(tmp_path / "x.safetensors", parts)
    for name in "x.npz", "x.safetensors":
        again = troupe.SparseTensor(**dict(troupe.TensorFile(tmp_path / name)))
        assert again.indices.tolist() == [[1, 0], [2, 0], [2, 1]] and again.shape == (3, 2)


def test_embeddings_of_ragged_batches_are_trained():
    table = troupe.Variable(np.ones((80, 2), np.float32))
    optimizer = troupe.optimizers.SGD(learning_rate=0.1)
    for batch in words().ragged_batch(3):
        with troupe.GradientTape() as tape:
            loss = troupe.sum(troupe.nn.embedding_lookup_sparse(table, batch["words"], combiner="sum"))
        optimizer.apply_gradients([(tape.gradient(loss, table), table)])
    seen = sorted(i for batch in words().ragged_batch(7) for row in batch["words"].tolist() for i in row)
    expected = np.ones((80, 2), np.float32)
    expected[seen] -= np.float32(0.1)
    np.testing.assert_allclose(table.numpy(), expected, rtol=1e-6)


def test_features_of_any_length_and_sparse_ones_are_those_of_tensorflow(tmp_path):
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    tf = pytest.importorskip("tensorflow")
    rng = np.random.default_rng(5)
    records = []
    for i in range(23):
        tags = rng.integers(0, 100, rng.integers(0, 5))
        places = rng.permutation(12)[: rng.integers(0, 6)]
        records.append(tf.train.Example(features=tf.train.Features(feature={
            "label": tf.train.Feature(int64_list=tf.train.Int64List(value=[i])),
            **({"tags": tf.train.Feature(int64_list=tf.train.Int64List(value=tags))} if i != 4 else {}),
            "row": tf.train.Feature(int64_list=tf.train.Int64List(value=places // 4)),
            "column": tf.train.Feature(int64_list=tf.train.Int64List(value=places % 4)),
            "weight": tf.train.Feature(float_list=tf.train.FloatList(value=rng.random(len(places)))),
        })).SerializeToString())
    with tf.io.TFRecordWriter(str(tmp_path / "a.tfrecord")) as writer:
        for record in records:
            writer.write(record)
    elements = data.tfrecord(tmp_path / "a.tfrecord", {
        "label": data.FixedLenFeature([], "int64"), "tags": data.VarLenFeature("int64"),
        "m": data.SparseFeature(["row", "column"], "weight", "float32", [3, 4])})
    form = {"label": tf.io.FixedLenFeature([], tf.int64), "tags": tf.io.VarLenFeature(tf.int64),
            "m": tf.io.SparseFeature(["row", "column"], "weight", tf.float32, [3, 4])}
    for number, batch in enumerate(elements.sparse_batch(8)):
        wanted = tf.io.parse_example(records[8 * number : 8 * number + 8], form)
        np.testing.assert_array_equal(batch["label"], wanted["label"])
        for name in "tags", "m":
            for part in "indices", "values", "dense_shape":
                np.testing.assert_array_equal(getattr(batch[name], part), getattr(wanted[name], part), err_msg=name)
    assert number == 2
    rows = data.tfrecord(tmp_path / "a.tfrecord", {"tags": data.VarLenFeature("int64")}).ragged_batch(23)
    wanted = tf.RaggedTensor.from_sparse(tf.io.parse_example(records, {"tags": tf.io.VarLenFeature(tf.int64)})["tags"])
    assert [batch["tags"].tolist() for batch in rows] == [wanted.to_list()]
