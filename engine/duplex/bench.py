"""What a tick costs on this machine's GPU: ``parley bench device``.

It builds PersonaPlex-7B in full size with random weights (a device is as busy with those as with
real ones), every ring full, and measures whole ticks (codec, temporal, depth, codec) at several
numbers of callers. It first checks that the kernel answers as its twin in plain PyTorch and that
captured graphs do what the code that they were captured of does.
"""

from __future__ import annotations

import argparse
import gc
import json
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from engine.clock import Clock, Wait
from engine.duplex import random_weights
from engine.duplex.bench_kernels import BANDWIDTH, Row, kernel_checks, kernel_times, timed
from engine.duplex.build import Built, Plan, build
from engine.duplex.device import Device
from engine.duplex.load import Checkpoint
from engine.duplex.options import Entries
from engine.duplex.shapes import MimiShape, Shape
from engine.duplex.step import Chosen
from engine.duplex.weights import Weights

PERIOD_MS = 80.0
BESIDE = 14e9
"""Bytes that the codec's memory, scales, graphs and what they compute take at 256 callers."""


def main(arguments: Sequence[str]) -> int:
    """Measures, and prints a table; returns an exit status."""
    options = argparse.ArgumentParser("parley bench device", description=__doc__)
    options.add_argument("--callers", type=int, nargs="+", default=[1, 8, 32, 64, 128, 192, 256])
    options.add_argument("--entries", nargs="+", default=["int8", "bfloat16"])
    options.add_argument("--window", type=int, default=1500)
    options.add_argument("--ticks", type=int, default=200)
    options.add_argument("--json", type=Path)
    told = options.parse_args(arguments)
    if not torch.cuda.is_available():
        print("parley bench device: PyTorch finds no CUDA device here", file=sys.stderr)
        return 1
    torch.manual_seed(0)
    checkpoint = random_checkpoint(Shape(dep_q=16))
    result: Row = {
        "device": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "kernel": kernel_checks(told.window),
        "kernel_us": kernel_times(max(told.callers), told.window),
    }
    rows: list[Row] = []
    for entries in told.entries:
        result[entries] = measure(checkpoint, entries, told.callers, told.window, told.ticks)
        rows += result[entries]["rows"]
    print(json.dumps(result, indent=1))
    print(table(rows))
    if told.json:
        told.json.write_text(json.dumps(result, indent=1))
    return 0


def random_checkpoint(shape: Shape) -> Checkpoint:
    """PersonaPlex in bf16 and Mimi in fp32, random, on the GPU."""
    mimi = MimiShape()
    return Checkpoint(
        shape=shape,
        mimi_shape=mimi,
        lead=1,
        weights=Weights(random_weights.language_model(shape, "cuda", torch.bfloat16)),
        mimi=Weights(random_weights.codec(mimi, "cuda")),
        tokenizer=Path(),
        voices={},
        embeddings=torch.zeros(1, shape.dim, device="cuda", dtype=torch.bfloat16),
    )


def measure(
    checkpoint: Checkpoint, entries: Entries, levels: list[int], window: int, ticks: int
) -> Row:
    """Ticks at each number of callers, with rings of ``entries``; those that do not fit say so."""
    torch.cuda.empty_cache()
    weights = torch.cuda.memory_allocated()
    caller = 2 * checkpoint.shape.num_layers * checkpoint.shape.dim * window
    caller *= 1 if entries == "int8" else 2
    room = torch.cuda.mem_get_info()[0] - BESIDE
    fit = [level for level in levels if level * caller < room]
    if not fit:
        return {"rows": [{"entries": entries, "callers": n, "fits": False} for n in levels]}
    plan = Plan(slots=fit[-1], window=window, entries=entries, buckets=tuple(fit))
    built = build(checkpoint, plan)
    give_pages(built)
    report: Row = {"graph": graph_check(built.device, fit[min(1, len(fit) - 1)])}
    fill(built)
    report["parts_ms"] = {level: parts(built, level) for level in (fit[0], fit[-1])}
    fill(built)
    report["rows"] = [
        {
            "entries": entries,
            "window": window,
            **level_row(built, level, ticks),
            "floor_ms": (weights + level * caller) / BANDWIDTH * 1e3,
        }
        for level in fit
    ]
    report["rows"] += [
        {"entries": entries, "callers": level, "fits": False}
        for level in levels
        if level not in fit
    ]
    report["paced"] = paced(built.device, fit[-1], ticks)
    report["with_newcomers"] = with_newcomers(built, fit[-1], ticks)
    del built
    gc.collect()
    return report


