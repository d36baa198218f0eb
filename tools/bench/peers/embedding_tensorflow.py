"""Trains a table with TensorFlow's ParameterServerStrategy: two workers, two parameter servers and a coordinator, as
"Parameter server training" of TensorFlow's guide does with a custom loop. A peer of troupe-bench: see mnist_data.py."""

import os
import socket
import subprocess
import sys

import numpy

import mnist_data

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
try:
    import tensorflow as tf
except ImportError as error:
    mnist_data.say("unavailable: " + str(error))
    sys.exit(0)

IDS, UNITS, RATE = 26, 64, 0.01


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def one_thread():
    config = tf.compat.v1.ConfigProto()
    config.intra_op_parallelism_threads = 1
    config.inter_op_parallelism_threads = 2  # one may wait for the other
    return config


def serve(cluster, job, index):
    server = tf.distribute.Server(
        tf.train.ClusterSpec(cluster), job_name=job, task_index=index, config=one_thread(), protocol="grpc")
    server.join()


def start(cluster):
    text = repr(cluster)
    return [
        subprocess.Popen([sys.executable, __file__, "--serve", text, job, str(index)], stdout=subprocess.DEVNULL)
        for job, tasks in cluster.items() for index in range(len(tasks))]


def update(variable, accumulator, gradient):
    """Adagrad for the rows of a gradient, each once."""
    rows, places = tf.unique(gradient.indices)
    sums = tf.math.unsorted_segment_sum(gradient.values, places, tf.size(rows))
    tf.raw_ops.ResourceSparseApplyAdagradV2(
        var=variable.handle, accum=accumulator.handle, lr=RATE, epsilon=1e-7, grad=sums, indices=rows)


def parts_of(initializer):
    """Initial values of which each server draws its part: the whole is too large for a message."""
    return lambda partition_shape, partition_offset: initializer(partition_shape, dtype=tf.float32)


def main():
    directory, _, batch, epochs = mnist_data.arguments()
    rows = int(sys.argv[5])
    ids = numpy.fromfile(directory + "/ids.i64", dtype=numpy.int64).reshape(-1, IDS)
    steps = len(ids) // batch
    cluster = {job: ["127.0.0.1:%d" % free_port() for _ in range(2)] for job in ("worker", "ps")}
    children = start(cluster)
    try:
        resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(
            tf.train.ClusterSpec(cluster), rpc_layer="grpc")
        strategy = tf.distribute.ParameterServerStrategy(
            resolver, variable_partitioner=tf.distribute.experimental.partitioners.FixedShardsPartitioner(2))
        coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
        shape = (rows, UNITS)
        with strategy.scope():
            table = tf.Variable(
                parts_of(tf.random_uniform_initializer(-0.05, 0.05)), shape=shape, dtype=tf.float32)
            accumulator = tf.Variable(
                parts_of(tf.constant_initializer(0.1)), shape=shape, dtype=tf.float32, trainable=False)

        def data():
            return tf.data.Dataset.from_tensor_slices(ids).batch(batch, drop_remainder=True).repeat().prefetch(2)

        def replica(batch_ids):
            with tf.GradientTape() as tape:
                y = tf.reduce_mean(tf.nn.embedding_lookup(table, batch_ids), axis=[1, 2])
                loss = tf.reduce_mean(tf.square(y))
            for variable, slot, gradient in zip(
                    table.variables, accumulator.variables, tape.gradient(loss, table.variables)):
                update(variable, slot, gradient)
            return loss

        @tf.function
        def step(iterator):
            return strategy.run(replica, args=(next(iterator),))

        iterator = iter(coordinator.create_per_worker_dataset(data))

        def run_epoch():
            for _ in range(steps):
                coordinator.schedule(step, args=(iterator,))
            coordinator.join()

        run_epoch()
        mnist_data.serve("TensorFlow " + tf.__version__, steps * batch, run_epoch, epochs)
    finally:
        for child in children:
            child.kill()


if len(sys.argv) > 1 and sys.argv[1] == "--serve":
    serve(eval(sys.argv[2]), sys.argv[3], int(sys.argv[4]))
else:
    main()
