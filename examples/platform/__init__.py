"""A small platform that uses all of it: an API server, two groups of workers and a scheduler on PostgreSQL."""
