"""Steps of graphs in TensorFlow, jax or SciPy: peers of troupe-bench, which starts them.

graph_peer.py DIRECTORY CASE THREADS: reads the case's inputs, NAME.data with dtype and shape in NAME.shape, writes its
results likewise, prints "ready NAME" or "unavailable WHY", then answers each line of standard input with
the seconds of a step.
"""

import os
import sys
import time

import numpy

DTYPES = {"f32": numpy.float32, "i32": numpy.int32, "i64": numpy.int64}
TOP = 100  # of topk


def say(line):
    print(line, flush=True)


def load(directory, name):
    with open(f"{directory}/{name}.shape", encoding="utf-8") as file:
        dtype, *shape = file.read().split()
    return numpy.fromfile(f"{directory}/{name}.data", dtype=DTYPES[dtype]).reshape([int(size) for size in shape])


def save(directory, results):
    for name, value in results.items():
        numpy.ascontiguousarray(numpy.asarray(value), dtype=numpy.float32).tofile(f"{directory}/{name}.data")


def serve(name, step):
    say("ready " + name)
    for _ in sys.stdin:
        begin, calls = time.perf_counter(), 0
        while calls == 0 or time.perf_counter() - begin < 0.1:
            step()
            calls += 1
        say(repr((time.perf_counter() - begin) / calls))


def tensorflow():
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    return tf


def jax():
    os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
    os.environ["JAX_PLATFORMS"] = "cpu"
    import jax as module

    return module


def troupe():
    """The module of the build that has started this script."""
    build = sys.argv[0].split("/include/troupe/")[0]
    sys.path.insert(0, build + "/python")
    import troupe as module

    return module


def gates(weights, order):
    """Rows of four gates in another order."""
    return numpy.concatenate([numpy.split(weights, 4)[gate] for gate in order])


