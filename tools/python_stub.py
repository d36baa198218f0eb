#!/usr/bin/env python3
"""python_stub.py MODULE PATTERNS FOLDER: hints of Python's module _troupe, from its own signatures: _troupe.pyi, and
_troupe_keras.pyi of its module keras.

nanobind.stubgen writes them. The module is imported alone, without the package, which adds methods to its classes.
"""

import pathlib
import re
import subprocess
import sys
import tempfile


def hints(place: pathlib.Path, module: str, patterns: pathlib.Path) -> str:
    stub = place / "stub.pyi"
    subprocess.run([sys.executable, "-m", "nanobind.stubgen", "-q", "-P", "-p", patterns, "-i", place, "-m", module,
                    "-o", stub], check=True, cwd=place)
    text = stub.read_text(encoding="utf-8")
    # What C++ returns as any object is that of the function, which only its caller knows.
    text = re.sub(r"-> object:", "-> Any:", text)
    return re.sub(r"-> list:", "-> list[Any]:", text)


def main() -> None:
    module, patterns, folder = (pathlib.Path(argument).resolve() for argument in sys.argv[1:])
    with tempfile.TemporaryDirectory() as temporary:
        place = pathlib.Path(temporary)
        (place / module.name).symlink_to(module)
        text = hints(place, "_troupe", patterns)
        keras = hints(place, "_troupe.keras", patterns)
    # The module has a dtype of this name.
    text = "import builtins\n" + re.sub(r"(?<=[ \[])bool\b", "builtins.bool", text)
    text = text.replace("from . import keras as keras", "from . import _troupe_keras\n\nkeras = _troupe_keras")
    keras = "from typing import Any\n" + keras.replace("import _troupe\n", "from . import _troupe\n")
    (folder / "_troupe_keras.pyi").write_text(keras, encoding="utf-8")
    (folder / "_troupe.pyi").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
