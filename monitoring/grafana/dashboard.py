#!/usr/bin/env python3
"""Makes outrider.json, the Grafana dashboard: monitoring/grafana/dashboard.py > …/outrider.json

Rows below are what an operator asks, in this order: does it run, do events arrive, what holds them
up, what does the slot cost. tests/integration/test_alerts.py checks every query against the metrics
that the binary knows, and that outrider.json is what this makes.
"""

import json

PER = 'job=~"$job", pipeline=~"$pipeline"'
WIDTH = 24
QUANTILES = (("0.5", "p50"), ("0.95", "p95"), ("0.99", "p99"))


def quantiles(metric):
    return [(f"histogram_quantile({q}, sum by (le) (rate({metric}_bucket{{{PER}}}[$__rate_interval])))",
             name) for q, name in QUANTILES]


def rate(metric, by, legend, more=""):
    return (f"sum by ({by}) (rate({metric}{{{PER}{more}}}[$__rate_interval]))", legend)


def value(metric, legend, more="", fold="max by (pipeline)"):
    return (f"{fold} ({metric}{{{PER}{more}}})", legend)


# (title, unit, kind, [(query, legend)], what it says)
ROWS = [
    ("Does it run?", [
        ("Active relays", "none", "stat", [value("outbox_role", "{{pipeline}}", ', role="active"', "sum by (pipeline)")],
         "1 is right; 0: nobody streams."),
        ("Standbys", "none", "stat", [value("outbox_role", "{{pipeline}}", ', role="standby"', "sum by (pipeline)")],
         "Relays that wait for the slot."),
        ("Oldest event waits", "s", "stat",
         [value("outbox_oldest_unconfirmed_age_seconds", "{{pipeline}}", fold="min by (pipeline)")],
         "Age of the oldest event that Kafka does not have, or an upper bound of it."),
        ("Dead letters", "none", "stat", [value("outbox_dead_letters_stored", "{{pipeline}}")],
         "In the dead-letter table; nothing is shown where there is no such table."),
        ("Phase", "none", "states", [(f"outbox_phase{{{PER}}} == 1", "{{instance}} {{pipeline}} {{phase}}")],
         "What each relay does."),
        ("Version", "none", "stat", [('count by (version) (outbox_build_info{job=~"$job"})', "{{version}}")],
         "Relays by version."),
    ]),
    ("Do events arrive?", [
        ("Events published", "ops", "lines",
         [rate("outbox_events_published_total", "pipeline", "{{pipeline}}")],
         "Acknowledged by Kafka, each once."),
        ("Rows received", "ops", "lines",
         [rate("outbox_received_records_total", "pipeline, table", "{{pipeline}} {{table}}")],
         "Taken from PostgreSQL, by outbox table."),
        ("Records by topic", "ops", "lines",
         [rate("outbox_sent_records_total", "pipeline, topic", "{{topic}}")],
         "Acknowledged records, repeats and dead letters included."),
        ("Bytes by topic", "Bps", "lines",
         [rate("outbox_sent_bytes_total", "pipeline, topic", "{{topic}}")],
         "Keys and values, uncompressed."),
        ("Commit to acknowledgement", "s", "lines", quantiles("outbox_commit_to_ack_seconds"),
         "From the transaction's commit to Kafka's acknowledgement."),
        ("Batch duration", "s", "lines", quantiles("outbox_batch_duration_seconds"),
         "Alert above 5 s for p95."),
        ("Produce latency", "s", "lines", quantiles("outbox_produce_latency_seconds"),
         "From the hand-over of a record to its acknowledgement."),
        ("Age of the oldest event", "s", "lines",
         [value("outbox_oldest_unconfirmed_age_seconds", "{{pipeline}}", fold="min by (pipeline)"),
          value("outbox_oldest_age_is_upper_bound", "{{pipeline}} is an upper bound", fold="min by (pipeline)")],
         "The second line is 1 while the first is an upper bound."),
    ]),
    ("What holds them up?", [
        ("Events pending", "none", "lines",
         [value("outbox_events_pending", "{{pipeline}}", fold="sum by (pipeline)")],
         "Received and not durable. Alert above 1,000 for two minutes."),
        ("In flight against the limit", "percentunit", "lines",
         [(f"max by (pipeline) (outbox_in_flight_records{{{PER}}} / outbox_in_flight_records_limit{{{PER}}})",
           "{{pipeline}} records"),
          (f"max by (pipeline) (outbox_in_flight_bytes{{{PER}}} / outbox_in_flight_bytes_limit{{{PER}}})",
           "{{pipeline}} bytes")],
         "At 1 reading pauses."),
        ("Saturation of the thread", "percentunit", "lines",
         [('sum by (instance) (rate(outbox_loop_busy_seconds_total{job=~"$job"}[$__rate_interval]))', "{{instance}} all"),
          rate("outbox_stage_seconds_total", "pipeline, stage", "{{pipeline}} {{stage}}")],
         "1 is all of one core."),
        ("Longest turn of the loop", "s", "lines",
         [('max by (instance) (outbox_loop_longest_turn_seconds{job=~"$job"})', "{{instance}}")],
         "Nothing may block it."),
        ("Pauses, losses, restarts", "none", "lines",
         [(f"sum by (pipeline) (increase(outbox_pauses_total{{{PER}}}[5m]))", "{{pipeline}} pauses"),
          (f"sum by (pipeline) (increase(outbox_source_losses_total{{{PER}}}[5m]))", "{{pipeline}} database lost"),
          (f"sum by (pipeline) (increase(outbox_producer_restarts_total{{{PER}}}[5m]))", "{{pipeline}} new producer"),
          (f"sum by (pipeline) (increase(outbox_topic_faults_total{{{PER}}}[5m]))", "{{pipeline}} topic faults")],
         "In five minutes."),
        ("Reconnects", "none", "lines",
         [(f"sum by (pipeline, link) (increase(outbox_reconnects_total{{{PER}}}[5m]))", "{{pipeline}} {{link}}")],
         "In five minutes; idle broker connections are closed by brokers."),
        ("Errors by class", "none", "lines",
         [(f"sum by (pipeline, side, class) (increase(outbox_errors_total{{{PER}}}[5m]))",
           "{{pipeline}} {{side}} {{class}}")],
         "In five minutes."),
        ("Rows refused, by event type", "none", "lines",
         [(f"sum by (pipeline, event_type) (increase(outbox_events_failed_total{{{PER}}}[5m]))",
           "{{pipeline}} {{event_type}}")],
         "In five minutes."),
        ("Record that holds the front", "s", "lines",
         [(f"max by (pipeline, topic, partition) (outbox_front_record_age_seconds{{{PER}}})",
           "{{pipeline}} {{topic}} {{partition}}")],
         "Nothing behind it is confirmed."),
        ("Dead letters and parked keys", "none", "lines",
         [value("outbox_dead_letters_stored", "{{pipeline}} letters"),
          value("outbox_parked_keys", "{{pipeline}} parked keys")],
         "Letters as counted every 10 s."),
        ("Age of the oldest dead letter", "s", "lines",
         [value("outbox_dead_letter_oldest_age_seconds", "{{pipeline}}")], "Since its first failure."),
        ("Brokers: round trip", "s", "lines",
         [(f"max by (broker) (outbox_kafka_broker_rtt_avg_seconds{{{PER}}})", "broker {{broker}} mean"),
          (f"max by (broker) (outbox_kafka_broker_rtt_p99_seconds{{{PER}}})", "broker {{broker}} p99")],
         "As the Kafka client measured it."),
    ]),
    ("What does the slot cost?", [
        ("WAL", "bytes", "lines",
         [value("outbox_slot_backlog_bytes", "{{pipeline}} not confirmed"),
          value("outbox_slot_retained_bytes", "{{pipeline}} kept"),
          value("outbox_slot_safe_wal_bytes", "{{pipeline}} left", fold="min by (pipeline)")],
         "Left: until the slot is in danger, with max_slot_wal_keep_size only."),
        ("WAL positions", "Bps", "lines",
         [(f"max by (pipeline) (rate(outbox_server_wal_end_bytes{{{PER}}}[$__rate_interval]))", "{{pipeline}} written"),
          (f"max by (pipeline) (rate(outbox_slot_confirmed_lsn_bytes{{{PER}}}[$__rate_interval]))", "{{pipeline}} confirmed")],
         "While the second is above the first, the relay catches up."),
        ("wal_status", "none", "states",
         [(f"max by (pipeline, status) (outbox_slot_wal_status{{{PER}}}) == 1", "{{pipeline}} {{status}}")],
         "reserved and extended are well; unreserved is an alarm; lost is lost."),
        ("Transactions kept from vacuum", "none", "lines",
         [value("outbox_slot_catalog_xmin_age_transactions", "{{pipeline}}")],
         "age(catalog_xmin)."),
        ("Decoded on disk", "Bps", "lines",
         [(f"max by (pipeline) (rate(outbox_slot_spilled_bytes{{{PER}}}[$__rate_interval]))", "{{pipeline}}")],
         "Transactions larger than logical_decoding_work_mem."),
        ("Server last heard of", "s", "lines",
         [value("outbox_slot_seen_age_seconds", "{{pipeline}}", fold="min by (pipeline)")],
         "When this rises, the figures of this row disappear."),
    ]),
]


