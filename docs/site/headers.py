# SPDX-License-Identifier: MIT
"""Reads the public headers' comments: what every function does, for the site and the man pages.

A header begins with a comment that introduces it ("<ukmem/slab.h> - what it is for."). An entry is
a comment that begins with names and a dash, and the declarations that follow it up to an empty line or the
next comment:

    /** kfree, kvfree - what they do
     *
     * More about it.
     */
    declarations
"""
import dataclasses
import pathlib
import re

# Expanded or left out, so that a declaration reads as a manual shows it.
ANNOTATION = re.compile(
    r"\b(?:UKMEM_EXPORT|UKMEM_MALLOC|UKMEM_OBJECT|UKMEM_ASKED|UKMEM_COLD|UKMEM_INLINE|inline|static)\b"
    r"|\bUKMEM_(?:SYMBOL|ALLOC_SIZE|PRINTF)\([^()]*\)"
    r"|__attribute__\(\((?:[^()]|\([^()]*\))*\)\)")
ENTRY = re.compile(r"(?P<names>(?:struct )?\w+(?:, \w+)*) - (?P<brief>.*)", re.S)
# Declared in public headers for macros and inline functions, not for programs.
PRIVATE = re.compile(
    r"UKMEM_|ukmem_(?:percpu_(?!mode$|info$)|this_cpu|per_cpu|raw_cpu)|ALF_QUEUE_SINGLE|ukmem_alloc_tag(?:s_(?:un)?register|_take|_settle)$"
    r"|alf_queue_(?:single_|side|index|ring|copy|place|in_a_row|put|get|room|advance|sp$|sc$)")


@dataclasses.dataclass
class Paragraph:
    """Prose, or lines that keep their layout: tables and code."""
    lines: list
    literal: bool

    def text(self):
        return "\n".join(self.lines) if self.literal else " ".join(l.strip() for l in self.lines)


@dataclasses.dataclass
class Declaration:
    kind: str  # function, macro, struct, enum, typedef, constant
    name: str
    text: str


@dataclasses.dataclass
class Entry:
    names: list
    brief: str
    parameters: list  # (name, text)
    body: list  # Paragraph
    declarations: list
    section: bool = False  # text between entries


@dataclasses.dataclass
class Header:
    path: pathlib.Path
    name: str  # ukmem/slab.h
    title: str
    intro: list  # Paragraph
    entries: list

    def functions(self):
        """Names of functions and function-like macros that programs call."""
        return [d.name for e in self.entries for d in e.declarations
                if d.kind in ("function", "macro") and not PRIVATE.match(d.name)]


def comment_lines(text):
    """The text of a comment, without its frame; tabs stand for eight columns."""
    lines = []
    for line in text.strip().removeprefix("/**").removeprefix("/*").removesuffix("*/").split("\n"):
        line = line.rstrip()
        if line.lstrip().startswith("*"):
            # A tab moves on to the next multiple of eight columns of the source.
            line = line.lstrip().removeprefix("*").expandtabs(8) if "\t" not in line else \
                line.expandtabs(8).lstrip().removeprefix("*")
        lines.append(line.removeprefix(" ") if line.startswith(" ") else line)
    while lines and not lines[0].strip():
        lines.pop(0)
    while lines and not lines[-1].strip():
        lines.pop()
    return lines


def is_literal(lines):
    """Tables and code are indented, or have columns."""
    columns = sum(bool(re.search(r"\S {3,}\S", l)) for l in lines)
    indented = all(l.startswith("  ") for l in lines)
    return indented or columns * 2 >= len(lines) and columns > 0


def paragraphs(lines):
    out, current = [], []
    for line in lines + [""]:
        if line.strip():
            current.append(line)
        elif current:
            literal = is_literal(current)
            if literal and out and out[-1].literal:
                out[-1].lines += [""] + current
            else:
                out.append(Paragraph(current, literal))
            current = []
    for p in out:
        if p.literal:
            cut = min(len(l) - len(l.lstrip()) for l in p.lines if l.strip())
            p.lines = [l[cut:] for l in p.lines]
    return out


def parameter_list(lines):
    """Takes the lines "@name: text" from the front; text goes on in indented lines."""
    found = []
    while lines:
        match = re.match(r"@(\w+):\s*(.*)", lines[0])
        if match:
            found.append([match[1], match[2]])
        elif found and lines[0].startswith("  "):
            found[-1][1] += " " + lines[0].strip()
        else:
            break
        lines.pop(0)
    return [tuple(p) for p in found]


def read_entry(lines, declarations):
    text = "\n".join(lines)
    first, _, rest = text.partition("\n\n")
    head, sep, params = first.partition("\n@")
    # Further names, each with its own line.
    others_named = re.findall(r"^(\w+) - ", head, re.M)[1:]
    head = re.sub(r"\n(\w+) - ", r"; ", head)
    match = ENTRY.match(head)
    if not match:
        return None
    rest = (sep.lstrip("\n") + params + "\n\n" + rest).strip("\n").split("\n")
    parameters, others = [], []
    for block in "\n".join(rest).split("\n\n"):
        block = block.split("\n")
        parameters += parameter_list(block)
        if any(l.strip() for l in block):
            others += block + [""]
    names = match["names"].removeprefix("struct ").split(", ")
    names += others_named
    return Entry(names, " ".join(match["brief"].split()), parameters, paragraphs(others), declarations)


def skip_body(lines, i):
    """The index of the line after an inline function's body or a structure."""
    depth = 0
    while i < len(lines):
        depth += lines[i].count("{") - lines[i].count("}")
        i += 1
        if depth == 0 and (lines[i - 1].startswith("}") or "}" in lines[i - 1]):
            return i
    return i


def declare(lines, i):
    """The declaration that begins at @lines[i]. Result: (Declaration or None, next index)."""
    line = lines[i]
    if line.startswith("#define"):
        while line.endswith("\\"):
            i += 1
            line = line[:-1] + " " + lines[i]
        name = re.match(r"#define\s+(\w+)(\([^)]*\))?", line)
        if not name or PRIVATE.match(name[1]):
            return None, i + 1
        kind = "macro" if name[2] is not None else "constant"
        value = "" if kind == "macro" else line[name.end():]
        value = re.sub(r"\s*/\*.*", "", value).strip()
        return Declaration(kind, name[1], (name[1] + (name[2] or "") + (" " + value if value else "")).strip()), i + 1
    if line.startswith("#"):
        while lines[i].endswith("\\"):
            i += 1
        return None, i + 1
    if line.startswith(("}", "UKMEM_BEGIN", "UKMEM_END", "__asm__", "{")):
        return None, i + 1
    if re.match(r"(?:typedef )?(?:struct|enum)\b[^;(]*\{?$", line) and (line.endswith("{") or lines[i + 1:i + 2] == ["{"]):
        end = skip_body(lines, i)
        text = "\n".join(lines[i:end])
        name = re.match(r"(?:typedef )?(struct|enum)\s*(\w*)", line)
        return None if PRIVATE.match(name[2]) else Declaration(name[1], name[2], text), end
    if "=" in line and "(" not in line:
        return None, i + 1
    text = line
    while not re.search(r"[;{]\s*(?:/\*.*)?$", text) and i + 1 < len(lines) and lines[i + 1] != "{":
        i += 1
        text += " " + lines[i].strip()
    if i + 1 < len(lines) and lines[i + 1] == "{":
        nxt = skip_body(lines, i + 1)
    elif re.search(r"\{\s*$", text):
        nxt = skip_body(lines, i)
    else:
        nxt = i + 1
    text = re.sub(r"/\*.*?\*/", "", text)
    text = " ".join(ANNOTATION.sub(" ", text.rstrip(" ;{")).split()).rstrip(";").strip()
    if re.fullmatch(r"struct \w+", text):
        return None, nxt
    name = re.search(r"\(?\b(\w+)\)?\s*\(", text)
    if not name or text.startswith(("extern", "typedef")):
        if text.startswith("typedef") and name:
            inner = re.search(r"\((\w+)\)", text)
            return Declaration("typedef", inner[1] if inner else "", text), nxt
        return None, nxt
    if PRIVATE.match(name[1]):
        return None, nxt
    return Declaration("function", name[1], text.replace(" (" + name[1] + ")", " " + name[1])), nxt


def read(path, root):
    """The Header at @path; @root is the folder that programs include from."""
    lines = path.read_text().split("\n")
    comments, entries, i = [], [], 0
    current, fresh = None, False
    while i < len(lines):
        line = lines[i]
        if line.lstrip().startswith("/*") and not line.startswith(("\t", " ")):
            end = i
            while "*/" not in lines[end]:
                end += 1
            text = "\n".join(lines[i:end + 1])
            i = end + 1
            if "SPDX" in text:
                continue
            body = comment_lines(text)
            comments.append(body)
            found = read_entry(body, []) if text.startswith("/**") or ENTRY.match(body[0] if body else "") else None
            if len(comments) == 1:
                continue
            current = found or Entry([], "", [], paragraphs(body), []) if text.startswith("/**") or not found else found
            if not text.startswith("/**") and not found:
                current = Entry([], "", [], paragraphs(body), [])
            entries.append(current)
            fresh = True
            continue
        if not line.strip():
            # What follows an empty line without a comment belongs to no entry. A comment with an
            # empty line behind it is about what comes next in general.
            if not fresh:
                current = None
            elif current and not current.names:
                current.section, current = True, None
            fresh = False
            i += 1
            continue
        fresh = False
        declaration, i = declare(lines, i)
        if declaration:
            if current is None:
                current = Entry([], "", [], [], [])
                entries.append(current)
            current.declarations.append(declaration)
    name = str(path.relative_to(root))
    intro = comments[0] if comments else []
    title = " ".join(intro[:next((n for n, l in enumerate(intro) if not l.strip()), len(intro))])
    rest = intro[next((n for n, l in enumerate(intro) if not l.strip()), len(intro)):]
    title = re.sub(r"^<[^>]*> - ", "", title)
    return Header(path, name, title, paragraphs(rest), [e for e in entries if e.declarations or e.names or e.section and e.body])


def sentence(brief, names=()):
    """A brief text as a sentence; a name at its beginning, with an underscore or one of @names, keeps its letters."""
    first = re.match(r"\w*", brief)[0]
    if first.isalpha() and first not in names:
        brief = brief[:1].upper() + brief[1:]
    return brief.rstrip(".") + "."


def public(root):
    """All public headers below @root/ukmem, but for those that say they are parts of others."""
    parts = {"ukmem.h", "compiler.h", "alloc_tag_calls.h", "percpu_ops.h"}
    for path in sorted((root / "ukmem").glob("*.h")):
        if path.name not in parts:
            header = read(path, root)
            if path.name == "percpu.h":
                header.entries += read(root / "ukmem/percpu_ops.h", root).entries
            yield header


if __name__ == "__main__":
    import sys
    for h in public(pathlib.Path(sys.argv[1])):
        print("==", h.name, "-", h.title)
        for e in h.entries:
            print("  ", e.names, "|", e.brief, "|", [p[0] for p in e.parameters], [(d.kind, d.name) for d in e.declarations])