def lstm(directory):
    tf = tensorflow()
    x, w, r, bias, dy = (load(directory, name) for name in ("x", "w", "r", "bias", "dy"))
    ifco, iofc = (0, 2, 3, 1), (0, 3, 1, 2)
    layer = tf.keras.layers.LSTM(r.shape[2], return_sequences=True)
    layer.build(x.shape)
    layer.set_weights([gates(w[0], ifco).T, gates(r[0], ifco).T, gates(bias[0, : bias.shape[1] // 2], ifco)])
    inputs, flow = tf.constant(x), tf.constant(dy[:, :, 0])

    @tf.function
    def run(x, dy):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = layer(x)
        return [y] + tape.gradient(y, [x] + layer.trainable_variables, output_gradients=dy)

    y, dx, dw, dr, dbias = (value.numpy() for value in run(inputs, flow))
    dbias = gates(dbias, iofc)
    save(directory, {"y": y, "dx": dx, "dw": gates(dw.T, iofc), "dr": gates(dr.T, iofc),
                     "dbias": numpy.concatenate([dbias, dbias])})
    serve("TensorFlow " + tf.__version__, lambda: run(inputs, flow)[0].numpy())


def attention(directory, fused=False):
    xla = jax()
    jnp = xla.numpy
    q, k, v, dy = (jnp.asarray(load(directory, name)) for name in ("q", "k", "v", "dy"))

    def attend(q, k, v):
        if fused:
            heads_last = [jnp.swapaxes(t, 0, 1)[None] for t in (q, k, v)]
            return jnp.swapaxes(xla.nn.dot_product_attention(*heads_last, is_causal=True)[0], 0, 1)
        scores = jnp.einsum("htd,hsd->hts", q, k) / jnp.sqrt(jnp.float32(q.shape[-1]))
        scores = jnp.where(jnp.tril(jnp.ones(scores.shape[1:], bool)), scores, -jnp.inf)
        return jnp.einsum("hts,hsd->htd", xla.nn.softmax(scores), v)

    @xla.jit
    def run(q, k, v, dy):
        y, back = xla.vjp(attend, q, k, v)
        return (y,) + back(dy)

    save(directory, dict(zip(("y", "dq", "dk", "dv"), run(q, k, v, dy))))
    name = "jax " + xla.__version__ + (" dot_product_attention" if fused else " softmax")
    serve(name, lambda: xla.block_until_ready(run(q, k, v, dy)))


def while_loop(directory):
    tf = tensorflow()
    increment, bound = (tf.constant(load(directory, name)) for name in ("increment", "bound"))

    @tf.function
    def run(increment, bound):
        return tf.while_loop(lambda x: x < bound, lambda x: (x + increment,), (tf.constant(0.0),))[0]

    save(directory, {"last": run(increment, bound)})
    serve("TensorFlow " + tf.__version__, lambda: run(increment, bound).numpy())


def in_tensorflow(function, *names):
    def case(directory):
        tf = tensorflow()
        inputs = [tf.constant(load(directory, name)) for name in names]
        run = tf.function(lambda *inputs: function(tf, *inputs))
        save(directory, {"y": run(*inputs)})
        serve("TensorFlow " + tf.__version__, lambda: run(*inputs).numpy())

    return case


def in_jax(function, *names):
    def case(directory):
        xla = jax()
        inputs = [xla.numpy.asarray(load(directory, name)) for name in names]
        run = xla.jit(lambda *inputs: function(xla, *inputs))
        save(directory, {"y": run(*inputs)})
        serve("jax " + xla.__version__, lambda: xla.block_until_ready(run(*inputs)))

    return case


def scipy_product(directory, adjoint=False):
    import scipy
    import scipy.sparse

    indices, values, b = (load(directory, name) for name in ("indices", "values", "b"))
    rows = b.shape[0]
    matrix = scipy.sparse.coo_array((values, (indices[:, 0], indices[:, 1])), shape=(rows, rows)).tocsr()
    if adjoint:
        matrix = matrix.T
    save(directory, {"y": matrix @ b})
    serve("SciPy " + scipy.__version__, lambda: matrix @ b)


class OnnxModel:
    """The model of a directory in onnxruntime, with its feeds."""

    def __init__(self, directory, threads):
        import onnxruntime

        self.name = "onnxruntime " + onnxruntime.__version__
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        self.session = onnxruntime.InferenceSession(
            directory + "/model.onnx", options, providers=["CPUExecutionProvider"])
        self.feeds = {value.name: load(directory, value.name) for value in self.session.get_inputs()}

    def run(self):
        return self.session.run(None, self.feeds)

    def save_results(self, directory):
        save(directory, dict(zip([value.name for value in self.session.get_outputs()], self.run())))


def onnx(directory, threads):
    model = OnnxModel(directory, threads)
    model.save_results(directory)
    serve(model.name, model.run)


def onnx_load(directory, threads):
    """Answers with the seconds from a file to its first results."""
    model = OnnxModel(directory, threads)
    model.save_results(directory)
    say("ready " + model.name)
    for _ in sys.stdin:
        begin = time.perf_counter()
        OnnxModel(directory, threads).run()
        say(repr(time.perf_counter() - begin))


def status_kib(key):
    with open("/proc/self/status", encoding="utf-8") as status:
        return next(int(line.split()[1]) for line in status if line.startswith(key))


def onnx_memory(directory, threads):
    """Says how many KiB more memory the process had at most, for a model and three runs, than before it."""
    import onnxruntime  # noqa: F401, of the process before

    before = status_kib("VmRSS:")
    model = OnnxModel(directory, threads)
    for _ in range(3):
        model.run()
    say("ready " + model.name)
    say(str(status_kib("VmHWM:") - before))


CASES = {
    "lstm": lstm,
    "attention": attention,
    "attention-fused": lambda directory: attention(directory, fused=True),
    "while": while_loop,
    "topk-tensorflow": in_tensorflow(lambda tf, x: tf.math.top_k(x, TOP).values, "x"),
    "topk-jax": in_jax(lambda xla, x: xla.lax.top_k(x, TOP)[0], "x"),
    "sort-tensorflow": in_tensorflow(lambda tf, x: tf.sort(x), "x"),
    "sort-jax": in_jax(lambda xla, x: xla.numpy.sort(x), "x"),
    "cumsum-tensorflow": in_tensorflow(lambda tf, x: tf.cumsum(x), "x"),
    "cumsum-jax": in_jax(lambda xla, x: xla.numpy.cumsum(x), "x"),
    "gather-nd-tensorflow": in_tensorflow(lambda tf, x, at: tf.gather_nd(x, at), "x", "indices"),
    "sparse-scipy": scipy_product,
    "sparse-adjoint-scipy": lambda directory: scipy_product(directory, adjoint=True),
    "gather-nd-jax": in_jax(lambda xla, x, at: x[at[:, 0], at[:, 1]], "x", "indices"),
}


ONNX_CASES = {"onnx": onnx, "onnx-load": onnx_load, "onnx-memory": onnx_memory}


def main():
    directory, case, threads = sys.argv[1], sys.argv[2], int(sys.argv[3])
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-threads:])
    try:
        if case in ONNX_CASES:
            ONNX_CASES[case](directory, threads)
        else:
            CASES[case](directory)
    except ImportError as error:
        say("unavailable: " + str(error))


if __name__ == "__main__":
    main()
