"""Sparse tensors: as values of sessions, functions, loops and tapes."""

import numpy as np
import pytest
import troupe
from troupe import SparseTensor, sparse


def example(values=(1.0, 2.0, 3.0), dtype=np.float32):
    return SparseTensor([[0, 1], [0, 3], [2, 0]], np.array(values, dtype), [3, 4])


def same(a, b):
    assert isinstance(a, SparseTensor) and isinstance(b, SparseTensor)
    assert a.dtype == b.dtype and a.shape == b.shape
    assert a.indices.tolist() == b.indices.tolist()
    np.testing.assert_array_equal(a.values.numpy(), b.values.numpy())


def test_parts_and_shapes():
    x = example()
    assert (x.shape, x.ndim, x.nnz, x.dtype, x.is_eager) == ((3, 4), 2, 3, "float32", True)
    assert x.indices.dtype == "int64" and x.dense_shape.tolist() == [3, 4]
    same(x.with_values(x.values * 2), example((2, 4, 6)))
    assert SparseTensor(np.zeros((0, 3), np.int32), np.zeros(0), (1, 2, 3)).nnz == 0
    same(SparseTensor(np.array([[0, 1]], np.int32), [b"a"], np.array([2, 2], np.int32)),
         SparseTensor([[0, 1]], [b"a"], [2, 2]))


def test_arrays_are_not_copied():
    values, indices = np.ones(2, np.float32), np.array([[0], [1]])
    x = SparseTensor(indices, values, [3])
    assert np.shares_memory(x.values.numpy(), values) and np.shares_memory(x.indices.numpy(), indices)


@pytest.mark.parametrize("indices, values, shape", [
    ([0, 1], [1.0, 2.0], [3]), ([[0], [1]], [1.0], [3]), ([[0, 1]], [1.0], [3]), ([[0]], [[1.0]], [3]),
    ([[0]], [1.0], 3)])
def test_parts_that_do_not_fit_together_are_an_error(indices, values, shape):
    with pytest.raises(troupe.InvalidArgumentError, match=r"must be \[n,rank\], \[n\] and \[rank\]"):
        SparseTensor(indices, values, shape)


def test_it_is_no_array():
    with pytest.raises(TypeError, match="to_dense"):
        np.asarray(example())
    with pytest.raises(TypeError, match="from_dense"):
        sparse.as_sparse([[1.0]])


def test_a_session_feeds_and_fetches_it_as_one_value():
    g = troupe.Graph()
    x = sparse.placeholder(g, "float32", [None, 4], name="in")
    assert x.shape == (None, 4) and not x.is_eager and x.nnz is None
    assert x.indices.shape == (None, 2) and len(g) > 0 and g.output("in/values").shape == (None,)
    doubled = x.with_values(x.values * 2)
    with troupe.Session(g) as session:
        for value in (example(), example().with_values([4.0, 5.0, 6.0])):
            same(session.run({x: value}, doubled), value.with_values(value.values * 2))
        found, total = session.run({x: example()}, [doubled, troupe.sum(x.values)])
        same(found, example((2, 4, 6)))
        assert total == 6
        rows = SparseTensor([[6, 0]], np.float32([1]), [7, 4])
        same(session.run({x: rows}, x), rows)
        parts = np.array([[0, 1]]), np.float32([7]), (3, 4)
        same(session.run({x: parts}, x), SparseTensor(*parts))


def test_a_value_that_does_not_fit_is_not_fed():
    g = troupe.Graph()
    x = sparse.placeholder(g, "float32", [None, 4])
    with troupe.Session(g) as session:
        with pytest.raises(ValueError, match=r"shape \(3, 5\) is fed to one of \(None, 4\)"):
            session.run({x: SparseTensor([[0, 0]], np.float32([1]), [3, 5])}, x)
        with pytest.raises(ValueError, match="float64 is fed to a sparse tensor of float32"):
            session.run({x: example(dtype=np.float64)}, x)


def test_a_known_shape_is_part_of_the_graph():
    g = troupe.Graph()
    x = sparse.placeholder(g, "float32", [3, 4])
    assert x.shape == (3, 4)
    with troupe.Session(g) as session:
        same(session.run({x: example()}, x), example())


