#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Draws the pictures that are lists of boxes: draw.py [FOLDER]. The others are .dot files.

    levels.svg          the levels an object passes, with a file for each
    address-space.svg   the window, and the arrays that describe its pages
"""

import sys
from pathlib import Path
from xml.sax.saxutils import escape

FONT = "DejaVu Sans, Verdana, Helvetica, sans-serif"
BLUE, GREEN, AMBER, RED, WHITE, GREY = (
    ("#eef3fb", "#5b7aa8"),
    ("#e3f4e3", "#5a9a5a"),
    ("#fbf3e3", "#a8894b"),
    ("#f8e6e6", "#a85b5b"),
    ("#ffffff", "#5b7aa8"),
    ("#f4f4f4", "#aaaaaa"),
)


class Picture:
    def __init__(self, width, height, title):
        self.size = f'width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
        self.parts = [f"<title>{escape(title)}</title>", '<rect width="100%" height="100%" fill="white"/>']

    def box(self, x, y, w, h, colours, radius=8):
        fill, line = colours
        self.parts.append(
            f'<rect x="{x}" y="{y}" width="{w}" height="{h}" rx="{radius}" fill="{fill}" stroke="{line}"/>'
        )

    def text(self, x, y, text, anchor="middle", size=12, bold=False, colour="#222222"):
        weight = ' font-weight="bold"' if bold else ""
        self.parts.append(
            f'<text x="{x}" y="{y}" text-anchor="{anchor}" font-size="{size}"{weight} fill="{colour}">'
            f"{escape(text)}</text>"
        )

    def arrow(self, x1, y1, x2, y2):
        self.parts.append(
            f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" stroke="#444444" marker-end="url(#head)"/>'
        )

    def line(self, x1, y1, x2, y2):
        self.parts.append(
            f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" stroke="#999999" stroke-dasharray="4 3"/>'
        )

    def write(self, path):
        head = (
            '<defs><marker id="head" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="8" markerHeight="8"'
            ' orient="auto"><path d="M 0 1 L 10 5 L 0 9 z" fill="#444444"/></marker></defs>'
        )
        body = "\n".join(self.parts)
        path.write_text(
            f'<svg xmlns="http://www.w3.org/2000/svg" {self.size} font-family="{FONT}">\n{head}\n{body}\n</svg>\n',
            encoding="utf-8",
        )


# Each level: name, files, how it is reached, colours; then what goes down, and what comes up.
LEVELS = [
    ("the program", "", "", WHITE, "free: one object", "malloc: one object"),
    ("array of this CPU", "kmalloc/kmalloc.h, slab/slab_array.c", "a section", GREEN, "full: half an array", "empty: half an array"),
    ("shared queue of the node", "slab/slab_shared.c", "a section", BLUE, "no room: their free bits are set", "none: objects, straight to the array"),
    ("partial slabs of this CPU", "slab/slab_objects.c, slab/slab_partial.c", "a section", BLUE, "too many: a batch of slabs", "none: objects, and some slabs"),
    ("partial slabs of the node", "slab/slab_node.c", "a shard's lock", BLUE, "an empty slab too many", "none: a new slab"),
    ("one slab", "slab/slab_page.c", "", BLUE, "its pages", "a run of pages"),
    ("pageset of this CPU", "page/pageset.c", "a section", AMBER, "too many: a batch of runs", "none: a batch of runs"),
    ("free blocks of the zone", "page/zone.c, page/buddy.c, page/runs.c", "the zone's lock", AMBER, "not needed for a while: purged", "none: the frontier moves"),
    ("the system", "page/window.c, page/purge.c", "a system call", WHITE, "", ""),
]


def levels(path):
    height, gap, top = 44, 40, 40
    picture = Picture(760, top + len(LEVELS) * (height + gap) - gap + 12, "The levels an object passes")
    left, width = 210, 330
    picture.text(left - 12, 22, "free", "end", bold=True)
    picture.text(left + width + 12, 22, "malloc", "start", bold=True)
    for i, (name, files, how, colours, down, up) in enumerate(LEVELS):
        y = top + i * (height + gap)
        picture.box(left, y, width, height, colours)
        middle = left + width / 2
        picture.text(middle, y + (18 if files else 27), name, bold=True, size=13)
        if files:
            picture.text(middle, y + 35, files, size=11)
        picture.text(left + width + 12, y + 27, how, "start", 11, colour="#666666")
        if down:
            picture.arrow(left + 90, y + height + 3, left + 90, y + height + gap - 3)
            picture.text(left + 80, y + height + gap / 2 + 4, down, "end", 11)
            picture.arrow(left + width - 90, y + height + gap - 3, left + width - 90, y + height + 3)
            picture.text(left + width - 80, y + height + gap / 2 + 4, up, "start", 11)
    picture.write(path)


def address_space(path):
    picture = Picture(900, 330, "The window of addresses")
    y, h = 50, 46
    picture.text(20, 26, "the window, 8 TiB of addresses (page_window.base)", "start", bold=True)
    picture.text(705, 26, "below 4 GiB (low_base)", "start", bold=True)
    # Zones: name, x, width, part that is mapped.
    for name, x, w, mapped in (("NORMAL, node 0", 20, 240, 130), ("NORMAL, node 1", 260, 240, 70), ("DMA, node 0", 500, 170, 50), ("DMA32, node 0", 705, 175, 80)):
        picture.box(x, y, w, h, GREY, 0)
        picture.box(x, y, mapped, h, GREEN, 0)
        picture.text(x + w / 2, y + h + 18, name, size=11)
        picture.line(x + mapped, y - 8, x + mapped, y + h)
    picture.text(150, y - 10, "frontier", size=11)
    picture.text(85, y + 28, "mapped", size=11)
    picture.text(206, y + 28, "addresses", size=11, colour="#777777")
    picture.text(20, 148, "for each page below a frontier, 70 bytes in three flat arrays", "start", bold=True)
    rows = (
        ("struct page, 64 bytes", "page_of(): type, order, state of a slab, 256 bits of its bitmap", AMBER),
        ("array map, 4 bytes for each 4 KiB", "pcpu_entry(): where the array is that objects there go to; all that free looks at", GREEN),
        ("place, 2 bytes", "how far the slab's head is, and the mark of its size class: what ksize looks at", BLUE),
    )
    for i, (name, what, colours) in enumerate(rows):
        top = 162 + i * 50
        picture.box(20, top, 250, 36, colours)
        picture.text(145, top + 22, name, size=11, bold=True)
        picture.text(284, top + 22, what, "start", 11)
    picture.text(20, 322, "Page numbers run through all zones in the order of the drawing, so zones[page number >> shift] is a page's zone.", "start", 11)
    picture.write(path)


def main(args):
    folder = Path(args[0]) if args else Path(__file__).parent
    levels(folder / "levels.svg")
    address_space(folder / "address-space.svg")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
