# SPDX-License-Identifier: MIT
"""Writes the manual pages of section 3, in mdoc(7), from the public headers' comments."""
import re
import textwrap

import headers

# Header: the page's name, and words for the line that apropos(1) finds.
PAGES = {
    "slab.h": "kmem_cache_create",
    "kmalloc.h": "kmalloc",
    "percpu.h": "this_cpu_add",
    "page_alloc.h": "alloc_pages",
    "alf_queue.h": "alf_queue",
    "qmempool.h": "qmempool",
    "mempool.h": "mempool_create",
    "mempolicy.h": "mpol_new",
    "stats.h": "ukmem_stats",
    "shrinker.h": "register_shrinker",
    "alloc_tag.h": "ukmem_alloc_tags",
    "profile.h": "ukmem_profile",
}


def escape(line):
    line = line.replace("\\", "\\e")
    return "\\&" + line if line[:1] in (".", "'") else line


def prose(text):
    """Prose in lines of at most 78 columns. A sentence begins a line, as mdoc wants it."""
    text = re.sub(r"@(\w)", r"\1", text)
    lines = []
    for sentence in re.split(r"(?<=[.?!])(?<!\.\.\.) +|(?<=[.?!][)\"']) +", text):
        # A call has a macro, and a line, of its own.
        parts = re.split(r"([(\"]*)\b(\w+)\(\)((?:'s)?[.,;:)\"]*)", sentence)
        for i in range(0, len(parts), 4):
            lines += [escape(l) for l in textwrap.wrap(parts[i], 76, break_long_words=False,
                                                      break_on_hyphens=False)]
            if i + 1 < len(parts):
                lines.append(call(*parts[i + 1:i + 4]))
    return lines


def call(before, name, after):
    """A function's name in a sentence, with what touches it."""
    line = f".Fn {name}"
    if before:
        line = f".No \\&{before} Ns Fn {name}"
    if after.startswith("'s"):
        line += " Ns 's"
        after = after[2:]
    for c in after:
        line += f" {c}" if c in ".,;:)" else f" Ns {c}"
    return line


def literal(lines):
    return [".Bd -literal"] + [escape(l) for l in lines] + [".Ed"]


def paragraphs(found, first=False):
    out = []
    for p in found:
        if p.literal:
            out += literal(p.lines)
        else:
            out += ([] if first else [".Pp"]) + prose(p.text())
        first = False
    return out


def split_arguments(text):
    """The arguments of a declaration, at commas outside of parentheses."""
    depth, out, current = 0, [], ""
    for c in text:
        depth += (c == "(") - (c == ")")
        if c == "," and depth == 0:
            out.append(current.strip())
            current = ""
        else:
            current += c
    return out + [current.strip()]


def function(d):
    """A declaration as .Ft and .Fn."""
    at = re.search(rf"\b{re.escape(d.name)}\b", d.text)
    rest = d.text[at.end():].strip()
    arguments = split_arguments(rest[1:-1]) if rest.startswith("(") else []
    out = []
    kind = d.text[:at.start()].strip()
    if d.kind == "function" and kind:
        out.append(f'.Ft "{kind}"')
    quoted = " ".join(f'"{a}"' for a in arguments if a)
    return out + [wrapped(f".Fn {d.name} {quoted}".rstrip())]


def wrapped(line):
    """A macro's line, folded by escaped line ends outside of quoted arguments."""
    if len(line) <= 78:
        return line
    words, lines = re.findall(r'"[^"]*"|\S+', line), [""]
    for w in words:
        if lines[-1] and len(lines[-1]) + len(w) + 3 > 78:
            lines.append("")
        lines[-1] += (" " if lines[-1] else "") + w
    return " \\\n".join(lines)


