"""Ops beside TensorFlow's, where it has the same (tools/setup.sh --with-peers): values and gradients."""

import os
import tempfile

import numpy as np
import pytest
import troupe

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
tf = pytest.importorskip("tensorflow")

RANDOM = np.random.default_rng(3)
TOLERANCE = {"rtol": 2e-5, "atol": 2e-5}


def random(*shape):
    return RANDOM.standard_normal(shape).astype(np.float32)


def compare(ours, theirs, inputs, differentiable=True):
    """ours(graph, outputs) and theirs(tensors) are one function of these arrays."""
    g = troupe.Graph()
    xs = [g.placeholder("f32", x.shape) for x in inputs]
    y = ours(g, xs)
    variables = [tf.constant(x) for x in inputs]
    with tf.GradientTape() as tape:
        tape.watch(variables)
        expected = theirs(*variables)
    fetches, wanted = [y], [expected]
    if differentiable:
        fetches += troupe.gradients([y], xs)
        wanted += tape.gradient(expected, variables)
    with troupe.Session(g, threads=1) as session:
        found = session.run(dict(zip(xs, inputs)), fetches)
    for a, b in zip(found, wanted):
        np.testing.assert_allclose(a, b.numpy(), **TOLERANCE)


@pytest.mark.parametrize("padding", ["SAME", "VALID"])
@pytest.mark.parametrize("stride,dilation,groups", [(1, 1, 1), (2, 1, 1), (1, 2, 1), (1, 1, 2)])
def test_convolutions(padding, stride, dilation, groups):
    x, f = random(2, 9, 8, 4), random(3, 3, 4 // groups, 6)
    compare(
        lambda g, xs: g.op("Conv", xs, strides=[stride] * 2, dilations=[dilation] * 2, groups=groups, padding=padding),
        lambda x, f: tf.nn.conv2d(x, f, stride, padding, dilations=dilation), [x, f])


@pytest.mark.parametrize("padding", ["SAME", "VALID"])
def test_depthwise_convolutions(padding):
    x, f = random(2, 7, 7, 4), random(3, 3, 4, 2)
    compare(
        lambda g, xs: g.op("Conv", [xs[0], g.op("Reshape", [xs[1], np.array([3, 3, 1, 8])])], strides=[1, 1], groups=4,
                           padding=padding),
        lambda x, f: tf.nn.depthwise_conv2d(x, f, [1, 1, 1, 1], padding), [x, f])


@pytest.mark.parametrize("op,function", [("MaxPool", "max_pool2d"), ("AvgPool", "avg_pool2d")])
@pytest.mark.parametrize("padding", ["SAME", "VALID"])
def test_pools(op, function, padding):
    compare(lambda g, xs: g.op(op, xs, ksize=[3, 2], strides=[2, 2], padding=padding),
            lambda x: getattr(tf.nn, function)(x, [3, 2], 2, padding), [random(2, 7, 8, 3)])


def test_softmax_and_its_cross_entropy():
    compare(lambda g, xs: g.op("Softmax", xs), tf.nn.softmax, [random(4, 7)])
    labels = tf.nn.softmax(random(4, 7)).numpy()
    compare(lambda g, xs: g.op("SoftmaxCrossEntropy", [xs[0], labels])[0],
            lambda x: tf.nn.softmax_cross_entropy_with_logits(labels, x), [random(4, 7)])


def test_products_of_batches():
    compare(lambda g, xs: g.op("MatMul", xs, transpose_b=True), lambda a, b: tf.matmul(a, b, transpose_b=True),
            [random(2, 3, 4, 5), random(2, 3, 6, 5)])


def test_gathers():
    at = np.array([[0, 1], [2, 3], [0, 1]], np.int32)
    compare(lambda g, xs: g.op("GatherND", [xs[0], at]), lambda x: tf.gather_nd(x, at), [random(3, 4, 5)])
    rows = np.array([2, 0, 2, 1], np.int32)
    compare(lambda g, xs: g.op("Gather", [xs[0], rows], axis=1), lambda x: tf.gather(x, rows, axis=1), [random(3, 4)])


@pytest.mark.parametrize("reduction", ["sum", "mean", "max", "min", "prod"])
def test_segments(reduction):
    ids = np.array([0, 0, 1, 3, 3, 3], np.int32)
    function = getattr(tf.math, "unsorted_segment_" + reduction)
    compare(lambda g, xs: g.op("SegmentReduce", [xs[0], ids, np.int64(4)], reduction=reduction),
            lambda x: function(x, ids, 4)[:4], [random(6, 2)], differentiable=reduction in ("sum", "mean"))


@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("reverse", [False, True])
def test_running_sums(exclusive, reverse):
    compare(lambda g, xs: g.op("CumSum", [xs[0], np.int64(1)], exclusive=exclusive, reverse=reverse),
            lambda x: tf.cumsum(x, 1, exclusive, reverse), [random(3, 5)])


def test_largest_elements():
    x = random(3, 9)
    compare(lambda g, xs: g.op("TopK", [xs[0], np.int64(4)])[0], lambda x: tf.math.top_k(x, 4).values, [x])


@pytest.mark.parametrize("method,mode", [("bilinear", "linear"), ("nearest", "nearest")])
def test_resizing(method, mode):
    size = np.array([2, 9, 4, 3], np.int64)
    empty = np.zeros(0, np.float32)
    compare(lambda g, xs: g.op("Resize", [xs[0], empty, empty, size], mode=mode, nearest_mode="round_prefer_ceil"),
            lambda x: tf.image.resize(x, [9, 4], method), [random(2, 5, 6, 3)], differentiable=mode == "linear")


def test_crops():
    boxes = np.array([[0, 0, 1, 1], [0.2, 0.1, 0.7, 0.9]], np.float32)
    at = np.array([0, 1])
    compare(lambda g, xs: g.op("CropAndResize", [xs[0], boxes, at, np.array([3, 4])]),
            lambda x: tf.image.crop_and_resize(x, boxes, at.astype(np.int32), [3, 4]), [random(2, 6, 5, 3)])


def test_ctc_loss():
    steps, batch, classes = 7, 2, 5
    labels = np.array([[1, 2, 2], [3, 1, 0]], np.int32)
    lengths, label_lengths = np.array([7, 5], np.int32), np.array([3, 2], np.int32)
    compare(lambda g, xs: g.op("CTCLoss", [xs[0], labels, lengths, label_lengths])[0],
            lambda x: tf.nn.ctc_loss(labels, x, label_lengths, lengths, blank_index=0), [random(steps, batch, classes)])


def test_layer_normalisation():
    compare(lambda g, xs: g.op("LayerNorm", xs, epsilon=1e-3)[0],
            lambda x, s, b: tf.nn.batch_normalization(x, *tf.nn.moments(x, [1], keepdims=True), b, s, 1e-3),
            [random(4, 6), random(6), random(6)])


def test_keras_lstm():
    batch, steps, inputs, units = 3, 5, 4, 6
    x, w, r, bias = random(batch, steps, inputs), random(4 * units, inputs), random(4 * units, units), random(4 * units)
    layer = tf.keras.layers.LSTM(units, return_sequences=True)
    layer.build(x.shape)

    def gates(weights, order):
        return np.concatenate([np.split(weights, 4)[gate] for gate in order])

    # ONNX's and ours: input, output, forget, cell; Keras': input, forget, cell, output.
    keras = [gates(value, (0, 2, 3, 1)) for value in (w, r, bias)]
    layer.set_weights([keras[0].T, keras[1].T, keras[2]])
    model = onnx_lstm(units, x.shape)
    out = model.run({"x": x, "w": w[None], "r": r[None], "b": np.concatenate([bias, np.zeros_like(bias)])[None]})
    np.testing.assert_allclose(np.moveaxis(out["y"][:, 0], 0, 1), layer(x).numpy(), **TOLERANCE)


def onnx_lstm(units, shape):
    onnx = pytest.importorskip("onnx")
    helper, float32 = onnx.helper, onnx.TensorProto.FLOAT
    batch, steps, inputs = shape

    def value(name, *dims):
        return helper.make_tensor_value_info(name, float32, dims)

    graph = helper.make_graph(
        [helper.make_node("Transpose", ["x"], ["t"], perm=[1, 0, 2]),
         helper.make_node("LSTM", ["t", "w", "r", "b"], ["y"], hidden_size=units)], "lstm",
        [value("x", batch, steps, inputs), value("w", 1, 4 * units, inputs), value("r", 1, 4 * units, units),
         value("b", 1, 8 * units)], [value("y", steps, 1, batch, units)])
    with tempfile.NamedTemporaryFile(suffix=".onnx") as file:
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), file.name)
        return troupe.import_onnx(file.name)


def test_clipping_gradients_of_rows_is_that_of_tensorflow():
    values, dense = np.float32([[3, 4], [6, 8], [1, 1]]), np.float32([2, 5])
    theirs = tf.IndexedSlices(tf.constant(values), tf.constant([1, 0, 1]), tf.constant([4, 2]))
    ours = troupe.IndexedSlices(values, [1, 0, 1], dense_shape=(4, 2))
    wanted = tf.clip_by_norm(theirs, 2.0)
    np.testing.assert_allclose(troupe.clip_by_norm(ours, 2.0).values.numpy(), wanted.values, rtol=1e-6)
    wanted, norm = tf.clip_by_global_norm([theirs, None, tf.constant(dense)], 2.0)
    found, our_norm = troupe.clip_by_global_norm([ours, None, dense], 2.0)
    np.testing.assert_allclose(float(our_norm), float(norm), rtol=1e-6)
    np.testing.assert_allclose(found[0].values.numpy(), wanted[0].values, rtol=1e-6)
    np.testing.assert_allclose(found[2].numpy(), wanted[2], rtol=1e-6)
    np.testing.assert_array_equal(ours.to_tensor().numpy(), tf.convert_to_tensor(theirs))
