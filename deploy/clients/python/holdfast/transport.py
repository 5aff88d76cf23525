"""HTTP to the primary of a group of nodes, over connections that are kept."""

from __future__ import annotations

import http.client
import json
import socket
import ssl
import threading
import time
from dataclasses import dataclass
from typing import Any, Callable, Optional
from urllib.parse import urlencode, urlsplit

from .errors import HoldfastError, NotPrimary, Unreachable, error_of, temporary, undone
from .limits import dumps, retry_delay
from .nodes import Nodes

_MAX_ANSWER = 64 << 20
_MAX_ERROR_ANSWER = 64 << 10
_MAX_RETRY_AFTER = 5.0  # seconds of a node's wish that are heeded
_CONNECT_TIMEOUT = 5.0
_IDLE = 30.0  # seconds after which a connection is not used again
_MAX_IDLE = 64  # connections


@dataclass
class Call:
    """One request to the node."""

    method: str
    path: str
    query: Optional[dict[str, Any]] = None
    body: Any = None  # None: none
    wait: float = 0.0  # seconds that the node may hold its answer back
    limit: int = _MAX_ANSWER  # bytes of the answer
    accept: int = 0  # a status that is a success besides 2xx
    repeatable: bool = False  # to do it twice does no harm


class CallEnded(Exception):
    """A call was ended by its Cut."""


