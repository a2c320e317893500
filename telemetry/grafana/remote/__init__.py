"""Grafana over HTTP: how it is reached, dashboards into it, images out of it. For commands; no service imports it."""
