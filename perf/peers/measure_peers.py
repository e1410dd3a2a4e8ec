#!/usr/bin/env python3
# SPDX-FileCopyrightText: The KokkosXent authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Measures other implementations of the softmax cross-entropy as KokkosXent_perf measures ours.

PyTorch eager, torch.compile, Liger and QuACK; the ones that cannot be imported are left out. The
result file has the structure of KokkosXent_perf's, for tools/sweep_report. Needs PyTorch; its
version and those of the others are written into the context.

Random logits fill the windows of a pool, which together exceed the last-level cache; calls walk
through the windows, so that none finds its logits there. A repetition is a batch of calls between
two synchronizations; the median of the repetitions counts.
"""

from __future__ import annotations

import argparse
import ctypes
import importlib
import importlib.metadata
import json
import os
import statistics
import sys
import time
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Callable, Optional

import torch
import torch.nn.functional as F

MIB = 1 << 20
VALUE_TYPES = {
    "float": torch.float32,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
    "double": torch.float64,
}
CLASSES = {
    "cuda": (4096, 8192, 32000, 50257, 128256, 151936, 262144),
    "cpu": (8192, 32000, 50257, 128256),
}
LOGITS_MIB = {"cuda": 1024, "cpu": 256}  # as KokkosXent_perf's limits family
IGNORE_INDEX = -100
ALLOWED_LOSS_ERROR = 0.02  # relative; an implementation may round its loss to bfloat16

# Time and synchronization


class Clock:
    """Times calls on the device, or on the host."""

    def __init__(self, device: str):
        self.is_cuda = device == "cuda"

    def synchronize(self) -> None:
        if self.is_cuda:
            torch.cuda.synchronize()

    def nanoseconds(self, work: Callable[[], object]) -> float:
        self.synchronize()
        if not self.is_cuda:
            start = time.perf_counter_ns()
            work()
            return time.perf_counter_ns() - start
        begin = torch.cuda.Event(enable_timing=True)
        end = torch.cuda.Event(enable_timing=True)
        begin.record()
        work()
        end.record()
        self.synchronize()
        return float(begin.elapsed_time(end)) * 1e6


# The machine


def first_line(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").splitlines()[0]
    except (OSError, IndexError):
        return ""


def host_processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return "unknown"
    return next((x.split(": ", 1)[1] for x in lines if x.startswith("model name")), "unknown")


def host_cache_bytes() -> int:
    """All last-level caches of the host."""
    caches: dict[str, int] = {}
    for cpu in Path("/sys/devices/system/cpu").glob("cpu[0-9]*"):
        levels = [
            (first_line(index / "level"), index)
            for index in (cpu / "cache").glob("index*")
            if first_line(index / "type") != "Instruction"
        ]
        if levels:
            last = max(levels)[1]
            size = first_line(last / "size")
            unit = {"K": 1 << 10, "M": MIB}.get(size[-1:], 1)
            caches[first_line(last / "shared_cpu_list")] = int(size.rstrip("KM") or 0) * unit
    return sum(caches.values()) or 64 * MIB


def describe_device(device: str) -> tuple[str, int, int]:
    """Processor, threads, and bytes of its last-level cache."""
    if device == "cpu":
        return host_processor(), torch.get_num_threads(), host_cache_bytes()
    properties = torch.cuda.get_device_properties(0)
    threads = properties.multi_processor_count * properties.max_threads_per_multi_processor
    return properties.name, threads, getattr(properties, "L2_cache_size", 64 * MIB)


def keep_freed_memory() -> None:
    """Has glibc keep large temporaries, as allocators made for PyTorch do, instead of returning them
    to the system; else page faults are much of what is measured on a host."""
    m_trim_threshold, m_mmap_max = -1, -4
    mallopt = ctypes.CDLL(None).mallopt
    if not (mallopt(m_mmap_max, 0) and mallopt(m_trim_threshold, (1 << 31) - 1)):
        raise OSError("mallopt failed")


# Data


class Pool:
    """Random logits in windows of one size, and as much again for logits that are overwritten."""

    def __init__(self, device: str, window_bytes: int, cache_bytes: int):
        least = 4 if device == "cuda" else 1
        uncached = max(4 * cache_bytes, 128 * MIB)
        self.windows = max(least, -(-uncached // window_bytes))
        self.window_bytes = window_bytes
        self.bytes = self.windows * window_bytes
        self.batch = min(16, self.windows) if device == "cuda" else 1
        self._source = torch.empty(self.bytes, dtype=torch.uint8, device=device)
        self._work = torch.empty_like(self._source)
        self._type: Optional[torch.dtype] = None

    def fill(self, dtype: torch.dtype) -> None:
        """The windows have equal contents, since a host takes long over random numbers."""
        if dtype == self._type:
            return
        windows = self._source.view(self.windows, self.window_bytes)
        windows[0].view(dtype).normal_(0, 2)
        windows[1:] = windows[0]
        self._type = dtype

    def restore(self) -> None:
        self._work.copy_(self._source)

    def source(self, dtype: torch.dtype) -> torch.Tensor:
        return self._source.view(dtype)

    def work(self, dtype: torch.dtype) -> torch.Tensor:
        return self._work.view(dtype)

    def matrices(self, case: Case) -> list[torch.Tensor]:
        """The windows as logits, each a leaf of its own where a gradient is asked for."""
        dtype = VALUE_TYPES[case.value_type]
        pool = self.work(dtype) if case.in_place else self.source(dtype)
        period = self.window_bytes // dtype.itemsize
        rows = [pool[w * period :][: case.rows * case.classes] for w in range(self.windows)]
        return [
            row.view(case.rows, case.classes).detach().requires_grad_(case.peer.needs_grad)
            for row in rows
        ]


# What is measured

Loss = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


@dataclass(frozen=True)
class Peer:
    """One implementation's way to an entry point."""

    design: str
    entry_point: str
    loss: Loss
    in_place: bool = False
    needs_grad: bool = True  # of the logits; without it, the loss is all there is to call

    def call(self, logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        loss = self.loss(logits, targets)
        if self.entry_point == "forward_backward" and self.needs_grad:
            torch.autograd.grad(loss, logits)
        return loss


@dataclass(frozen=True)
class Case:
    peer: Peer
    space: str
    value_type: str
    rows: int
    classes: int

    @property
    def in_place(self) -> bool:
        return self.peer.in_place

    @property
    def name(self) -> str:
        place = "in_place/" if self.in_place else ""
        return (
            f"peers/{self.space}/{self.peer.design}/{self.peer.entry_point}/{place}"
            f"{self.value_type}/{self.rows}x{self.classes}"
        )

    @property
    def must_move_bytes(self) -> int:
        """As KokkosXent_perf counts: logits, gradient, int64 class indices, two row statistics."""
        itemsize = VALUE_TYPES[self.value_type].itemsize
        matrices = 1 if self.peer.entry_point == "forward" else 2
        statistics_bytes = 2 * max(itemsize, 4)
        return self.rows * (matrices * self.classes * itemsize + 8 + statistics_bytes)

    def fields(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "family": "peers",
            "space": self.space,
            "design": self.peer.design,
            "entry_point": self.peer.entry_point,
            "in_place": self.in_place,
            "value_type": self.value_type,
            "layout": "right",
            "rows": self.rows,
            "classes": self.classes,
            "must_move_bytes": self.must_move_bytes,
        }


# The peers. forward keeps what backward needs, as KokkosXent's does; Liger's, which computes the
# gradient within forward, is asked for the loss alone.


def pytorch_eager(_device: str) -> list[Peer]:
    return [Peer("pytorch_eager", entry, F.cross_entropy) for entry in ENTRY_POINTS]


def torch_compile(_device: str) -> list[Peer]:
    compiled = torch.compile(F.cross_entropy, dynamic=False)
    return [Peer("torch_compile", entry, compiled) for entry in ENTRY_POINTS]


def liger(device: str) -> list[Peer]:
    if device != "cuda":
        raise ImportError("needs a GPU")
    module = importlib.import_module("liger_kernel.ops.cross_entropy")

    def loss(logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = module.LigerCrossEntropyFunction.apply(
            logits, targets, None, IGNORE_INDEX
        )[0]
        return result

    return [
        Peer("liger", "forward", loss, needs_grad=False),
        Peer("liger", "forward_backward", loss, in_place=True),
    ]


def quack(device: str) -> list[Peer]:
    """Through autograd, and as the one kernel that gives row losses and the gradient of their sum."""
    if device != "cuda":
        raise ImportError("needs a GPU")
    module = importlib.import_module("quack.cross_entropy")

    def loss(logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = module.cross_entropy(logits, targets, inplace_backward=True)
        return result

    def fused(logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        losses: torch.Tensor = module.cross_entropy_fwd(
            logits, targets, return_dx=True, inplace_backward=True
        )[0]
        return losses.mean()

    return [
        Peer("quack", "forward", loss),
        Peer("quack", "forward_backward", loss, in_place=True),
        Peer("quack_one_kernel", "forward_backward", fused, in_place=True, needs_grad=False),
    ]


ENTRY_POINTS = ("forward", "forward_backward")
PEERS: dict[str, Callable[[str], list[Peer]]] = {
    "pytorch_eager": pytorch_eager,
    "torch_compile": torch_compile,
    "liger": liger,
    "quack": quack,
}
PACKAGES = {"liger": "liger_kernel", "quack": "quack-kernels"}


def importable_peers(names: list[str], device: str) -> list[Peer]:
    peers: list[Peer] = []
    for name in names:
        try:
            peers += PEERS[name](device)
        except Exception as error:  # an import of theirs may raise anything
            print(f"{name} is left out: {type(error).__name__}: {error}")
    return peers


def versions(names: list[str]) -> dict[str, str]:
    found = {"torch": str(torch.__version__)}
    for package in ["triton", *(PACKAGES[name] for name in names if name in PACKAGES)]:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            found[package] = "absent"
    return found


# Measuring


@dataclass(frozen=True)
class Bandwidth:
    """Bytes per nanosecond, which is GB/s; copy and in_place are counted both ways."""

    read: float
    copy: float
    in_place: float

    def limit(self, peer: Peer) -> float:
        if peer.entry_point == "forward":
            return self.read
        return self.in_place if peer.in_place else self.copy


def measure_bandwidth(pool: Pool, clock: Clock, repetitions: int) -> Bandwidth:
    pool.fill(torch.float32)
    source, work = pool.source(torch.float32), pool.work(torch.float32)

    def rate(ways: int, move: Callable[[], object]) -> float:
        move()
        times = [clock.nanoseconds(move) for _ in range(repetitions)]
        return ways * pool.bytes / statistics.median(times)

    # Reductions of other libraries differ in speed: the fastest of them is the read bandwidth.
    read = max(rate(1, source.sum), rate(1, source.amax))
    copy = rate(2, lambda: work.copy_(source))
    return Bandwidth(read, copy, rate(2, lambda: work.add_(1)))


def reference_loss(logits: torch.Tensor, targets: torch.Tensor) -> float:
    """In float64, some rows at a time."""
    total = 0.0
    some = max(1, (16 * MIB) // logits.shape[1])
    for first in range(0, logits.shape[0], some):
        x = logits[first : first + some].detach().double()
        y = targets[first : first + some, None]
        total += float((x.logsumexp(1) - x.gather(1, y).squeeze(1)).sum())
    return total / logits.shape[0]


def saved_bytes(case: Case, logits: torch.Tensor, targets: torch.Tensor) -> int:
    """Memory that the loss keeps for backward, beside logits and targets."""
    if not case.peer.needs_grad:
        return 0
    if logits.is_cuda:
        before = torch.cuda.memory_allocated()
        loss = case.peer.loss(logits, targets)
        kept = torch.cuda.memory_allocated() - before
        del loss
        return kept
    given = {logits.data_ptr(), targets.data_ptr()}
    packed: dict[int, int] = {}

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        if tensor.data_ptr() not in given:
            packed[tensor.data_ptr()] = tensor.numel() * tensor.element_size()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        case.peer.loss(logits, targets)
    return sum(packed.values())


def peak_bytes(case: Case, logits: torch.Tensor, targets: torch.Tensor) -> Optional[int]:
    """Memory that a call allocates at most."""
    if not logits.is_cuda:
        return None
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    case.peer.call(logits, targets)
    return torch.cuda.max_memory_allocated() - before


class Measurement:
    """Runs one case over and over, through the windows of the pool."""

    def __init__(self, case: Case, pool: Pool, clock: Clock):
        self.case, self.pool, self.clock = case, pool, clock
        pool.fill(VALUE_TYPES[case.value_type])
        pool.restore()
        self.logits = pool.matrices(case)
        generator = torch.Generator(device=self.logits[0].device).manual_seed(1)
        self.targets = torch.randint(
            case.classes, (case.rows,), generator=generator, device=self.logits[0].device
        )
        self.next = 0

    def check(self) -> None:
        expected = reference_loss(self.logits[0], self.targets)
        loss = float(self.case.peer.loss(self.logits[0], self.targets).detach())
        if not abs(loss - expected) <= ALLOWED_LOSS_ERROR * expected:
            raise ValueError(f"loss {loss}, expected {expected}")

    def run_batch(self) -> None:
        for window in range(self.next, self.next + self.pool.batch):
            self.case.peer.call(self.logits[window], self.targets)
        self.next += self.pool.batch

    def prepare(self) -> None:
        if self.next + self.pool.batch > self.pool.windows:
            self.next = 0
            if self.case.in_place:
                self.pool.restore()

    def times(self, repetitions: int) -> list[float]:
        """Nanoseconds of a call. The first batch warms up."""
        found = []
        for _ in range(repetitions + 1):
            self.prepare()
            found.append(self.clock.nanoseconds(self.run_batch) / self.pool.batch)
        return found[1:]

    def entry(self, bandwidth: Bandwidth, repetitions: int) -> dict[str, Any]:
        self.check()
        kept = saved_bytes(self.case, self.logits[0], self.targets)
        peak = peak_bytes(self.case, self.logits[0], self.targets)
        times = self.times(repetitions)
        median = statistics.median(times)
        gbs = self.case.must_move_bytes / median
        spread = statistics.stdev(times) / statistics.mean(times) if len(times) > 1 else 0.0
        return {
            **self.case.fields(),
            "saved_bytes": kept,
            **({} if peak is None else {"peak_bytes": peak}),
            "limit_ns": self.case.must_move_bytes / bandwidth.limit(self.case.peer),
            "time_unit": "ns",
            "real_time": median,
            "cv": spread,
            "gbs": gbs,
            "share_of_copy": gbs / bandwidth.copy,
            "share_of_limit": gbs / bandwidth.limit(self.case.peer),
            "repetitions": len(times),
            "real_times": times,
        }


def measure(case: Case, pool: Pool, clock: Clock, bandwidth: Bandwidth,
            repetitions: int) -> dict[str, Any]:  # fmt: skip
    """A peer that fails on a shape is a result, too."""
    try:
        entry = Measurement(case, pool, clock).entry(bandwidth, repetitions)
    except Exception as error:  # theirs may be of any type
        lines = str(error).splitlines() or [""]
        return {**case.fields(), "error": f"{type(error).__name__}: {lines[0]}"}
    return entry


def describe(entry: dict[str, Any]) -> str:
    if "error" in entry:
        return f"FAILED: {entry['error']}"
    return (
        f"{entry['real_time'] / 1e6:10.3f} ms {entry['gbs']:8.1f} GB/s "
        f"{100 * entry['share_of_limit']:4.0f} % of the limit, spread {100 * entry['cv']:.1f} %"
    )


def cases(options: argparse.Namespace, pool: Pool, space: str, peers: list[Peer]) -> list[Case]:
    found = []
    for value_type in options.value_types:
        row_elements = pool.window_bytes // VALUE_TYPES[value_type].itemsize
        for classes in options.classes:
            rows = row_elements // classes
            if rows > 0:
                found += [Case(peer, space, value_type, rows, classes) for peer in peers]
    return found


def run(options: argparse.Namespace) -> dict[str, Any]:
    torch.manual_seed(1)
    space = f"torch_{options.device}"
    processor, threads, cache = describe_device(options.device)
    pool = Pool(options.device, options.logits_mib * MIB, cache)
    clock = Clock(options.device)
    bandwidth = measure_bandwidth(pool, clock, options.repetitions)
    print(
        f"{space}: {processor}, {threads} threads; read {bandwidth.read:.1f}, "
        f"copy {bandwidth.copy:.1f}, in place {bandwidth.in_place:.1f} GB/s"
    )
    context = {
        "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "num_cpus": os.cpu_count(),
        "load_avg": list(os.getloadavg()),
        "project": "KokkosXent",
        "peer_versions": versions(options.peers),
        "keeps_freed_memory": options.keep_freed_memory,
        "host_processor": host_processor(),
        f"processor_{space}": processor,
        f"threads_{space}": threads,
        f"cache_bytes_{space}": cache,
        f"pool_bytes_{space}": pool.bytes,
        f"read_gbs_{space}": bandwidth.read,
        f"copy_gbs_{space}": bandwidth.copy,
        f"inplace_gbs_{space}": bandwidth.in_place,
    }
    entries = []
    shape = None
    for case in cases(options, pool, space, importable_peers(options.peers, options.device)):
        if shape != (case.value_type, case.classes):
            torch.compiler.reset()  # torch.compile gives up a function after some shapes
        shape = (case.value_type, case.classes)
        entries.append(measure(case, pool, clock, bandwidth, options.repetitions))
        print(f"{case.name:<72} {describe(entries[-1])}", flush=True)
    return {"context": context, "benchmarks": entries}


def names_of(known: Any) -> Callable[[str], list[str]]:
    def parse(text: str) -> list[str]:
        names = text.split(",")
        for name in names:
            if name not in known:
                raise argparse.ArgumentTypeError(f"{name} is not one of {', '.join(known)}")
        return names

    return parse


def positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError
    return number


def positive_numbers(text: str) -> list[int]:
    return [positive(number) for number in text.split(",")]


def parse_arguments(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="measure_peers.py", description="Measures other implementations of the cross-entropy."
    )
    parser.add_argument("--output", required=True, type=Path, metavar="FILE.json")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--logits-mib", type=positive, metavar="N",
                        help="MiB of logits in a call (default: 1024; cpu: 256)")  # fmt: skip
    parser.add_argument("--keep-freed-memory", action="store_true",
                        help="cpu, glibc: temporaries cost no page faults")  # fmt: skip
    parser.add_argument("--repetitions", type=positive, default=10, metavar="N")
    parser.add_argument("--value-types", type=names_of(VALUE_TYPES), metavar="A,B",
                        help="of float, bfloat16, float16, double (default: float, bfloat16; "
                        "cpu: and double)")  # fmt: skip
    parser.add_argument("--classes", type=positive_numbers, metavar="A,B",
                        help="(default: 4096 to 262144; cpu: 8192 to 128256)")  # fmt: skip
    parser.add_argument("--peers", type=names_of(PEERS), default=list(PEERS), metavar="A,B",
                        help=f"of {', '.join(PEERS)} (default: all)")  # fmt: skip
    options = parser.parse_args(arguments)
    if options.device == "cuda" and not torch.cuda.is_available():
        parser.error("PyTorch finds no GPU")
    options.logits_mib = options.logits_mib or LOGITS_MIB[options.device]
    options.classes = options.classes or list(CLASSES[options.device])
    if options.value_types is None:
        options.value_types = ["float", "bfloat16"] + ["double"] * (options.device == "cpu")
    return options


def main(arguments: list[str]) -> int:
    options = parse_arguments(arguments)
    if options.keep_freed_memory:
        keep_freed_memory()
    start = time.monotonic()
    results = run(options)
    options.output.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    failures = sum("error" in entry for entry in results["benchmarks"])
    measured = len(results["benchmarks"]) - failures
    print(f"{measured} measured, {failures} failed, {time.monotonic() - start:.0f} s")
    return 0 if measured > 0 else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
