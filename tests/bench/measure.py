"""One server under one load, and what it cost. `compare` and `peers/run` are made of this.

The server has one core with all its threads, the generator (`plugsock bench`) another. The speed
of a machine drifts by more than the differences that matter: so candidates run in pairs with a
reference, and the ratio is the figure to trust.
"""

import contextlib
import dataclasses
import json
import os
import pathlib
import shlex
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator

ROOT = pathlib.Path(__file__).resolve().parents[2]

# Share of a core that others may take without disturbing a run.
QUIET = 0.1

# What the generator counts against a server.
FAULTS = ("altered", "out_of_order", "wrong_shape", "unanswered", "lost", "first_loss")

START_SECONDS = 30
RUN_SECONDS = 60

# For the candidates that are Plugsock: as many threads as it needs on one core.
PLUGSOCK_CONFIG = """\
[server]
listen = ["127.0.0.1:{port}"]
shards = 1

[workers]
threads = 1

[[plugin]]
name = "echo"
source = "{plugin}"

[[route]]
path = "/echo"
plugin = "echo"

[[route]]
path = "/native"
builtin = "echo"
"""


class Failure(Exception):
    """What stops a measurement: said in one sentence."""


@dataclasses.dataclass(frozen=True)
class Candidate:
    """A server to measure.

    `command` and `config` may name {bin}, the directory of the built programs, {port}, the port to
    listen on, what is in `Rig.names`, and the command {config}, a file with `config` in it.
    """

    name: str
    command: str
    path: str = "/"
    config: str = ""


@dataclasses.dataclass(frozen=True)
class Run:
    """What one run of one server came to."""

    # CPU time of all threads of the server for each message, or for each handshake.
    cpu_us: float
    # Messages, deliveries or handshakes per second.
    rate: float
    # Share of a core that other processes took meanwhile.
    foreign: float
    p50_us: float = 0
    p99_us: float = 0
    # User memory: at first, and how much it grew for each connection.
    before_bytes: int = 0
    rss_anon_per_connection: float = 0
    pss_anon_per_connection: float = 0


@dataclasses.dataclass(frozen=True)
class Rig:
    """The programs, and the core of each side."""

    bin: pathlib.Path
    server_core: int
    load_core: int
    names: dict[str, str]

    def prepare(self) -> None:
        """Checks that all is there and moves this process out of the server's way."""
        if not (self.bin / "plugsock").exists() or not (self.bin / "epoll-echo").exists():
            raise Failure(f"no plugsock and epoll-echo in {self.bin}: "
                          "cargo build --release -p plugsock -p plugsock-bench, or --bin")
        cores = {self.server_core, self.load_core}
        if len(cores) < 2 or not cores <= os.sched_getaffinity(0):
            raise Failure("--server-core and --load-core must be two cores that this process "
                          "may use")
        # The generator's core: here it only wakes to read /proc, which must not cost the server.
        os.sched_setaffinity(0, {self.load_core})

    def messages(self, candidate: Candidate, load: list[str]) -> Run:
        """Runs a server under a load, which is arguments of `plugsock bench`."""
        with self.server(candidate) as (server, url), self.generator(url, load) as generator:
            event(generator, "measuring")
            meter = Meter(server.pid, generator.pid)
            result = event(generator, "result")
            cpu, _, foreign = meter.read()
            code = generator.wait(RUN_SECONDS)
            faults = ", ".join(f"{key} {result[key]}" for key in FAULTS if result[key])
            if faults:
                raise Failure(f"{candidate.name} did not answer right: {faults}")
            if code != 0 or not result["samples"]:
                raise Failure(f"{candidate.name}: nothing was answered within the measured time")
        return Run(cpu * 1e6 / result["messages"], result["messages_per_second"], foreign,
                   result["p50_us"], result["p99_us"])

    def connections(self, candidate: Candidate, count: int, load: list[str]) -> Run:
        """Opens connections as fast as the load says, and weighs the server before and after."""
        with self.server(candidate) as (server, url):
            # Buffers that exist once are touched before the first weighing. Besides, that is how
            # long the generator takes to start.
            first = ["--clients", "1", "--warmup", "0", "--seconds", "0.3"]
            start = time.monotonic()
            with self.generator(url, first) as generator:
                event(generator, "measuring")
                start = time.monotonic() - start
                event(generator, "result")
            before = memory(server.pid)
            hold = ["--idle", "--clients", str(count), "--seconds", str(RUN_SECONDS), *load]
            began = time.monotonic()
            with self.generator(url, hold) as generator:
                meter = Meter(server.pid, generator.pid)
                event(generator, "ready")
                cpu, _, foreign = meter.read()
                elapsed = max(time.monotonic() - began - start, 1e-9)
                time.sleep(0.5)
                after = memory(server.pid)
        grown = {key: (after[key] - before[key]) / count for key in ("RssAnon", "Pss_Anon")}
        return Run(cpu * 1e6 / count, count / elapsed, foreign, before_bytes=before["RssAnon"],
                   rss_anon_per_connection=grown["RssAnon"],
                   pss_anon_per_connection=grown["Pss_Anon"])

    @contextlib.contextmanager
    def server(self, candidate: Candidate) -> Iterator[tuple[subprocess.Popen, str]]:
        """Starts a candidate on its core and waits until its port accepts."""
        with tempfile.TemporaryDirectory() as directory:
            port = free_port()
            config = pathlib.Path(directory) / "plugsock.toml"
            names = {"bin": str(self.bin), "port": port, "config": str(config), **self.names}
            config.write_text(candidate.config.format(**names))
            command = [word.format(**names) for word in shlex.split(candidate.command)]
            with started(command, self.server_core, stdout=subprocess.DEVNULL) as process:
                deadline = time.monotonic() + START_SECONDS
                while not accepts(port):
                    if process.poll() is not None:
                        raise Failure(f"{candidate.name} ended at once, with "
                                      f"{process.returncode}")
                    if time.monotonic() > deadline:
                        raise Failure(f"{candidate.name} does not listen on port {port}")
                    time.sleep(0.02)
                yield process, f"ws://127.0.0.1:{port}{candidate.path}"

    @contextlib.contextmanager
    def generator(self, url: str, load: list[str]) -> Iterator[subprocess.Popen]:
        """Starts the generator, which prints a JSON object a line."""
        command = [str(self.bin / "plugsock"), "bench", url, "--format", "json", *load]
        with started(command, self.load_core, stdout=subprocess.PIPE, text=True) as process:
            yield process


