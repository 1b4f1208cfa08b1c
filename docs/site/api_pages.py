# SPDX-License-Identifier: MIT
"""Writes a page of the site for each public header, in reStructuredText."""
import pathlib
import re

import examples
import headers

LINKS = {}  # names of functions that have an entry


def prose(text, name_links=True):
    """Prose of a comment in reStructuredText: names become literals, calls become links."""
    out = []

    def add(mark):
        # An escaped space stands where neither white space nor a bracket does.
        if re.search(r"[^\s'\"(\[{<\-/:]$", out[-1]) and not out[-1].endswith("\\ "):
            out.append("\\ ")
        out.append(mark + "\\ ")

    for token in re.split(r"(`[^`]*`|\"[^\"]*\"|\*?@\w+(?:\[[^\]]*[\])])?|<ukmem/[\w.]+>|\b\w+\(\d?\)|\b\w*_\w*\b\*?|\w+)", text):
        if token.startswith("`"):
            add("``" + token.strip("`") + "``")
        elif token.startswith(("@", "*@")):
            add("``" + token.replace("@", "", 1) + "``")
        elif re.fullmatch(r"\w+\(\)", token) and token[:-2] in LINKS and name_links:
            add(":c:func:`" + token[:-2] + "`")
        elif re.fullmatch(r"\w+\(\d?\)", token) or re.fullmatch(r"\w*_\w*\*?", token) or token.startswith("<ukmem/"):
            add("``" + token + "``")
        else:
            out.append(re.sub(r"([\\*|`])", r"\\\1", token))
    text = "".join(out)
    # An escaped space ends a literal before a letter; before anything else it is not needed.
    return re.sub(r"\\ (?=[\s.,;:)\]/'\"]|$)", "", text)


def literal(lines, language="none"):
    return [f".. code-block:: {language}", ""] + ["   " + l for l in lines] + [""]


def is_code(lines):
    return all(l.split("/*")[0].rstrip().endswith((";", "{", "}", ")", ",")) or not l.split("/*")[0].strip()
               for l in lines)


def body(paragraphs):
    out = []
    for p in paragraphs:
        out += literal(p.lines, "c" if is_code(p.lines) else "none") if p.literal else [prose(p.text()), ""]
    return out


def indent(lines):
    return ["   " + l if l else "" for l in lines]


def definitions(e, constants):
    """Constants with what they mean."""
    terms = " ".join(f"``{c.text}``" if len(constants) == 1 else f"``{c.name}``" for c in constants)
    text = [l for l in body(e.body) if l is not None]
    return [terms] + indent(text) + [""]


def entry(e, seen, shown):
    out = []
    calls = [d for d in e.declarations if d.kind in ("function", "macro") and d.name not in seen]
    others = [d for d in e.declarations if d.kind not in ("function", "macro")]
    seen.update(d.name for d in calls)
    text = [prose(headers.sentence(e.brief, LINKS)), ""] if e.brief else []
    for name, what in e.parameters:
        text.append(f":param {name}: {prose(what)}")
    text += [""] if e.parameters else []
    text += body(e.body)
    if calls:
        # All signatures, then the text once, below the last of them. Macros after functions.
        kinds = sorted({d.kind for d in calls})
        for kind in kinds:
            signatures = [d.text for d in calls if d.kind == kind]
            out.append(f".. c:{kind}:: " + signatures[0])
            out += [" " * len(f".. c:{kind}:: ") + s for s in signatures[1:]] + [""]
        for snippet in examples.snippets([d.name for d in calls], shown):
            text += [f"*{snippet.file}*:", ""] + literal(snippet.lines, "c")
        out += indent(text)
    else:
        out += text
    constants = [d for d in others if d.kind == "constant"]
    if others and constants == others and not calls and not e.names:
        return definitions(e, constants)
    if others:
        code = [d.text if d.kind not in ("constant",) else "#define " + d.text for d in others]
        out += literal("\n".join(code).expandtabs(8).split("\n"), "c")
    return out + [""]


def page(header):
    title = header.name.removeprefix("ukmem/")
    out = [title, "=" * len(title), "", f"``#include <{header.name}>``", ""]
    out += [prose(headers.sentence(header.title, LINKS)), ""]
    out += body(header.intro)
    out += ["Functions and types", "-------------------", ""]
    seen, shown = set(), set()
    for e in header.entries:
        out += entry(e, seen, shown)
    return "\n".join(out) + "\n"


def write(include, folder):
    """Writes the pages of the headers below @include into @folder. Result: their names."""
    found = list(headers.public(include))
    LINKS.update((d.name, True) for h in found for e in h.entries for d in e.declarations
                 if d.kind == "function")
    folder.mkdir(parents=True, exist_ok=True)
    names = []
    for h in found:
        name = pathlib.Path(h.name).stem
        (folder / f"{name}.rst").write_text(page(h))
        names.append(name)
    (folder / "index.rst").write_text(overview(found))
    return names


def overview(found):
    """A page with what each header is for, and the functions that it has."""
    out = ["Headers and functions", "=====================", "",
           "Each header can be included alone. Each function has an example on its header's page, a part of a program in",
           "``docs/examples`` that a test runs. :doc:`/docs/contexts` says which function may be called where.", ""]
    for h in found:
        calls = {d.name: {"function": "func", "macro": "macro"}[d.kind] for e in h.entries for d in e.declarations
                 if d.kind in ("function", "macro")}
        out += [f":doc:`{pathlib.Path(h.name).stem}`", "   " + prose(headers.sentence(h.title, LINKS)), ""]
        if calls:
            out += ["   " + " ".join(f":c:{kind}:`{name}`" for name, kind in calls.items()), ""]
    return "\n".join(out) + "\n"
