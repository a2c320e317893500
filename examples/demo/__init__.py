"""The demo: an example API, the ingest service and a live page, in one process on one loopback origin."""