def variable(name, query, label):
    return {"name": name, "label": label, "type": "query", "query": {"query": query, "refId": name},
            "datasource": {"type": "prometheus", "uid": "${datasource}"}, "definition": query,
            "multi": True, "includeAll": True, "allValue": ".*", "refresh": 2, "sort": 1,
            "current": {"selected": True, "text": ["All"], "value": ["$__all"]}}


def panel(number, place, spec):
    title, unit, kind, queries, text = spec
    made = {
        "id": number, "title": title, "description": text, "gridPos": place,
        "type": {"lines": "timeseries", "stat": "stat", "states": "table"}[kind],
        "datasource": {"type": "prometheus", "uid": "${datasource}"},
        "fieldConfig": {"defaults": {"unit": unit}, "overrides": []},
        "targets": [{"refId": chr(ord("A") + i), "expr": query, "legendFormat": legend,
                     "datasource": {"type": "prometheus", "uid": "${datasource}"},
                     **({"instant": True, "range": False, "format": "table"} if kind == "states"
                        else {"range": True})}
                    for i, (query, legend) in enumerate(queries)],
    }
    if kind == "stat":
        made["options"] = {"reduceOptions": {"calcs": ["lastNotNull"]}, "colorMode": "none",
                           "textMode": "value_and_name"}
    elif kind == "lines":
        made["fieldConfig"]["defaults"]["min"] = 0
        made["options"] = {"legend": {"displayMode": "list", "placement": "bottom"},
                           "tooltip": {"mode": "multi"}}
    return made