def graph_check(device: Device, slots: int) -> Row:
    """Fresh callers, greedy, through the code itself (twice) and through its graph: the same?"""
    generator = np.random.default_rng(0)
    sound = generator.normal(0, 0.1, (12, *device.inbox.pcm.shape)).astype(np.float32)
    runs = []
    bucket = next(b for b in device.buckets if b >= slots)
    for run in (device.eager, device.eager, device.graph):
        device.run = run
        device.inbox.reset[:slots] = True
        device.inbox.run[:slots] = True
        device.inbox.position.zero_()
        said = []
        for frame in sound:
            device.inbox.pcm.copy_(torch.from_numpy(frame))
            device.tick(slots)
            device.wait()
            said.append((device.outbox.tokens[:slots].clone(), device.outbox.pcm[:slots].clone()))
            device.inbox.reset[:slots] = False
        runs.append(said)
    device.inbox.run[:slots] = False
    return {"bucket": bucket, "code_again": same(*runs[:2]), "graph": same(*runs[1:])}


def same(runs: list[tuple[Tensor, Tensor]], others: list[tuple[Tensor, Tensor]]) -> Row:
    """How alike two runs' tokens and sounds are."""
    pairs = list(zip(runs, others, strict=True))
    return {
        "frames_equal": sum(bool((a[0] == b[0]).all()) for a, b in pairs),
        "frames": len(pairs),
        "pcm_max_difference": max(float((a[1] - b[1]).abs().max()) for a, b in pairs),
    }


def give_pages(built: Built) -> None:
    """Every slot has its whole ring."""
    table = built.device.table
    table.copy_(1 + torch.arange(table.numel(), dtype=torch.int32).view_as(table))
    built.device.send_table()


def fill(built: Built) -> None:
    """Every ring is full, and every slot past its end; random, so that nothing is 0."""
    device, ring = built.device, built.ring
    for layer in ring.entries:
        if layer.dtype == torch.int8:
            layer.random_(-127, 128)
        else:
            layer.normal_()
    if ring.scales is not None:
        ring.scales.fill_(0.02)
    device.stepper.position.fill_(2 * ring.capacity)
    for frames in (device.mimi.heard, device.mimi.spoken):
        frames.fill_(400)
    device.inbox.temperature[:, 0], device.inbox.temperature[:, 1] = 0.7, 0.8
    device.inbox.top_k[:, 0], device.inbox.top_k[:, 1] = 25, 250
    device.inbox.pcm.normal_(std=0.1)


def level_row(built: Built, level: int, ticks: int) -> Row:
    """Ticks of ``level`` callers, from samples on the host to samples on the host."""
    device = built.device
    device.inbox.run.fill_(False)
    device.inbox.run[:level] = True
    took = []
    for tick in range(ticks + 10):
        begun = time.perf_counter()
        device.tick(level)
        device.wait()
        if tick >= 10:
            took.append((time.perf_counter() - begun) * 1e3)
    sane = bool(device.outbox.sane[:level].all() and device.outbox.due[:level].all())
    free, total = torch.cuda.mem_get_info()
    return {
        "callers": level,
        "fits": True,
        "p50_ms": float(np.percentile(took, 50)),
        "p99_ms": float(np.percentile(took, 99)),
        "max_ms": max(took),
        "over_80_ms": sum(t > PERIOD_MS for t in took),
        "used_gb": (total - free) / 1e9,
        "sane": sane,
    }


