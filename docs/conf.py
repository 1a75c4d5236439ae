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
    "sphinx_gallery.gen_gallery",
    "formulas",
    "reference",
]
root_doc = "index"
external_toc_path = "_site/toc.yml"
exclude_patterns = ["_site", "comparison.md", "figures/table*.md", "tutorials"]

myst_enable_extensions = ["dollarmath", "deflist"]
myst_heading_anchors = 4
math_number_all = False
html_math_renderer = "mathml"

html_theme = "furo"
html_title = f"airfl {release}"
templates_path = ["_site/templates"]
html_static_path = ["_site/static"]
html_css_files = ["site.css"]
html_js_files = ["scrolling.js"]
html_show_sphinx = False
html_copy_source = False

# Every build runs the scripts in tutorials/ again, since their results depend on all of airfl; -D plot_gallery=0 builds
# their pages without results. Pages, notebooks and figures are written to gallery/, which git ignores.
sphinx_gallery_conf = {
    "examples_dirs": "tutorials",
    "gallery_dirs": "gallery",
    "within_subsection_order": "FileNameSortKey",
    "run_stale_examples": True,
    "abort_on_example_error": True,
    "download_all_examples": False,
    "write_computation_times": False,
    "min_reported_time": float("inf"),
    "show_signature": False,
    "backreferences_dir": None,
    "capture_repr": (),
    "thumbnail_size": (480, 300),
}

autodoc_typehints = "signature"
napoleon_numpy_docstring = False
napoleon_use_ivar = False  # document each attribute as a separate entry
autodoc_member_order = "bysource"
autodoc_default_options = {"members": True}

ROOT_FILE = re.compile(r"\]\(\.\./((?:\.\./)*)(CONTRIBUTING|CHANGELOG)\.md")
TUTORIALS = "](tutorials/README.rst"
AFTER_THE_THEME = 900
"""Priority of a handler that runs after that of the theme, which makes the navigation."""
TREE_OF_TUTORIALS = re.compile(r"\.\. toctree::\n(?: .*\n|\n)+")

# The title within the link of a thumbnail is hidden by sphinx-gallery, as it stands below the picture.
THUMBNAIL = re.compile(r'(<a class="reference internal" href="plot_[^"]*")(><span class="doc">)([^<"]*)')


def setup(app: Sphinx) -> None:
    """Rewrite links to files at the repository root and to the tutorials, for which the site has pages. Remove the
    table of contents that Sphinx-Gallery writes, since it is in _site/toc.yml. Let the keyboard reach code blocks,
    which scroll, and give the headings of the navigation their level."""

    def to_pages(app: Sphinx, name: str, source: list[str]) -> None:
        text = ROOT_FILE.sub(lambda link: f"]({link[1]}{link[2].lower()}.md", source[0])
        text = text.replace(TUTORIALS, "](gallery/index.rst")
        source[0] = TREE_OF_TUTORIALS.sub("", text) if name == "gallery/index" else text

    def for_everyone(app: Sphinx, page: str, template: str, context: dict[str, str], doctree: object) -> None:
        if "body" in context:
            body = context["body"].replace("<pre>", '<pre tabindex="0">')
            context["body"] = THUMBNAIL.sub(r'\1 aria-label="\3"\2\3', body) if page == "gallery/index" else body
        tree = context.get("furo_navigation_tree", "")
        context["furo_navigation_tree"] = tree.replace('role="heading"', 'role="heading" aria-level="2"')

    app.connect("source-read", to_pages)
    app.connect("html-page-context", for_everyone, priority=AFTER_THE_THEME)
