"""What docs/guide/python-keras.md and docstrings of troupe.keras show, run from the beginning to the end."""

import contextlib
import doctest
import importlib
import io
import pkgutil

import numpy as np
import troupe
from guide_test import BLOCK, ROOT, matches
from troupe import keras


def test_the_page(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    keras.utils.clear_session()
    names, printed = {}, ""
    blocks = BLOCK.findall((ROOT / "docs/guide/python-keras.md").read_text(encoding="utf-8"))
    assert sum(language == "python" for language, _ in blocks) == 6
    for language, text in blocks:
        if language == "text":
            assert matches(text, printed), f"the page shows\n{text}\nbut this is printed:\n{printed}"
            continue
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec(compile(text, "docs/guide/python-keras.md", "exec"), names)
        printed = out.getvalue()
    assert names["test_accuracy"] > 0.9 and (tmp_path / "digits/metadata.json").exists()


def test_examples_of_the_documentation():
    modules = ["troupe.keras"] + [m.name for m in pkgutil.walk_packages(keras.__path__, "troupe.keras.")]
    for name in modules:
        found = doctest.testmod(importlib.import_module(name), extraglobs={"np": np, "troupe": troupe})
        assert found.failed == 0, name
