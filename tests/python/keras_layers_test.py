"""Layers of troupe.keras beside Keras's, with the same weights, where TensorFlow is installed (tools/setup.sh
--with-peers)."""

import os

import numpy as np
import pytest
from troupe import _troupe
from troupe.keras import Input, Model, layers

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
pytest.importorskip("tensorflow")
keras = pytest.importorskip("keras")
theirs = keras.layers

RANDOM = np.random.default_rng(5)


def numbers(*shape):
    return RANDOM.standard_normal(shape).astype(np.float32)


ROWS, STEPS, IMAGE, VOLUME = numbers(4, 6), numbers(4, 7, 6), numbers(3, 8, 9, 4), numbers(2, 4, 5, 6, 3)
IDS = RANDOM.integers(1, 20, (4, 5)).astype(np.int32)

# Class, arguments, inputs.
LAYERS = [
    ("Dense", (5,), {"activation": "relu"}, ROWS),
    ("Dense", (5,), {"use_bias": False}, STEPS),
    ("Flatten", (), {}, IMAGE),
    ("Reshape", ((3, -1),), {}, ROWS),
    ("Permute", ((2, 1),), {}, STEPS),
    ("RepeatVector", (3,), {}, ROWS),
    ("Activation", ("gelu",), {}, ROWS),
    ("ReLU", (), {}, ROWS),
    ("ReLU", (6,), {}, 9 * ROWS),
    ("LeakyReLU", (), {"negative_slope": 0.2}, ROWS),
    ("PReLU", (), {"shared_axes": [1]}, STEPS),
    ("ELU", (), {}, ROWS),
    ("Softmax", (), {}, ROWS),
    ("Dropout", (0.5,), {}, ROWS),
    ("GaussianNoise", (0.5,), {}, ROWS),
    ("Embedding", (20, 3), {}, IDS),
    ("Conv1D", (5, 3), {"padding": "causal", "dilation_rate": 2}, STEPS),
    ("Conv1D", (5, 3), {"strides": 2, "padding": "same", "activation": "tanh"}, STEPS),
    ("Conv2D", (5, (3, 2)), {"strides": 2}, IMAGE),
    ("Conv2D", (6, 3), {"padding": "same", "groups": 2}, IMAGE),
    ("Conv3D", (2, 2), {"padding": "same"}, VOLUME),
    ("Conv1DTranspose", (5, 3), {"strides": 2, "padding": "same"}, STEPS),
    ("Conv2DTranspose", (5, 3), {"strides": 2}, IMAGE),
    ("Conv3DTranspose", (2, 2), {"strides": 2}, VOLUME),
    ("DepthwiseConv1D", (3,), {"depth_multiplier": 2}, STEPS),
    ("DepthwiseConv2D", (3,), {"depth_multiplier": 2, "padding": "same"}, IMAGE),
    ("SeparableConv1D", (5, 3), {"padding": "same"}, STEPS),
    ("SeparableConv2D", (5, 3), {"depth_multiplier": 2}, IMAGE),
    ("MaxPooling1D", (2,), {}, STEPS),
    ("MaxPooling2D", ((2, 3),), {"strides": 2, "padding": "same"}, IMAGE),
    ("MaxPooling3D", (2,), {}, VOLUME),
    ("AveragePooling1D", (2,), {"padding": "same"}, STEPS),
    ("AveragePooling2D", (2,), {}, IMAGE),
    ("AveragePooling3D", (2,), {"strides": 1}, VOLUME),
    ("GlobalAveragePooling1D", (), {}, STEPS),
    ("GlobalAveragePooling2D", (), {}, IMAGE),
    ("GlobalAveragePooling3D", (), {}, VOLUME),
    ("GlobalMaxPooling1D", (), {}, STEPS),
    ("GlobalMaxPooling2D", (), {}, IMAGE),
    ("GlobalMaxPooling3D", (), {}, VOLUME),
    ("UpSampling1D", (3,), {}, STEPS),
    ("UpSampling2D", ((2, 3),), {}, IMAGE),
    ("UpSampling2D", (2,), {"interpolation": "bilinear"}, IMAGE),
    ("UpSampling3D", (2,), {}, VOLUME),
    ("ZeroPadding1D", ((1, 2),), {}, STEPS),
    ("ZeroPadding2D", (((1, 2), (3, 0)),), {}, IMAGE),
    ("ZeroPadding3D", (1,), {}, VOLUME),
    ("Cropping1D", ((1, 2),), {}, STEPS),
    ("Cropping2D", (((1, 2), (3, 0)),), {}, IMAGE),
    ("Cropping3D", (1,), {}, VOLUME),
    ("BatchNormalization", (), {"epsilon": 1e-2}, IMAGE),
    ("LayerNormalization", (), {}, STEPS),
    ("LayerNormalization", (), {"axis": [-2, -1], "center": False}, STEPS),
    ("RMSNormalization", (), {}, STEPS),
    ("GroupNormalization", (2,), {}, IMAGE),
    ("GroupNormalization", (-1,), {}, IMAGE),
    ("UnitNormalization", (), {}, ROWS),
    ("SimpleRNN", (5,), {}, STEPS),
    ("SimpleRNN", (5,), {"return_sequences": True, "activation": "relu"}, STEPS),
    ("LSTM", (5,), {}, STEPS),
    ("LSTM", (5,), {"return_sequences": True, "go_backwards": True}, STEPS),
    ("GRU", (5,), {}, STEPS),
    ("GRU", (5,), {"return_sequences": True, "reset_after": False}, STEPS),
    ("Rescaling", (0.5, 3), {}, ROWS),
    ("Discretization", ([-0.5, 0.0, 0.7],), {}, ROWS),
    ("CategoryEncoding", (20,), {"output_mode": "multi_hot"}, IDS),
    ("CategoryEncoding", (20,), {"output_mode": "count"}, IDS),
]


