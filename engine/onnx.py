"""ONNX networks as the embedded models run them.

Spinning is off: a waiting thread of ONNX Runtime would otherwise burn the core that another stage
of the same call needs, and on two cores that costs more than it saves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt
import onnxruntime as ort

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

Tensor: TypeAlias = npt.NDArray[Any]


class Network:
    """An ONNX network on the CPU; safe to call from several threads.

    Args:
        model: the file, or its bytes.
        threads: that share one call's work.
    """

    def __init__(self, model: Path | bytes, threads: int = 1) -> None:
        options = ort.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.log_severity_level = 3
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        self._session = ort.InferenceSession(
            model if isinstance(model, bytes) else str(model),
            options,
            providers=["CPUExecutionProvider"],
        )
        self.outputs: tuple[str, ...] = tuple(out.name for out in self._session.get_outputs())
        self.inputs: dict[str, list[Any]] = {
            entry.name: entry.shape for entry in self._session.get_inputs()
        }
        """Shape by name; a text stands for a length that may vary."""

    def __call__(self, feeds: Mapping[str, Tensor]) -> list[Tensor]:
        """The outputs, in the order of ``outputs``."""
        results: list[Tensor] = self._session.run(None, feeds)
        return results


def scalar(tensor: Tensor) -> float:
    """The one value of ``tensor``."""
    return float(np.ravel(tensor)[0])
