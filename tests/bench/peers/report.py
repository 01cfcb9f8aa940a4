"""From results to docs/benchmarks.md and its pictures."""

import pathlib
import statistics

from chart import Bar, chart
from measure import QUIET, spread
from workloads import SERVERS, WORKLOADS, Workload

# figure: (heading, digits, factor, what a chart says of it)
FIGURES = {
    "ratio": ("CPU, × {reference}", 2, 1,
              "CPU time per {unit} ÷ that of {reference}: less is better"),
    "gain": ("CPU, {reference} ÷ it", 1, 1,
             "CPU time per {unit} of {reference} ÷ that of the server: more is better"),
    "speedup": ("p50, {reference} ÷ it", 1, 1,
                "p50 of {reference} ÷ that of the server: more is better"),
    "cpu_us": ("CPU µs/{unit}", 2, 1, ""),
    "rate": ("{units}/s", 0, 1, "{units} per second: more is better"),
    "p50_us": ("p50, ms", 2, 1e-3, "half of the {units} took no longer, ms: less is better"),
    "p99_us": ("p99, ms", 2, 1e-3, "99 % of the {units} took no longer, ms: less is better"),
    "rss": ("bytes/connection", 0, 1, "bytes of user memory per connection: less is better"),
    "before": ("MiB before", 1, 2**-20, ""),
    "total": ("MiB with all", 1, 2**-20, "MiB of user memory with all connections: less is better"),
}

HEAD = """\
# Benchmarks

Plugsock beside other WebSocket servers, all in one run on one machine. `make bench-peers` repeats
it and writes this page.

- The server is confined to one core with all its threads, the generator, `plugsock bench`, to
  another. It checks every answer.
- **CPU, ×** is the figure to trust: CPU time of all threads of the server, divided by that of the
  reference, which ran directly before or after. The speed of a machine drifts, the ratio hardly.
- Each figure is the median of {rounds} rounds of {seconds:g} s, with the lowest and the highest.
  Bars are orange for Plugsock, blue for the others, grey for bare loops.
- Every peer echoes as its own documentation shows it, on one thread, with its default buffers (and
  tokio-tungstenite a second time with 4 KiB): [Bun and ws](../tests/bench/peers/servers),
  [Rust](../tests/bench/peers/rust/src). Broadcasts are Bun's `publish`, the loop of ws's README,
  and in Rust a tokio broadcast channel. ws has bufferutil, as its README advises. Bare loops
  are without limits, deadlines and routes: two only echo, one only broadcasts, and show what is
  left to gain. The naive loop encodes, compresses and writes for each message and receiver. The
  echo loops, tokio-tungstenite and fastwebsockets cannot compress. Plugsock brings an allocator
  (jemalloc), the other Rust programs use the system's.
- Plugsock has one I/O thread and one worker. *Plugin* is the echo, or the chat, of this repository
  as a WebAssembly component: user code in a sandbox, which the others do not have. In broadcasts it
  is the chat, which also puts the sender's name before each message.
- uWebSockets.js is not here, because the npm registry does not have it. Bun's server is built on
  the same library, uWebSockets.
"""


def write(results: dict, page: pathlib.Path) -> None:
    """Writes the page, and its pictures into a directory of the same name."""
    pictures = page.with_suffix("")
    pictures.mkdir(parents=True, exist_ok=True)
    for old in pictures.glob("*.svg"):
        old.unlink()
    parts = [HEAD.format(**results["about"]), noise(results), machine(results["about"])]
    for workload in WORKLOADS:
        result = results["workloads"][workload.key]
        links = []
        for figure, picture in charts(workload, result).items():
            name = f"{workload.key}-{figure.removesuffix('_us')}.svg"
            (pictures / name).write_text(picture)
            links.append(f"![{workload.title}]({pictures.name}/{name})\n")
        parts.append(section(workload, result, links))
    page.write_text("\n".join(parts))


