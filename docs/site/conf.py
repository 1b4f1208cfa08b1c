# SPDX-License-Identifier: MIT
"""Sphinx' settings for the site; docs/site/build copies this file beside the pages."""
project = "ukmem"
copyright = "the ukmem authors, MIT licence"
extensions = ["myst_parser"]
myst_heading_anchors = 3
myst_enable_extensions = ["colon_fence"]
html_theme = "furo"
html_title = "ukmem"
html_copy_source = False
html_show_sphinx = False
html_static_path = ["static"]
html_css_files = ["site.css"]
pygments_style = "default"
# A block without a language is a table or a report; docs/site/build marks those that are commands.
highlight_language = "none"
c_id_attributes = []
exclude_patterns = ["build"]
# Names of types that no page describes: the standard's, and structures without public members.
nitpicky = False
