#!/usr/bin/env python3
"""Example of a relay for `./dev audit --relay-command 'outrider_wrapper.py {config}'`.

Reads the settings, writes the relay's own configuration, and becomes the relay.
"""

import json
import os
import sys


def main(config_path):
    with open(config_path, encoding="utf-8") as file:
        settings = json.load(file)
    config = {"version": 1, "http": {"listen": ""}, "pipelines": [{
        "name": "audit",
        "source": {"dsn": settings["dsn"], "slot": settings["slot"], "create_slot": True,
                   "publication": settings["publication"], "plugin": settings["plugin"],
                   "reconnect_max_ms": 500, "silence_probe_ms": 1000,
                   "wal_sender_timeout_ms": 3000},
        "outbox": {"tables": [settings["table"]]},
        "route": {"replacement": settings["topic_prefix"] + "${routedByValue}"},
        "kafka": {"bootstrap_servers": settings["bootstrap_servers"]},
    }]}
    own = os.path.join(os.path.dirname(config_path), f"outrider-{os.getpid()}.json")
    with open(own, "w", encoding="utf-8") as out:
        json.dump(config, out)
    binary = os.environ["OUTRIDER_BIN"]
    environment = {k: v for k, v in os.environ.items() if not k.startswith("OUTRIDER_")}
    os.execve(binary, [binary, "run", "-c", own], environment)


if __name__ == "__main__":
    main(sys.argv[1])