def entry(e, seen, names):
    calls = [d for d in e.declarations if d.kind in ("function", "macro") and d.name not in seen]
    seen.update(d.name for d in calls)
    others = [d for d in e.declarations if d.kind not in ("function", "macro")]
    text = prose(headers.sentence(e.brief, names)) if e.brief else []
    if e.parameters:
        text += [".Bl -tag -width Ds"]
        for name, what in e.parameters:
            text += [f".It Fa {name}"] + prose(what)
        text += [".El"]
    text += paragraphs(e.body, first=not text)
    out = []
    if calls:
        for d in calls[:-1]:
            out.append(f".It Fn {d.name}")
        out += [f".It Fn {calls[-1].name}"] + text
    return out, others, text


def page(header, name, present, date, version):
    out = [".\\\" SPDX-License-Identifier: MIT", f".\\\" Made from the comments of <{header.name}>.",
           f".Dd {date}", f".Dt {name.upper()} 3", ".Os", ".Sh NAME"]
    names = [d.name for e in header.entries for d in e.declarations
             if d.kind == "function" and d.name in e.names and d.name != name]
    shown = [name] + names[:8]
    out += [f".Nm {n} ," for n in shown[:-1]] + [f".Nm {shown[-1]}"]
    brief = header.title.split(". ")[0].rstrip(".")
    out += [f".Nd {textwrap.shorten(brief, 70, placeholder='...')}", ".Sh LIBRARY", "ukmem",
            ".Pq libukmem, \\-lukmem", ".Sh SYNOPSIS", f".In {header.name}"]
    seen = set()
    for e in header.entries:
        for d in e.declarations:
            if d.kind in ("function", "macro") and d.name not in seen:
                seen.add(d.name)
                out += function(d)
    out += [".Sh DESCRIPTION"] + paragraphs(header.intro, first=True)
    functions = set(header.functions())
    out += [".Ss Functions and types"]
    seen, in_list = set(), False
    heading = len(out)
    for e in header.entries:
        items, others, text = entry(e, seen, functions)
        if items:
            if not in_list:
                out += [".Bl -tag -width Ds"]
                in_list = True
            out += items
            text = []
        elif in_list and (text or others):
            out += [".El"]
            in_list = False
        if not items and text and not others:
            out += [".Pp"] * (len(out) > heading) + text
        if others:
            constants = [d for d in others if d.kind == "constant"]
            if constants == others and not items:
                if not in_list:
                    out += [".Bl -tag -width Ds"]
                    in_list = True
                out += [f".It Dv {d.name}" for d in constants] + text
            else:
                out += [".Pp"] * bool(text and not items and len(out) > heading) + (text if not items else [])
                out += literal("\n".join("#define " + d.text if d.kind == "constant" else d.text
                                         for d in others).expandtabs(8).split("\n"))
    if in_list:
        out += [".El"]
    others = sorted(p for h, p in PAGES.items() if p != name and h in present)
    out += [".Sh SEE ALSO"] + [f".Xr {p} 3 ," for p in others] + [".Xr libukmem-malloc 7"]
    out += [".Sh AUTHORS", ".An The ukmem authors", f"wrote ukmem {version}."]
    # An empty line is no line of mdoc.
    return "\n".join(l for block in out for l in block.split("\n")) + "\n"


def aliases(header, name):
    """Functions for which man(1) should show this page."""
    return sorted({d.name for e in header.entries for d in e.declarations
                   if d.kind in ("function", "macro") and d.name != name and not d.name.startswith("_")})


def write(include, folder, date, version):
    """Writes pages and aliases into @folder. Result: names of the files."""
    names, found = [], list(headers.public(include))
    present = {h.name.removeprefix("ukmem/") for h in found}
    for header in found:
        name = PAGES.get(header.name.removeprefix("ukmem/"))
        if not name:
            continue
        (folder / f"{name}.3").write_text(page(header, name, present, date, version))
        names.append(f"{name}.3")
        for alias in aliases(header, name):
            if not (folder / f"{alias}.3").exists():
                (folder / f"{alias}.3").write_text(f".so man3/{name}.3\n")
                names.append(f"{alias}.3")
    return names
