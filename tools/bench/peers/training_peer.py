"""Training steps in TensorFlow, Keras, PyTorch or jax: peers of troupe-bench, which starts them.

training_peer.py DIRECTORY CASE STEPS: reads a batch and initial values, NAME.data with dtype and shape in NAME.shape,
trains for STEPS steps on the batch, writes their losses, prints "ready NAME" or "unavailable WHY", then answers each
line of standard input with the seconds of a step. One thread.
"""

import glob
import itertools
import os
import sys
import time

import numpy

import graph_peer

DTYPES = {"f32": numpy.float32, "i32": numpy.int32}
HEADS = 4


def say(line):
    print(line, flush=True)


def load(directory):
    """All tensors by name; a '.' in the name of a variable is a '/'."""
    found = {}
    for path in glob.glob(directory + "/*.shape"):
        name = os.path.basename(path)[: -len(".shape")]
        with open(path, encoding="utf-8") as file:
            dtype, *shape = file.read().split()
        data = numpy.fromfile(f"{directory}/{name}.data", dtype=DTYPES[dtype])
        found[name.replace(".", "/")] = data.reshape([int(size) for size in shape])
    return found


def compare(directory, losses):
    numpy.asarray(losses, dtype=numpy.float32).tofile(directory + "/losses.data")


def serve(name, steps):
    """`steps` trains for some steps and returns their number."""
    say("ready " + name)
    for _ in sys.stdin:
        begin, done = time.perf_counter(), 0
        while done == 0 or time.perf_counter() - begin < 0.1:
            done += steps()
        say(repr((time.perf_counter() - begin) / done))


def tensorflow():
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    return tf


def keras_steps(directory, steps, model, weights, batch):
    """Trains a model on tokens in a tf.function, as in TensorFlow's guide to loops of one's own."""
    tf = tensorflow()
    keras = tf.keras
    model.set_weights(weights)
    loss_function = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    optimizer = keras.optimizers.Adam(1e-3)
    optimizer.build(model.trainable_variables)
    tokens, following = tf.constant(batch["tokens"]), tf.constant(batch["next"])

    @tf.function
    def train_step(tokens, following):
        with tf.GradientTape() as tape:
            loss = loss_function(following, model(tokens, training=True))
        # Dense: of a sparse gradient, Keras' Adam squares repeated rows before it adds them.
        gradients = [tf.convert_to_tensor(g) for g in tape.gradient(loss, model.trainable_variables)]
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
        return loss

    compare(directory, [train_step(tokens, following).numpy() for _ in range(steps)])

    def step():
        train_step(tokens, following).numpy()
        return 1

    serve("TensorFlow " + tf.__version__, step)


def blocks_of(given):
    prefixes = sorted({name.split("/")[0] for name in given if name.startswith("transformer_encoder")})
    return sorted(prefixes, key=lambda p: int(p.rsplit("_", 1)[1]) if p[-1].isdigit() else 0)


