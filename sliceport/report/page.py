"""HTML pages of one file that load nothing: their templates, their style, and their content security policy."""

from __future__ import annotations

import base64
import hashlib
from importlib import resources
from typing import TYPE_CHECKING, Any

from sliceport import __version__
from sliceport.errors import MissingExtra
from sliceport.report.table import printable

if TYPE_CHECKING:
    from jinja2 import Template


def open_template(name: str, **filters: Any) -> Template:
    """Return a template, such as `report/check.html`, that escapes texts, makes them printable, and can use `filters`.

    Raises:
        MissingExtra: jinja2 is not installed.
    """
    try:
        import jinja2
    except ImportError:
        raise MissingExtra.of("jinja2", "batch", "by --html") from None

    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(read_text),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=lambda value: printable(value) if type(value) is str else value,  # keeps Markup, a subclass of str
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"hash": _csp_hash, **filters}
    environment.globals |= {"style": read_text("report/page.css"), "version": __version__}
    return environment.get_template(name)


def read_text(name: str) -> str:
    """Return the text of a file in the package `sliceport`, such as `report/page.css`."""
    return (resources.files("sliceport") / name).read_text(encoding="utf-8")


def _csp_hash(text: str) -> str:
    """Return the hash of an inline script or style for the content security policy."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode('ascii')}"
