"""Gradients of rows: IndexedSlices of tapes, what optimizers, clipping and traced functions do with them."""

import subprocess
import sys

import numpy as np
import pytest
import troupe

IDS = [3, 1, 3, -1]
OPTIMIZERS = [troupe.optimizers.SGD(0.1), troupe.optimizers.SGD(0.1, momentum=0.9), troupe.optimizers.Adagrad(0.1),
              troupe.optimizers.RMSprop(0.1), troupe.optimizers.Adam(0.1), troupe.optimizers.AdamW(0.1),
              troupe.optimizers.Adamax(0.1), troupe.optimizers.Nadam(0.1), troupe.optimizers.Adadelta(0.1),
              troupe.optimizers.Ftrl(0.1), troupe.optimizers.Lion(0.1)]


def table(rows=6, dtype="float32"):
    return troupe.Variable(np.random.default_rng(1).standard_normal((rows, 3)).astype("float32"), dtype=dtype)


def loss_of(w, ids=IDS):
    rows = troupe.gather(w, ids)
    return troupe.sum(rows * rows * rows)


def gradient_of(w, ids=IDS, loss=loss_of):
    with troupe.GradientTape() as tape:
        value = loss(w, ids)
    return tape.gradient(value, w)


def dense_gradient(w, ids=IDS):
    out = np.zeros(w.shape, np.float32)
    np.add.at(out, ids, 3 * w.numpy()[ids]**2)
    return out


@pytest.mark.parametrize("read", [troupe.gather, lambda w, ids: troupe.take(w, ids, axis=0), lambda w, ids: w[ids]])
def test_a_variable_whose_rows_are_read_has_a_gradient_of_rows(read):
    w = table()
    found = gradient_of(w, loss=lambda w, ids: troupe.sum(read(w, ids)**3))
    assert isinstance(found, troupe.IndexedSlices)
    assert found.indices.tolist() == [3, 1, 3, 5] and found.values.shape == (4, 3)
    assert found.dense_shape == found.shape == (6, 3) and found.dtype == "float32"
    np.testing.assert_allclose(found.to_tensor().numpy(), dense_gradient(w), rtol=1e-6)
    assert np.array_equal(np.asarray(found), found.numpy())


def test_indices_of_any_shape_and_several_reads_are_one_list_of_rows():
    w = table()
    with troupe.GradientTape() as tape:
        y = troupe.sum(troupe.gather(w, [[0, 1], [1, 2]])) + 2 * troupe.sum(troupe.gather(w, [2]))
    found = tape.gradient(y, w)
    assert sorted(found.indices.tolist()) == [0, 1, 1, 2, 2]
    assert found.numpy()[:, 0].tolist() == [1, 2, 3, 0, 0, 0]


def test_others_have_dense_gradients():
    w, x = table(), troupe.tensor([1.0, 2.0, 3.0])
    with troupe.GradientTape() as tape:
        tape.watch(x)
        y = troupe.sum(troupe.gather(w, [0])) + troupe.sum(w) + troupe.sum(troupe.gather(x, [2, 2]))
    dw, dx = tape.gradient(y, [w, x])
    assert isinstance(dw, troupe.Tensor) and dw.numpy()[:, 0].tolist() == [2, 1, 1, 1, 1, 1]
    assert isinstance(dx, troupe.Tensor) and dx.tolist() == [0, 0, 2]  # a tensor, not a variable
    assert isinstance(gradient_of(w, loss=lambda w, ids: troupe.sum(troupe.gather(w, [0], axis=1))), troupe.Tensor)


@pytest.mark.parametrize("optimizer", OPTIMIZERS, ids=lambda o: type(o).__name__)
def test_updates_are_those_of_minimize_and_touch_the_rows_alone(optimizer):
    def new():
        made = type(optimizer).__new__(type(optimizer))
        made.__dict__.update(optimizer.__dict__)
        made._optimizer = troupe._troupe.Optimizer(str(optimizer._optimizer))
        return made

    w, other = table(), table()
    before, one, another = w.numpy().copy(), new(), new()
    for ids in (IDS, [0, 3], IDS):
        one.apply_gradients([(gradient_of(w, ids), w)])
        another.minimize(lambda ids=ids: loss_of(other, ids), [other])
    np.testing.assert_array_equal(w.numpy(), other.numpy())
    for kept, wanted in zip(one.variables, another.variables):
        np.testing.assert_array_equal(kept.numpy(), wanted.numpy())
    assert (w.numpy() == before).all(axis=1).tolist() == [False, False, True, False, True, False]


