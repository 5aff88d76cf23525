"""The nodes that a client knows."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Union
from urllib.parse import urlsplit


class Nodes:
    """The nodes, and the one that the client thinks is the primary."""

    def __init__(self, urls: Union[str, Sequence[str]]) -> None:
        given = urls.split(",") if isinstance(urls, str) else list(urls)
        self._all = [node_url(text) for text in given]
        if not self._all:
            raise ValueError("no URL of a node is given")
        self._at = 0
        self._lock = threading.Lock()

    @property
    def current(self) -> str:
        with self._lock:
            return self._all[self._at]

    @property
    def hops(self) -> int:
        """How often a call goes on to another node."""
        with self._lock:
            return len(self._all) + 1

    def leave(self, from_url: str, to: str = "") -> bool:
        """Goes on from a node that is not the primary, or does not answer.

        The next is the one that it named, if any. False: there is no other.
        """
        try:
            named = node_url(to)
        except ValueError:
            named = ""
        with self._lock:
            if self._all[self._at] != from_url:  # another call has done it
                return True
            if named and named != from_url:
                if named not in self._all:
                    self._all.append(named)
                self._at = self._all.index(named)
                return True
            self._at = (self._at + 1) % len(self._all)
            return len(self._all) > 1


def node_url(text: str) -> str:
    """The URL of a node in its plain form."""
    wrong = ValueError(f"{text!r} is not the URL of a node; write it like http://127.0.0.1:7780")
    try:
        url = urlsplit(text.strip())
        url.port  # raises when it is no number  # noqa: B018
    except ValueError:
        raise wrong from None
    if url.scheme not in ("http", "https") or not url.hostname:
        raise wrong
    return f"{url.scheme}://{url.netloc}{url.path}".rstrip("/")
