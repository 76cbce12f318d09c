"""Every byte of a store, wherever it is."""

from __future__ import annotations

import fsspec


def tree(url: str) -> dict[str, bytes]:
    """Return every file below a URL, by its path there."""
    fs, root = fsspec.core.url_to_fs(url)
    fs.invalidate_cache()
    return {path.removeprefix(root).lstrip("/"): fs.cat_file(path) for path in fs.find(root)}
