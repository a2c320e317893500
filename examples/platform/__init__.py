"""A small platform that uses all of it: an API server, a job queue on PostgreSQL, and two groups of workers."""
