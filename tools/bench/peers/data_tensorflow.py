"""Reads data sets with tf.data, as TensorFlow's guides "tf.data: Build TensorFlow input pipelines" and "Better
performance with the tf.data API" do. A peer of troupe-bench: see mnist_data.py. Answers with examples per second."""

import os
import sys

import mnist_data
import numpy

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


def expected(directory, dtype, shape):
    """What Troupe makes of the first records."""
    return numpy.fromfile(directory + "/expected.bin", dtype=dtype).reshape(shape)


def ready_image(record, flip):
    image = tf.image.resize(tf.io.decode_jpeg(record, channels=3, dct_method="INTEGER_ACCURATE"), [224, 224])
    if flip:
        image = tf.image.random_flip_left_right(image)
    return (image / 255 - [0.485, 0.456, 0.406]) / [0.229, 0.224, 0.225]


def jpeg(directory, batch):
    records = tf.data.TFRecordDataset(directory + "/images.tfrecord")
    wanted = expected(directory, numpy.float32, [-1, 224, 224, 3])
    made = numpy.stack([ready_image(record, False) for record in records.take(len(wanted))])
    # Troupe rounds resized pixels to bytes: up to 0.5 / 255 / 0.224 = 0.0088.
    difference = numpy.abs(made - wanted)
    assert difference.max() < 0.01 and difference.mean() < 0.005, (
        "images differ by up to %g, %g on average" % (difference.max(), difference.mean()))
    return records.map(lambda record: ready_image(record, True)).batch(batch)


def text(directory, batch):
    with open(directory + "/vocabulary.txt", encoding="utf-8") as file:
        words = file.read().split("\n")[:-1]
    vectorize = tf.keras.layers.TextVectorization(vocabulary=words, output_sequence_length=20)
    lines = tf.data.TextLineDataset(directory + "/lines.txt").batch(batch).map(vectorize)
    wanted = expected(directory, numpy.int64, [-1, 20])
    made = numpy.concatenate([ids.numpy() for ids in lines.take(-(-len(wanted) // batch))])
    assert (made == wanted).all(), "ids of texts differ"
    return lines


def one_thread(dataset):
    options = tf.data.Options()
    options.threading.private_threadpool_size = 1
    return dataset.with_options(options)


CASES = {"memory": memory, "tfrecord": tfrecord, "csv": csv, "jpeg": jpeg, "text": text}


def main():
    directory, case, batch, epochs = mnist_data.arguments()
    dataset = one_thread(CASES[case](directory, batch))
    _, labels = mnist_data.load_bytes(directory)

    def labelled():
        total = sum(int(batch_labels.numpy().sum()) for _, batch_labels in dataset)
        assert total == int(labels.sum()), "labels add up to %d" % total
        return len(labels)

    def rows_alone():
        return sum(len(rows.numpy()) for rows in dataset)

    run_epoch = labelled if case in ("memory", "tfrecord") else rows_alone
    count = run_epoch()
    mnist_data.serve("TensorFlow " + ".".join(tf.__version__.split(".")[:2]), count, run_epoch, epochs)


main()
