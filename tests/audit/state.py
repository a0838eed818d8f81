"""The state file of a run: what was asked, and the result of each episode that is done.

JSON, written anew after each episode and put in place by rename, so a run can be ended at any time
and taken up again with --resume.
"""

import json
import os

VERSION = 1


class State:
    """asked: the dict of what shapes the run; results: {episode index: result}."""

    def __init__(self, path, asked):
        self.path = path
        self.asked = asked
        self.facts = {}  # Machine, versions, date: of the last session.
        self.results = {}

    @classmethod
    def load(cls, path):
        with open(path, encoding="utf-8") as file:
            data = json.load(file)
        if data.get("version") != VERSION:
            raise ValueError(f'"{path}" is not a state file of version {VERSION}')
        state = cls(path, data["asked"])
        state.facts = data["facts"]
        state.results = {result["index"]: result for result in data["results"]}
        return state

    def save(self):
        if not self.path:
            return
        fresh = self.path + ".new"
        with open(fresh, "w", encoding="utf-8") as out:
            json.dump({"version": VERSION, "asked": self.asked, "facts": self.facts,
                       "results": [self.results[i] for i in sorted(self.results)]}, out, indent=1)
            out.flush()
            os.fsync(out.fileno())
        os.replace(fresh, self.path)

    def add(self, result):
        self.results[result["index"]] = result
        self.save()

    def open_episodes(self, episodes):
        """Those that are not done; one that could not be carried out is tried again."""
        return [episode for episode in episodes
                if "error" in self.results.get(episode.index, {"error": "not done"})]
