"""The queries that panels and alerts share, by subject."""