def paced(device: Device, level: int, ticks: int) -> Row:
    """On the clock: how late ticks begin, how late their sound is after its period, and skips."""
    clock, epoch = Clock(round(PERIOD_MS * 1e6)), time.perf_counter_ns()
    late: list[float] = []
    done: list[float] = []
    skipped = 0
    while len(late) < ticks:
        now = time.perf_counter_ns() - epoch
        due = clock.poll(now)
        if isinstance(due, Wait):
            time.sleep(due.nanoseconds / 1e9)
            continue
        skipped += due.skipped
        begin = due.tick * PERIOD_MS
        late.append(now / 1e6 - begin)
        device.tick(level)
        device.wait()
        done.append((time.perf_counter_ns() - epoch) / 1e6 - begin)
    return {
        "callers": level,
        "begins_late_p99_ms": float(np.percentile(late, 99)),
        "ready_after_due_p50_ms": float(np.percentile(done, 50)),
        "ready_after_due_p99_ms": float(np.percentile(done, 99)),
        "skipped": skipped,
    }


def with_newcomers(built: Built, level: int, ticks: int) -> Row:
    """Ticks while prompts are read beside them, a whole budget in each."""
    device = built.device
    device.reading.run.fill_(True)
    device.reading.stored.fill_(-1)
    rows = len(device.reading.run)
    device.reading.slot.fill_(level - 1)
    device.reading.position.copy_(torch.arange(rows) + 100)
    took = []
    for _ in range(ticks):
        begun = time.perf_counter()
        device.read()
        device.tick(level)
        device.wait()
        took.append((time.perf_counter() - begun) * 1e3)
    return {
        "callers": level,
        "positions": rows,
        "p50_ms": float(np.percentile(took, 50)),
        "p99_ms": float(np.percentile(took, 99)),
    }


def parts(built: Built, level: int) -> Row:
    """Milliseconds of a tick's parts, each as a graph of its own."""
    device = built.device
    stepper, mimi, temporal = device.stepper, device.mimi, device.temporal
    run = torch.ones(level, dtype=torch.bool, device="cuda")
    pcm = torch.randn(level, device.inbox.pcm.shape[1], device="cuda") * 0.1
    codes = torch.zeros(level, 8, dtype=torch.long, device="cuda")
    chosen = Chosen(
        torch.full((level, 2), 0.8, device="cuda"),
        torch.full((level, 2), 250, device="cuda"),
        torch.arange(level, device="cuda"),
    )
    column = stepper.start_tokens.expand(level, -1).contiguous()
    every = torch.arange(level, device="cuda")

    def hear() -> None:
        places = temporal.ring.places(every, stepper.position[:level], run)
        temporal(temporal.embed(column), places)

    functions: Iterable[tuple[str, Callable[[], object]]] = (
        ("mimi_encode", lambda: mimi.encode(pcm, run)),
        ("temporal", hear),
        ("step", lambda: stepper(codes, run, chosen)),
        ("mimi_decode", lambda: mimi.decode(codes, run)),
    )
    report: Row = {}
    for name, function in functions:
        with torch.cuda.stream(torch.cuda.Stream()):
            function()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            function()
        report[name] = timed(graph.replay, 10)
        del graph
    report["depth_and_rest"] = report["step"] - report["temporal"]
    return report


def table(rows: list[Row]) -> str:
    """One line for each level, as Markdown."""
    lines = [
        "| entries | callers | tick p50 | p99 | max | over 80 ms | floor | memory |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for row in rows:
        if not row["fits"]:
            lines.append(f"| {row['entries']} | {row['callers']} | does not fit | | | | | |")
            continue
        lines.append(
            "| {entries} | {callers} | {p50_ms:.1f} ms | {p99_ms:.1f} ms | {max_ms:.1f} ms "
            "| {over_80_ms} | {floor_ms:.1f} ms | {used_gb:.0f} GB |".format(**row)
        )
    return "\n".join(lines)
