"""Formulas as MathML, made when the site is: browsers draw it themselves, and nothing is loaded for it."""

from __future__ import annotations

import re

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.writers.html5 import HTML5Translator

log = logging.getLogger(__name__)

# What the converter would draw otherwise than LaTeX: bars that are no fences, letters and signs that are no operators.
READ_AS = (
    (re.compile(r"\\l([vV])ert(?![A-Za-z])"), lambda bar: r"\left" + BARS[bar[1]]),
    (re.compile(r"\\r([vV])ert(?![A-Za-z])"), lambda bar: r"\right" + BARS[bar[1]]),
    (re.compile(r"\\mathcal (\w)"), lambda letter: rf"\mathcal{{{letter[1]}}}"),
)
BARS = {"v": "|", "V": r"\|"}
SIMILAR = ("<mi>&#x0007E;</mi>", "<mo>&#x0223C;</mo>")


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the renderer."""
    app.add_html_math_renderer("mathml", (inline, None), (block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def inline(translator: HTML5Translator, node: nodes.math) -> None:
    """A formula in a line."""
    translator.body.append(mathml(node, "inline"))
    raise nodes.SkipNode


def block(translator: HTML5Translator, node: nodes.math_block) -> None:
    """A formula on lines of its own."""
    translator.body.append(mathml(node, "block"))
    raise nodes.SkipNode


def mathml(node: nodes.Element, display: str) -> str:
    """The formula in MathML; one that cannot be read is a warning, which ends the build."""
    latex = node.astext().strip()
    for pattern, written in READ_AS:
        latex = pattern.sub(written, latex)
    try:
        return convert(latex, display=display).replace(*SIMILAR)
    except Exception as error:  # the converter has a dozen kinds
        log.warning("the formula %r cannot be read: %s: %s", latex, type(error).__name__, error, location=node)
        return ""
