"""Real servers, an independent consumer, load and audit for the integration tests and proofs.

Nothing in here knows how Outrider works inside: it starts the released binary, writes rows as an
application would, and reads records back through kcat. So it can judge.
"""
