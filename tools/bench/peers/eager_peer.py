"""Ops that run when they are called, in jax, TensorFlow or PyTorch: peers of troupe-bench, which starts them.

eager_peer.py DIRECTORY FRAMEWORK: reads f32 tensors a and b as graph_peer.py does, writes their sum, prints "ready
NAME" or "unavailable WHY", then answers each line of standard input with the seconds of one `a + b`, one thread.
"""

import os
import sys
import time

import graph_peer

OPS = 2000  # between two looks at the clock


def tensorflow():
    tf = graph_peer.tensorflow()
    return f"TensorFlow {tf.__version__}", tf.constant, lambda value: None, lambda value: value.numpy()


def jax():
    module = graph_peer.jax()
    return (
        f"jax {module.__version__}",
        module.numpy.asarray,
        lambda value: value.block_until_ready(),
        lambda value: value,
    )


def torch():
    import torch as module

    module.set_num_threads(1)
    return f"PyTorch {module.__version__}", module.from_numpy, lambda value: None, lambda value: value.numpy()


def main():
    directory, framework = sys.argv[1:]
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    try:
        name, tensor, wait, array = {"tensorflow": tensorflow, "jax": jax, "torch": torch}[framework]()
    except ImportError as error:
        graph_peer.say(f"unavailable {error}")
        return
    a, b = (tensor(graph_peer.load(directory, name)) for name in ("a", "b"))
    graph_peer.save(directory, {"sum": array(a + b)})
    graph_peer.say("ready " + name)
    for _ in sys.stdin:
        begin, ops = time.perf_counter(), 0
        while ops == 0 or time.perf_counter() - begin < 0.1:
            for _ in range(OPS):
                c = a + b
            wait(c)
            ops += OPS
        graph_peer.say(repr((time.perf_counter() - begin) / ops))


if __name__ == "__main__":
    main()
