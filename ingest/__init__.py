"""What comes in over HTTP: browser errors now; heartbeats and console reads in later parts.

``ingest`` uses ``telemetry``; ``telemetry`` never imports ``ingest``.
"""
