# SPDX-License-Identifier: MIT
"""Loads a program as a module, for those whose names no import can have."""

from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader


def load_program(path):
    """The module of the program at @path, named after its folder and its file; main() is not called."""
    loader = SourceFileLoader(f"{path.parent.name}_{path.name}", str(path))
    module = module_from_spec(spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    return module
