"""Sphinx configuration: Markdown pages, and an API reference generated from the docstrings."""

import re

from scalefit import __version__

project = "scalefit"
author = "the scalefit authors"
copyright = "2026, the scalefit authors"
version = release = __version__

extensions = [
    "myst_parser",
    "sphinx.ext.apidoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.mathjax",
]
myst_enable_extensions = ["dollarmath", "amsmath", "colon_fence"]
myst_heading_anchors = 3
exclude_patterns = ["_build"]

html_theme = "furo"
html_title = "scalefit"

apidoc_modules = [
    {
        "path": f"../{package}",
        "destination": f"reference/api/{package}",
        "separate_modules": True,
        "module_first": True,
        "exclude_patterns": ["**/cli/**"],
        "automodule_options": {"members", "show-inheritance"},
    }
    for package in ("scalefit", "toy_models")
]
autodoc_member_order = "bysource"
autodoc_typehints = "none"  # the docstrings give types with shapes and units
suppress_warnings = ["ref.python"]  # words of a described type, such as "columns", that name several attributes
napoleon_google_docstring = False
napoleon_use_ivar = True  # else dataclass fields would be described twice


def skip_imported(app, what, _name, obj, _skip, _options):
    """Describe an object where it is defined, not again in each package that passes it on."""
    home = getattr(obj, "__module__", None)
    elsewhere = what == "module" and home not in (None, app.env.current_document.autodoc_module)
    return True if elsewhere else None


def keep_bars(_app, _what, _name, _obj, _options, lines):
    """Take the bars of an absolute value literally; reStructuredText would read |x| as a substitution."""
    in_literal_block = False
    for i, line in enumerate(lines):
        if line and not line.startswith(" "):
            in_literal_block = False
        if not in_literal_block:
            pieces = re.split(r"(``.+?``|:math:`.+?`)", line)
            pieces[::2] = [piece.replace("|", "\\|") for piece in pieces[::2]]
            lines[i] = "".join(pieces)
        in_literal_block = in_literal_block or line.rstrip().endswith("::")


def setup(app):
    app.connect("autodoc-process-docstring", keep_bars)
    app.connect("autodoc-skip-member", skip_imported)
