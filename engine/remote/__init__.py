"""The contract across a process border: an engine in a process of its own."""

HOSTED = "PARLEY_ENGINE_HOSTED"
"""Set in the environment of a process that only an engine lives in."""
