"""What the tests share.

They run against a real node, whose URL is in HOLDFAST_TEST_URL; each test has a
queue of its own.
"""

import http.server
import itertools
import json
import os
import socket
import threading
import time
import unittest
from urllib.parse import urlsplit

URL = os.environ.get("HOLDFAST_TEST_URL", "http://127.0.0.1:7780")

_numbers = itertools.count()


def new_queue() -> str:
    """A queue that no other test has."""
    return f"py-{os.getpid()}-{time.time_ns()}-{next(_numbers)}"


def eventually(what, f):
    """Waits until f returns something true, and returns it."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        found = f()
        if found:
            return found
        time.sleep(0.02)
    raise AssertionError(f"not within a minute: {what}")


def unused() -> str:
    """A URL at which nobody answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return f"http://127.0.0.1:{server.getsockname()[1]}"


class Case(unittest.TestCase):
    """A test with servers that end with it."""

    def fake(self, f) -> str:
        """A server that answers as f(method, path, headers, body) says: status, headers, body."""

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def answer(self):
                text = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                found = f(self.command, self.path, self.headers, json.loads(text) if text else None)
                if found is None:  # it never comes
                    over.wait()
                    return
                status, headers, body = found
                data = body.encode() if isinstance(body, str) else json.dumps(body).encode()
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            do_GET = do_POST = do_PATCH = do_DELETE = answer

            def log_message(self, *args):
                pass

        over = threading.Event()
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever)
        thread.start()

        def end():
            over.set()
            server.shutdown()
            thread.join()
            server.socket.close()

        self.addCleanup(end)
        return f"http://127.0.0.1:{server.server_address[1]}"

    def dropping(self, drops: int) -> "Dropping":
        """A proxy in front of the node that loses the first answers."""
        proxy = Dropping(drops)
        self.addCleanup(proxy.close)
        return proxy


class Dropping:
    """A proxy in front of the node.

    It breaks the first connections off, as many as drops says, when the node's
    answer has come and before any of it is handed on.
    """

    def __init__(self, drops: int) -> None:
        self.drops = drops
        self.dropped = 0
        self._sockets: list[socket.socket] = []
        self._server = socket.create_server(("127.0.0.1", 0))
        self._thread = threading.Thread(target=self._accept)
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.getsockname()[1]}"

    def _accept(self) -> None:
        threads = []
        target = urlsplit(URL)
        while True:
            try:
                near, _ = self._server.accept()
            except OSError:
                break
            far = socket.create_connection((target.hostname, target.port))
            self._sockets += [near, far]
            for f in (self._there, self._back):
                thread = threading.Thread(target=f, args=(near, far))
                thread.start()
                threads.append(thread)
        for thread in threads:
            thread.join()

    def _there(self, near: socket.socket, far: socket.socket) -> None:
        try:
            while data := near.recv(1 << 16):
                far.sendall(data)
        except OSError:
            pass
        _shut(far)

    def _back(self, near: socket.socket, far: socket.socket) -> None:
        try:
            while data := far.recv(1 << 16):
                if self.dropped < self.drops:
                    self.dropped += 1
                    _shut(far)
                    break
                near.sendall(data)
        except OSError:
            pass
        _shut(near)

    def cut(self) -> None:
        """Ends all connections."""
        for sock in self._sockets:
            _shut(sock)

    def close(self) -> None:
        """Ends all connections and threads."""
        _shut(self._server)
        self._server.close()
        self.cut()
        self._thread.join()
        for sock in self._sockets:
            sock.close()


def _shut(sock: socket.socket) -> None:
    try:
        sock.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass
