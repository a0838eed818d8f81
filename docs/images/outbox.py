#!/usr/bin/env python3
"""Draws outbox.svg: the way of one event. Run: docs/images/outbox.py > docs/images/outbox.svg

Boxes, arrows and words are calls below, in the order in which the eye should meet them. The colours
follow the reader's light or dark scheme by a media query in the SVG itself; the card behind the
drawing keeps it readable where the page and the query disagree. --dark draws the dark one always,
for looking at it with a tool that knows no media queries.
"""

import html
import sys

WIDTH, HEIGHT = 1290, 480

STYLE = """
text { font-family: Helvetica, Arial, "Liberation Sans", sans-serif; font-size: 15px; }
.title { font-size: 18px; font-weight: bold; }
.small { font-size: 13px; }
.mono { font-family: "DejaVu Sans Mono", Menlo, Consolas, monospace; font-size: 12.5px; }
.badge-text { font-size: 15px; font-weight: bold; }
.box, .cell { stroke-width: 1.5; }
.frame { fill: none; stroke-width: 2.5; stroke-dasharray: 8 5; }
.line { fill: none; stroke-width: 2; }
.back { fill: none; stroke-width: 1.5; stroke-dasharray: 3 4; }
"""

COLOURS = {
    "light": """
.card { fill: #ffffff; stroke: #d0d7de; }
text { fill: #1f2328; }
.soft { fill: #59636e; }
.box { fill: #f6f8fa; stroke: #818b98; }
.relay { fill: #ddf4ff; stroke: #0969da; stroke-width: 2.5; }
.cell { fill: #ffffff; stroke: #818b98; }
.event { fill: #fff8c5; stroke: #9a6700; stroke-width: 1.5; }
.frame { stroke: #1a7f37; }
.promise { fill: #1a7f37; }
.badge { fill: #1a7f37; }
.badge-text { fill: #ffffff; }
.line { stroke: #1f2328; } .tip { fill: #1f2328; }
.back { stroke: #59636e; } .back-tip { fill: #59636e; }
""",
    "dark": """
.card { fill: #0d1117; stroke: #3d444d; }
text { fill: #f0f6fc; }
.soft { fill: #9198a1; }
.box { fill: #151b23; stroke: #656c76; }
.relay { fill: #0c2d4f; stroke: #4493f8; stroke-width: 2.5; }
.cell { fill: #0d1117; stroke: #656c76; }
.event { fill: #3b2e05; stroke: #d29922; stroke-width: 1.5; }
.frame { stroke: #3fb950; }
.promise { fill: #3fb950; }
.badge { fill: #238636; }
.badge-text { fill: #ffffff; }
.line { stroke: #f0f6fc; } .tip { fill: #f0f6fc; }
.back { stroke: #9198a1; } .back-tip { fill: #9198a1; }
""",
}


class Drawing:
    """Collects SVG elements."""

    def __init__(self):
        self.parts = []

    def box(self, x, y, width, height, kind="box", radius=8):
        self.parts.append(f'<rect class="{kind}" x="{x}" y="{y}" width="{width}" height="{height}"'
                          f' rx="{radius}"/>')

    def text(self, x, y, words, kind="", anchor="start"):
        self.parts.append(f'<text class="{kind}" x="{x}" y="{y}" text-anchor="{anchor}"'
                          f' xml:space="preserve">'
                          f'{html.escape(words)}</text>')

    def lines(self, x, y, step, kind, *many):
        for number, words in enumerate(many):
            self.text(x, y + number * step, words, kind)

    def badge(self, x, y, words, width):
        self.box(x - width / 2, y - 15, width, 30, "badge", 15)
        self.text(x, y + 5, words, "badge-text", "middle")

    def arrow(self, *points, back=False):
        """Along the points, with a tip at the last one."""
        line, tip = ("back", "back-tip") if back else ("line", "tip")
        path = "M" + " L".join(f"{x} {y}" for x, y in points)
        self.parts.append(f'<path class="{line}" d="{path}"/>')
        (x0, y0), (x, y) = points[-2:]
        length = max(abs(x - x0), abs(y - y0))
        dx, dy = (x - x0) / length, (y - y0) / length
        corners = [(x, y), (x - 11 * dx - 5 * dy, y - 11 * dy + 5 * dx),
                   (x - 11 * dx + 5 * dy, y - 11 * dy - 5 * dx)]
        self.parts.append(f'<polygon class="{tip}" points="'
                          + " ".join(f"{px:.1f},{py:.1f}" for px, py in corners) + '"/>')


def table(draw, x, y, width, title, head, row, kind):
    draw.text(x, y - 7, title, "")
    draw.box(x, y, width, 24, "cell", 0)
    draw.text(x + 8, y + 17, head, "mono soft")
    draw.box(x, y + 24, width, 26, kind, 0)
    draw.text(x + 8, y + 42, row, "mono")


def service_and_database(draw):
    draw.box(20, 20, 380, 62)
    draw.text(36, 47, "Order service", "title")
    draw.text(36, 68, "BEGIN; INSERT …; INSERT …; COMMIT", "mono soft")
    draw.box(20, 116, 380, 344)
    draw.arrow((120, 82), (120, 144))
    draw.text(132, 104, "two rows", "small")
    draw.text(384, 137, "PostgreSQL", "title", "end")
    draw.box(36, 146, 348, 206, "frame", 10)
    draw.text(52, 170, "one transaction: both rows, or none", "promise small")
    table(draw, 52, 202, 316, "orders", "id  customer    total", "17  customer-1  49.90", "cell")
    table(draw, 52, 286, 316, "outbox", "id    aggregate_id  payload", 'a1f…  customer-1    {"order":17}',
          "event")

    draw.text(36, 382, "write-ahead log, in commit order", "small soft")
    for number, (words, kind, width) in enumerate(
            [("…", "cell", 46), ("17", "cell", 60), ("a1f…", "event", 80), ("COMMIT", "cell", 90),
             ("…", "cell", 46)]):
        x = 36 + [0, 50, 114, 198, 292][number]
        draw.box(x, 392, width, 30, kind, 3)
        draw.text(x + width / 2, 412, words, "mono", "middle")
    draw.text(36, 446, "rolled back: never sent", "small soft")


def relay(draw):
    draw.box(494, 196, 196, 264, "relay")
    draw.text(592, 226, "Outrider", "title", "middle")
    draw.text(592, 248, "the relay", "soft", "middle")
    draw.lines(510, 280, 21, "small", "kind: log tailing", "reads the log through a", "replication slot, sends",
               "each inserted outbox row,", "polls no table")
    draw.badge(592, 430, "at least once", 140)

    draw.arrow((374, 402), (494, 402))
    draw.text(447, 392, "rows", "small", "middle")
    draw.arrow((494, 440), (410, 440), back=True)
    draw.text(447, 456, "confirmed", "small soft", "middle")


def topic(draw):
    draw.box(770, 116, 240, 344)
    draw.text(786, 142, "Kafka topic", "title")
    draw.text(786, 164, "outbox.event.OrderPlaced", "mono soft")
    for number, keys in enumerate([["customer-2"], ["customer-1", "customer-1"], ["customer-3"]]):
        y = 180 + number * 40
        draw.text(786, y + 20, str(number), "small soft")
        draw.box(804, y, 190, 30, "cell", 3)
        for place, key in enumerate(keys):
            draw.box(808 + place * 92, y + 4, 88, 22, "event", 3)
            draw.text(852 + place * 92, y + 19, key, "mono", "middle")
    draw.text(786, 322, "message key = aggregate_id:", "small")
    draw.text(786, 341, "one key, one partition, in order", "small promise")
    draw.box(786, 358, 208, 84, "event", 3)
    draw.lines(798, 379, 18, "mono", "key    customer-1", "id     a1f…", 'value  {"order":17}', "time   of COMMIT")

    draw.arrow((690, 290), (770, 290))
    draw.text(730, 280, "records", "small", "middle")
    draw.arrow((770, 332), (700, 332), back=True)
    draw.text(735, 351, "acks", "small soft", "middle")


def consumer(draw, y, name, ids):
    draw.box(1066, y, 204, 200)
    draw.text(1082, y + 28, name, "title")
    draw.text(1082, y + 56, "processed ids", "small")
    for number, (words, kind, note) in enumerate(ids):
        top = y + 64 + number * 28
        draw.box(1082, top, 76, 26, kind, 0)
        draw.text(1090, top + 18, words, "mono")
        draw.text(1168, top + 18, note, "small soft")
    draw.badge(1168, y + 174, "idempotent", 130)
    draw.arrow((1010, y + 96), (1066, y + 96))


def draw_all():
    draw = Drawing()
    draw.box(1, 1, WIDTH - 2, HEIGHT - 2, "card", 12)
    service_and_database(draw)
    relay(draw)
    topic(draw)
    consumer(draw, 36, "Billing", [("77c…", "cell", "done"), ("a1f…", "event", "do it now")])
    consumer(draw, 256, "Shipping", [("a1f…", "event", "done"), ("a1f…", "event", "again: skip")])
    return draw.parts


def svg(always_dark=False):
    if always_dark:
        style = STYLE + COLOURS["dark"]
    else:
        style = (STYLE + COLOURS["light"] + "@media (prefers-color-scheme: dark) {"
                 + COLOURS["dark"] + "}\n")
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img"'
            ' aria-labelledby="title">\n'
            '<title id="title">A service writes an order and an outbox row in one transaction; '
            "Outrider reads the write-ahead log and sends the row to a Kafka topic at least once; "
            "consumers keep the ids they have processed and are idempotent.</title>\n"
            f"<style>{style}</style>\n" + "\n".join(draw_all()) + "\n</svg>\n")


if __name__ == "__main__":
    sys.stdout.write(svg("--dark" in sys.argv[1:]))