def panels():
    made, y = [], 0
    for title, specs in ROWS:
        made.append({"id": len(made) + 1, "type": "row", "title": title, "collapsed": False,
                     "panels": [], "gridPos": {"x": 0, "y": y, "w": WIDTH, "h": 1}})
        y, x, height = y + 1, 0, 0
        for spec in specs:
            w, h = (4, 5) if specs is ROWS[0][1] else (8, 8)
            if x + w > WIDTH:
                x, y, height = 0, y + height, 0
            made.append(panel(len(made) + 1, {"x": x, "y": y, "w": w, "h": h}, spec))
            x, height = x + w, max(height, h)
        y += height
    return made


def dashboard():
    return {
        "uid": "outrider", "title": "Outrider", "tags": ["outrider"], "schemaVersion": 39,
        "version": 1, "editable": True, "refresh": "30s", "timezone": "browser",
        "time": {"from": "now-3h", "to": "now"}, "graphTooltip": 1,
        "annotations": {"list": []}, "links": [], "panels": panels(),
        "templating": {"list": [
            {"name": "datasource", "label": "Prometheus", "type": "datasource",
             "query": "prometheus", "refresh": 1, "current": {}},
            variable("job", "label_values(outbox_build_info, job)", "Job"),
            variable("pipeline", 'label_values(outbox_phase{job=~"$job"}, pipeline)', "Pipeline"),
        ]},
    }


if __name__ == "__main__":
    print(json.dumps(dashboard(), indent=1))
