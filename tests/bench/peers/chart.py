"""Bars as a picture (SVG 1.1) that is readable on light and on dark paper."""

import dataclasses
from html import escape

WIDTH = 760
LEFT = 210
RIGHT = 610
TOP = 74
STEP = 30
BAR = 18

STYLE = """\
text{font:13px system-ui,-apple-system,'Segoe UI','DejaVu Sans',sans-serif;fill:#3b434b}
.paper{fill:#fff}.title{font-size:17px;font-weight:600;fill:#14181c}.small{fill:#66707a}
.axis{stroke:#8b949e}.range{stroke:#14181c;stroke-width:1.5}
.limit{fill:#b4bcc4}.peer{fill:#56b4e9}.ours{fill:#d55e00}
@media(prefers-color-scheme:dark){text{fill:#b6bec6}.paper{fill:#14181c}
.title{fill:#f0f3f6}.small{fill:#8b949e}.axis{stroke:#66707a}.range{stroke:#f0f3f6}
.limit{fill:#59636e}}"""


@dataclasses.dataclass(frozen=True)
class Bar:
    """One server's figure: median, least and greatest, and how it is written."""

    label: str
    kind: str
    value: float
    least: float
    most: float
    text: str


def chart(title: str, subtitle: str, bars: list[Bar]) -> str:
    """Draws the bars from top to bottom, all from zero; a line says how far the rounds strayed."""
    height = TOP + STEP * len(bars) + 16
    # One round that went wrong must not press all the others flat.
    longest = min(max(bar.most for bar in bars), 1.25 * max(bar.value for bar in bars)) or 1.0

    def place(value: float) -> str:
        return f"{LEFT + min(value / longest, 1.0) * (RIGHT - LEFT):.1f}"

    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}"',
        f' width="{WIDTH}" height="{height}" role="img">',
        f"<title>{escape(title)}</title>",
        f"<style>{STYLE}</style>",
        f'<rect class="paper" width="{WIDTH}" height="{height}"/>',
        f'<text class="title" x="16" y="30"\n>{escape(title)}</text>',
        f'<text class="small" x="16" y="52"\n>{escape(subtitle)}</text>',
    ]
    for index, bar in enumerate(bars):
        top = TOP + STEP * index
        middle = top + BAR / 2
        width = float(place(bar.value)) - LEFT
        lines += [
            f'<text x="{LEFT - 10}" y="{middle + 4.5}" text-anchor="end">'
            f"{escape(bar.label)}</text>",
            f'<rect class="{bar.kind}" x="{LEFT}" y="{top}" width="{width:.1f}" height="{BAR}"/>',
            f'<line class="range" x1="{place(bar.least)}" x2="{place(bar.most)}"'
            f' y1="{middle}" y2="{middle}"/>',
            f'<text x="{max(float(place(bar.most)), LEFT + width) + 8:.1f}" y="{middle + 4.5}">'
            f"{escape(bar.text)}</text>",
        ]
    bottom = TOP + STEP * len(bars) - (STEP - BAR) + 6
    lines += [f'<line class="axis" x1="{LEFT}" x2="{LEFT}" y1="{TOP - 6}" y2="{bottom}"/>',
              "</svg>", ""]
    return "\n".join(lines)