def test_plain_descent_has_the_bits_of_dense_gradients():
    w, dense = table(), table()
    for _ in range(3):
        troupe.optimizers.SGD(0.1).apply_gradients([(gradient_of(w), w)])
        troupe.optimizers.SGD(0.1).apply_gradients([(gradient_of(dense).to_tensor(), dense)])
    np.testing.assert_array_equal(w.numpy(), dense.numpy())


def test_gradients_take_the_dtype_of_the_variable():
    w = table(dtype="float64")
    before = w.numpy().copy()
    slices = troupe.IndexedSlices(np.ones((1, 3), np.float32), [2], dense_shape=(6, 3))
    troupe.optimizers.SGD(0.5).apply_gradients([(slices, w)])
    np.testing.assert_array_equal(w.numpy()[2], before[2] - 0.5)


def test_clipping_is_that_of_the_values():
    w, v = table(), troupe.Variable([3.0, 4.0])
    slices, dense = gradient_of(w), troupe.tensor([30.0, 40.0])
    values = slices.values.numpy()
    norm = float(np.sqrt((values.astype("f8")**2).sum()))
    clipped = troupe.clip_by_norm(slices, 1.0)
    assert clipped.indices.tolist() == slices.indices.tolist()
    np.testing.assert_allclose(clipped.values.numpy(), values / norm, rtol=1e-5)
    assert troupe.clip_by_norm(slices, 1e9).values.tolist() == values.tolist()
    both = np.hypot(norm, 50)
    assert float(troupe.global_norm([slices, None, dense])) == pytest.approx(both, rel=1e-5)
    (first, none, second), found = troupe.clip_by_global_norm([slices, None, dense], 2.0)
    assert none is None and float(found) == pytest.approx(both, rel=1e-5)
    np.testing.assert_allclose(first.values.numpy(), values * 2 / both, rtol=1e-5)
    np.testing.assert_allclose(second.numpy(), dense.numpy() * 2 / both, rtol=1e-5)
    with pytest.raises(ValueError, match="global_norm: there is no gradient"):
        troupe.global_norm([None])
    for options, factor in (({"clipnorm": 1.0}, 1 / norm), ({"global_clipnorm": 1.0}, 1 / both)):
        w, before = table(), table().numpy().copy()
        troupe.optimizers.SGD(1.0, **options).apply_gradients([(slices, w), (dense, v)])
        expected = before.copy()
        np.subtract.at(expected, slices.indices.numpy(), values * np.float32(factor))
        np.testing.assert_allclose(w.numpy(), expected, rtol=1e-4, atol=1e-6)
    w = table()
    troupe.optimizers.SGD(1.0, clipvalue=0.25).apply_gradients([(slices, w)])
    np.subtract.at(before, slices.indices.numpy(), np.clip(values, -0.25, 0.25))
    np.testing.assert_allclose(w.numpy(), before, rtol=1e-5, atol=1e-6)


def test_traced_steps_have_the_same_bits():
    def step(w, optimizer, ids):
        with troupe.GradientTape() as tape:
            value = loss_of(w, ids)
        gradient = tape.gradient(value, w)
        assert isinstance(gradient, troupe.IndexedSlices)
        optimizer.apply_gradients([(gradient, w)])
        return {"loss": value, "gradient": gradient}

    results = []
    for function in (step, troupe.function(step)):
        w, optimizer = table(), troupe.optimizers.Adam(0.1)
        found = [function(w, optimizer, troupe.tensor(ids)) for ids in (IDS, [0, 1, 1, 2])]
        assert found[0]["gradient"].indices.tolist() == [3, 1, 3, 5] and found[0]["gradient"].dense_shape == (6, 3)
        results.append([w.numpy()] + [f["gradient"].numpy() for f in found])
    for eager, traced in zip(*results):
        np.testing.assert_array_equal(eager, traced)


