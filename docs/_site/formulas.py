"""Render formulas as MathML when the site is built: browsers display it without loading any script."""

from __future__ import annotations

import re

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.writers.html5 import HTML5Translator

log = logging.getLogger(__name__)

# Constructs that the converter renders differently from LaTeX: bars that are not fences, letters, and the sign ~.
READ_AS = (
    (re.compile(r"\\l([vV])ert(?![A-Za-z])"), lambda bar: r"\left" + BARS[bar[1]]),
    (re.compile(r"\\r([vV])ert(?![A-Za-z])"), lambda bar: r"\right" + BARS[bar[1]]),
    (re.compile(r"\\mathcal (\w)"), lambda letter: rf"\mathcal{{{letter[1]}}}"),
)
BARS = {"v": "|", "V": r"\|"}
SIMILAR = ("<mi>&#x0007E;</mi>", "<mo>&#x0223C;</mo>")


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the MathML renderer."""
    app.add_html_math_renderer("mathml", (inline, None), (block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def inline(translator: HTML5Translator, node: nodes.math) -> None:
    """Render an inline formula."""
    translator.body.append(mathml(node, "inline"))
    raise nodes.SkipNode


def block(translator: HTML5Translator, node: nodes.math_block) -> None:
    """Render a displayed formula."""
    translator.body.append(mathml(node, "block"))
    raise nodes.SkipNode


def mathml(node: nodes.Element, display: str) -> str:
    """Return the formula in MathML; a formula that cannot be parsed gives a warning, which fails the build."""
    latex = node.astext().strip()
    for pattern, written in READ_AS:
        latex = pattern.sub(written, latex)
    try:
        return convert(latex, display=display).replace(*SIMILAR)
    except Exception as error:  # the converter raises a dozen different exceptions
        log.warning("cannot parse the formula %r: %s: %s", latex, type(error).__name__, error, location=node)
        return ""
