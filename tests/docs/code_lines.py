#!/usr/bin/env python3
"""code_lines.py ROOT: no line of code is wider than 120 columns. Pages (.md) wrap where they are read; graphs as text,
and lists of messages, have one line for each node or message."""
import os
import sys

COLUMNS = 120
ENDINGS = (".cpp", ".hpp", ".cu", ".cuh", ".h", ".cmake", ".txt", ".py", ".js", ".sh", ".proto", ".html", ".css")
# Not code of ours: what is built, and versions of the repository.
LEFT_OUT = ("build", ".git", ".library", "shared")
WIDE = ("tests/graph/programs/", "tests/tools/onnx_failures.txt")


def wide_lines(root):
    for place, folders, files in os.walk(root):
        folders[:] = sorted(folder for folder in folders if folder not in LEFT_OUT)
        for path in sorted(os.path.join(place, file) for file in files if file.endswith(ENDINGS)):
            if os.path.relpath(path, root).startswith(WIDE):
                continue
            with open(path, encoding="utf-8") as file:
                for number, line in enumerate(file, 1):
                    if len(line.rstrip("\n")) > COLUMNS:
                        yield f"{os.path.relpath(path, root)}:{number}: {len(line) - 1} columns"


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    sys.exit("\n".join(wide_lines(sys.argv[1])) or None)
