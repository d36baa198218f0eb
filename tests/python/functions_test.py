"""Functions of signals, recurrent layers, strings and images: values, arguments, errors, gradients, graphs."""

import numpy as np
import pytest
import troupe

random = np.random.default_rng(7)


def complex_of(x):
    values = np.asarray(x)
    return values[..., 0] + 1j * values[..., 1]


def test_transforms_are_those_of_numpy():
    x = random.normal(size=(3, 8, 2))
    for axis in (0, 1):
        np.testing.assert_allclose(complex_of(troupe.signal.dft(x, axis=axis)), np.fft.fft(complex_of(x), axis=axis))
    np.testing.assert_allclose(complex_of(troupe.signal.dft(x, inverse=True)), np.fft.ifft(complex_of(x)))
    np.testing.assert_allclose(complex_of(troupe.signal.dft(x, length=5)), np.fft.fft(complex_of(x), 5))
    real = random.normal(size=(2, 7))
    np.testing.assert_allclose(complex_of(troupe.fft.rfft(real)), np.fft.rfft(real))
    np.testing.assert_allclose(complex_of(troupe.fft.rfft(real, 16)), np.fft.rfft(real, 16))


def test_short_time_transforms_are_those_of_windowed_frames():
    x, window = random.normal(size=20), np.asarray(troupe.signal.hann_window(8, dtype="float64"))
    np.testing.assert_allclose(window, np.hanning(9)[:8], atol=1e-12)
    np.testing.assert_allclose(troupe.signal.hamming_window(8, periodic=False), np.hamming(8), atol=1e-2)
    np.testing.assert_allclose(troupe.signal.blackman_window(8, periodic=False), np.blackman(8), atol=1e-6)
    found = complex_of(troupe.signal.stft(x[None, :, None], 4, window))[0]
    frames = [np.fft.rfft(x[begin:begin + 8] * window) for begin in range(0, 13, 4)]
    np.testing.assert_allclose(found, frames, atol=1e-12)
    with pytest.raises(ValueError, match="pass a window or a frame_length"):
        troupe.signal.stft(x[None, :, None], 4)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def test_recurrent_layers_are_their_formulas():
    steps, batch, inputs, units = 4, 2, 3, 5
    x = random.normal(size=(steps, batch, inputs))
    w, r, b = (random.normal(size=(1, 4 * units, n)) for n in (inputs, units, 2))
    bias = np.concatenate([b[..., 0], b[..., 1]], axis=1)
    h = c = np.zeros((batch, units))
    states = []
    for row in x:
        i, o, f, g = np.split(row @ w[0].T + h @ r[0].T + b[0].sum(axis=1), 4, axis=1)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        states.append(h)
    y, last_h, last_c = troupe.nn.lstm(x, w, r, bias)
    np.testing.assert_allclose(y[:, 0], states, rtol=1e-9)
    np.testing.assert_allclose(last_h[0], h, rtol=1e-9)
    np.testing.assert_allclose(last_c[0], c, rtol=1e-9)
    by_batch = troupe.nn.lstm(x.swapaxes(0, 1), w, r, bias, batch_major=True)[0]
    np.testing.assert_array_equal(by_batch[:, :, 0], np.swapaxes(np.asarray(y[:, 0]), 0, 1))

    h = np.zeros((batch, units))
    for row in x:
        h = np.maximum(row @ w[0, :units].T + h @ r[0, :units].T, 0)
    np.testing.assert_allclose(troupe.nn.rnn(x, w[:, :units], r[:, :units], activations=["relu"])[1][0], h, rtol=1e-9)
    leaky = troupe.nn.rnn(x, w[:, :units], r[:, :units], activations=[("leaky_relu", 0.0, 0.0)])[1][0]
    np.testing.assert_allclose(leaky, h, rtol=1e-9)

    h = np.zeros((batch, units))
    w, r = w[:, :3 * units], r[:, :3 * units]
    for row in x:
        a, (z, s, n) = np.split(row @ w[0].T, 3, axis=1), np.split(r[0], 3)
        z, s = sigmoid(a[0] + h @ z.T), sigmoid(a[1] + h @ s.T)
        h = (1 - z) * np.tanh(a[2] + s * (h @ n.T)) + z * h
    np.testing.assert_allclose(troupe.nn.gru(x, w, r, reset_after=True)[1][0], h, rtol=1e-9)
    assert troupe.nn.gru(x, np.tile(w, (2, 1, 1)), np.tile(r, (2, 1, 1)), direction="bidirectional")[0].shape == (
        steps, 2, batch, units)
    with pytest.raises(troupe.InvalidArgumentError, match="not 'backward'"):
        troupe.nn.gru(x, w, r, direction="backward")


def test_sequences_end_at_their_lengths():
    x = troupe.ones((4, 2, 3))
    y, last = troupe.nn.rnn(x, troupe.ones((1, 5, 3)), troupe.ones((1, 5, 5)), lengths=[2, 4])
    assert np.all(np.asarray(y[2:, 0, 0]) == 0) and np.all(np.asarray(y[3, 0, 1]) != 0)
    np.testing.assert_array_equal(last[0, 0], y[1, 0, 0])


def test_gradients_flow_through_recurrent_layers_and_transforms():
    w = troupe.Variable(troupe.ones((1, 16, 3)))
    with troupe.GradientTape() as tape:
        y = troupe.nn.lstm(troupe.ones((5, 2, 3)), w, troupe.ones((1, 16, 4)))[0]
        loss = troupe.sum(y) + troupe.sum(troupe.fft.rfft(w[0, :, 0]))
    assert tape.gradient(loss, w).shape == (1, 16, 3)


