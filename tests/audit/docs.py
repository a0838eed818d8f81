"""docs/AUDIT.md: how the audit works, how to repeat it, and the tables of the runs."""

import os

from audit import report

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PATH = os.path.join("docs", "AUDIT.md")
_TEMPLATE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "AUDIT.template.md")
_MARK = "<!-- results -->\n"


def _section(state, command_of):
    results = list(state.results.values())
    groups = report.groups(results)
    failures = [text for group in groups
                for text in group.failures(state.asked["ignore"],
                                           state.asked["duplicates_per_kill"])]
    parts = [f"### {state.facts['date']}: {', '.join(sorted({g.guarantee for g in groups}))}, "
             f"{sum(g.kills for g in groups):,} kills\n",
             f"```sh\n{command_of(state.asked)}\n```\n",
             f"{state.facts['versions']}; {state.facts['machine']}; "
             f"{state.facts['parallel']} at a time; {len(results)} of "
             f"{state.facts['episodes']} episodes.\n",
             report.markdown(report.summary_rows(groups)) + "\n"]
    parts += [f"{group.title}:\n\n{report.markdown(report.kind_rows(group))}\n"
              for group in groups]
    parts.append("Everything holds.\n" if not failures else
                 "Does not hold:\n\n" + "\n".join(f"- {_short(text)}" for text in failures) + "\n")
    return "\n".join(parts)


def _short(text):
    return text.splitlines()[0]


def write_docs(states, command_of):
    """Write the page with one section for each run; returns its path."""
    with open(_TEMPLATE, encoding="utf-8") as file:
        text = file.read()
    sections = "\n".join(_section(state, command_of) for state in states)
    with open(os.path.join(ROOT, PATH), "w", encoding="utf-8") as out:
        out.write(text.replace(_MARK, sections))
    return PATH
