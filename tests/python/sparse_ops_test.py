"""Functions of sparse tensors beside the same of whole arrays in NumPy: values, gradients, orders, errors."""

import numpy as np
import pytest
import troupe
from troupe import SparseTensor, sparse

RANDOM = np.random.default_rng(5)


def random(*shape, density=0.3, dtype=np.float64):
    """A sparse tensor, and the same as an array."""
    whole = RANDOM.standard_normal(shape).astype(dtype) * (RANDOM.random(shape) < density)
    return sparse.from_dense(whole), whole


def whole_of(x):
    return sparse.to_dense(x).numpy()


def near(found, expected):
    found = whole_of(found) if isinstance(found, SparseTensor) else np.asarray(found)
    assert found.shape == np.shape(expected)
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


def in_graph(function, *values):
    """The same as a step of a graph whose sizes are not known."""
    g = troupe.Graph()
    fed = [sparse.placeholder(g, v.dtype, [None] * v.ndim) if isinstance(v, SparseTensor)
           else g.placeholder(v.dtype, [None] * v.ndim) for v in values]
    result = function(*fed)
    with troupe.Session(g) as session:
        return session.run(dict(zip(fed, values)), result)


def everywhere(function, *values):
    """The result in eager mode, which a graph and a function that is traced give, too."""
    result = function(*values)
    traced = troupe.function(function)(*values)
    for other in (in_graph(function, *values), traced):
        single = isinstance(result, (SparseTensor, troupe.Tensor))
        for a, b in [(result, other)] if single else zip(result, other):
            if isinstance(a, SparseTensor):
                assert a.indices.tolist() == b.indices.tolist() and a.shape == b.shape
                a, b = a.values, b.values
            np.testing.assert_array_equal(np.asarray(a), np.asarray(b))
    return result


@pytest.mark.parametrize("shape", [(7,), (4, 6), (3, 4, 5), (2, 0, 3), ()])
def test_to_and_from_dense(shape):
    x, whole = random(*shape, density=0.5)
    assert x.shape == shape and x.nnz == np.count_nonzero(whole)
    assert [tuple(i) for i in x.indices.tolist()] == [tuple(i) for i in np.argwhere(whole != 0).tolist()]
    near(everywhere(sparse.to_dense, x), whole)
    np.testing.assert_array_equal(sparse.to_dense(x, default_value=7.0).numpy(), np.where(whole == 0, 7, whole))


@pytest.mark.parametrize("values, default", [([b"a", b"b"], b""), ([True, True], False), ([1, 2], 0)])
def test_elements_of_any_dtype(values, default):
    x = SparseTensor([[0, 1], [1, 0]], np.array(values, object if default == b"" else None), [2, 2])
    whole = sparse.to_dense(x)
    assert whole.numpy().tolist() == [[default, values[0]], [values[1], default]]
    assert sparse.from_dense(whole).values.numpy().tolist() == values


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, np.int32, np.int64])
@pytest.mark.parametrize("adjoint_a", [False, True])
@pytest.mark.parametrize("adjoint_b", [False, True])
def test_products(dtype, adjoint_a, adjoint_b):
    a, whole = random(9, 7, dtype=np.float64)
    whole = np.round(whole * 4).astype(dtype)
    a = sparse.from_dense(whole)
    b = np.round(RANDOM.standard_normal((9 if adjoint_a else 7, 5)) * 4).astype(dtype)
    expected = (whole.T if adjoint_a else whole).astype(np.float64) @ b.astype(np.float64)
    found = everywhere(lambda a, b: sparse.sparse_dense_matmul(a, b, adjoint_a=adjoint_a, adjoint_b=adjoint_b), a,
                       troupe.tensor(np.ascontiguousarray(b.T) if adjoint_b else b))
    assert found.dtype == dtype
    np.testing.assert_array_equal(found.numpy().astype(np.float64), expected)


def test_products_of_operators_and_vectors():
    a, whole = random(6, 4)
    v, m = RANDOM.standard_normal(4), RANDOM.standard_normal((3, 6))
    near(a @ v, whole @ v)
    near(a @ v[:, None], whole @ v[:, None])
    near(m @ a, m @ whole)
    near(troupe.tensor(m) @ a, m @ whole)
    at = np.argwhere(np.ones((6, 4)))[::3]
    x, y = RANDOM.standard_normal((6, 5)), RANDOM.standard_normal((4, 5))
    near(sparse.sampled_matmul(at, x, y), (x @ y.T)[tuple(at.T)])


