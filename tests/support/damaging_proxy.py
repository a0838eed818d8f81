"""A TcpProxy that damages one row on its way from PostgreSQL, each time it is sent.

The row's text column holds exactly MARK. With pgoutput the kind of that column becomes one that no
version knows, with wal2json the string an escape that JSON has not; lengths stay as they are. The
other way round it can keep the relay's standby status messages from the server, which then hears of
no position.
"""

import re

from support.tcp_proxy import TcpProxy

MARK = b"~damaged-on-the-way~"
_COLUMN = b"t" + len(MARK).to_bytes(4, "big") + MARK
# A shorter piece at the end of what came is let through: any message may end like that.
_PIECE_MIN = 5
# CopyData of 38 bytes: 'r', three positions, a time, a flag.
_STATUS = re.compile(rb"d\0\0\0\x26r.{33}", re.DOTALL)


class DamagingProxy(TcpProxy):
    """damaged counts the rows, kept_back the status messages while keep_statuses is set."""

    def __init__(self, target_port, plugin):
        self._whole, self._broken = {
            "pgoutput": (_COLUMN, b"z" + _COLUMN[1:]),
            "wal2json": (MARK, b"~damaged\\on-the-way~"),
        }[plugin]
        assert len(self._whole) == len(self._broken)
        self._kept = {}
        self.damaged = 0
        self.keep_statuses = False
        self.kept_back = 0
        super().__init__(target_port)

    def _pass(self, link, data, from_server):
        if from_server:
            data = self._kept.pop(link, b"") + data
            self.damaged += data.count(self._whole)
            data = data.replace(self._whole, self._broken)
            # The rest of a mark that is cut in two comes with the next read.
            for size in range(len(self._whole) - 1, _PIECE_MIN - 1, -1):
                if data.endswith(self._whole[:size]):
                    self._kept[link], data = data[-size:], data[:-size]
                    break
        elif self.keep_statuses:
            data, count = _STATUS.subn(b"", data)
            self.kept_back += count
        return super()._pass(link, data, from_server)
