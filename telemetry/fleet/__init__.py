"""Signals about a fleet of workers and the queue they serve: what was asked for, what runs, what waits."""
