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


def csv(directory, batch):
    rows = tf.data.experimental.CsvDataset(directory + "/numbers.csv", [tf.float32] * 40, header=True)
    return rows.batch(batch).map(lambda *columns: tf.stack(columns, axis=1))


def one_thread(dataset):
    options = tf.data.Options()
    options.threading.private_threadpool_size = 1
    return dataset.with_options(options)


def main():
    directory, case, batch, epochs = mnist_data.arguments()
    dataset = one_thread({"memory": memory, "tfrecord": tfrecord, "csv": csv}[case](directory, batch))
    _, labels = mnist_data.load_bytes(directory)

    def labelled():
        total = sum(int(batch_labels.numpy().sum()) for _, batch_labels in dataset)
        assert total == int(labels.sum()), "labels add up to %d" % total
        return len(labels)

    def numbers():
        return sum(len(rows.numpy()) for rows in dataset)

    run_epoch = numbers if case == "csv" else labelled
    count = run_epoch()
    mnist_data.serve("TensorFlow " + ".".join(tf.__version__.split(".")[:2]), count, run_epoch, epochs)


main()