def transformer_tensorflow(directory, steps):
    tf = tensorflow()
    layers = tf.keras.layers
    given = load(directory)
    vocabulary, width = given["embedding/table"].shape
    length = given["tokens"].shape[1]

    class Positions(layers.Layer):
        def build(self, shape):
            self.table = self.add_weight(name="table", shape=(length, width))

        def call(self, x):
            return x + self.table

    inputs = tf.keras.Input((length,), dtype="int32")
    x = Positions()(layers.Embedding(vocabulary, width)(inputs))
    weights = [given["embedding/table"], given["position_embedding/table"]]
    for block in blocks_of(given):
        def of(name, *shape):
            value = given[f"{block}/{name}"]
            return value.reshape(shape) if shape else value

        y = layers.LayerNormalization(epsilon=1e-5)(x)
        x = x + layers.MultiHeadAttention(HEADS, width // HEADS)(y, y, use_causal_mask=True)
        y = layers.LayerNormalization(epsilon=1e-5)(x)
        y = layers.Dense(of("feed_forward_in/kernel").shape[1], activation="relu")(y)
        x = x + layers.Dense(width)(y)
        depth = width // HEADS
        weights += [of("attention_norm/scale"), of("attention_norm/offset")]
        for part in ("query", "key", "value"):
            weights += [of(f"attention/{part}_kernel", width, HEADS, depth), of(f"attention/{part}_bias", HEADS, depth)]
        weights += [of("attention/output_kernel", HEADS, depth, width), of("attention/output_bias")]
        weights += [of("feed_forward_norm/scale"), of("feed_forward_norm/offset")]
        for part in ("feed_forward_in", "feed_forward_out"):
            weights += [of(part + "/kernel"), of(part + "/bias")]
    x = layers.LayerNormalization(epsilon=1e-5)(x)
    x = layers.Dense(vocabulary)(x)
    weights += [given["layer_norm/scale"], given["layer_norm/offset"], given["dense/kernel"], given["dense/bias"]]
    keras_steps(directory, steps, tf.keras.Model(inputs, x), weights, given)


def transformer_jax(directory, steps):
    os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
    os.environ["JAX_PLATFORMS"] = "cpu"
    import jax

    jnp = jax.numpy
    given = load(directory)
    tokens, following = jnp.asarray(given.pop("tokens")), jnp.asarray(given.pop("next"))
    blocks = blocks_of(given)
    parameters = {name: jnp.asarray(value) for name, value in given.items()}

    def norm(p, name, x):
        centred = x - jnp.mean(x, -1, keepdims=True)
        variance = jnp.mean(jnp.square(centred), -1, keepdims=True)
        return centred * jax.lax.rsqrt(variance + 1e-5) * p[name + "/scale"] + p[name + "/offset"]

    def dense(p, name, x, kernel="kernel", bias="bias"):
        return x @ p[f"{name}/{kernel}"] + p[f"{name}/{bias}"]

    def attend(p, name, x):
        n, length, width = x.shape

        def heads(part):
            return dense(p, name, x, part + "_kernel", part + "_bias").reshape(n, length, HEADS, width // HEADS)

        y = jax.nn.dot_product_attention(heads("query"), heads("key"), heads("value"), is_causal=True)
        return dense(p, name, y.reshape(n, length, width), "output_kernel", "output_bias")

    def loss_of(p):
        x = p["embedding/table"][tokens] + p["position_embedding/table"]
        for block in blocks:
            x = x + attend(p, block + "/attention", norm(p, block + "/attention_norm", x))
            y = jax.nn.relu(dense(p, block + "/feed_forward_in", norm(p, block + "/feed_forward_norm", x)))
            x = x + dense(p, block + "/feed_forward_out", y)
        logits = dense(p, "dense", norm(p, "layer_norm", x))
        return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(logits), following[..., None], -1))

    def train_step(p, m, v, rate):
        loss, g = jax.value_and_grad(loss_of)(p)
        m = {k: 0.9 * m[k] + 0.1 * g[k] for k in p}
        v = {k: 0.999 * v[k] + 0.001 * jnp.square(g[k]) for k in p}
        p = {k: p[k] - rate * m[k] / (jnp.sqrt(v[k]) + 1e-7) for k in p}
        return p, m, v, loss

    train_step = jax.jit(train_step, donate_argnums=(0, 1, 2))
    zeros = {name: jnp.zeros_like(value) for name, value in parameters.items()}
    state = [parameters, zeros, {name: jnp.zeros_like(value) for name, value in parameters.items()}]
    updates = itertools.count(1)

    def step():
        t = next(updates)
        rate = 1e-3 * (1 - 0.999**t) ** 0.5 / (1 - 0.9**t)  # in double: f32 is not enough for t = 1
        *state[:], loss = train_step(*state, rate)
        return loss

    compare(directory, [float(step()) for _ in range(steps)])

    def one():
        step().block_until_ready()
        return 1

    serve("jax " + jax.__version__, one)


def lstm_tensorflow(directory, steps):
    tf = tensorflow()
    layers = tf.keras.layers
    given = load(directory)
    vocabulary, width = given["embedding/table"].shape

    def gates(weights):  # from i o f c to i f c o
        i, o, f, c = numpy.split(weights, 4)
        return numpy.concatenate([i, f, c, o])

    model = tf.keras.Sequential([
        tf.keras.Input((given["tokens"].shape[1],), dtype="int32"), layers.Embedding(vocabulary, width),
        layers.LSTM(width, return_sequences=True), layers.Dense(vocabulary)])
    weights = [given["embedding/table"], gates(given["lstm/kernel"]).T, gates(given["lstm/recurrent_kernel"]).T,
               gates(given["lstm/bias"]), given["dense/kernel"], given["dense/bias"]]
    keras_steps(directory, steps, model, weights, given)


def mlp_torch(directory, steps):
    """The training loop of PyTorch's "Optimizing Model Parameters"."""
    import torch

    torch.set_num_threads(1)
    given = {name: torch.from_numpy(value) for name, value in load(directory).items()}
    x, labels = given["x"], given["labels"].long()
    model = torch.nn.Sequential(torch.nn.Linear(784, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10))
    with torch.no_grad():
        for layer, name in ((model[0], "dense"), (model[2], "dense_1")):
            layer.weight.copy_(given[name + "/kernel"].T)
            layer.bias.copy_(given[name + "/bias"])
    loss_function = torch.nn.CrossEntropyLoss()
    # Added after the correction of the first steps, where Keras and we add 1e-7 before.
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, eps=2e-6)

    def step():
        loss = loss_function(model(x), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    compare(directory, [step().item() for _ in range(steps)])

    def one():
        step()
        return 1

    serve(f"PyTorch {torch.__version__}", one)


def mlp_troupe(directory, steps, traced=False):
    """As mlp_tensorflow."""
    troupe = graph_peer.troupe()
    troupe.set_threads(1)
    given = load(directory)
    x, labels = troupe.tensor(given.pop("x")), troupe.tensor(given.pop("labels"))
    names = ("dense/kernel", "dense/bias", "dense_1/kernel", "dense_1/bias")
    w0, b0, w1, b1 = weights = [troupe.Variable(given[name]) for name in names]
    optimizer = troupe.optimizers.Adam(1e-3)

    def train(x, labels):
        with troupe.GradientTape() as tape:
            hidden = troupe.nn.relu(x @ w0 + b0)
            loss = troupe.mean(troupe.nn.sparse_softmax_cross_entropy(hidden @ w1 + b1, labels))
        optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights))
        return loss

    step = troupe.function(train) if traced else train
    compare(directory, [float(step(x, labels)) for _ in range(steps)])

    def one():
        step(x, labels)
        return 1

    serve("Troupe", one)


