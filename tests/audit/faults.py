"""How each kind of fault is done. A function takes the episode and the step, and returns when the
cause is over (or, for a fault without an end, when it has struck); the episode then waits for
records. The name of the function is the name of the kind in plan.py.
"""

import os
import signal
import time

from audit.stage import PATIENCE_S
from support.cleanup import wait_until

# After a freeze, what was in the sockets still arrives; then the standby must bring the rest.
_IN_SOCKETS_S = 0.4
_STANDBY_START_S = 0.8
_HALF_OPEN_S = 6


class NotPossible(Exception):
    """This fault cannot be had with this relay or on this machine; it does not count."""


def hold(episode, step):
    """Keep the outage for the step's time; in some, kill the relay in the middle of it."""
    time.sleep(step.hold_s / 2)
    if step.relay_too:
        episode.relay.kill()
        episode.relay.start()
    time.sleep(step.hold_s / 2)


def relay_kill(episode, _step):
    episode.relay.kill()
    episode.relay.start()


def relay_freeze(episode, step):
    episode.relay.freeze()
    time.sleep(step.hold_s)
    episode.relay.thaw()


def relay_zombie(episode, step):
    """The standby takes over, then the frozen one thaws and believes that it is still the one."""
    zombie, standby = episode.relay, episode.start_standby()
    time.sleep(_STANDBY_START_S)
    zombie.freeze()
    try:
        time.sleep(_IN_SOCKETS_S)
        base = episode.flow.now()
        episode.relay = standby
        episode.flow.wait_more(base, episode.flowing_by)
        episode.resumed()
        time.sleep(step.hold_s)
        if step.quiet:
            episode.load.stop()
            episode.wait_drained()
    finally:
        zombie.thaw()
    time.sleep(1.5)
    if zombie.is_up():
        zombie.stop(PATIENCE_S)
    episode.note_exit(zombie.exit_code(), asked=True)
    episode.spare = zombie


def relay_rolling(episode, _step):
    """SIGTERM for the one, the other waits already."""
    old, standby = episode.relay, episode.start_standby()
    time.sleep(_STANDBY_START_S)
    episode.start_window()
    episode.relay = standby
    episode.note_exit(old.stop(PATIENCE_S), asked=True)
    episode.spare = old


def relay_standby(episode, step):
    """A second relay that has nothing to do must not disturb the first."""
    standby = episode.start_standby()
    time.sleep(step.hold_s)
    if standby.is_up():
        standby.stop(PATIENCE_S)
    episode.note_exit(standby.exit_code(), asked=True)
    episode.spare = standby


def broker_kill(episode, step):
    episode.stage.kafka.kill()
    hold(episode, step)
    episode.stage.kafka.start(PATIENCE_S)


def broker_freeze(episode, step):
    episode.stage.kafka.freeze()
    hold(episode, step)
    episode.stage.kafka.thaw()


def broker_restart(episode, _step):
    episode.stage.kafka.stop()
    episode.stage.kafka.start(PATIENCE_S)


def _walsender(episode):
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        pid = episode.stage.walsender(episode.name)
        if pid:
            return pid
        if not episode.uses_walsender:
            break
        time.sleep(0.05)
    raise NotPossible("no walsender holds the slot")


def walsender_kill(episode, step):
    os.kill(_walsender(episode), signal.SIGKILL)
    hold(episode, step)
    episode.stage.wait_database()


def walsender_freeze(episode, step):
    pid = _walsender(episode)
    os.kill(pid, signal.SIGSTOP)
    time.sleep(step.hold_s)
    try:
        os.kill(pid, signal.SIGCONT)
    except ProcessLookupError:
        pass


def walsender_terminate(episode, _step):
    episode.stage.cluster.query("SELECT pg_terminate_backend(%s)", (_walsender(episode),))


def postgres_immediate(episode, step):
    episode.stage.cluster.stop("immediate")
    hold(episode, step)
    episode.stage.cluster.start(PATIENCE_S)


def postgres_restart(episode, _step):
    episode.stage.cluster.restart("fast", PATIENCE_S)


def link_cut(episode, step):
    """The connection is reset when it has brought so many bytes more: in the middle of a message.
    """
    proxy = episode.stage.proxy
    proxy.cut_after(step.cut_after)
    try:
        wait_until(lambda: not proxy.waits_to_cut(), 30, "bytes to cut in", 0.002)
    except TimeoutError:
        raise NotPossible("too few bytes came through the proxy") from None


def link_half_open(episode, step):
    """All connections of now carry nothing any more; new ones work."""
    episode.stage.proxy.swallow_present()
    base = episode.flow.now()
    if step.relay_too:
        time.sleep(0.5)
        episode.relay.kill()
        episode.relay.start()
    try:
        episode.flow.wait_more(base, 2 * episode.flowing_by, timeout_s=_HALF_OPEN_S)
    except TimeoutError:
        pass  # The peer would have noticed by now; the network comes back as a reset.
    episode.stage.proxy.restore()


def link_latency(episode, step):
    episode.stage.proxy.latency_s = step.latency_s
    time.sleep(step.hold_s)
    episode.stage.proxy.latency_s = 0.0


def disk_full(episode, step):
    """Kafka ends itself when its only disk refuses a write."""
    stage = episode.stage
    if stage.disk is None:
        raise NotPossible("no disk can be mounted here")
    stage.disk.fill()
    try:
        wait_until(lambda: not stage.kafka.running(), 8, "the broker to end", 0.05)
        episode.windows[-1].note = "the broker ended itself"
    except TimeoutError:
        episode.windows[-1].note = "the broker went on, refusing"
    time.sleep(step.hold_s)
    stage.kafka.kill()
    stage.disk.clear()
    stage.kafka.start(PATIENCE_S)
