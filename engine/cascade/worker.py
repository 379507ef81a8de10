"""A thread of its own for a model that computes.

One thread, so that callers are served in the order they came and a model never competes with itself
for the cores; the event loop goes on meanwhile.
"""

from __future__ import annotations

import asyncio
import threading
import traceback
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from engine.cascade.stages import StageError

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

Stopped: TypeAlias = "Callable[[], bool]"
"""Whether nobody waits for the work any more; long work asks it between its steps."""


class Worker:
    """Runs one piece of work at a time.

    Args:
        stage: whose work it is, as :class:`StageError` names it.
    """

    def __init__(self, stage: str) -> None:
        self._stage = stage
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=stage)

    async def run(self, work: Callable[[Stopped], T]) -> T:
        """The result of ``work``; when cancelled, it is not begun or learns that it may stop.

        Raises:
            StageError: it failed.
        """
        stopped = threading.Event()
        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(self._thread, work, stopped.is_set)
        except StageError:
            raise
        except Exception as error:
            raise StageError(self._stage, f"the model failed: {_where(error)}") from None
        finally:
            stopped.set()

    def close(self) -> None:
        """Drops what has not begun; what runs ends by itself."""
        self._thread.shutdown(wait=False, cancel_futures=True)


def _where(error: Exception) -> str:
    """The kind of ``error`` and the line it comes from; its text may hold what was said."""
    line = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__} at {Path(line.filename).name}:{line.lineno}"