class Cut:
    """Ends a call that another thread waits for."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sock: Optional[socket.socket] = None
        self.recalled = False
        self.ended = False

    def recall(self) -> None:
        """Calls a claim back that waits for jobs.

        From then on either the node knows that its answer is not wanted, or the
        answer comes. To hang up would not do: the node may have answered just
        then, and the jobs would be in nobody's hands until their leases end, which
        costs them an attempt. So only our direction of the connection is closed:
        the node sees that, and gives jobs back that it has not sent yet; what it
        has sent is read.
        """
        self._shut(socket.SHUT_WR)

    def end(self) -> None:
        """Hangs up."""
        self.ended = True
        self._shut(socket.SHUT_RDWR)

    def _shut(self, how: int) -> None:
        with self._lock:
            self.recalled = True
            if self._sock is not None:
                try:
                    # Not that of an SSLSocket, which would forget how to decrypt.
                    socket.socket.shutdown(self._sock, how)
                except OSError:
                    pass  # it is closed already

    def attach(self, sock: Optional[socket.socket]) -> None:
        """Says which connection the call is on, before anything is sent."""
        with self._lock:
            if sock is not None and self.recalled:
                raise CallEnded("called back before it was sent")
            self._sock = sock


class Transport:
    """Sends calls. Its methods may be called from any thread."""

    def __init__(self, nodes: Nodes, token: str, timeout: float, context: Optional[ssl.SSLContext]) -> None:
        self._nodes = nodes
        self._token = token
        self._timeout = timeout
        self._context = context
        self._lock = threading.Lock()
        self._idle: list[tuple[str, float, http.client.HTTPConnection]] = []

    def close(self) -> None:
        """Closes connections that are idle."""
        with self._lock:
            idle, self._idle = self._idle, []
        for _, _, conn in idle:
            conn.close()

    def call(
        self, call: Call, after: Callable[[Any], None], tries: int, timeout: Optional[float] = None, cut: Optional[Cut] = None
    ) -> Any:
        """Sends a call and returns the value of its answer.

        One that failed for now is sent again: always if it did nothing, and if it
        did something unknown when that may happen twice.
        """
        tried = 0
        while True:
            tried += 1
            try:
                return self._hop(call, after, self._timeout if timeout is None else timeout, cut)
            except (HoldfastError, Unreachable) as err:
                again = temporary(err) and (call.repeatable or undone(err))
                if not again or tried >= tries:
                    raise
                wish = min(getattr(err, "retry_after", 0.0), _MAX_RETRY_AFTER)
                time.sleep(max(retry_delay(tried), wish))

    def _hop(self, call: Call, after: Callable[[Any], None], timeout: float, cut: Optional[Cut]) -> Any:
        # A node that is not the primary has done nothing, nor has one without a
        # connection, so the call goes on to the one that may be.
        hop = 0
        while True:
            base = self._nodes.current
            try:
                return self._once(base, call, after, timeout, cut)
            except (NotPrimary, Unreachable) as err:
                moved = self._nodes.leave(base, getattr(err, "primary", ""))
                if not undone(err) or not moved or hop >= self._nodes.hops:
                    raise
            hop += 1

    def _once(self, base: str, call: Call, after: Callable[[Any], None], timeout: float, cut: Optional[Cut]) -> Any:
        headers = {"Accept": "application/json", "User-Agent": "holdfast-python"}
        body = None
        if call.body is not None:
            body = dumps(call.body)
            headers["Content-Type"] = "application/json"
        if self._token:
            headers["Authorization"] = "Bearer " + self._token
        target = urlsplit(base).path + call.path
        if call.query:
            target += "?" + urlencode(call.query)
        conn = self._connect(base, cut)
        try:
            assert conn.sock is not None
            conn.sock.settimeout(timeout + call.wait)
            if cut is not None:
                cut.attach(conn.sock)
            conn.request(call.method, target, body, headers)
            res = conn.getresponse()
            ok = 200 <= res.status < 300 or res.status == call.accept
            limit = call.limit if ok else _MAX_ERROR_ANSWER
            text = res.read(limit + 1)
        except CallEnded:
            conn.close()
            raise
        except (OSError, http.client.HTTPException) as err:
            conn.close()
            if cut is not None and cut.ended:
                raise CallEnded("ended") from err
            reason = "no answer in time" if isinstance(err, socket.timeout) else err
            raise Unreachable(base, reason) from err
        except BaseException:
            conn.close()
            raise
        finally:
            if cut is not None:
                cut.attach(None)
        if len(text) > limit or res.will_close or (cut is not None and cut.recalled):
            conn.close()
        else:
            self._give(base, conn)
        if not ok:
            raise _read_error(res, text)
        if len(text) > limit:
            raise RuntimeError(f"{call.method} {call.path}: the answer is longer than {limit} bytes")
        try:
            value = json.loads(text)
        except ValueError as err:
            raise RuntimeError(f"{call.method} {call.path}: the answer is not that of a Holdfast node: {err}") from err
        after(res.headers)
        return value

    def _connect(self, base: str, cut: Optional[Cut]) -> http.client.HTTPConnection:
        conn = self._take(base)
        if conn is not None:
            return conn
        url = urlsplit(base)
        host = url.hostname or ""
        if url.scheme == "https":
            conn = http.client.HTTPSConnection(host, url.port, timeout=_CONNECT_TIMEOUT, context=self._context)
        else:
            conn = http.client.HTTPConnection(host, url.port, timeout=_CONNECT_TIMEOUT)
        try:
            conn.connect()
        except OSError as err:
            conn.close()
            raise Unreachable(base, err, sent=False) from err
        return conn

    def _take(self, base: str) -> Optional[http.client.HTTPConnection]:
        while True:
            with self._lock:
                at = next((i for i in reversed(range(len(self._idle))) if self._idle[i][0] == base), None)
                if at is None:
                    return None
                _, since, conn = self._idle.pop(at)
            if time.monotonic() - since < _IDLE and _alive(conn.sock):
                return conn
            conn.close()

    def _give(self, base: str, conn: http.client.HTTPConnection) -> None:
        with self._lock:
            if conn.sock is not None and len(self._idle) < _MAX_IDLE:
                self._idle.append((base, time.monotonic(), conn))
                return
        conn.close()


def _alive(sock: Optional[socket.socket]) -> bool:
    # The other end has nothing to say on an idle connection, unless it closed it.
    if sock is None:
        return False
    try:
        sock.settimeout(0)
        socket.socket.recv(sock, 1, socket.MSG_PEEK)
    except (BlockingIOError, InterruptedError):
        return True
    except OSError:
        return False
    return False


def _read_error(res: http.client.HTTPResponse, text: bytes) -> HoldfastError:
    # Turns an error answer into an error, also one that a proxy wrote.
    try:
        retry_after = float(res.headers.get("Retry-After") or 0)
    except ValueError:
        retry_after = 0.0
    try:
        body = json.loads(text)["error"]
        err = error_of(body["code"], str(body.get("message", "")), res.status, retry_after)
    except (ValueError, KeyError, TypeError):
        shown = " ".join(text.decode(errors="replace").split())
        if len(shown) > 200:
            shown = shown[:200] + "…"
        return HoldfastError(f"the answer is {res.status} {shown}".strip(), "", res.status, retry_after)
    err.primary = res.headers.get("Holdfast-Primary") or ""
    return err
