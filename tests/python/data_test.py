"""Data pipelines: sources, stages, Python's functions, the elements of an epoch."""

import doctest
import subprocess
import sys
import threading

import numpy as np
import pytest
import troupe
from troupe import data


def points(n=10):
    return data.from_tensors({"x": np.arange(2 * n, dtype=np.float32).reshape(n, 2), "y": np.arange(n)})


def numbers(pipeline, **options):
    return [int(n) for n in pipeline.iterate(**options)]


def test_examples_of_the_documentation():
    assert doctest.testmod(data).failed == 0


def test_elements_have_the_form_of_their_source():
    assert sorted(next(iter(points()))) == ["x", "y"]
    x, y = next(iter(data.from_tensors((np.ones((3, 2)), np.zeros(3)))))
    assert x.shape == (2,) and y.shape == ()
    assert next(iter(data.from_tensors(np.ones((3, 2))))).shape == (2,)
    with pytest.raises(troupe.Error, match="component_1.* has 4 elements"):
        data.from_tensors((np.ones(3), np.ones(4)))


def test_stages_are_those_of_the_description():
    p = data.range(10)
    assert numbers(p.take(3)) == [0, 1, 2]
    assert numbers(p.skip(8)) == [8, 9]
    assert numbers(p.shard(3, 1)) == [1, 4, 7]
    assert numbers(p.take(2).repeat(2)) == [0, 1, 0, 1]
    assert numbers(p.take(2).concatenate(data.range(5, 7))) == [0, 1, 5, 6]
    assert [w.tolist() for w in data.range(4).window(2)] == [[0, 1], [1, 2], [2, 3]]
    assert [b.tolist() for b in data.range(5).batch(2, drop_rest=True)] == [[0, 1], [2, 3]]
    assert numbers(p.batch(3).unbatch()) == list(range(10))
    assert [(int(a), int(b)) for a, b in data.zip(data.range(3), data.range(10, 20))] == [(0, 10), (1, 11), (2, 12)]
    assert [(int(n), int(i)) for n, i in data.range(7, 9).enumerate()] == [(7, 0), (8, 1)]
    assert numbers(data.sample([data.range(5), data.range(5)], [1, 0])) == list(range(5))
    assert len(p) == p.size == 10 and p.addressable
    assert "shuffle (seed 7" in repr(p.shuffle(7))


def test_shuffle_gives_each_epoch_another_order():
    p = data.range(100).shuffle(7)
    first, again, second = numbers(p), numbers(p), numbers(p, epoch=1)
    assert first == again != second and sorted(first) == sorted(second) == list(range(100))


def test_batches_of_different_shapes_are_padded():
    rows = data.from_generator(lambda: ({"ids": np.arange(n), "text": "a" * n} for n in (1, 3, 2)))
    assert rows.schema == {"ids": ("i64", [None]), "text": ("string", [])}
    batch = next(iter(rows.padded_batch(3, padding={"ids": -1})))
    assert batch["ids"].tolist() == [[0, -1, -1], [0, 1, 2], [0, 1, -1]]
    assert batch["text"].tolist() == [b"a", b"aaa", b"aa"]
    shapes = [b["ids"].shape for b in rows.bucketed_batch("ids", [2], [1, 2])]
    assert sorted(shapes) == [(1, 1), (2, 3)]
    with pytest.raises(ValueError, match="'words', which is no component"):
        rows.padded_batch(2, padding={"words": 0})


def test_functions_of_python_map_elements():
    p = points().map(lambda e: {**e, "sum": e["x"].sum()})
    assert p.schema["sum"] == ("f32", [])
    assert [float(e["sum"]) for e in p] == [4.0 * i + 1 for i in range(10)]
    assert [int(y) for _, y in points().map(lambda e: (e["x"], e["y"] + 1))] == list(range(1, 11))
    assert numbers(data.range(6).filter(lambda n: n % 3 == 0)) == [0, 3]
    assert numbers(data.range(3).flat_map(lambda n: [n] * int(n))) == [1, 2, 2]
    assert sorted(numbers(data.range(1, 3).interleave(lambda n: data.range(int(n))))) == [0, 0, 1]


def test_a_function_may_use_its_array_again():
    out = np.zeros(1)

    def same_array(n):
        out[0] = n
        return out

    assert [float(b) for batch in data.range(4).map(same_array).batch(4) for b in batch[:, 0]] == [0, 1, 2, 3]