def values_like(weights):
    """Random values of these shapes; variances are positive."""
    return [np.abs(numbers(*w.shape)) + 0.1 if "var" in w.name else numbers(*w.shape) for w in weights]


def outputs_of(layer, *inputs, call=lambda layer, xs: layer(*xs), like=None):
    """What our layer makes of inputs, with the weights of a layer of Keras."""
    xs = [Input(x.shape[1:], dtype=x.dtype.name) for x in inputs]
    model = Model(xs, call(layer, xs))
    if like is not None:
        layer.set_weights(like.get_weights())
    return model.predict(list(inputs), verbose=0)


@pytest.mark.parametrize("name,args,kwargs,x", LAYERS)
def test_layers(name, args, kwargs, x):
    peer = getattr(theirs, name)(*args, **kwargs)
    peer(x[:1])
    peer.set_weights(values_like(peer.weights))
    ours = getattr(layers, name)(*args, **kwargs)
    found = outputs_of(ours, x, like=peer)
    np.testing.assert_allclose(found, np.asarray(peer(x)), rtol=2e-4, atol=2e-5)
    assert [w.shape for w in ours.get_weights()] == [w.shape for w in peer.get_weights()]
    for own, given in zip(ours.get_weights(), peer.get_weights()):
        np.testing.assert_array_equal(own, given)
    assert ours.count_params() == peer.count_params()


@pytest.mark.parametrize("activation", ("relu leaky_relu sigmoid tanh softplus softmax log_softmax relu6 elu selu celu "
                                        "gelu silu mish exponential softsign log_sigmoid hard_sigmoid hard_silu "
                                        "hard_tanh hard_shrink soft_shrink tanh_shrink squareplus sparse_plus "
                                        "sparse_sigmoid glu").split())
def test_activations(activation):
    found = outputs_of(layers.Activation(activation), 2 * ROWS)
    np.testing.assert_allclose(found, np.asarray(theirs.Activation(activation)(2 * ROWS)), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["Add", "Multiply", "Average", "Maximum", "Minimum", "Concatenate", "Subtract"])
