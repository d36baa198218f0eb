"""Common parts of the training scripts: the data, and the dialogue with troupe-bench."""

import sys
import time

import numpy


def arguments():
    """directory, model, batch, epochs; a script's own arguments follow"""
    directory, model, batch, epochs = sys.argv[1:5]
    return directory, model, int(batch), int(epochs)


def load_bytes(directory):
    """Images of shape [n, 28, 28] as bytes, and labels."""
    images = numpy.fromfile(directory + "/images.u8", dtype=numpy.uint8).reshape(-1, 28, 28)
    return images, numpy.fromfile(directory + "/labels.i32", dtype=numpy.int32)


def load(directory):
    """Floats in [0, 1] of shape [n, 28, 28], and labels."""
    images, labels = load_bytes(directory)
    return images.astype(numpy.float32) / 255, labels


def say(line):
    print(line, flush=True)


def serve(name, steps_of_epoch, run_epoch, epochs):
    """Answers each line of standard input with steps per second."""
    say("ready " + name)
    for _ in sys.stdin:
        begin = time.perf_counter()
        for _ in range(epochs):
            run_epoch()
        say(repr(epochs * steps_of_epoch / (time.perf_counter() - begin)))
