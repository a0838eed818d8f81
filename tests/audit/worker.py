"""A worker process of the audit: takes episodes from standard input, one JSON a line, and answers.

Each answer is a line of JSON: {"progress": …} after a fault, {"result": …} after an episode.
"""

import dataclasses
import json
import sys
import traceback

from audit.episode import CannotRun, Episode, Options
from audit.plan import EpisodePlan, Step
from audit.stage import Stage


def _say(**what):
    print(json.dumps(what), flush=True)


def plan_from(data):
    """An EpisodePlan from its JSON form."""
    return EpisodePlan(**{**data, "steps": [Step(**step) for step in data["steps"]]})


def run_episode(stage, plan, options):
    """The result of one episode; (result, whether the stage is still good)."""
    empty = {"index": plan.index, "plugin": plan.plugin, "guarantee": plan.guarantee}
    try:
        episode = Episode(stage, plan, options, lambda window: _say(
            progress={"index": plan.index, **dataclasses.asdict(window)}))
        return episode.run(), True
    except CannotRun as error:
        return {**empty, "error": str(error)}, False
    except TimeoutError as error:
        return {**empty, "stuck": str(error)}, False
    except Exception:
        return {**empty, "error": traceback.format_exc()}, False


def main(options):
    stage = None
    for line in sys.stdin:
        plan = plan_from(json.loads(line))
        if stage is None:
            stage = Stage(disk=options.disk)
        result, good = run_episode(stage, plan, options)
        _say(result=result)
        if not good:
            stage.close()
            stage = None
    if stage is not None:
        stage.close()


if __name__ == "__main__":
    try:
        main(Options(**json.loads(sys.argv[1])))
    except KeyboardInterrupt:
        sys.exit(130)  # A signal; what was started is ended at exit.
