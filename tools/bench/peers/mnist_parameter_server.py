"""Trains the perceptron of troupe-mnist with TensorFlow's ParameterServerStrategy and its coordinator.

Two workers and a parameter server, a process of one thread each, as in TensorFlow's tutorial on training with parameter
servers. A peer of troupe-bench, which starts it as the coordinator (see mnist_data.py); that starts the others.
"""

import json
import os
import socket
import subprocess
import sys

import mnist_data

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ["GRPC_FAIL_FAST"] = "use_caller"
try:
    import tensorflow as tf
except ImportError as error:
    mnist_data.say("unavailable: " + str(error))
    sys.exit(0)

WORKERS = 2


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


def one_thread():
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)


def serve_task():
    """A worker or the parameter server; ends with the coordinator."""
    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    one_thread()
    config = tf.compat.v1.ConfigProto(
        intra_op_parallelism_threads=1,
        inter_op_parallelism_threads=WORKERS + 1)  # fewer may deadlock (the tutorial)
    tf.distribute.Server(resolver.cluster_spec(), job_name=resolver.task_type, task_index=resolver.task_id,
                         config=config, protocol="grpc", start=True)
    sys.stdin.read()


def start_tasks():
    ports = free_ports(WORKERS + 2)
    names = [("worker", i) for i in range(WORKERS)] + [("ps", 0), ("chief", 0)]
    cluster = {}
    for (job, _), port in zip(names, ports):
        cluster.setdefault(job, []).append(f"127.0.0.1:{port}")
    children = []
    for job, index in names:
        config = json.dumps({"cluster": cluster, "task": {"type": job, "index": index}})
        if job == "chief":
            os.environ["TF_CONFIG"] = config
        else:
            children.append(subprocess.Popen([sys.executable, __file__, "--task"], stdin=subprocess.PIPE,
                                             env={**os.environ, "TF_CONFIG": config}))
    return children


def main():
    directory, _, batch, epochs = mnist_data.arguments()
    children = start_tasks()
    one_thread()
    strategy = tf.distribute.ParameterServerStrategy(tf.distribute.cluster_resolver.TFConfigClusterResolver())
    with strategy.scope():
        layers = tf.keras.layers
        model = tf.keras.Sequential([
            tf.keras.Input((28, 28, 1)), layers.Flatten(), layers.Dense(128, activation="relu"), layers.Dense(10)])
        optimizer = tf.keras.optimizers.Adam(1e-3)
        optimizer.build(model.trainable_variables)
        loss_function = tf.keras.losses.SparseCategoricalCrossentropy(
            from_logits=True, reduction="none")

    @tf.function
    def per_worker_dataset():
        images, labels = mnist_data.load(directory)
        data = tf.data.Dataset.from_tensor_slices((images[..., None], labels))
        return data.shuffle(len(labels)).repeat().batch(batch).prefetch(2)

    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    iterator = iter(coordinator.create_per_worker_dataset(per_worker_dataset))

    @tf.function
    def train_step(iterator):
        def replica(images, labels):
            with tf.GradientTape() as tape:
                loss = tf.nn.compute_average_loss(loss_function(labels, model(images, training=True)))
            gradients = tape.gradient(loss, model.trainable_variables)
            optimizer.apply_gradients(zip(gradients, model.trainable_variables))
            return loss

        return strategy.run(replica, args=next(iterator))

    steps = len(mnist_data.load(directory)[1]) // batch

    def run_epoch():
        for _ in range(steps):
            coordinator.schedule(train_step, args=(iterator,))
        coordinator.join()

    run_epoch()
    mnist_data.serve("TensorFlow " + tf.__version__ + " ParameterServerStrategy", steps * batch, run_epoch, epochs)
    for child in children:
        child.stdin.close()


if "--task" in sys.argv:
    serve_task()
else:
    main()
