"""What docs/guide/python-keras.md and docstrings of troupe.keras show, run from the beginning to the end."""

import doctest
import importlib
import pkgutil

import numpy as np
import troupe
from guide_test import run_page
from troupe import keras


def test_the_page(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    keras.utils.clear_session()
    names = run_page("python-keras.md", 6)
    assert names["test_accuracy"] > 0.9 and (tmp_path / "digits/metadata.json").exists()


def test_examples_of_the_documentation():
    modules = ["troupe.keras"] + [m.name for m in pkgutil.walk_packages(keras.__path__, "troupe.keras.")]
    for name in modules:
        found = doctest.testmod(importlib.import_module(name), extraglobs={"np": np, "troupe": troupe})
        assert found.failed == 0, name
