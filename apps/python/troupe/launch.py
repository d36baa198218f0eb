"""Starts a cluster of processes on this machine, each of which runs the same script:

    python -m troupe.launch --ps 2 --workers 2 train.py --epochs 5

The script becomes its task by troupe.Cluster.from_environment(). Options before the script are those of troupe-launch
(--help lists them), which this starts.
"""

from __future__ import annotations

import os
import pathlib
import sys
import typing

__all__ = ["command", "main"]


def command(arguments: typing.Sequence[str]) -> typing.List[str]:
    """The command line of the launcher; the script is run by this interpreter, also if it is -m MODULE.

    >>> from troupe import launch
    >>> launch.command(["--workers", "2", "train.py", "--epochs", "5"])[1:3]
    ['--workers', '2']
    """
    flags = {"--fail-fast", "--make-token", "--help", "-h"}
    at = 0
    while at < len(arguments) and arguments[at].startswith("-") and arguments[at] not in ("--", "-m"):
        at += 1 if arguments[at] in flags or "=" in arguments[at] else 2
    script = list(arguments[at:])
    if script[:1] == ["--"]:
        script = script[1:]
    launcher = pathlib.Path(__file__).with_name("troupe-launch")
    return [str(launcher), *arguments[:at], *(["--", sys.executable, *script] if script else [])]


def main() -> typing.NoReturn:
    line = command(sys.argv[1:])
    os.execv(line[0], line)


if __name__ == "__main__":
    main()