def test_traced_functions_map_elements_without_python():
    calls = []

    @troupe.function
    def scaled(e):
        calls.append(1)
        return {"x": e["x"] * factors, "sum": troupe.sum(e["x"]), "y": e["y"], "one": 1}

    factors = troupe.tensor([1.0, 10.0])
    p = points().map(scaled)
    assert p.schema == {"x": ("f32", [2]), "sum": ("f32", []), "y": ("i64", []), "one": ("i64", [])}
    assert p.addressable and len(p) == 10 and "map scaled" in repr(p)
    for i, e in enumerate(p.iterate(threads=3)):
        assert (e["x"].tolist(), e["sum"], e["y"], e["one"]) == ([2 * i, 20 * i + 10], 4 * i + 1, i, 1)
    assert [len(b["y"]) for b in p.shuffle(3).batch(4)] == [4, 4, 2]
    assert calls == [1]
    pairs = data.from_tensors((np.ones((3, 2)), np.arange(3)))
    assert [int(n) for _, n in pairs.map(troupe.function(lambda x, n: (x, n + 1)))] == [1, 2, 3]
    assert numbers(data.range(3).map(troupe.function(lambda n: n * n))) == [0, 1, 4]
    rows = data.from_generator(lambda: (np.arange(n) for n in (1, 3, 2)))
    assert [b.tolist() for b in rows.map(troupe.function(lambda x: x + 1)).padded_batch(3)] == [
        [[1, 0, 0], [1, 2, 3], [1, 2, 0]]]


def test_traced_functions_are_methods_too():
    class Scale:
        def __init__(self, by):
            self.by = by

        @troupe.function
        def scale(self, n):
            return n * self.by

    p = data.range(3).map(Scale(5).scale)
    assert numbers(p) == [0, 5, 10] and "map scale" in repr(p)


def test_traced_functions_filter_and_expand():
    assert numbers(data.range(6).filter(troupe.function(lambda n: n % 3 == 0))) == [0, 3]
    assert numbers(data.range(3).flat_map(troupe.function(lambda n: troupe.stack([n, -n])))) == [0, 0, 1, -1, 2, -2]


def test_random_numbers_of_traced_functions_follow_from_seed_epoch_and_element():
    @troupe.function
    def noisy(n):
        return troupe.random.uniform((2,)) + troupe.random.normal(()), n

    def drawn(p, **options):
        return [x.tolist() for x, _ in p.iterate(**options)]

    p = data.range(50).map(noisy, seed=3)
    first = drawn(p)
    troupe.set_seed(99)  # of eager mode
    assert drawn(p, threads=4) == first == drawn(data.range(50).map(noisy, seed=3))
    assert drawn(p, epoch=1) != first != drawn(data.range(50).map(noisy, seed=4))
    assert len({x for row in first for x in row}) == 100
    shuffled = [(int(n), x.tolist()) for x, n in p.shuffle(1)]
    assert shuffled != sorted(shuffled) and dict(shuffled) == dict(enumerate(first))
    assert {int(n): x.tolist() for x, n in data.range(50).map(noisy, seed=3).shard(5, 2)} == {
        n: first[n] for n in range(2, 50, 5)}


def test_a_model_fits_to_a_traced_pipeline_as_to_its_arrays():
    keras = troupe.keras
    x = np.random.default_rng(3).random((64, 3), np.float32)
    y = x @ np.float32([[1], [-2], [3]])

    def fitted(given, **options):
        model = keras.Sequential([keras.layers.Input((3,)), keras.layers.Dense(1, kernel_initializer="zeros")])
        model.compile(optimizer=keras.optimizers.SGD(0.3), loss="mse")
        model.fit(given, epochs=3, verbose=0, **options)
        return model.get_weights()

    @troupe.function
    def prepare(e):
        return {"x": e["x"] / 2 - 1, "y": e["y"] * 4}

    arrays = data.from_tensors({"x": x / 2 - 1, "y": y * 4}).batch(8)
    traced = data.from_tensors({"x": x, "y": y}).map(prepare).batch(8)
    for found, wanted in zip(fitted(traced), fitted(arrays)):
        np.testing.assert_array_equal(found, wanted)


def test_functions_that_cannot_be_traced_are_refused_with_their_line():
    def by_value(n):
        if n > 1:
            return n
        return -n

    def refused(function, match, method="map"):
        with pytest.raises(ValueError, match=match):
            getattr(data.range(4), method)(troupe.function(function))

    refused(by_value, r"stage 'map by_value': the function cannot be traced: .*no value before .*\(data_test.py:\d+\)")
    refused(lambda n: {}["b"], r"cannot be traced: KeyError: 'b' \(data_test.py:\d+\)")
    refused(lambda n: troupe.mean(n, axis=3), r"\(data_test.py:\d+\)")  # not the line of troupe.mean
    v = troupe.Variable(2, name="scale")
    refused(lambda n: n * v, "it reads variable 'scale'.*use its value")
    refused(lambda n: troupe.cond(n > 1, lambda: n, lambda: -n), "no control flow")
    refused(lambda n: n, "returns component_0 i64.*, not one boolean", "filter")
    refused(lambda n: troupe.random.uniform(()) > 0.5, "draws random numbers: draw them in map", "filter")
    refused(lambda n: data.range(3), "interleave: its function makes pipelines", "interleave")
    with pytest.raises(ValueError, match="the schema of a function that is traced follows from its ops"):
        data.range(3).map(troupe.function(lambda n: n), schema={"component_0": ("i64", [])})
    failing = data.range(4).map(troupe.function(lambda n: troupe.take(troupe.ones(2), n)), name="pick")
    with pytest.raises(troupe.Error, match=r"stage 'map pick'.*Gather"):
        list(failing)


