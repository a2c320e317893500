"""What operators look at, as typed records: queries, panels, dashboards and alerts. Nothing of it runs in a service."""
