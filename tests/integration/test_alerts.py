"""Alert rules and dashboard: their unit tests pass, and every metric they name is one we have."""

import json
import os
import re
import subprocess
import sys

import pytest
import yaml

from support import promtool
from support.relay import ROOT, binary

MONITORING = os.path.join(ROOT, "monitoring")
RULES = os.path.join(MONITORING, "prometheus", "outrider-alerts.yaml")
RULE_TESTS = os.path.join(MONITORING, "prometheus", "outrider-alerts-test.yaml")
DASHBOARD = os.path.join(MONITORING, "grafana", "outrider.json")
FIVE_CASES = ("broker down", "database cut", "relay frozen or dead", "standbys only",
              "stopped on poison")
# What the issue asks for, as (expression, for) of a rule.
THRESHOLDS = {
    "OutriderPendingHigh": ("> 1000", "2m"),
    "OutriderBatchSlow": ("histogram_quantile(0.95", "2m"),
    "OutriderDeadLetters": ("outbox_dead_letters_stored) > 0", None),
}


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def rules():
    return [rule for group in yaml.safe_load(read(RULES))["groups"] for rule in group["rules"]]


def rule_tests():
    return yaml.safe_load(read(RULE_TESTS))["tests"]


def known_metrics():
    """{name: (type, labels)} as the binary itself lists its families."""
    page = subprocess.run([binary(), "metrics-docs"], capture_output=True, text=True, check=True,
                          timeout=30).stdout
    found, columns = {}, []
    for line in page.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if cells[0] == "metric":
            columns = cells
        if not line.startswith("| `outbox_"):
            continue
        row = dict(zip(columns, cells))
        name, kind, labels = row["metric"].strip("`"), row["type"], row["labels"]
        own = set(re.findall(r"`(\w+)`", labels))
        for suffix in ("_bucket", "_sum", "_count") if kind == "histogram" else ("",):
            found[name + suffix] = (kind, own | ({"le"} if suffix == "_bucket" else set()))
    assert len(found) > 30, page
    return found


