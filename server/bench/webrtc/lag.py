"""How late a server's event loop is, by its own figures."""

from __future__ import annotations

from urllib.error import HTTPError
from urllib.parse import urljoin
from urllib.request import urlopen

from prometheus_client.parser import text_string_to_metric_families

_FIGURE = "parley_loop_lag_seconds"
_SHARE = 0.99


class Lag:
    """Counts from now on; a server that tells nothing of itself has none."""

    def __init__(self, url: str) -> None:
        self._url = urljoin(url, "metrics")
        self._before = self._buckets()

    def p99(self) -> float | None:
        """Seconds, the bound of the bucket in which the 99th percentile is."""
        counts = {
            bound: count - self._before.get(bound, 0.0) for bound, count in self._buckets().items()
        }
        wanted = _SHARE * counts.get(float("inf"), 0.0)
        return min((bound for bound, count in counts.items() if count >= wanted), default=None)

    def _buckets(self) -> dict[float, float]:
        try:
            with urlopen(self._url, timeout=5) as answer:
                told = answer.read().decode()
        except HTTPError:
            return {}
        return {
            float(sample.labels["le"]): sample.value
            for family in text_string_to_metric_families(told)
            if family.name == _FIGURE
            for sample in family.samples
            if sample.name.endswith("_bucket")
        }