def test_they_are_arguments_of_traced_functions():
    @troupe.function
    def doubled(slices):
        return slices * 2, troupe.sum(slices.to_tensor())

    slices = troupe.IndexedSlices([[1.0], [2.0]], [2, 2], dense_shape=(4, 1))
    for _ in range(2):
        found, total = doubled(slices)
        assert found.numpy().tolist() == [[0], [0], [6], [0]] and float(total) == 3
    assert doubled.traces == 1


def test_gradients_of_functions_that_were_traced_are_of_rows():
    w = table()
    traced = troupe.function(lambda ids: loss_of(w, ids))
    with troupe.GradientTape() as tape:
        value = traced(troupe.tensor(IDS))
    found = tape.gradient(value, w)
    assert isinstance(found, troupe.IndexedSlices) and found.indices.tolist() == [3, 1, 3, 5]
    np.testing.assert_array_equal(found.numpy(), gradient_of(w).numpy())


def test_gradients_of_gradients():
    w = table()
    with troupe.GradientTape() as outer:
        inner = gradient_of(w)
        total = troupe.sum(inner.values) + troupe.sum(inner)  # each of the rows twice
    expected = np.zeros((6, 3), np.float32)
    np.add.at(expected, IDS, 12 * w.numpy()[IDS])
    np.testing.assert_allclose(outer.gradient(total, w).numpy(), expected, rtol=1e-5)


def test_what_they_are_for_operators_and_functions():
    slices = troupe.IndexedSlices([[1.0], [2.0], [4.0]], [0, 2, 2], dense_shape=(3, 1))
    assert (-slices / 2).values.tolist() == [[-0.5], [-1], [-2]]
    assert (troupe.tensor(2.0) * slices).numpy().tolist() == [[2], [0], [12]]
    twice = slices + slices
    assert twice.indices.tolist() == [0, 2, 2, 0, 2, 2] and twice.numpy().tolist() == [[2], [0], [12]]
    assert (slices + 1).tolist() == (1 + slices).tolist() == [[2], [1], [7]]
    assert (slices - 1).tolist() == (-(1 - slices)).tolist() == [[0], [-1], [5]]
    assert (troupe.ones((3, 1)) - slices).tolist() == [[0], [1], [-5]]
    assert troupe.max(slices).item() == 6 and troupe.tensor(slices).tolist() == [[1], [0], [6]]
    assert repr(slices) == "IndexedSlices(values=[[1.], [2.], [4.]], indices=[0, 2, 2], dense_shape=(3, 1))"
    with pytest.raises(ValueError, match="are not rows and their numbers"):
        troupe.IndexedSlices([[1.0], [2.0]], [0])
    with pytest.raises(ValueError, match="no rows of a tensor"):
        troupe.IndexedSlices([[1.0], [2.0]], [0, 1], dense_shape=(3, 2))
    with pytest.raises(troupe.FailedPreconditionError, match="give dense_shape"):
        troupe.IndexedSlices([[1.0], [2.0]], [0, 1]).to_tensor()
    with pytest.raises(troupe.Error, match=r"index 3 .* is not in \[0, 3\)"):
        troupe.IndexedSlices([[1.0]], [3], dense_shape=(3, 1)).to_tensor()


@pytest.mark.parametrize("decorate", ["", "@troupe.function"], ids=["eager", "traced"])
def test_a_large_table_costs_the_memory_of_its_rows(decorate):
    program = f"""if True:
        import numpy as np, troupe
        def peak():  # KiB; ru_maxrss is that of the process before as well
            with open("/proc/self/status", encoding="ascii") as file:
                return next(int(line.split()[1]) for line in file if line.startswith("VmHWM"))
        table = troupe.Variable(np.zeros((10**6, 64), np.float32))  # 244 MiB; memory that NumPy has not touched
        optimizer = troupe.optimizers.SGD(0.1, clipnorm=10.0)
        {decorate}
        def step(ids):
            with troupe.GradientTape() as tape:
                loss = troupe.sum((troupe.gather(table, ids) - 1) ** 2)
            optimizer.apply_gradients([(tape.gradient(loss, table), table)])
            return loss
        def run(n):
            for i in range(n):
                loss = step(troupe.tensor(np.arange(10) * 1000 + i % 3))
            return float(loss)
        run(2)
        before = peak()
        run(30)
        print(peak() - before, before)
    """
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    more, before = map(int, done.stdout.split())
    assert more < 4 << 10 and before < 360 << 10, done.stdout
