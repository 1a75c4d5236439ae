"""Sphinx configuration of the documentation site (make docs), which loads nothing from elsewhere when opened."""

import re
import sys
from pathlib import Path

from sphinx.application import Sphinx

sys.path.insert(0, str(Path(__file__).parent / "_site"))

from airfl.version import __version__

project = "airfl"
author = "The airfl authors"
copyright = "The airfl authors, Apache 2.0"
release = version = __version__

# The last two extensions are in _site/: formulas as MathML, and the generated reference pages.
extensions = [
    "myst_parser",
    "sphinx_external_toc",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
    "formulas",
    "reference",
]
root_doc = "index"
external_toc_path = "_site/toc.yml"
exclude_patterns = ["_site", "comparison.md", "figures/table*.md"]

myst_enable_extensions = ["dollarmath", "deflist"]
myst_heading_anchors = 4
math_number_all = False
html_math_renderer = "mathml"

html_theme = "furo"
html_title = f"airfl {release}"
html_static_path = ["_site/static"]
html_css_files = ["site.css"]
html_show_sphinx = False
html_copy_source = False
pygments_style = "friendly"

autodoc_typehints = "signature"
napoleon_numpy_docstring = False
napoleon_use_ivar = False  # document each attribute as a separate entry
autodoc_member_order = "bysource"
autodoc_default_options = {"members": True}

ROOT_FILE = re.compile(r"\]\(\.\./((?:\.\./)*)(CONTRIBUTING|CHANGELOG)\.md")


def setup(app: Sphinx) -> None:
    """Rewrite links to files at the repository root, for which the site has pages."""

    def to_pages(app: Sphinx, name: str, source: list[str]) -> None:
        source[0] = ROOT_FILE.sub(lambda link: f"]({link[1]}{link[2].lower()}.md", source[0])

    app.connect("source-read", to_pages)
