"""Grafana Alloy configurations read and checked without Alloy."""
