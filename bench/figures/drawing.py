# SPDX-License-Identifier: MIT
"""Pictures: colours, marks and lines of each name, and SVG that can stand inside a page.

Colours are Okabe and Ito's, which people with any common colour blindness tell apart; each name
has a mark and a line of its own as well, for print without colours. Ours is the thick one.
"""

import io
import re

import report_queue

try:
    import matplotlib
    matplotlib.use("svg")
    from matplotlib import pyplot
    from matplotlib.ticker import FuncFormatter, NullLocator
except ImportError:
    matplotlib = None

OURS = "ukmem"
# The plots draw these as ours.
OURS_ALL = (OURS, *report_queue.QUEUES, *report_queue.POOLS)
ORANGE, SKY, GREEN, YELLOW, BLUE, RED, PINK, BLACK, GREY = (
    "#e69f00", "#56b4e9", "#009e73", "#d8c820", "#0072b2", "#d55e00", "#cc79a7", "#000000",
    "#777777")
# Colour, mark, line.
STYLES = {
    OURS: (RED, "o", "-"),
    "glibc": (BLACK, "s", "--"),
    "jemalloc": (BLUE, "^", "-."),
    "mimalloc": (GREEN, "D", ":"),
    "tcmalloc": (PINK, "v", (0, (5, 1, 1, 1, 1, 1))),
    "mimalloc-v2": (GREEN, "P", (0, (3, 1))),
    "mimalloc-v3": (GREEN, "X", (0, (1, 1))),
    "jemalloc-new": (BLUE, "<", (0, (6, 2))),
    "tcmalloc-google": (PINK, ">", (0, (8, 1))),
    "snmalloc": (ORANGE, "p", (0, (4, 1, 1, 1))),
    "snmalloc-checks": (YELLOW, "h", (0, (2, 2))),
    "rpmalloc": (SKY, "*", (0, (5, 3))),
}
OTHERS = list(zip((BLUE, GREEN, PINK, ORANGE, SKY, GREY, BLACK), "dHs^DvX",
                  ("-.", ":", "--", (0, (1, 1)), (0, (5, 1)), (0, (3, 1, 1, 1)), "-")))
WIDTH = 9.0
# White is 1; both ends are told apart in every kind of colour blindness. Ours faster is blue.
RATIOS = "RdBu_r"


WANTED = [True]


def leave_out():
    """From now on there are no pictures."""
    WANTED[0] = False


# The peers that pictures with room for few are to have; without names they choose themselves.
DRAWN = []


def choose(names):
    DRAWN[:] = names


def chosen(names):
    """Of these names those to draw: ours, and the peers that were chosen."""
    return [name for name in names if not DRAWN or name == OURS or name in DRAWN]


def available():
    return matplotlib is not None and WANTED[0]


def style(name, names=()):
    """Keyword arguments of a line; names that STYLES does not know get one by their place."""
    ours = name in OURS_ALL
    if ours:
        color, mark, line = RED, "s" if "owner" in name else "o", "-"
    elif name.removesuffix(" malloc") in STYLES:
        color, mark, line = STYLES[name.removesuffix(" malloc")]
        if name == f"{OURS} malloc":  # beside our pools it is a peer
            color, mark, line = ORANGE, "o", "--"
    else:
        rest = [other for other in names if other not in OURS_ALL
                and other.removesuffix(" malloc") not in STYLES]
        color, mark, line = OTHERS[rest.index(name) % len(OTHERS) if name in rest else 0]
    return {"color": color, "marker": mark, "linestyle": line,
            "linewidth": 2.4 if ours else 1.3, "markersize": 7 if ours else 5,
            "zorder": 3 if ours else 2}


def figure(height, columns=1, rows=1, **options):
    """A figure and its axes, as an array of two dimensions."""
    matplotlib.rcParams.update({
        "font.family": "sans-serif", "font.size": 9, "axes.titlesize": 10,
        "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True,
        "grid.color": "#dddddd", "grid.linewidth": 0.6, "svg.fonttype": "path",
        "axes.axisbelow": True, "legend.frameon": False, "figure.facecolor": "white",
    })
    return pyplot.subplots(rows, columns, figsize=(WIDTH, height), squeeze=False,
                           layout="constrained", **options)


def svg(drawn, name):
    """The figure as an element: no prolog, no metadata, identifiers of its own."""
    matplotlib.rcParams["svg.hashsalt"] = name
    text = io.StringIO()
    drawn.savefig(text, format="svg", bbox_inches="tight", pad_inches=0.05, metadata={"Date": None, "Creator": None, "Format": None,
                                                "Type": None})
    pyplot.close(drawn)
    found = text.getvalue()
    found = re.sub(r"^.*?(?=<svg )", "", found, flags=re.S)
    found = re.sub(r"\s*<metadata>.*?</metadata>", "", found, flags=re.S)
    # Figures and axes are numbered anew in each picture; in a page names must differ.
    found = re.sub(r'(id="|href="#|url\(#)', rf"\g<1>{name}-", found)
    return found.strip()


def legend_below(drawn, axes, columns=6):
    """One legend for all axes; svg() makes room for it."""
    found = {}
    for one in axes.flat:
        for handle, label in zip(*one.get_legend_handles_labels()):
            found.setdefault(label, handle)
    drawn.legend(found.values(), found.keys(), loc="upper center",
                 bbox_to_anchor=(0.5, 0), ncol=min(columns, len(found)))


def plain_ticks(axis, ticks, text=None):
    """Ticks at these values only, written as they are."""
    axis.set_major_locator(matplotlib.ticker.FixedLocator(ticks))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(text or (lambda value, _: f"{value:g}")))


def heat_map(axes, rows, columns, value, most=3):
    """Ratios on a logarithmic scale around 1, each with its figure; value(row, column) or None."""
    import math  # pylint: disable=import-outside-toplevel

    end = math.log2(most)
    grid = [[math.log2(value(row, column)) if value(row, column) else math.nan
             for column in columns] for row in rows]
    edges = [[place - 0.5 for place in range(count + 1)] for count in (len(columns), len(rows))]
    axes.pcolormesh(*edges, grid, cmap=RATIOS, vmin=-end, vmax=end, edgecolors="white",
                    linewidth=0.8)
    axes.set_ylim(len(rows) - 0.5, -0.5)
    for y, line in enumerate(grid):
        for x, log in enumerate(line):
            if not math.isnan(log):
                axes.text(x, y, f"{2 ** log:.2f}" if 2 ** log < 9.95 else f"{2 ** log:.0f}",
                          ha="center", va="center", fontsize=7.5,
                          color="white" if abs(log) > 0.72 * end else "black")
    axes.set_xticks(range(len(columns)))
    axes.set_yticks(range(len(rows)), [str(row) for row in rows])
    axes.grid(False)
    axes.tick_params(length=0)
    for side in axes.spines.values():
        side.set_visible(False)
