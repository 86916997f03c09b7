"""Ends all ranks when one ends: none is left waiting in a collective.

Each rank keeps one connection to rank 0 open, which the kernel closes with the
process, however that dies. Rank 0 then says in one sentence who is gone, and
every rank leaves with exit code 1. A rank that comes to its end says so
first, and nothing happens.
"""

from __future__ import annotations

import atexit
import os
import secrets
import selectors
import socket
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

_LEFT = b"left"        # came to its end
_FAILED = b"failed "   # with an exception, whose first line follows
_END = b"\n"
_EXIT_CODE = 1
_CONNECT_SECONDS = 20.0
# How long a rank whose collective failed waits to be told that another one is gone, before it shows its own traceback.
_PATIENCE_SECONDS = 3.0
# Words in what PyTorch says when a rank at the other end of a collective is gone.
_TRANSPORT_WORDS = ("gloo", "nccl", "connection", "peer", "socket", "store", "timed out")


class Watch:
    """One rank's end of the watch."""

    def __init__(self, rank: int, sockets: dict[int, socket.socket]):
        self._rank = rank
        self._sockets = sockets  # rank 0's: by rank; another rank's: the one to rank 0
        self._owner = os.getpid()
        self._failure: str | None = None
        self._shown = sys.excepthook
        sys.excepthook = self._on_exception
        atexit.register(self._leave)
        os.register_at_fork(after_in_child=self._forget)
        threading.Thread(target=self._follow, name="meshwright watch", daemon=True).start()

    @property
    def failed(self) -> bool:
        """Whether this rank is ending with an exception."""
        return self._failure is not None

    @classmethod
    def start(cls, rank: int, ranks: int, from_rank_0: Callable[[Any], Any]) -> Watch | None:
        """Connect all ranks; ``from_rank_0`` broadcasts a value. None where rank 0 can't be reached."""
        token = secrets.token_hex(16).encode()
        host = os.environ.get("MASTER_ADDR") or socket.gethostname()
        server = None
        if rank == 0:
            local = host in ("localhost", "127.0.0.1", "::1")
            server = socket.create_server(("127.0.0.1" if local else "", 0), backlog=ranks)
            host, port, token = from_rank_0(("127.0.0.1" if local else host, server.getsockname()[1], token))
            sockets = _accept(server, ranks, token)
            server.close()
        else:
            host, port, token = from_rank_0(None)
            sockets = _connect(rank, host, port, token)
        # All ranks or none: a watch that some do not take part in would end the others.
        whole = from_rank_0(len(sockets) == ranks - 1)
        if not whole:
            for one in sockets.values():
                one.close()
            return None
        return cls(rank, sockets)

    # --- on the thread ---

    def _follow(self) -> None:
        heard: dict[int, bytes] = {rank: b"" for rank in self._sockets}
        with selectors.DefaultSelector() as selector:
            for rank, connection in self._sockets.items():
                selector.register(connection, selectors.EVENT_READ, rank)
            while selector.get_map():
                for key, _ in selector.select():
                    try:
                        received = key.fileobj.recv(4096)
                    except OSError:
                        received = b""
                    heard[key.data] += received
                    if received and _END not in received:
                        continue
                    selector.unregister(key.fileobj)
                    self._gone(key.data, heard[key.data].split(_END)[0])

    def _gone(self, rank: int, words: bytes) -> None:
        if words == _LEFT:
            return
        told = words.startswith(_FAILED)
        # Rank 0 tells of all others; of rank 0, if it could not do so itself, rank 1 does.
        if self._rank == 0 or (self._rank == 1 and not told):
            why = f"stopped with {words.removeprefix(_FAILED).decode(errors='replace')}" if told else \
                "ended without a word (it was killed, or ran out of memory)"
            os.write(2, f"meshwright: error: rank {rank} {why}; all ranks end\n".encode())
        self._tell(_FAILED)  # so that rank 1 does not tell of rank 0
        os._exit(_EXIT_CODE)  # the main thread may wait in a collective for ever

    def _tell(self, words: bytes) -> None:
        for connection in self._sockets.values():
            try:
                connection.sendall(words + _END)
            except OSError:
                pass  # that rank has left before

    # --- on the main thread ---

    def _on_exception(self, kind: type[BaseException], error: BaseException, traceback: Any) -> None:
        text = f"{kind.__name__}: {error}".splitlines()[0]
        if issubclass(kind, RuntimeError) and any(word in str(error).lower() for word in _TRANSPORT_WORDS):
            time.sleep(_PATIENCE_SECONDS)  # the thread ends this process if it learns that another rank is gone
        self._failure = text
        self._shown(kind, error, traceback)

    def _leave(self) -> None:
        if os.getpid() != self._owner:
            return
        self._tell(_LEFT if self._failure is None else _FAILED + self._failure[:500].encode())

    def _forget(self) -> None:
        """In a forked child, such as a loader's worker: its copies would keep the connections open."""
        for connection in self._sockets.values():
            connection.close()


def _accept(server: socket.socket, ranks: int, token: bytes) -> dict[int, socket.socket]:
    sockets: dict[int, socket.socket] = {}
    deadline = time.monotonic() + _CONNECT_SECONDS
    while len(sockets) < ranks - 1 and (left := deadline - time.monotonic()) > 0:
        server.settimeout(left)
        try:
            connection, _ = server.accept()
            connection.settimeout(max(0.1, deadline - time.monotonic()))
            said = connection.makefile("rb").readline(100).split()
        except OSError:
            continue
        if len(said) == 2 and secrets.compare_digest(said[0], token):
            connection.settimeout(None)
            sockets[int(said[1])] = connection
        else:
            connection.close()
    return sockets


def _connect(rank: int, host: str, port: int, token: bytes) -> dict[int, socket.socket]:
    try:
        connection = socket.create_connection((host, port), timeout=_CONNECT_SECONDS)
        connection.sendall(token + b" " + str(rank).encode() + b"\n")
    except OSError:
        return {}
    connection.settimeout(None)
    return {0: connection}
