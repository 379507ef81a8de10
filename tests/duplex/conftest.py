"""Left out where PyTorch is not installed; kernels run in Triton's interpreter without a GPU."""

from __future__ import annotations

import os
from importlib.util import find_spec

import pytest

from tests.contract.conftest import border, call, engine, engine_of

__all__ = ["border", "call", "engine", "engine_of"]

collect_ignore_glob: list[str] = []
if find_spec("torch") is None:
    collect_ignore_glob.append("test_*.py")
else:
    import torch

    torch.set_num_threads(1)
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # of engines in processes of their own
    if not torch.cuda.is_available():
        os.environ["TRITON_INTERPRET"] = "1"
    if find_spec("moshi") is None:
        collect_ignore_glob.append("test_like_moshi.py")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "tests/duplex/" in item.nodeid or item.nodeid.startswith("duplex/"):
            item.add_marker(pytest.mark.torch)