class Patience:
    """Seconds that may be spent on waiting for quiet and on repeating disturbed runs."""

    def __init__(self, seconds: float) -> None:
        self.left = seconds

    def undisturbed(self, pair: list[Candidate],
                    measure: Callable[[Candidate], Run]) -> dict[str, Run]:
        """Runs of a pair that nobody disturbed, or whatever came last when patience ended."""
        while True:
            while self.left > 0 and foreign_now() > QUIET:
                self.left -= 0.5
                time.sleep(0.5)
            start = time.monotonic()
            runs: dict[str, Run] = {}
            for candidate in pair:
                runs[candidate.name] = measure(candidate)
                if runs[candidate.name].foreign > QUIET and self.left > 0:
                    break
            else:
                return runs
            self.left -= time.monotonic() - start


class Meter:
    """CPU time from now on: of a server, of its generator, and of all others."""

    def __init__(self, server: int, generator: int) -> None:
        self.pids = (server, generator)
        self.began, self.busy = time.monotonic(), busy_seconds()
        self.server, self.generator = cpu_seconds(server), ended_seconds(generator)

    def read(self) -> tuple[float, float, float]:
        """Seconds of the server and of the generator, and the share of a core others took."""
        server = cpu_seconds(self.pids[0]) - self.server
        generator = ended_seconds(self.pids[1]) - self.generator
        elapsed = time.monotonic() - self.began
        foreign = busy_seconds() - self.busy - server - generator
        return server, generator, max(0.0, foreign) / elapsed


def pairs(rounds: int, reference: Candidate,
          candidates: list[Candidate]) -> Iterator[tuple[int, Candidate, list[Candidate]]]:
    """Who runs directly one after the other: round, candidate, pair."""
    for round_number in range(rounds):
        for candidate in candidates:
            pair = [reference, candidate]
            # Who goes first alternates, so that a steady drift cancels out.
            yield round_number, candidate, pair[::-1] if round_number % 2 else pair


def foreign_now() -> float:
    """The share of a core that other processes take, while nothing is measured."""
    before = busy_seconds()
    time.sleep(0.5)
    return (busy_seconds() - before) / 0.5


def cpu_seconds(pid: int) -> float:
    """CPU time of all threads of a process, to the nanosecond."""
    total = 0
    try:
        for task in os.listdir(f"/proc/{pid}/task"):
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                schedstat = pathlib.Path(f"/proc/{pid}/task/{task}/schedstat")
                total += int(schedstat.read_text().split()[0])
    except FileNotFoundError:
        raise Failure("the server ended while it was measured") from None
    return total / 1e9


def ended_seconds(pid: int) -> float:
    """CPU time of a process that is ours, with its threads that ended, or has itself ended."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def busy_seconds() -> float:
    """CPU time of the whole machine that was not idle."""
    user, nice, system, _idle, _wait, irq, softirq, steal = map(
        int, pathlib.Path("/proc/stat").read_text().split("\n")[0].split()[1:9])
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


def memory(pid: int) -> dict[str, int]:
    """User memory of a process in bytes: what it wrote to itself, without files and kernel."""
    fields = {}
    for file in ("status", "smaps_rollup"):
        for line in pathlib.Path(f"/proc/{pid}/{file}").read_text().split("\n"):
            key, _, value = line.partition(":")
            if value.endswith(" kB"):
                fields[key] = int(value.split()[0]) * 1024
    return fields


@contextlib.contextmanager
def started(command: list[str], core: int, **options) -> Iterator[subprocess.Popen]:
    """A process on one core, which is gone when the block is left."""
    try:
        process = subprocess.Popen(
            command, preexec_fn=lambda: os.sched_setaffinity(0, {core}), **options)
    except OSError as error:
        raise Failure(f"cannot start {command[0]}: {error.strerror}") from None
    try:
        yield process
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
        process.wait()
        if process.stdout:
            process.stdout.close()


def event(generator: subprocess.Popen, name: str) -> dict:
    """Reads the generator's lines up to the event called `name`."""
    for line in generator.stdout:
        found = json.loads(line)
        if found["event"] == name:
            return found
    raise Failure(f"the generator ended, with {generator.wait(RUN_SECONDS)}, before {name!r}")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def accepts(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def default_bin() -> pathlib.Path:
    return pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release"


def spread(values: list[float], digits: int) -> str:
    """Median, lowest and highest."""
    return (f"{statistics.median(values):,.{digits}f} "
            f"({min(values):,.{digits}f}–{max(values):,.{digits}f})")


def note(text: str) -> None:
    print(text, file=sys.stderr)
