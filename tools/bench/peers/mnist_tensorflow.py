"""Trains the models of troupe-mnist with TensorFlow: a peer of troupe-bench, which starts it (see mnist_data.py)."""

import os
import sys

import mnist_data

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
try:
    import tensorflow as tf
except ImportError as error:
    mnist_data.say("unavailable: " + str(error))
    sys.exit(0)


def make_model(name):
    layers = tf.keras.layers
    if name == "mlp":
        body = [layers.Flatten(), layers.Dense(128, activation="relu"), layers.Dense(10)]
    else:
        body = [
            layers.Conv2D(32, 3, activation="relu"), layers.MaxPool2D(2),
            layers.Conv2D(64, 3, activation="relu"), layers.MaxPool2D(2),
            layers.Flatten(), layers.Dense(128, activation="relu"), layers.Dense(10)]
    return tf.keras.Sequential([tf.keras.Input((28, 28, 1))] + body)


def main():
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    tf.random.set_seed(0)
    directory, model_name, batch, epochs = mnist_data.arguments()
    images, labels = mnist_data.load(directory)
    images = tf.constant(images[..., None])
    labels = tf.constant(labels)
    model = make_model(model_name)
    loss_function = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    optimizer = tf.keras.optimizers.Adam(1e-3)
    steps = len(labels) // batch

    @tf.function
    def train_step(indices):
        with tf.GradientTape() as tape:
            loss = loss_function(tf.gather(labels, indices), model(tf.gather(images, indices), training=True))
        variables = model.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))
        return loss

    def run_epoch():
        order = tf.random.shuffle(tf.range(len(labels)))
        total = 0.0
        for step in range(steps):
            total += float(train_step(order[step * batch:(step + 1) * batch]))
        return total / steps

    mnist_data.serve("TensorFlow " + tf.__version__, steps, run_epoch, epochs)


main()