def metrics_in(query):
    """(name, labels in its braces) of each metric of a query."""
    return [(name, set(re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", braces)))
            for name, braces in re.findall(r"\b(outbox_\w+)\s*(?:\{([^}]*)\})?", query)]


def check_query(query, known, where):
    """Metrics and labels exist, and a counter is asked for its growth."""
    named = metrics_in(query)
    target_labels = {"job", "instance", "__name__"}
    own = set()
    for name, labels in named:
        assert name in known, f"{where}: there is no metric {name}"
        kind, exists = known[name]
        own |= exists
        assert labels <= exists | target_labels, f"{where}: {name} has no label {labels - exists}"
        if kind in ("counter", "histogram"):
            assert re.search(rf"(rate|increase|resets|changes)\(\s*{name}\b", query), (
                f"{where}: {name} is a counter")
    for group in re.findall(r"\bby \(([^)]*)\)", query):
        asked = {label.strip() for label in group.split(",")}
        assert asked <= own | target_labels, f"{where}: by ({group})"


def test_rules_are_valid():
    done = promtool.run("check", "rules", RULES)
    assert done.returncode == 0, done.stdout
    assert f"{len(rules())} rules found" in done.stdout


def test_the_unit_tests_of_the_rules_pass():
    done = promtool.run("test", "rules", RULE_TESTS)
    assert done.returncode == 0, done.stdout
    names = [test["name"] for test in rule_tests()]
    assert tuple(names[:5]) == FIVE_CASES
    assert len(set(names)) == len(names)


def test_each_rule_fires_in_one_test_and_is_silent_in_another():
    fires, silent = set(), set()
    for test in rule_tests():
        for case in test["alert_rule_test"]:
            (fires if case["exp_alerts"] else silent).add(case["alertname"])
    names = {rule["alert"] for rule in rules()}
    assert fires == names, names ^ fires
    assert silent == names, names ^ silent


@pytest.mark.parametrize("case", FIVE_CASES)
def test_an_alert_is_critical_or_the_age_rises_in_each_of_the_five_cases(case):
    told = {one["alertname"] for test in rule_tests() if test["name"] == case
            for one in test["alert_rule_test"] if one["exp_alerts"]}
    assert told & {"OutriderEventsOld", "OutriderPipelineGone"}, told


def test_a_wrong_rule_does_not_pass(tmp_path):
    """The tests above can fail: each threshold changed is noticed."""
    for old, new in (("> 1000", "> 1001"), ("> 5\n", "> 8\n"), ("> 60\n", "> 6000\n"),
                     ("safe_wal_bytes)) < 0.4", "safe_wal_bytes)) < 0.3")):
        text = read(RULES)
        if old not in text:
            text = text.replace("outbox_slot_retained_bytes)) < 0.4",
                                "outbox_slot_retained_bytes)) < 0.3")
        changed = text.replace(old, new, 1)
        assert changed != read(RULES), old
        (tmp_path / "outrider-alerts.yaml").write_text(changed, encoding="utf-8")
        (tmp_path / "test.yaml").write_text(read(RULE_TESTS), encoding="utf-8")
        done = promtool.run("test", "rules", str(tmp_path / "test.yaml"))
        assert done.returncode != 0, f"{old} became {new} and nobody noticed"


def test_rules_have_the_thresholds_that_were_asked_for():
    by_name = {rule["alert"]: rule for rule in rules()}
    for name, (expression, duration) in THRESHOLDS.items():
        assert expression in by_name[name]["expr"]
        assert by_name[name].get("for") == duration


def test_rules_name_metrics_and_labels_that_exist():
    known = known_metrics()
    for rule in rules():
        if metrics_in(rule["expr"]):
            # last_over_time and unless look at series as such, not at a counter's value.
            check_query(rule["expr"], known, rule["alert"])


def test_the_tests_of_the_rules_use_series_that_exist():
    known = known_metrics()
    for test in rule_tests():
        for entry in test["input_series"]:
            for name, labels in metrics_in(entry["series"]):
                assert name in known, f"{test['name']}: {name}"
                assert labels <= known[name][1] | {"job", "instance"}, entry["series"]


def test_each_rule_has_a_page_for_the_night():
    operations = read(os.path.join(ROOT, "docs", "OPERATIONS.md"))
    for rule in rules():
        assert rule["labels"]["severity"] in ("warning", "critical")
        page, _hash, anchor = rule["annotations"]["runbook"].partition("#")
        assert page == "docs/OPERATIONS.md" and anchor, rule["alert"]
        headings = [line.lstrip("#").strip().lower().replace(" ", "-")
                    for line in operations.splitlines() if line.startswith("#")]
        assert anchor in headings, f"{rule['alert']}: no heading {anchor}"


# The dashboard ------------------------------------------------------------------------------------


def dashboard():
    return json.loads(read(DASHBOARD))


def queries():
    """(title, query) of all panels, with Grafana's variables as Prometheus would see them."""
    for panel in dashboard()["panels"]:
        for target in panel.get("targets", []):
            yield panel["title"], (target["expr"].replace("$__rate_interval", "1m")
                                   .replace("$job", ".*").replace("$pipeline", ".*"))


def test_the_dashboard_is_what_its_source_makes():
    made = subprocess.run([sys.executable, os.path.join(MONITORING, "grafana", "dashboard.py")],
                          capture_output=True, text=True, check=True).stdout
    assert read(DASHBOARD) == made, (
        "run monitoring/grafana/dashboard.py > monitoring/grafana/outrider.json")


def test_every_query_of_the_dashboard_names_metrics_that_exist():
    known = known_metrics()
    assert len(list(queries())) >= 40
    for title, query in queries():
        assert metrics_in(query), title
        check_query(query, known, title)
    for variable in dashboard()["templating"]["list"][1:]:
        assert variable["definition"] == variable["query"]["query"]
        check_query(variable["definition"], known, variable["name"])


def test_prometheus_understands_every_query_of_the_dashboard(tmp_path):
    path = tmp_path / "queries.yaml"
    groups = [{"name": "queries", "rules": [{"record": f"query:{i}", "expr": query}
                                            for i, (_title, query) in enumerate(queries())]}]
    path.write_text(yaml.safe_dump({"groups": groups}), encoding="utf-8")
    done = promtool.run("check", "rules", str(path))
    assert done.returncode == 0, done.stdout


def test_panels_have_their_place_and_say_what_they_show():
    panels = dashboard()["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken = set()
    for panel in panels:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        cells = {(x, y) for x in range(place["x"], place["x"] + place["w"])
                 for y in range(place["y"], place["y"] + place["h"])}
        assert not cells & taken, f"{panel['title']} lies on another panel"
        taken |= cells
        assert panel["type"] == "row" or panel["description"]


def test_the_dashboard_shows_what_the_rules_look_at():
    shown = {name for _title, query in queries() for name, _labels in metrics_in(query)}
    not_graphs = {"outbox_loop_idle_seconds_total", "outbox_paused_by_operator",
                  "outbox_kafka_healthy", "outbox_slot_invalidated", "outbox_slot_exists",
                  "outbox_dead_letters_total"}
    for rule in rules():
        for name, _labels in metrics_in(rule["expr"]):
            assert name in shown | not_graphs, f"{rule['alert']}: {name}"
