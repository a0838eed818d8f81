"""A TCP forwarder between the relay and a server, under the test's control.

It can cut all connections at once or after so many bytes (so in the middle of a message), swallow
everything in both directions while the sockets stay open (a half-open link: nobody hears of the
loss; all connections, or only those of now), and add latency. Threads: one that accepts, two for
each connection; the calls may come from any thread.
"""

import socket
import struct
import threading
import time

from support import cleanup

_CHUNK = 16 * 1024


class TcpProxy:
    """Listens on a free loopback port and forwards to 127.0.0.1:target_port."""

    def __init__(self, target_port, target_host="127.0.0.1"):
        self._target = (target_host, target_port)
        self._lock = threading.Lock()
        self._links = []
        self._swallowing = False
        self._cut_after = None
        self.latency_s = 0.0
        self.accepted = 0
        self.cuts = 0
        self.port = cleanup.free_port()
        self._listener = socket.create_server(("127.0.0.1", self.port), backlog=64)
        self._open = True
        self._cancel_cleanup = cleanup.at_exit(self._destroy)
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self):
        """Reset every connection now; new ones are taken."""
        with self._lock:
            links, self._links = self._links, []
        for link in links:
            link.reset()

    def cut_after(self, count):
        """Reset whichever connection next brings the count of bytes from the server to this."""
        with self._lock:
            self._cut_after = count

    def waits_to_cut(self):
        return self._cut_after is not None

    def swallow(self):
        """Take everything and pass on nothing, in both directions, also for new connections."""
        with self._lock:
            self._swallowing = True

    def swallow_present(self):
        """Like swallow for the connections of now only: whoever connects again gets through."""
        with self._lock:
            for link in self._links:
                link.lossy = True

    def restore(self):
        """Forward again. What was swallowed is lost, so the connections of that time are reset."""
        with self._lock:
            self._swallowing = False
            lost = [link for link in self._links if link.lossy]
        for link in lost:
            link.reset()

    def close(self):
        self._destroy()
        self._cancel_cleanup()

    def __enter__(self):
        return self

    def __exit__(self, *_unused):
        self.close()

    # Inside -----------------------------------------------------------------------------------

    def _accept(self):
        while self._open:
            try:
                client, _address = self._listener.accept()
            except OSError:
                return
            self.accepted += 1
            try:
                server = socket.create_connection(self._target, timeout=10)
                server.settimeout(None)
            except OSError:
                _reset(client)
                continue
            link = _Link(self, client, server)
            with self._lock:
                self._links.append(link)
            link.start()

    def _pass(self, link, data, from_server):
        """(what of data may go on, whether the link is cut behind it)."""
        with self._lock:
            if self._swallowing or link.lossy:
                link.lossy = True
                return b"", False
            if not from_server or self._cut_after is None:
                return data, False
            if len(data) < self._cut_after:
                self._cut_after -= len(data)
                return data, False
            data, self._cut_after = data[:self._cut_after], None
            self.cuts += 1
            return data, True

    def _forget(self, link):
        with self._lock:
            if link in self._links:
                self._links.remove(link)

    def _destroy(self):
        self._open = False
        self._listener.close()
        self.cut()


class _Link:
    def __init__(self, proxy, client, server):
        self._proxy = proxy
        self._client = client
        self._server = server
        self.lossy = False
        for end in (client, server):
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def start(self):
        for source, sink, from_server in ((self._client, self._server, False),
                                          (self._server, self._client, True)):
            threading.Thread(target=self._pump, args=(source, sink, from_server),
                             daemon=True).start()

    def reset(self):
        self._proxy._forget(self)
        _reset(self._client)
        _reset(self._server)

    def _pump(self, source, sink, from_server):
        try:
            while data := source.recv(_CHUNK):
                if self._proxy.latency_s:
                    time.sleep(self._proxy.latency_s)
                data, cut = self._proxy._pass(self, data, from_server)
                if data:
                    sink.sendall(data)
                if cut:
                    break
            else:
                if not self.lossy:
                    sink.shutdown(socket.SHUT_WR)
                return
        except OSError:
            pass
        self.reset()


def _reset(end):
    """Close with RST: nothing in flight arrives, and the peer learns of it at once."""
    try:
        end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        end.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass
    end.close()
