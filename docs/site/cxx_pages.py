# SPDX-License-Identifier: MIT
"""Writes a page of the site for each public header of C++, with its program of docs/examples, in reStructuredText.

An entry is a comment /** ... */ and the declarations behind it, up to an empty line or the next comment. What is in
the namespace detail has none.
"""
import dataclasses
import pathlib
import re

import api_pages
import examples
import headers


@dataclasses.dataclass
class Member:
    level: int  # 0: of the namespace; 1: of a class
    names: str
    text: list  # Paragraph
    parameters: list
    declarations: list  # lines


def is_class(text):
    return bool(re.match(r"(template <.*> )?(class|struct) ", text[0].strip()))


def code_of(lines, i):
    """(the declaration at @lines[i], the index of the line behind it and its body); of a class its first line."""
    text = []
    while True:
        line = lines[i]
        i += 1
        if line.strip() == "{" or re.match(r"\s+: \w", line):
            break
        text.append(re.sub(r"(\)(?: noexcept)?) : \w+\(.*", r"\1", line))
        if line.rstrip().endswith(";"):
            return text, i
    if is_class(text):
        return text, i
    while not re.fullmatch(r"\s*\}", lines[i - 1]):
        i += 1
    text[-1] += ";"
    return text, i


def entry(comment):
    """(names, paragraphs, parameters) of a comment."""
    lines = headers.comment_lines(comment)
    lines[0] = lines[0].removeprefix("class ")
    found = headers.read_entry(lines, [])
    if not found:
        return "", headers.paragraphs(lines), []
    # A call at the beginning keeps its letters.
    brief = headers.Paragraph([headers.sentence(found.brief, re.findall(r"^(\w+)\(", found.brief))], False)
    return ", ".join(found.names), [brief, *found.body], found.parameters


def members(text):
    text = re.sub(r"^namespace detail$.*?^\} // namespace detail$", "", text, flags=re.M | re.S)
    lines, found, i = text.split("\n"), [], 0
    while i < len(lines):
        if not lines[i].lstrip().startswith("/**"):
            i += 1
            continue
        begin = i
        while "*/" not in lines[i]:
            i += 1
        i += 1
        names, paragraphs, parameters = entry("\n".join(lines[begin:i]))
        declarations = []
        while lines[i].strip() and not lines[i].lstrip().startswith("/*"):
            more, i = code_of(lines, i)
            declarations += more
            if is_class(more):
                break
        indent = len(lines[begin]) - len(lines[begin].lstrip("\t"))
        found.append(Member(indent, names, paragraphs, parameters,
                            [line.removeprefix("\t" * indent).expandtabs(8) for line in declarations]))
    return found


def example(name):
    """The program of docs/examples for this header, from its second line on; None: there is none."""
    path = examples.FOLDER / f"{name}.cpp"
    return path.read_text().expandtabs(8).rstrip("\n").split("\n")[1:] if path.exists() else None


def page(path):
    lines = path.read_text()
    name = path.name
    intro = headers.comment_lines(re.search(r"/\*\n \* <ukmem/.*?\*/", lines, re.S)[0])
    title = re.sub(r"^<[^>]*> - ", "", intro[0])
    out = [name, "=" * len(name), "", f"``#include <ukmem/{name}>``", "", api_pages.prose(headers.sentence(title)), ""]
    out += api_pages.body(headers.paragraphs(intro[1:]))
    found = members(lines)
    if found:
        out += ["Classes and functions", "---------------------", ""]
    for one in found:
        text = api_pages.literal(one.declarations, "cpp") + api_pages.body(one.text[:1])
        text += [f":``{parameter}``: {api_pages.prose(what)}" for parameter, what in one.parameters]
        text += [""] * bool(one.parameters) + api_pages.body(one.text[1:])
        out += text if not one.level else api_pages.indent(text)
    out += ["An example", "----------", "", f"*docs/examples/{path.stem}.cpp*, which a test runs:", "",
            *api_pages.literal(example(path.stem), "cpp")]
    return title, "\n".join(out) + "\n"


def missing(include):
    """Headers of C++ without an example, or whose comments tell nothing."""
    found = sorted((include / "ukmem").glob("*.hpp"))
    assert len(found) > 5, found
    return [path.name for path in found if not example(path.stem)
            or not members(path.read_text()) and path.name != "ukmem.hpp"]


def write(include, folder):
    """Writes the pages, and names them in the overview. Result: how many."""
    out = ["", "Headers of C++", "--------------", "",
           "For C++17 and later, over the functions above; :doc:`/docs/languages` is the entrance.", ""]
    found = sorted((include / "ukmem").glob("*.hpp"), key=lambda path: path.name)
    for path in found:
        title, text = page(path)
        (folder / f"{path.stem}_hpp.rst").write_text(text)
        out += [f":doc:`{path.stem}_hpp`", "   " + api_pages.prose(headers.sentence(title)), ""]
    overview = folder / "index.rst"
    overview.write_text(overview.read_text() + "\n".join(out) + "\n")
    return len(found)