def section(workload: Workload, result: dict, pictures: list[str]) -> str:
    """Title, pictures, table and what went wrong."""
    names = words(workload)
    heads = [FIGURES[figure][0].format(**names) for figure in workload.figures]
    lines = [f"## {workload.title}", "", workload.text, "", *pictures,
             "| server | " + " | ".join(heads) + " |", "|---|" + "--:|" * len(heads)]
    for server in workload.servers():
        row = result["rows"].get(server.name)
        if not row or not row["runs"]:
            continue
        cells = []
        for figure in workload.figures:
            values = figures(workload, row, figure)
            cells.append(spread(values, FIGURES[figure][1]) if values else "1")
        label = f"**{server.label}**" if server.kind == "ours" else server.label
        lines.append(f"| {label} | " + " | ".join(cells) + " |")
    lines += ["", f"`plugsock bench {command(workload)}`"]
    if result["foreign"] > QUIET:
        lines += ["", f"Other processes took up to {result['foreign']:.0%} of a core meanwhile."]
    lines += [f"\nA run failed and is left out: {failure}" for failure in result["failures"]]
    return "\n".join(lines) + "\n"


def charts(workload: Workload, result: dict) -> dict[str, str]:
    """The pictures, by figure."""
    pictures = {}
    for figure in workload.charts:
        bars = []
        digits, subtitle = FIGURES[figure][1], FIGURES[figure][3]
        for server in workload.servers():
            row = result["rows"].get(server.name)
            if not row or not row["runs"]:
                continue
            values = figures(workload, row, figure) or [1.0]
            value = statistics.median(values)
            bars.append(Bar(server.label, server.kind, value, min(values), max(values),
                            f"{value:,.{digits}f}"))
        subtitle = subtitle.format(**words(workload))
        pictures[figure] = chart(workload.title, subtitle[0].upper() + subtitle[1:], bars)
    return pictures


def figures(workload: Workload, row: dict, figure: str) -> list[float]:
    """A figure of all rounds; none for the ratios of the reference."""
    match figure:
        case "ratio":
            return row["ratios"]
        case "gain":
            return [1 / ratio for ratio in row["ratios"]]
        case "speedup":
            return row["speedups"]

    def of(run: dict) -> float:
        match figure:
            case "rss":
                return run["rss_anon_per_connection"]
            case "before":
                return run["before_bytes"]
            case "total":
                grown = run["rss_anon_per_connection"] * workload.connections
                return run["before_bytes"] + grown
            case _:
                return run[figure]

    return [of(run) * FIGURES[figure][2] for run in row["runs"]]


def words(workload: Workload) -> dict[str, str]:
    unit = workload.unit
    units = unit[:-1] + "ies" if unit.endswith("y") else unit + "s"
    return {"unit": unit, "units": units, "reference": SERVERS[workload.reference].label}


def command(workload: Workload) -> str:
    if workload.connections:
        return " ".join(["--idle --clients", str(workload.connections), *workload.load])
    return " ".join(workload.load)


def noise(results: dict) -> str:
    """How far the reference strays from itself."""
    found = [ratio for workload in WORKLOADS if not workload.connections
             for ratio in results["workloads"][workload.key]["rows"]
             .get("again", {"ratios": []})["ratios"]]
    foreign = max(workload["foreign"] for workload in results["workloads"].values())
    text = ""
    if found:
        text = (f"**Noise**: the bare epoll loop beside itself came to {spread(found, 2)} × over "
                "all echoes, where 1 was right. Smaller differences than that say nothing.")
    if foreign > QUIET:
        text += (f" The machine was **not quiet**: others took up to {foreign:.0%} of a core. "
                 "Rates and latencies suffer most from that, CPU time less, ratios least.")
    return text + "\n"


def machine(about: dict) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in about["versions"].items())
    return "\n".join([
        "| | |", "|---|---|",
        f"| date | {about['date']} |",
        f"| machine | {about['cpu']}, {about['cores']} cores, {about['memory_gib']} GiB |",
        f"| system | {about['system']} |",
        f"| versions | {versions} |",
        f"| command | `{about['command']}` |",
        "",
    ])
