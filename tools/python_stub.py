#!/usr/bin/env python3
"""python_stub.py MODULE PATTERNS OUT: hints (.pyi) of Python's module _troupe, from its own signatures.

nanobind.stubgen writes them. The module is imported alone, without the package, which adds methods to its classes.
"""

import pathlib
import re
import subprocess
import sys
import tempfile


def main() -> None:
    module, patterns, out = (pathlib.Path(argument).resolve() for argument in sys.argv[1:])
    with tempfile.TemporaryDirectory() as place:
        (pathlib.Path(place) / module.name).symlink_to(module)
        stub = pathlib.Path(place) / "_troupe.pyi"
        subprocess.run([sys.executable, "-m", "nanobind.stubgen", "-q", "-P", "-p", patterns, "-i", place, "-m",
                        "_troupe", "-o", stub], check=True, cwd=place)
        text = stub.read_text(encoding="utf-8")
    # What C++ returns as any object is that of the function, which only its caller knows.
    text = re.sub(r"-> object:", "-> Any:", text)
    text = re.sub(r"-> list:", "-> list[Any]:", text)
    # The module has a dtype of this name.
    text = "import builtins\n" + re.sub(r"(?<=[ \[])bool\b", "builtins.bool", text)
    out.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
