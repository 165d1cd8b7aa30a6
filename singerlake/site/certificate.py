"""The certificate of an erasure as one page that makes no request to anywhere."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from singerlake.site.render import Renderer


def page(found: Mapping[str, Any], name: str, digest: str, signature: str) -> bytes:
    """Render the page.

    Args:
        found: What ``singerlake.ops.erase.certificate`` made.
        name: The name of the JSON file with the same content.
        digest: The SHA-256 of that file.
        signature: The signature of that file, with armor; empty if there is none.
    """
    file = {"name": name, "digest": digest, "signature": signature}
    renderer = Renderer("html", "Certificate of erasure")
    return renderer.alone("certificate", found=found, file=file)
