"""What Grafana's Faro Web SDK sends, taken as browser errors like any other: same callers, limits, noise and line."""