def mlp_troupe_function(directory, steps):
    mlp_troupe(directory, steps, traced=True)


def mlp_tensorflow(directory, steps):
    """A loop of one's own without tf.function."""
    tf = tensorflow()
    given = load(directory)
    x, labels = tf.constant(given["x"]), tf.constant(given["labels"])
    model = tf.keras.Sequential([
        tf.keras.Input((784,)), tf.keras.layers.Dense(128, activation="relu"), tf.keras.layers.Dense(10)])
    model.set_weights([given[name] for name in ("dense/kernel", "dense/bias", "dense_1/kernel", "dense_1/bias")])
    loss_function = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    optimizer = tf.keras.optimizers.Adam(1e-3)

    def step():
        with tf.GradientTape() as tape:
            loss = loss_function(labels, model(x, training=True))
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
        return loss

    compare(directory, [step().numpy() for _ in range(steps)])

    def one():
        step()
        return 1

    serve(f"TensorFlow {tf.__version__} eager", one)


def mlp_jax(directory, steps):
    """A step as a whole compiled by jax.jit."""
    os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
    os.environ["JAX_PLATFORMS"] = "cpu"
    import jax

    jnp = jax.numpy
    given = {name: jnp.asarray(value) for name, value in load(directory).items()}
    x, labels = given.pop("x"), given.pop("labels")

    def loss_of(p, x, labels):
        logits = jax.nn.relu(x @ p["dense/kernel"] + p["dense/bias"]) @ p["dense_1/kernel"] + p["dense_1/bias"]
        return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(logits), labels[:, None], 1))

    def train_step(p, m, v, t, x, labels):
        loss, g = jax.value_and_grad(loss_of)(p, x, labels)
        m = {k: 0.9 * m[k] + 0.1 * g[k] for k in p}
        v = {k: 0.999 * v[k] + 0.001 * jnp.square(g[k]) for k in p}
        rate = 1e-3 * jnp.sqrt(1 - 0.999**t) / (1 - 0.9**t)
        p = {k: p[k] - rate * m[k] / (jnp.sqrt(v[k]) + 1e-7) for k in p}
        return p, m, v, t + 1, loss

    train_step = jax.jit(train_step, donate_argnums=(0, 1, 2))
    state = [given, *({k: jnp.zeros_like(value) for k, value in given.items()} for _ in range(2)), jnp.float32(1)]

    def step():
        *state[:], loss = train_step(*state, x, labels)
        return loss

    compare(directory, [float(step()) for _ in range(steps)])

    def one():
        step().block_until_ready()
        return 1

    serve(f"jax {jax.__version__} jit", one)


def tags_keras(directory, steps):
    tf = tensorflow()
    layers = tf.keras.layers
    given = load(directory)
    vocabulary, width = given["embedding/table"].shape
    model = tf.keras.Sequential([
        tf.keras.Input((given["words"].shape[1],), dtype="int32"),
        layers.Embedding(vocabulary, width, mask_zero=True), layers.GlobalAveragePooling1D(),
        layers.Dense(given["dense/kernel"].shape[1], activation="relu"),
        layers.Dense(given["dense_1/kernel"].shape[1])])
    model.set_weights([given[name] for name in (
        "embedding/table", "dense/kernel", "dense/bias", "dense_1/kernel", "dense_1/bias")])
    model.compile(tf.keras.optimizers.Adam(1e-3), tf.keras.losses.BinaryCrossentropy(from_logits=True))
    compare(directory, [float(model.train_on_batch(given["words"], given["labels"])) for _ in range(steps)])
    words, labels, batch = given["all_words"], given["all_labels"], len(given["words"])

    def epoch():
        model.fit(words, labels, batch_size=batch, epochs=1, verbose=0)
        return len(words) // batch

    epoch()
    serve("Keras " + tf.keras.__version__ + " fit", epoch)


CASES = {
    "transformer-tensorflow": transformer_tensorflow,
    "transformer-jax": transformer_jax,
    "lstm-tensorflow": lstm_tensorflow,
    "tags-keras": tags_keras,
    "mlp-torch": mlp_torch,
    "mlp-troupe": mlp_troupe,
    "mlp-troupe-function": mlp_troupe_function,
    "mlp-tensorflow": mlp_tensorflow,
    "mlp-jax": mlp_jax,
}


def main():
    directory, case, steps = sys.argv[1:4]
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})  # one thread
    try:
        CASES[case](directory, int(steps))
    except ImportError as error:
        say("unavailable: " + str(error))


main()
