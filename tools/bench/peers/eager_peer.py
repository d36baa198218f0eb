"""Ops that run when they are called, in jax, TensorFlow, PyTorch or Troupe: started by troupe-bench.

eager_peer.py DIRECTORY FRAMEWORK [WHAT]: reads f32 tensors a and b as graph_peer.py does, writes their sum, prints
"ready NAME" or "unavailable WHY", then answers each line of standard input with seconds, on one thread: of one `a + b`
(WHAT is "add", the default), of a call of a compiled function that adds them ("function"), or of an import of the
framework in a process of its own ("import").
"""

import os
import subprocess
import sys
import time

import graph_peer

OPS = 2000  # between two looks at the clock


class Framework:
    def __init__(self, name, module, tensor, array, wait=lambda value: None, compiled=None):
        self.name, self.module, self.tensor, self.array, self.wait = name, module, tensor, array, wait
        self.compiled = compiled


def tensorflow():
    tf = graph_peer.tensorflow()
    return Framework(f"TensorFlow {tf.__version__}", tf, tf.constant, lambda value: value.numpy(), compiled=tf.function)


def jax():
    module = graph_peer.jax()
    return Framework(f"jax {module.__version__}", module, module.numpy.asarray, lambda value: value,
                     lambda value: value.block_until_ready(), module.jit)


def torch():
    import torch as module

    module.set_num_threads(1)
    return Framework(f"PyTorch {module.__version__}", module, module.from_numpy, lambda value: value.numpy())


def troupe():
    module = graph_peer.troupe()
    module.set_threads(1)
    return Framework("Troupe", module, module.tensor, lambda value: value.numpy(), compiled=module.function)


def seconds_of_import(name, path, directory):
    """Of a process that imports it, less one that does not. Sources are compiled once, as by an installation."""
    kept = {**os.environ, "PYTHONPATH": path, "PYTHONPYCACHEPREFIX": os.path.join(directory, "compiled_python")}
    kept.pop("PYTHONDONTWRITEBYTECODE", None)

    def run(code):
        begin = time.perf_counter()
        subprocess.run([sys.executable, "-c", code], check=True, env=kept)
        return time.perf_counter() - begin

    return run(f"import {name}") - run("pass")


def main():
    directory, framework, what = (sys.argv[1:] + ["add"])[:3]
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    try:
        used = {"tensorflow": tensorflow, "jax": jax, "torch": torch, "troupe": troupe}[framework]()
    except ImportError as error:
        graph_peer.say(f"unavailable {error}")
        return
    a, b = (used.tensor(graph_peer.load(directory, name)) for name in ("a", "b"))
    call = used.compiled(lambda a, b: a + b) if what == "function" else None
    graph_peer.save(directory, {"sum": used.array(call(a, b) if call else a + b)})
    path = os.path.dirname(os.path.dirname(used.module.__file__))
    if what == "import":
        seconds_of_import(framework, path, directory)
    graph_peer.say("ready " + used.name)
    for _ in sys.stdin:
        if what == "import":
            graph_peer.say(repr(seconds_of_import(framework, path, directory)))
            continue
        begin, ops = time.perf_counter(), 0
        while ops == 0 or time.perf_counter() - begin < 0.1:
            if call:
                for _ in range(OPS):
                    c = call(a, b)
            else:
                for _ in range(OPS):
                    c = a + b
            used.wait(c)
            ops += OPS
        graph_peer.say(repr((time.perf_counter() - begin) / ops))


if __name__ == "__main__":
    main()
