"""The engine: sound, text, models and ticks; nothing of protocols or callers.

ONNX Runtime reports its use to its maker from the moment it is imported, unless the environment
says no before that. Whoever runs Parley was promised that nothing leaves the machine, so it is said
here, ahead of every module that might import it.
"""

import os

os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
