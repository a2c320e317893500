"""What comes in over HTTP: browser errors, and what a console reads; heartbeats in a later part.

``ingest`` uses ``telemetry``; ``telemetry`` never imports ``ingest``.
"""