def test_functions_work_in_graphs_and_traces():
    g = troupe.Graph()
    x = g.placeholder("float32", [None, 4])
    spectrum, texts = troupe.fft.rfft(x), troupe.strings.as_string(x)
    with troupe.Session(g) as session:
        found = session.run({x: [[1.0, 0.0, 0.0, 0.0]]}, [spectrum, texts])
    assert found[0].tolist() == [[[1.0, 0.0]] * 3] and found[1].tolist() == [[b"1.0", b"0.0", b"0.0", b"0.0"]]

    @troupe.function
    def checked(x):
        troupe.debugging.assert_true(x > 0, [x], message="x is positive")
        return troupe.debugging.check_numerics(troupe.log(x))

    assert checked(troupe.tensor(1.0)).item() == 0
    with pytest.raises(troupe.FailedPreconditionError, match="x is positive"):
        checked(troupe.tensor(-1.0))


def test_checks_fail_with_their_messages():
    with pytest.raises(troupe.InvalidArgumentError, match="of the loss"):
        troupe.debugging.check_numerics([1.0, np.nan], "of the loss")
    with pytest.raises(troupe.FailedPreconditionError, match="too few"):
        troupe.debugging.assert_true([True, False], message="too few")
    g = troupe.Graph()
    x = g.placeholder("float32", [])
    target = troupe.debugging.assert_true(x > 0, [x])
    with troupe.Session(g) as session:
        session.run({x: 1}, targets=[target])
        with pytest.raises(troupe.FailedPreconditionError):
            session.run({x: -1}, targets=[target])


def test_strings_take_nested_lists_arrays_and_bytes():
    texts = np.array([["A b", "c"], ["", "D"]])
    assert troupe.strings.lower(texts).tolist() == [[b"a b", b"c"], [b"", b"d"]]
    assert troupe.strings.upper(b"x").item() == b"X"
    words = troupe.strings.split(["a b c", "", "d"])
    assert words.row_splits.tolist() == [0, 3, 3, 4] and words.row_ids().tolist() == [0, 0, 0, 2]
    pairs = troupe.strings.ngrams(words, (1, 2), separator="_")
    assert pairs.values.tolist() == [b"a", b"b", b"c", b"a_b", b"b_c", b"d"]
    assert troupe.strings.regex_replace("a-b-c", "-", "+", replace_global=False).item() == b"a+b-c"
    with pytest.raises(troupe.InvalidArgumentError):
        troupe.strings.to_number(["one"])


def test_embeddings_of_rows_are_combined():
    table = troupe.tensor([[1.0], [10.0]])
    ids = troupe.RaggedTensor.from_row_lengths([0, 1, 1], [2, 1])
    for combiner, wanted in ("sum", [[21.0], [10.0]]), ("mean", [[7.0], [10.0]]):
        found = troupe.nn.embedding_lookup_sparse(table, ids, [1, 2, 1], combiner)
        np.testing.assert_allclose(found, wanted)
    with pytest.raises(troupe.InvalidArgumentError, match="not 'max'"):
        troupe.nn.embedding_lookup_sparse(table, ids, combiner="max")


def test_blocks_and_pools_are_undone_by_their_reverses():
    x = np.arange(2 * 4 * 6 * 4, dtype=np.float32).reshape(2, 4, 6, 4)
    for forth, back in (troupe.nn.space_to_depth, troupe.nn.depth_to_space), (
            lambda x, n: troupe.nn.space_to_batch(x, (n, n)), lambda x, n: troupe.nn.batch_to_space(x, (n, n))):
        np.testing.assert_array_equal(back(forth(x, 2), 2), x)
    images = x.transpose(0, 3, 1, 2)
    columns = troupe.nn.im2col(images, (2, 3), strides=(2, 3))
    np.testing.assert_array_equal(troupe.nn.col2im(columns, (4, 6), (2, 3), strides=(2, 3)), images)
    y, indices = troupe.nn.max_pool_with_indices(x)
    np.testing.assert_array_equal(np.asarray(y).ravel(), x.ravel()[np.asarray(indices).ravel()])
    np.testing.assert_array_equal(troupe.nn.max_pool(troupe.nn.max_unpool(y, indices, x.shape)), y)
    with pytest.raises(ValueError, match="not 'SAME'"):
        troupe.nn.im2col(images, (2, 2), padding="SAME")


def test_tables_find_numbers_and_strings():
    assert troupe.table_lookup([3, 5], [5, 3], ["five", "three"], "none").tolist() == [b"three", b"five"]
    assert troupe.table_find(np.array([2.5, 7.0], np.float32), [7.0, 2.5]).tolist() == [1, 0]


def test_rows_that_are_partitioned_are_stitched():
    x, parts = random.normal(size=(6, 2)), np.array([0, 2, 1, 0, 2, 2])
    rows = troupe.dynamic_partition(x, parts, 3)
    places = troupe.dynamic_partition(np.arange(6), parts, 3)
    np.testing.assert_array_equal(troupe.dynamic_stitch(places, rows), x)
    np.testing.assert_array_equal(np.asarray(troupe.nonzero(parts)), np.nonzero(parts))
    np.testing.assert_array_equal(troupe.compress(parts > 0, x, axis=0), x[parts > 0])