def test_joins(name):
    a, b = numbers(3, 4), numbers(3, 4)
    found = outputs_of(getattr(layers, name)(), a, b, call=lambda layer, xs: layer(xs))
    np.testing.assert_allclose(found, np.asarray(getattr(theirs, name)()([a, b])), rtol=1e-5)


def test_dot():
    a, b = numbers(3, 4, 5), numbers(3, 5, 2)
    found = outputs_of(layers.Dot((2, 1)), a, b, call=lambda layer, xs: layer(xs))
    np.testing.assert_allclose(found, np.asarray(theirs.Dot((2, 1))([a, b])), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("merge", ["concat", "sum", "mul", "ave"])
def test_bidirectional(merge):
    peer = theirs.Bidirectional(theirs.LSTM(3, return_sequences=True), merge_mode=merge)
    peer(STEPS)
    peer.set_weights(values_like(peer.weights))
    found = outputs_of(layers.Bidirectional(layers.LSTM(3, return_sequences=True), merge_mode=merge), STEPS, like=peer)
    np.testing.assert_allclose(found, np.asarray(peer(STEPS)), rtol=2e-4, atol=2e-5)


def test_time_distributed():
    x = numbers(2, 3, 8, 8, 2)
    peer = theirs.TimeDistributed(theirs.Conv2D(4, 3))
    peer(x)
    found = outputs_of(layers.TimeDistributed(layers.Conv2D(4, 3)), x, like=peer)
    np.testing.assert_allclose(found, np.asarray(peer(x)), rtol=1e-4, atol=1e-5)


def test_states_go_in_and_out():
    h, c = numbers(4, 5), numbers(4, 5)
    peer = theirs.LSTM(5, return_state=True)
    expected = peer(STEPS, initial_state=[h, c])
    found = outputs_of(layers.LSTM(5, return_state=True), STEPS, h, c, like=peer,
                       call=lambda layer, xs: layer(xs[0], initial_state=xs[1:]))
    for ours, other in zip(found, expected):
        np.testing.assert_allclose(ours, np.asarray(other), rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("name,args", [("LSTM", (3,)), ("GRU", (3,)), ("GlobalAveragePooling1D", ()),
                                       ("Bidirectional", ())])
def test_masks_of_embeddings_reach_the_layers_after_them(name, args):
    ids = np.array([[3, 1, 0, 0], [2, 4, 5, 0], [1, 1, 1, 1]], np.int32)

    def stacked(keras_layers, embedding):
        inner = keras_layers.Bidirectional(keras_layers.LSTM(2)) if name == "Bidirectional" else getattr(
            keras_layers, name)(*args)
        return inner, lambda x: inner(keras_layers.Dropout(0.5)(embedding(x)))

    first = theirs.Embedding(6, 4, mask_zero=True)
    last, function = stacked(theirs, first)
    expected = np.asarray(function(ids))
    ours = layers.Embedding(6, 4, mask_zero=True)
    own_last, own = stacked(layers, ours)
    x = Input((4,), dtype="int32")
    model = Model(x, own(x))
    ours.set_weights(first.get_weights())
    own_last.set_weights(last.get_weights())
    np.testing.assert_allclose(model.predict(ids, verbose=0), expected, rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("kwargs", [{}, {"use_causal_mask": True}])
@pytest.mark.parametrize("make", [lambda k: k.MultiHeadAttention(2, 3, value_dim=4),
                                  lambda k: k.GroupQueryAttention(3, 4, 2)])
def test_attention(make, kwargs):
    query, value = numbers(2, 5, 6), numbers(2, 5, 6)
    peer = make(theirs)
    peer(query, value)
    peer.set_weights(values_like(peer.weights))
    found = outputs_of(make(layers), query, value, like=peer, call=lambda layer, xs: layer(*xs, **kwargs))
    np.testing.assert_allclose(found, np.asarray(peer(query, value, **kwargs)), rtol=1e-3, atol=1e-4)


def test_attention_masks():
    query, value = numbers(2, 3, 6), numbers(2, 5, 6)
    mask = RANDOM.random((2, 3, 5)) < 0.6
    mask[:, :, 0] = True
    peer = theirs.MultiHeadAttention(2, 3)
    expected = peer(query, value, attention_mask=mask)
    found = outputs_of(layers.MultiHeadAttention(2, 3), query, value, mask, like=peer,
                       call=lambda layer, xs: layer(xs[0], xs[1], attention_mask=xs[2]))
    np.testing.assert_allclose(found, np.asarray(expected), rtol=1e-3, atol=1e-4)


def test_normalization_learns_what_keras_learns():
    data = numbers(100, 3) * [1, 10, 100] + [5, 0, -7]
    ours, peer = layers.Normalization(), theirs.Normalization()
    ours.adapt(data)
    peer.adapt(data)
    np.testing.assert_allclose(outputs_of(ours, data[:5].astype(np.float32)), np.asarray(peer(data[:5])), rtol=1e-4,
                               atol=1e-5)


def test_vocabularies_are_those_of_keras():
    texts = np.array(["The cat, the dog", "a cat sat", "the End."])
    ours, peer = layers.TextVectorization(output_sequence_length=4), theirs.TextVectorization(output_sequence_length=4)
    ours.adapt(texts)
    peer.adapt(texts)
    assert ours.get_vocabulary() == peer.get_vocabulary()
    x = Input((), dtype="string")
    found = Model(x, ours(x)).predict(texts, verbose=0)
    np.testing.assert_array_equal(found, np.asarray(peer(texts)))

    words = np.array(["b", "a", "b", "c", "b", "a"])
    ours, peer = layers.StringLookup(), theirs.StringLookup()
    ours.adapt(words)
    peer.adapt(words)
    assert ours.get_vocabulary() == [str(w) for w in peer.get_vocabulary()]
    x = Input((), dtype="string")
    np.testing.assert_array_equal(Model(x, ours(x)).predict(np.array(["c", "z", "b"]), verbose=0),
                                  np.asarray(peer(np.array(["c", "z", "b"]))))
    ours, peer = layers.IntegerLookup(), theirs.IntegerLookup()
    ours.adapt(np.array([7, 7, 9]))
    peer.adapt(np.array([7, 7, 9]))
    assert ours.get_vocabulary() == [int(v) for v in peer.get_vocabulary()]


def test_layers_that_have_not_adapted_say_so():
    with pytest.raises(ValueError, match="has no vocabulary yet: give it, or call adapt"):
        layers.StringLookup().get_vocabulary()
    with pytest.raises(ValueError, match="adapt.. finds boundaries of num_bins bins: give num_bins"):
        layers.Discretization().adapt(ROWS)


def test_frozen_layers_are_those_of_keras_too():
    """A layer that is not trainable keeps its weights; batch normalisation then uses its averages."""
    x, y = numbers(32, 6), numbers(32, 2)
    found = []
    for k, make_model in ((keras, keras.Sequential), (None, None)):
        source = theirs if k else layers
        from troupe.keras import Sequential

        model = (make_model or Sequential)([source.Dense(4, name="first"), source.BatchNormalization(name="norm"),
                                            source.Dense(2, name="last")])
        model.build((None, 6))
        if found:
            model.set_weights(found[0][0])
        before = model.get_weights()
        model.get_layer("first").trainable = False
        model.get_layer("norm").trainable = False
        model.compile("sgd", "mse")
        model.fit(x, y, epochs=2, batch_size=8, shuffle=False, verbose=0)
        found.append((before, model.get_weights()))
    for ours, other in zip(found[1][1], found[0][1]):
        np.testing.assert_allclose(ours, other, rtol=1e-4, atol=1e-5)