@pytest.mark.parametrize("elements", [10_000, 100_000, 1_000_000])
def test_large_products_of_random_patterns(elements):
    rows, columns = elements // 20, 2_000
    places = np.unique(RANDOM.integers(0, rows * columns, elements))
    values = RANDOM.standard_normal(len(places)).astype(np.float32)
    b = RANDOM.standard_normal((columns, 3)).astype(np.float32)
    x = SparseTensor(np.stack(np.divmod(places, columns), axis=1), values, [rows, columns])
    expected = np.zeros((rows, 3))
    np.add.at(expected, places // columns, values[:, None].astype(np.float64) * b[places % columns])
    np.testing.assert_allclose((x @ b).numpy(), expected, atol=1e-4)


def test_sums_and_extrema():
    (a, left), (b, right) = random(5, 6), random(5, 6)
    near(everywhere(sparse.add, a, b), left + right)
    assert sparse.add(a, b).nnz == np.count_nonzero((left != 0) | (right != 0))
    cut = left + right
    cut[abs(cut) < 0.5] = 0
    near(everywhere(lambda a, b: sparse.add(a, b, threshold=0.5), a, b), cut)
    near(a + b, left + right)
    near(a - b, left - right)
    near(everywhere(sparse.maximum, a, b), np.maximum(left, right))
    near(everywhere(sparse.minimum, a, b), np.minimum(left, right))
    near(everywhere(sparse.multiply, a, b), left * right)
    dense = RANDOM.standard_normal((5, 6))
    near(everywhere(sparse.add, a, troupe.tensor(dense)), left + dense)
    near(dense + a, left + dense)
    near(dense - a, dense - left)
    near(a - dense, left - dense)


@pytest.mark.parametrize("shape", [(5, 6), (6,), (1, 6), (5, 1), (1,), ()])
def test_dense_factors_are_broadcast(shape):
    x, whole = random(5, 6)
    dense = troupe.tensor(RANDOM.standard_normal(shape))
    near(everywhere(sparse.multiply, x, dense), whole * dense.numpy())
    near(everywhere(sparse.divide, x, dense), whole / dense.numpy())
    near(x * 2, whole * 2)
    near(2 * x / 4, whole / 2)
    near(-x, -whole)


def test_softmax_is_over_the_elements_that_are_there():
    x, whole = random(3, 4, 5)
    shares = np.where(whole == 0, 0, np.exp(whole))
    total = shares.sum(-1, keepdims=True)
    near(everywhere(sparse.softmax, x), shares / np.where(total == 0, 1, total))
    large = SparseTensor([[0, 0], [0, 1]], [1000.0, 1000.0], [1, 2])
    assert sparse.softmax(large).values.tolist() == [0.5, 0.5]


@pytest.mark.parametrize("axis", [None, 0, -1, (0, 2), (0, 1, 2), [1]])
@pytest.mark.parametrize("keepdims", [False, True])
def test_reductions(axis, keepdims):
    x, whole = random(3, 4, 5, density=0.2)
    axes = tuple(axis) if isinstance(axis, list) else axis
    near(everywhere(lambda x: sparse.reduce_sum(x, axis, keepdims), x), whole.sum(axes, keepdims=keepdims))
    present = np.where(whole == 0, -np.inf, whole).max(axes, keepdims=keepdims)
    expected = np.where(np.isinf(present), 0, present)
    near(everywhere(lambda x: sparse.reduce_max(x, axis, keepdims), x), expected)
    near(everywhere(lambda x: sparse.reduce_sum(x, axis, keepdims, output_is_sparse=True), x),
         whole.sum(axes, keepdims=keepdims))


@pytest.mark.parametrize("start, size", [((0, 0), (4, 6)), ((1, 2), (2, 3)), ((1, 2), (-1, -1)), ((3, 5), (9, 9)),
                                         ((4, 6), (1, 1))])
def test_slices(start, size):
    x, whole = random(4, 6, density=0.6)
    (i, j), (h, w) = start, [s if s >= 0 else 9 for s in size]
    near(everywhere(lambda x: sparse.slice(x, start, size), x), whole[i:i + h, j:j + w])


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_joins_and_parts(axis):
    pairs = [random(3, 4), random(3, 4), random(3, 4)]
    near(everywhere(lambda *xs: sparse.concat(axis, xs), *[x for x, _ in pairs]),
         np.concatenate([w for _, w in pairs], axis))
    x, whole = random(5, 7)
    for parts in (1, 2, 3, 6):
        for found, expected in zip(everywhere(lambda x: sparse.split(x, parts, axis), x),
                                   np.array_split(whole, parts, axis)):
            near(found, expected)


def test_shapes():
    x, whole = random(4, 6)
    for shape in ((24,), (6, 4), (2, -1, 3), (-1, 24)):
        near(everywhere(lambda x: sparse.reshape(x, shape), x), whole.reshape(shape))
    assert sparse.reshape(x, (2, -1)).shape == (2, 12)
    x, whole = random(3, 4, 5)
    for perm in (None, (0, 1, 2), (2, 0, 1)):
        near(everywhere(lambda x: sparse.transpose(x, perm), x), whole.transpose(perm))
    for axis in (0, 1, 3, -1):
        near(everywhere(lambda x: sparse.expand_dims(x, axis), x), np.expand_dims(whole, axis))
    wide = SparseTensor(x.indices, x.values, [9, 9, 9])
    near(everywhere(lambda x: sparse.reset_shape(x, [3, 4, 5]), wide), whole)
    smallest = np.argwhere(whole != 0).max(0) + 1
    assert everywhere(sparse.reset_shape, wide).shape == tuple(smallest)
    with pytest.raises(troupe.InvalidArgumentError, match=r"outside of its shape \[1,1,1\]"):
        sparse.reset_shape(wide, [1, 1, 1])


def test_known_shapes_stay_known():
    g = troupe.Graph()
    x = sparse.placeholder(g, "float32", [None, 6])
    assert sparse.transpose(x).shape == (6, None)
    assert sparse.expand_dims(x, 0).shape == (1, None, 6)
    assert sparse.reduce_sum(x, 0).shape == (6,)
    assert sparse.reduce_sum(x, 1, keepdims=True).shape == (None, 1)
    assert sparse.reshape(x, [-1, 3]).shape == (None, 3)
    assert sparse.concat(0, [x, x]).shape == (None, 6) and sparse.concat(1, [x, x]).shape == (None, 12)
    assert sparse.slice(x, [0, 1], [-1, 2]).shape == (None, 2)
    assert (x @ np.ones((6, 5), np.float32)).shape == (None, 5)
    assert sparse.to_dense(x).shape == (None, 6)


def test_orders():
    x, whole = random(4, 6)
    order = np.arange(x.nnz)[::-1]
    mixed = SparseTensor(x.indices.numpy()[order], x.values.numpy()[order], x.dense_shape)
    found = everywhere(sparse.reorder, mixed)
    assert found.indices.tolist() == x.indices.tolist() and found.values.tolist() == x.values.tolist()
    twice = SparseTensor(np.concatenate([mixed.indices, x.indices]), np.concatenate([mixed.values, x.values]), (4, 6))
    near(everywhere(sparse.coalesce, twice), 2 * whole)
    assert sparse.coalesce(twice).nnz == x.nnz
    near(mixed @ np.eye(6), whole)  # products take any order
    with pytest.raises(troupe.InvalidArgumentError, match=r"element \d+ of the sparse tensor, at .* reorder\(\)"):
        sparse.to_dense(mixed).numpy()
    with pytest.raises(troupe.InvalidArgumentError, match=r"both at .* coalesce\(\)"):
        sparse.add(sparse.reorder(twice), x).values.numpy()


def test_elements_outside_of_the_shape_are_named():
    x = SparseTensor([[0, 0], [1, 3]], [1.0, 2.0], [2, 3])
    for function in (sparse.to_dense, sparse.reorder, sparse.reduce_sum, lambda x: x @ np.eye(3), lambda x: x + x,
                     lambda x: x * 2, sparse.softmax, lambda x: sparse.reshape(x, [6])):
        with pytest.raises(troupe.InvalidArgumentError, match=r"element 1 .* at \[1,3\], outside of its shape \[2,3\]"):
            found = function(x)
            (found.values if isinstance(found, SparseTensor) else found).numpy()


def test_rows_without_elements_are_filled():
    x = SparseTensor([[1, 2], [3, 0]], np.float64([5, 6]), [5, 4])
    filled, empty = everywhere(lambda x: sparse.fill_empty_rows(x, 7), x)
    assert empty.tolist() == [True, False, True, False, True]
    assert filled.indices.tolist() == [[0, 0], [1, 2], [2, 0], [3, 0], [4, 0]]
    assert filled.values.tolist() == [7, 5, 7, 6, 7]


def test_elements_are_kept_by_a_mask():
    x, whole = random(4, 6)
    near(everywhere(lambda x: sparse.retain(x, x.values > 0), x), np.where(whole > 0, whole, 0))
    with pytest.raises(troupe.InvalidArgumentError, match="one bool for each"):
        sparse.retain(x, [1.0])


def test_embeddings_of_sparse_ids():
    table = RANDOM.standard_normal((6, 3))
    ids = SparseTensor([[0, 0], [0, 1], [2, 0]], np.array([4, 1, 4]), [3, 2])
    weights = ids.with_values(np.array([1.0, 3.0, 2.0]))
    found = troupe.nn.embedding_lookup_sparse(table, ids, weights, combiner="mean")
    near(found, np.stack([(table[4] + 3 * table[1]) / 4, np.zeros(3), table[4]]))
    found = troupe.nn.embedding_lookup_sparse(table, ids, combiner="sum")
    near(found, np.stack([table[4] + table[1], np.zeros(3), table[4]]))


def test_gradients_are_those_of_whole_arrays():
    x, whole = random(4, 5, density=0.6)
    w = RANDOM.standard_normal((5, 3))

    def gradients(function, x):
        with troupe.GradientTape() as tape:
            tape.watch([x, kernel])
            y = function(x)
        return tape.gradient(y, [x, kernel])

    kernel = troupe.tensor(w)
    dense = troupe.tensor(whole)
    on_sparse = gradients(lambda x: troupe.sum(troupe.tanh(x @ kernel)), x)
    on_dense = gradients(lambda x: troupe.sum(troupe.tanh(troupe.matmul(x, kernel))), dense)
    near(on_sparse[0].values, on_dense[0].numpy()[whole != 0])
    near(on_sparse[1], on_dense[1].numpy())


def test_a_layer_is_trained_on_sparse_examples():
    rows, places = 64, RANDOM.integers(0, 50, (64, 3))
    examples = SparseTensor([[r, c] for r in range(rows) for c in sorted(set(places[r]))],
                            np.ones(sum(len(set(p)) for p in places), np.float32), [rows, 50])
    truth = RANDOM.standard_normal((50, 1)).astype(np.float32)
    wanted = examples @ truth
    w = troupe.Variable(np.zeros((50, 1), np.float32))
    optimizer = troupe.optimizers.Adam(learning_rate=0.2)

    @troupe.function
    def step(x, y):
        with troupe.GradientTape() as tape:
            loss = troupe.mean((x @ w - y) ** 2)
        optimizer.apply_gradients([(tape.gradient(loss, w), w)])
        return loss

    losses = []
    for i in range(200):
        begin = i * 16 % rows
        batch = sparse.slice(examples, [begin, 0], [16, -1])
        losses.append(float(step(batch, wanted[begin:begin + 16])))
    assert step.traces == 1
    assert losses[-1] < 0.01 * losses[0]


def test_memory_follows_the_elements():
    shape = [10**9, 10**9]  # the whole would have 10^18 elements
    x = SparseTensor([[5, 7], [10**8, 3]], [1.0, 2.0], shape)
    y = SparseTensor([[6, 7]], [1.0], shape)
    total = everywhere(lambda x, y: sparse.transpose(sparse.multiply(sparse.add(x, y), 2.0)), x, y)
    assert total.values.tolist() == [4.0, 2.0, 2.0] and total.shape == tuple(shape)
    assert sparse.reduce_sum(x, 1, output_is_sparse=True).values.tolist() == [1.0, 2.0]
    assert sparse.concat(1, [x, y]).shape == (10**9, 2 * 10**9)
    with pytest.raises(troupe.Error):
        sparse.to_dense(x)
