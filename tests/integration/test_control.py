"""Commands to a running relay over its control socket."""

import json
import os
import signal
import socket
import stat
import subprocess

import pytest

from support.cleanup import wait_until
from support.relay import EXIT_CONFIGURATION, EXIT_FATAL, EXIT_OK, EXIT_USAGE, binary, environment

PLUGINS = pytest.mark.parametrize("plugin", ["pgoutput", "wal2json"])


def command(relay, *words, socket_path=None):
    """Run `outrider WORDS` against the relay; by its configuration unless a path is given."""
    where = ["--socket", socket_path] if socket_path else ["-c", relay.config_path]
    return subprocess.run([binary(), *words, *where], capture_output=True, text=True, timeout=60,
                          check=False, env=environment())


def status(relay):
    """The one pipeline of `outrider status --json`."""
    done = command(relay, "status", "--json")
    assert done.returncode == EXIT_OK, done.stderr
    return json.loads(done.stdout)["pipelines"][0]


def answering(r):
    """Start the relay and wait for its socket, not for database and Kafka."""
    r.start(wait_ready=False)
    wait_until(lambda: command(r.relay, "status").returncode == EXIT_OK, 20, "the control socket")
    return r


@pytest.fixture
def controlled(rig, tmp_path):
    """A rig whose relay has a control socket at .path."""
    def make(**options):
        path = str(tmp_path / "relay.sock")
        made = rig(config={"control": {"socket": path}}, **options)
        made.path = path
        return made

    return make


@PLUGINS
def test_status_says_what_the_relay_does(controlled, plugin):
    r = controlled(plugin=plugin).start()
    r.insert("one", "two")
    r.wait_confirmed()
    wait_until(lambda: status(r.relay)["counters"]["events_published"] == 2, 10, "two events")
    found = status(r.relay)
    assert found["name"] == "test" and found["ready"] and found["role"] == "active"
    assert found["phase"] == "streaming" and not found["paused_by_operator"]
    assert found["guarantee"] == "at_least_once"
    assert found["slot"] == r.slot and found["plugin"] == plugin
    assert found["in_flight_records"] == 0 and found["stop_error"] is None
    assert found["confirmed_lsn"] == found["flushed_lsn"]
    text = command(r.relay, "status").stdout
    assert "pipeline test: ready, streaming" in text and "2 of 2 produced" in text


@PLUGINS
def test_pause_holds_rows_back_and_resume_sends_them(controlled, plugin):
    """Acknowledgements and statuses go on while paused; nothing is lost or twice."""
    r = controlled(plugin=plugin).start()
    r.insert("one")
    r.expect(["one"])
    done = command(r.relay, "pause")
    assert (done.returncode, done.stdout) == (EXIT_OK, "pipeline test is paused\n")
    r.insert("two", "three")
    # Every row up to the pause is in; the position of the next ones stays where it is.
    r.relay.wait_for_log("paused by an operator")
    assert status(r.relay)["paused_by_operator"]
    before = r.relay.metric("outbox_events_published_total")
    with pytest.raises(TimeoutError):
        wait_until(lambda: r.relay.metric("outbox_events_published_total") > before, 2, "a row")
    assert "paused" in command(r.relay, "status").stdout
    done = command(r.relay, "resume")
    assert (done.returncode, done.stdout) == (EXIT_OK, "pipeline test goes on\n")
    r.expect(["one", "two", "three"])
    assert not status(r.relay)["paused_by_operator"]


def test_a_paused_relay_stops_cleanly_and_the_next_one_goes_on(controlled):
    r = controlled().start()
    assert command(r.relay, "pause").returncode == EXIT_OK
    r.insert("one")
    assert r.relay.stop() == EXIT_OK
    r.relay.start()
    r.expect(["one"])


def test_the_socket_is_for_its_user_and_goes_with_the_relay(controlled):
    r = answering(controlled())
    assert stat.S_IMODE(os.stat(r.path).st_mode) == 0o600
    assert r.relay.stop() == EXIT_OK
    assert not os.path.exists(r.path)


def test_the_socket_of_a_killed_relay_is_replaced(controlled):
    r = answering(controlled())
    r.relay.kill()
    assert os.path.exists(r.path)
    done = command(r.relay, "status")
    assert done.returncode == EXIT_FATAL and "no relay answers at" in done.stderr
    answering(r)
    assert status(r.relay)["name"] == "test"


def test_a_second_relay_does_not_take_the_socket_of_a_living_one(controlled):
    r = answering(controlled())
    with r.another_relay() as second:
        second.start(wait_ready=False)
        assert second.wait() == EXIT_CONFIGURATION
        assert "a running process answers there" in second.log_text()
        assert "control.socket of its own" in second.log_text()
    assert status(r.relay)["name"] == "test"


def test_a_standby_says_that_it_is_one(controlled, tmp_path):
    r = controlled().start()
    with r.another_relay(config={"control": {"socket": str(tmp_path / "b.sock")}}) as standby:
        standby.start()
        wait_until(lambda: status(standby)["role"] == "standby", 10, "the standby")
        assert status(r.relay)["role"] == "active"
        done = command(standby, "dead-letters", "list")
        assert done.returncode in (EXIT_FATAL, EXIT_CONFIGURATION), done.stdout


def test_clients_that_ask_nothing_or_read_nothing_do_not_hold_rows_up(controlled):
    r = controlled().start()
    idle = []
    for _ in range(12):
        client = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        client.connect(r.path)
        idle.append(client)
    r.insert("one")
    r.expect(["one"])
    # The idle ones are dropped after a while; then there is room again.
    wait_until(lambda: command(r.relay, "status").returncode == EXIT_OK, 15, "room for a command")
    for client in idle:
        client.close()


def test_plain_tools_can_ask_too(controlled):
    r = answering(controlled())
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        client.connect(r.path)
        client.sendall(b'{"v":1,"command":"status"}')
        client.shutdown(socket.SHUT_WR)
        answer = client.makefile("rb").read()
    assert json.loads(answer)["result"]["pid"] == r.relay.pid


def test_wrong_words_give_their_own_exit_codes(controlled):
    r = answering(controlled())
    assert command(r.relay, "status", "--pipeline", "other").returncode == EXIT_CONFIGURATION
    assert command(r.relay, "dead-letters", "retry").returncode == EXIT_USAGE
    assert command(r.relay, "dead-letters", "list", "--older-than", "soon").returncode == EXIT_USAGE
    assert command(r.relay, "dead-letters", "list", "--reason", "bad").returncode == EXIT_USAGE
    assert command(r.relay, "dead-letters").returncode == EXIT_USAGE
    done = command(r.relay, "status", socket_path="/nowhere/relay.sock")
    assert done.returncode == EXIT_FATAL
    assert r.relay.stop(signal.SIGINT) == EXIT_OK
