"""Layouts of Gluon in host code, written from the text of a plan, which is hostile."""

import ast
import re

from service.export.extraction import NotExtractable
from service.export.vocabulary import LAYOUT_MAKERS

MAX_CHARS = 4096
"""Maximum length of a layout's text. The longest of the tested kernels has 120 characters."""
_NAME = re.compile("[a-z][a-z0-9_]{0,63}")


def layout(text: str) -> str:
    """Return the expression that makes a layout, such as `gluon.language.SliceLayout(dim=0, parent=...)`.

    Args:
        text: The layout as a plan has it: a constructor with named arguments, numbers, lists and other layouts.

    Raises:
        NotExtractable: If the text is anything else.
    """
    try:
        found = ast.parse(text[: MAX_CHARS + 1], mode="eval").body
        if len(text) <= MAX_CHARS and isinstance(found, ast.Call):
            return ast.unparse(_checked(found))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        pass
    raise NotExtractable(f"a launch passes {text!a:.80}, which is no layout of Gluon")


def _checked(node: ast.expr) -> ast.expr:
    match node:
        case ast.Constant(value=bool() | int() | None):
            return ast.Constant(node.value)
        case ast.List(elts=parts):
            return ast.List([_checked(part) for part in parts], ast.Load())
        case ast.Tuple(elts=parts):
            return ast.Tuple([_checked(part) for part in parts], ast.Load())
        case ast.Call(func=ast.Name(id=name), args=[], keywords=keywords) if name in LAYOUT_MAKERS:
            maker = ast.parse(f"gluon.{LAYOUT_MAKERS[name]}", mode="eval").body
            return ast.Call(maker, [], [ast.keyword(_plain(each.arg), _checked(each.value)) for each in keywords])
    raise ValueError("neither a number, a list nor a layout")


def _plain(name: str | None) -> str:
    if name is None or not _NAME.fullmatch(name):
        raise ValueError("an argument without a plain name")
    return name
