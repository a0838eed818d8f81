"""Commands to a running relay over its control socket, as an operator gives them.

The relay needs `control.socket`; socket_in() puts one beside its other files.
"""

import json
import subprocess

from support.relay import binary, environment

TIMEOUT_S = 120


def socket_in(relay):
    """Give the relay a control socket of its own, from its next start on."""
    relay.config["control"] = {"socket": relay.directory + "/relay.sock"}
    relay.write_config()


def command(relay, *words):
    """(exit code, JSON objects of standard output, standard error) of `outrider WORDS --json`."""
    done = subprocess.run([binary(), *words, "--json", "-c", relay.config_path],
                          capture_output=True, text=True, timeout=TIMEOUT_S, check=False,
                          env=environment())
    return done.returncode, [json.loads(line) for line in done.stdout.splitlines()], done.stderr


def obeyed(relay, *words):
    """The last JSON object of a command that has to end with exit code 0."""
    code, lines, errors = command(relay, *words)
    assert code == 0, f"outrider {' '.join(words)} ended with {code}: {errors}{lines}"
    return lines[-1] if lines else {}
