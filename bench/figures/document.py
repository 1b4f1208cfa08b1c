# SPDX-License-Identifier: MIT
"""Sections of pictures and tables, as one self-contained HTML page and as Markdown."""

import html
from typing import NamedTuple

STYLE = """
:root { color-scheme: light; }
body { font: 15px/1.5 "Liberation Sans", Arial, Helvetica, sans-serif; color: #1a1a1a;
  background: #fff; max-width: 62rem; margin: 0 auto; padding: 1.5rem; }
h1 { font-size: 1.7rem; margin: 0 0 .3rem; }
h2 { font-size: 1.25rem; margin: 2.4rem 0 .5rem; padding-top: .6rem; border-top: 2px solid #1a1a1a; }
nav { columns: 3; margin: 1rem 0; font-size: .9rem; }
nav a { display: block; color: #0b4f7d; }
p { max-width: 48rem; }
figure { margin: 1rem 0; break-inside: avoid; }
figure svg { width: 100%; height: auto; }
.table { overflow: auto; max-height: 36rem; margin: .6rem 0 1.2rem; border: 1px solid #ccc; }
table { border-collapse: collapse; font-size: .8rem; font-variant-numeric: tabular-nums;
  width: 100%; }
caption { text-align: left; font-weight: bold; padding: .4rem .5rem; }
th, td { padding: .15rem .5rem; text-align: right; border-top: 1px solid #ddd; white-space: nowrap; }
thead th { white-space: normal; vertical-align: bottom; }
th { background: #f1f1f1; position: sticky; top: 0; }
th:first-child, td:first-child, .words td, .words th { text-align: left; }
.words { max-height: none; width: fit-content; }
ul.verdicts { padding-left: 1.2rem; }
.bad { font-weight: bold; }
@media print { body { font-size: 10pt; max-width: none; padding: 0; } nav { display: none; }
  .table { max-height: none; overflow: visible; border: 0; } th { position: static; }
  table { font-size: 7pt; } tr { break-inside: avoid; } h2 { break-after: avoid; } }
"""


class Table(NamedTuple):
    """Of text. A table of figures has an id, by which a test finds it."""
    id: str
    caption: str
    header: list
    rows: list
    words: bool = False  # of words, not of figures

    def html(self):
        def row(fields, kind):
            return "<tr>" + "".join(f"<{kind}>{html.escape(str(field))}</{kind}>"
                                    for field in fields) + "</tr>"

        head = f"<thead>{row(self.header, 'th')}</thead>" if any(self.header) else ""
        return (f'<div class="table{" words" if self.words else ""}"><table id="{self.id}"><caption>{html.escape(self.caption)}'
                f"</caption>{head}<tbody>"
                + "\n".join(row(fields, "td") for fields in self.rows)
                + "</tbody></table></div>")

    def markdown(self):
        def row(fields):
            return "| " + " | ".join(str(field).replace("|", "\\|") for field in fields) + " |"

        return "\n".join([f"**{self.caption}**", "", row(self.header),
                          "|" + "---|" * len(self.header), *map(row, self.rows)])


class Picture(NamedTuple):
    """An SVG without prolog, and what it shows in words; svg is "" without matplotlib."""
    id: str
    title: str
    svg: str

    def html(self):
        if not self.svg:
            return ""
        label = html.escape(self.title, quote=True)
        return f'<figure id="{self.id}" role="img" aria-label="{label}">{self.svg}</figure>'


class Section(NamedTuple):
    id: str
    title: str
    text: str  # what was measured and how to read it
    verdicts: list  # a sentence each: figures beside their targets
    pictures: list
    tables: list

    def html(self):
        verdicts = "".join(f"<li>{html.escape(line)}</li>" for line in self.verdicts)
        parts = [f'<section id="{self.id}"><h2>{html.escape(self.title)}</h2>',
                 f"<p>{html.escape(self.text)}</p>",
                 f'<ul class="verdicts">{verdicts}</ul>' if verdicts else "",
                 *(picture.html() for picture in self.pictures),
                 *(table.html() for table in self.tables), "</section>"]
        return "\n".join(part for part in parts if part)

    def markdown(self):
        parts = [f"## {self.title}", self.text]
        if self.verdicts:
            parts.append("\n".join(f"- {line}" for line in self.verdicts))
        return "\n\n".join([*parts, *(table.markdown() for table in self.tables[:1])])


class Document(NamedTuple):
    title: str
    subtitle: str
    warnings: list
    sections: list
    failed: list

    def failures(self):
        return self.failed

    def pictures(self):
        """[(name, a file of its own)]"""
        head = '<?xml version="1.0" encoding="utf-8" standalone="no"?>\n'
        return [(picture.id, head + picture.svg + "\n") for section in self.sections
                for picture in section.pictures if picture.svg]

    def html(self):
        links = "".join(f'<a href="#{section.id}">{html.escape(section.title)}</a>'
                        for section in self.sections)
        failures = "".join(f'<p class="bad">{html.escape(line)}</p>'
                           for line in [*self.warnings, *(f"failed: {line}" for line in self.failed)])
        body = "\n".join(section.html() for section in self.sections)
        return (f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
                f'<meta name="viewport" content="width=device-width, initial-scale=1">'
                f"<title>{html.escape(self.title)}</title><style>{STYLE}</style></head><body>\n"
                f"<h1>{html.escape(self.title)}</h1>\n<p>{html.escape(self.subtitle)}</p>\n"
                f"{failures}<nav>{links}</nav>\n{body}\n</body></html>\n")

    def markdown(self):
        """The verdicts, and the first table of each section: the page has the others."""
        failures = [f"**failed**: {line}" for line in self.failed]
        return "\n\n".join([f"# {self.title}", self.subtitle, *(f"**{line}**" for line in self.warnings), *failures,
                            *(section.markdown() for section in self.sections)]) + "\n"
