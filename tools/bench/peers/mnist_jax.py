"""Trains the perceptron of troupe-mnist with jax: a peer of troupe-bench, which starts it (see mnist_data.py)."""

import os
import sys

import mnist_data

os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
os.environ["JAX_PLATFORMS"] = "cpu"
try:
    import jax
except ImportError as error:
    mnist_data.say("unavailable: " + str(error))
    sys.exit(0)

import numpy

jnp = jax.numpy


def loss_of(parameters, images, labels):
    (w0, b0), (w1, b1) = parameters
    logits = jax.nn.relu(images @ w0 + b0) @ w1 + b1
    return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(logits), labels[:, None], 1))


def adam(parameters, m, v, t, gradients):
    tree = jax.tree_util.tree_map
    m = tree(lambda m, g: 0.9 * m + 0.1 * g, m, gradients)
    v = tree(lambda v, g: 0.999 * v + 0.001 * g * g, v, gradients)
    rate = 1e-3 * jnp.sqrt(1 - 0.999**t) / (1 - 0.9**t)
    return tree(lambda p, m, v: p - rate * m / (jnp.sqrt(v) + 1e-7), parameters, m, v), m, v, t + 1


def main():
    directory, model_name, batch, epochs = mnist_data.arguments()
    if model_name != "mlp":
        mnist_data.say("unavailable: only the perceptron is written in jax")
        return
    images, labels = mnist_data.load(directory)
    images, labels = jnp.asarray(images.reshape(-1, 784)), jnp.asarray(labels)
    steps = len(labels) // batch

    def train_step(parameters, m, v, t, indices):
        loss, gradients = jax.value_and_grad(loss_of)(parameters, images[indices], labels[indices])
        return (*adam(parameters, m, v, t, gradients), loss)

    step = jax.jit(train_step, donate_argnums=(0, 1, 2))
    random = numpy.random.default_rng(0)

    def layer(inputs, units):
        limit = (6 / (inputs + units)) ** 0.5
        return jnp.asarray(random.uniform(-limit, limit, (inputs, units)), jnp.float32), jnp.zeros(units)

    def zeros():
        return jax.tree_util.tree_map(jnp.zeros_like, parameters)

    parameters = [layer(784, 128), layer(128, 10)]
    state = (parameters, zeros(), zeros(), jnp.float32(1))

    def run_epoch():
        nonlocal state
        order = random.permutation(len(labels))
        losses = []
        for i in range(steps):
            *state, loss = step(*state, order[i * batch:(i + 1) * batch])
            losses.append(loss)  # computed meanwhile
        return sum(float(loss) for loss in losses) / steps

    run_epoch()
    mnist_data.serve("jax " + jax.__version__, steps, run_epoch, epochs)


main()