def test_a_function_is_traced_once_for_any_number_of_elements():
    @troupe.function
    def doubled(x, scale):
        assert isinstance(x, SparseTensor) and x.shape == (3, 4) and x.nnz is None
        return {"y": x.with_values(x.values * scale["by"])}, troupe.sum(x.values)

    for n in range(1, 4):
        x = SparseTensor([[0, i] for i in range(n)], np.ones(n, np.float32), [3, 4])
        found, total = doubled(x, {"by": troupe.tensor(2.0)})
        same(found["y"], x.with_values(2 * np.ones(n, np.float32)))
        assert float(total) == n
    assert doubled.traces == 1
    with pytest.raises(AssertionError):
        doubled(SparseTensor([[0, 0]], [1.0], [3, 5]), {"by": troupe.tensor(2.0)})  # another dense shape


def test_functions_within_functions_and_methods_take_it():
    class Scaled:
        @troupe.function
        def inner(self, x):
            return x.with_values(x.values + 1)

        @troupe.function
        def outer(self, x):
            return self.inner(self.inner(x))

    same(Scaled().outer(example()), example((3, 4, 5)))


def test_loops_and_branches_take_it():
    x = example()
    found = troupe.while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, x.with_values(x.values * 2)), (0, x))
    same(found[1], example((8, 16, 24)))
    same(troupe.cond(True, lambda x: x.with_values(-x.values), lambda x: x, x), example((-1, -2, -3)))
    same(troupe.switch_case(1, [lambda x: x, lambda x: x.with_values(-x.values)], x), example((-1, -2, -3)))
    g = troupe.Graph()
    fed = sparse.placeholder(g, "float32", [3, 4])
    looped = troupe.while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, x.with_values(x.values * 2)),
                               (g.constant(0), fed))[1]
    with troupe.Session(g) as session:
        same(session.run({fed: x}, looped), example((8, 16, 24)))


def tape_of(x, function):
    with troupe.GradientTape() as tape:
        tape.watch(x)
        y = function()
    return tape.gradient(y, x)


def test_a_tape_gives_gradients_of_values():
    x = example()
    with troupe.GradientTape() as tape:
        tape.watch(x)
        y = {"a": troupe.sum(x.values ** 2)}
    found = tape.gradient(y, {"x": x, "none": troupe.tensor(1.0)})
    same(found["x"], example((2, 4, 6)))
    assert found["none"] is None and tape_of(x, lambda: troupe.tensor(1.0)) is None
    value, gradient = troupe.value_and_grad(lambda x: troupe.sum(x.values ** 3))(x)
    assert float(value) == 36
    same(gradient, example((3, 12, 27)))

    @troupe.function
    def cubed(x):
        return x.with_values(x.values ** 3)

    with troupe.GradientTape() as tape:
        tape.watch(x)
        y = cubed(x)
    same(tape.gradient(y, x), example((3, 12, 27)))


def test_matrices_of_scipy_become_sparse_tensors():
    scipy = pytest.importorskip("scipy.sparse")
    values = np.float32([1, 2, 3])
    coo = scipy.coo_matrix((values, ([0, 0, 2], [1, 3, 0])), shape=(3, 4))
    same(SparseTensor.from_scipy(coo), example())
    assert np.shares_memory(SparseTensor.from_scipy(coo).values.numpy(), coo.data)
    same(SparseTensor.from_scipy(coo.tocsr()), example())
    same(SparseTensor.from_scipy(coo.tocsc()), example())
    repeated = scipy.coo_matrix((np.float32([3, 1, 1, 1]), ([2, 0, 0, 0], [0, 3, 1, 3])), shape=(3, 4))
    same(SparseTensor.from_scipy(repeated), example((1, 2, 3)))
    assert SparseTensor.from_scipy(repeated).values.tolist() == [1, 2, 3]
    np.testing.assert_allclose(sparse.to_dense(coo + coo).numpy(), 2 * coo.toarray())  # SciPy's, as it is
    back = example().to_scipy()
    np.testing.assert_array_equal(back.toarray(), coo.toarray())
    with pytest.raises(ValueError, match="two dimensions"):
        SparseTensor([[0]], [1.0], [2]).to_scipy()
    with pytest.raises(TypeError, match="not of scipy"):
        SparseTensor.from_scipy(np.ones(3))
