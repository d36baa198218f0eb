"""Loads the C++ module, so that its libraries use their own symbols before those of the process: TensorFlow shows all
processes its protobuf, oneDNN, RE2 and OpenSSL, which are of other versions."""

import importlib
import os
import sys


def _check_alone() -> None:
    """A process has one registry of protobuf's messages: a wheel carries a protobuf of its own, others share one."""
    if os.path.exists(os.path.join(os.path.dirname(os.path.dirname(os.path.realpath(__file__))), "troupe.libs")):
        return
    try:
        with open("/proc/self/maps", "rb") as maps:
            loaded = maps.read()
    except OSError:
        return
    if b"/libtroupe.so" in loaded:
        raise ImportError("libtroupe.so, the C API, is in this process: it and this module have the same messages of "
                          "protobuf. Use one of them, or a wheel made by tools/wheel.py, which carries its libraries")


_check_alone()
_flags = sys.getdlopenflags()
# A preloaded allocator must be that of all libraries.
if hasattr(os, "RTLD_DEEPBIND") and "LD_PRELOAD" not in os.environ:
    sys.setdlopenflags(os.RTLD_NOW | os.RTLD_LOCAL | os.RTLD_DEEPBIND)
try:
    importlib.import_module("troupe._troupe")
finally:
    sys.setdlopenflags(_flags)
