"""What an operator can see of the service in figures: Prometheus metrics.

A label is always one of a small set that the code names (a transport, a reason, a stage, an error
code), never anything a caller sent: a client cannot grow the registry, and nothing that was said
can end up in it. The registry is the server's own, so that two servers in one process stay apart.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, get_args

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    Metric,
    generate_latest,
)
from prometheus_client.parser import text_string_to_metric_families

from server.overload import BusyReason

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from engine.contract import EndReason

Transport = Literal["webrtc", "websocket"]

_ENGINE = (
    "sessions",
    "replies",
    "heard_samples",
    "dropped_samples",
    "losses",
    "transcriber_sessions",
    "transcriber_losses",
    "transcripts_shed",
)
"""What of an engine's figures is shown, as far as it has them."""
_STAGE_BUCKETS = (0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.6, 0.8, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0)
_LAG_BUCKETS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 5.0)
_LATE_BUCKETS = (
    0.001,
    0.002,
    0.005,
    0.01,
    0.015,
    0.02,
    0.03,
    0.04,
    0.05,
    0.06,
    0.08,
    0.1,
    0.2,
    0.5,
)


class Metrics:
    """The service's counters; one instance per server."""

    def __init__(self) -> None:
        registry = CollectorRegistry()
        self._registry = registry
        self._active = Gauge(
            "parley_sessions_active", "Sessions now.", ["transport"], registry=registry
        )
        self._sessions = Counter(
            "parley_sessions", "Sessions that ended.", ["transport", "reason"], registry=registry
        )
        self._losses = Counter(
            "parley_callers_lost",
            "Connections lost while the session went on.",
            ["transport"],
            registry=registry,
        )
        self._resumed = Counter(
            "parley_sessions_resumed",
            "Sessions whose caller came back.",
            ["transport"],
            registry=registry,
        )
        self._refusals = Counter(
            "parley_refusals", "Callers refused before a session.", ["code"], registry=registry
        )
        self._busy = Gauge(
            "parley_busy",
            "Whether new callers are refused, because there is too much to do.",
            ["reason"],
            registry=registry,
        )
        self._too_busy = Counter(
            "parley_busy_refusals",
            "Callers refused because there was too much to do.",
            ["reason"],
            registry=registry,
        )
        self._turns = Counter("parley_turns", "Turns callers took.", registry=registry)
        self._replies = Counter(
            "parley_replies", "Replies that ended.", ["reason"], registry=registry
        )
        self._interruptions = Counter(
            "parley_interruptions", "Replies cut by a caller who spoke.", registry=registry
        )
        self._stages = Histogram(
            "parley_stage_seconds",
            "Time a stage of a reply took.",
            ["stage"],
            buckets=_STAGE_BUCKETS,
            registry=registry,
        )
        self._faults = Counter(
            "parley_faults", "Failures on our side.", ["code"], registry=registry
        )
        self._dropped = Counter(
            "parley_dropped_samples", "Caller's samples never heard.", registry=registry
        )
        self._slow = Counter(
            "parley_slow_subscribers",
            "Clients closed because they did not read.",
            registry=registry,
        )
        self._lag = Histogram(
            "parley_loop_lag_seconds",
            "How late the media loop woke.",
            buckets=_LAG_BUCKETS,
            registry=registry,
        )
        self._late = Histogram(
            "parley_frame_late_seconds",
            "How late a reply's frame was handed to its call.",
            buckets=_LATE_BUCKETS,
            registry=registry,
        )
        self._tasks = Gauge("parley_tasks", "Tasks of the media loop.", registry=registry)
        self._engine = Gauge(
            "parley_engine", "The engine's own figures.", ["figure"], registry=registry
        )

    def session_started(self, transport: Transport) -> None:
        self._active.labels(transport).inc()

    def session_ended(self, transport: Transport, reason: str) -> None:
        self._active.labels(transport).dec()
        self._sessions.labels(transport, reason).inc()

    def caller_lost(self, transport: Transport) -> None:
        self._losses.labels(transport).inc()

    def session_resumed(self, transport: Transport) -> None:
        self._resumed.labels(transport).inc()

    def refused(self, code: str) -> None:
        """A caller got no session; ``code`` is the error's."""
        self._refusals.labels(code).inc()

    def busy(self, reason: BusyReason | None) -> None:
        """Why new callers are refused now, if they are."""
        for each in get_args(BusyReason):
            self._busy.labels(each).set(each == reason)

    def too_busy(self, reason: BusyReason | Literal["workers"]) -> None:
        """A caller was refused because this process, or every worker, has too much to do."""
        self._too_busy.labels(reason).inc()

    def turn_ended(self) -> None:
        self._turns.inc()

    def reply_ended(self, reason: EndReason, timings: Mapping[str, float]) -> None:
        """``timings`` are seconds per stage, as the engine names them."""
        self._replies.labels(reason).inc()
        for stage, seconds in timings.items():
            self._stages.labels(stage).observe(seconds)

    def interrupted(self) -> None:
        self._interruptions.inc()

    def fault(self, code: str) -> None:
        self._faults.labels(code).inc()

    def dropped(self, samples: int) -> None:
        self._dropped.inc(samples)

    def slow_subscriber(self) -> None:
        self._slow.inc()

    def lagged(self, seconds: float) -> None:
        self._lag.observe(seconds)

    def frame_late(self, seconds: float) -> None:
        self._late.observe(seconds)

    def tasks(self, count: Callable[[], int]) -> None:
        """Has the loop's tasks counted whenever somebody looks."""
        self._tasks.set_function(count)

    def engine(self, figures: Mapping[str, float]) -> None:
        """What the engine says of itself now."""
        for name in _ENGINE:
            if name in figures:
                self._engine.labels(name).set(figures[name])

    def value(self, name: str, **labels: str) -> float:
        """The figure ``name`` as it is exposed (counters end in ``_total``); 0 where none was."""
        return self._registry.get_sample_value(name, labels) or 0.0

    def render(self, workers: Mapping[str, str] | None = None) -> bytes:
        """All figures in Prometheus' text format 0.0.4.

        Beside them those of other processes, given as their texts: labelled with their ``worker``.
        """
        return generate_latest(_Together(self._registry, workers or {}))


class _Together:
    """A registry's figures, and others' in the same families."""

    def __init__(self, registry: CollectorRegistry, workers: Mapping[str, str]) -> None:
        self._registry = registry
        self._workers = workers

    def collect(self) -> Iterable[Metric]:
        families = {family.name: family for family in self._registry.collect()}
        for worker, text in self._workers.items():
            for family in text_string_to_metric_families(text):
                known = families.setdefault(
                    family.name, Metric(family.name, family.documentation, family.type)
                )
                known.samples += (
                    sample._replace(labels={**sample.labels, "worker": worker})
                    for sample in family.samples
                )
        return families.values()