def test_random_numbers_follow_from_seed_epoch_and_element():
    p = data.range(4).map(lambda n, rng: rng.random(), seed=3)
    first, again, later = list(p), list(p), list(p.iterate(epoch=1))
    assert first == again and first != later and len(set(map(float, first))) == 4


def test_errors_name_the_stage_and_the_line():
    p = data.range(3).map(lambda n: 1 // int(n - 1), schema={"z": ("i64", [])}, name="divide")
    with pytest.raises(troupe.Error, match=r"stage 'map divide': ZeroDivisionError: .*\(data_test.py:\d+\)"):
        list(p)
    grown = data.range(20).map(lambda n: np.zeros(1 if n < 10 else 2), name="grow")
    with pytest.raises(troupe.Error, match="stage 'map grow'"):
        list(grown)
    with pytest.raises(troupe.Error, match=r"map f returned \['b'\]: its schema has \['a'\]"):
        list(data.range(20).map(lambda n: {"a" if n < 10 else "b": n}, name="f"))


def test_slow_elements_are_made_ahead_in_order():
    seen, two, here = set(), threading.Event(), threading.get_ident()

    def slow(n):
        seen.add(threading.get_ident())
        if len(seen) > 1:
            two.set()
        two.wait(0.001 if threading.get_ident() == here else 30)  # until another thread has come
        return n

    p = data.range(200).map(slow, schema={"component_0": ("i64", [])})
    assert numbers(p, threads=4) == list(range(200))
    assert len(seen) > 1
    seen.clear()
    assert numbers(p, threads=0) == list(range(200)) and len(seen) == 1


def test_an_error_ends_the_epoch_also_on_other_threads():
    def fails_late(n):
        if n == 50:
            raise ValueError("no such word")
        return n

    got = []
    with pytest.raises(troupe.Error, match="no such word"):
        for n in data.range(100).map(fails_late).iterate(threads=3):
            got.append(int(n))
    assert got == list(range(50))


def test_an_open_loop_does_not_hold_up_the_end_of_the_process():
    program = """if True:
        from troupe import data
        it = data.range(10**6).map(lambda n: (sum(range(10_000)), n)[1]).iterate(threads=3)
        print([int(next(it)) for _ in range(20)][-1])
    """
    done = subprocess.run([sys.executable, "-c", program], timeout=60, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "19\n", "")


def test_elements_are_kept(tmp_path):
    calls = []

    def noted(n):
        calls.append(int(n))
        return n

    p = data.range(5).map(noted, schema={"component_0": ("i64", [])})
    kept = p.cache()
    assert numbers(kept) == numbers(kept) == list(range(5)) and len(calls) == 5
    in_file = p.cache(tmp_path / "numbers.cache")
    assert numbers(in_file.shuffle(1)) != numbers(in_file) == list(range(5)) and len(calls) == 10


def test_files(tmp_path):
    (tmp_path / "points.csv").write_text("a,b\n1,x\n2,y\n")
    rows = list(data.csv(tmp_path / "points.csv"))
    assert [(int(r["a"]), r["b"].item()) for r in rows] == [(1, b"x"), (2, b"y")]
    np.save(tmp_path / "a.npy", np.arange(6).reshape(3, 2))
    assert [e["array"].tolist() for e in data.npy(tmp_path / "*.npy")] == [[0, 1], [2, 3], [4, 5]]
    np.savez(tmp_path / "a.npz", x=np.arange(3), y=np.ones(3))
    assert [int(e["x"]) for e in data.npz(tmp_path / "a.npz", ["x"])] == [0, 1, 2]
    (tmp_path / "users.jsonl").write_text('{"age": 3}\n{}\n')
    users = data.json_lines(tmp_path / "users.jsonl", {"age": ("i32", [], "7")})
    assert [int(e["age"]) for e in users] == [3, 7]
    assert [t.item() for t in data.text_lines([tmp_path / "points.csv"])][1:] == [b"1,x", b"2,y"]
    assert [t.item() for t in data.fixed_records(tmp_path / "points.csv", 6)] == [b"a,b\n1,", b"x\n2,y\n"]
    with pytest.raises(troupe.Error, match="none.csv"):
        data.csv(tmp_path / "none.csv")


def test_functions_of_images_and_texts():
    pictures = data.from_tensors({"image": np.full((3, 8, 6, 3), 255, np.uint8)})
    small = pictures.map(data.images.resize("image", (4, 4))).map(
        data.images.normalize("image", [0.5] * 3, [0.5] * 3))
    assert small.schema["image"] == ("f32", [4, 4, 3])
    assert (next(iter(small))["image"] == 1).all()
    reviews = data.from_tensors({"text": np.array(["good good film", "bad film, good"])})
    words = data.texts.learn_vocabulary(reviews, "text")
    assert words == ["good", "film", "bad"]
    ids = reviews.map(data.texts.vectorize("text", words, length=4))
    assert [e["text"].tolist() for e in ids] == [[2, 2, 3, 0], [4, 3, 2, 0]]


def test_pipelines_are_batch_sources():
    p = points().batch(4)
    assert isinstance(p, troupe._troupe.BatchSource)
    assert p.components == [("x", "float32", [2]), ("y", "int64", [])] and p.examples == 10
