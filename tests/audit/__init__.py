"""The crash audit (./dev audit): faults from a seed, then every committed row against every record.

plan.py turns a seed into episodes, stage.py owns the servers, faults.py hurts them, episode.py runs
one episode, verdict.py compares, report.py tells. relays.py is the relay under test, which may be
any program. The judge knows nothing of the relay's inside.
"""
