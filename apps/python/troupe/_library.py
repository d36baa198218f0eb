"""Loads the C++ module, so that its libraries use their own symbols before those of the process: TensorFlow shows all
processes its protobuf, oneDNN, RE2 and OpenSSL, which are of other versions."""

import importlib
import os
import sys

_flags = sys.getdlopenflags()
# A preloaded allocator must be that of all libraries.
if hasattr(os, "RTLD_DEEPBIND") and "LD_PRELOAD" not in os.environ:
    sys.setdlopenflags(os.RTLD_NOW | os.RTLD_LOCAL | os.RTLD_DEEPBIND)
try:
    importlib.import_module("troupe._troupe")
finally:
    sys.setdlopenflags(_flags)
