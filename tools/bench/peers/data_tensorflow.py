"""Reads data sets with tf.data, as TensorFlow's guides "tf.data: Build TensorFlow input pipelines" and "Better
performance with the tf.data API" do. A peer of troupe-bench: see mnist_data.py. Answers with examples per second."""

import os
import sys

import mnist_data

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
try:
    import tensorflow as tf
except ImportError as error:
    mnist_data.say("unavailable: " + str(error))
    sys.exit(0)

tf.config.threading.set_intra_op_parallelism_threads(1)
tf.config.threading.set_inter_op_parallelism_threads(1)


def memory(directory, batch):
    images, labels = mnist_data.load_bytes(directory)
    return tf.data.Dataset.from_tensor_slices((images, labels)).shuffle(len(labels)).batch(batch)


def tfrecord(directory, batch):
    features = {"image": tf.io.FixedLenFeature([], tf.string), "label": tf.io.FixedLenFeature([], tf.int64)}

    def parse(records):
        parsed = tf.io.parse_example(records, features)
        images = tf.reshape(tf.io.decode_raw(parsed["image"], tf.uint8), [-1, 28, 28, 1])
        return images, parsed["label"]

    return tf.data.TFRecordDataset(directory + "/data.tfrecord").batch(batch).map(parse)


def main():
    directory, case, batch, epochs = mnist_data.arguments()
    dataset = {"memory": memory, "tfrecord": tfrecord}[case](directory, batch)
    options = tf.data.Options()
    options.threading.private_threadpool_size = 1
    dataset = dataset.with_options(options)
    _, labels = mnist_data.load_bytes(directory)

    def run_epoch():
        total = sum(int(batch_labels.numpy().sum()) for _, batch_labels in dataset)
        assert total == int(labels.sum()), "labels add up to %d" % total

    run_epoch()
    mnist_data.serve("TensorFlow " + ".".join(tf.__version__.split(".")[:2]), len(labels), run_epoch, epochs)


main()
