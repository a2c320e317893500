-- What is this platform's own, beside windforce's tables: what a job is given, and what runs on a clock.
CREATE TABLE job_input (
    job_id uuid PRIMARY KEY,
    input  jsonb NOT NULL
);
CREATE TABLE schedule (
    name    text PRIMARY KEY,
    tag     text NOT NULL,
    input   jsonb NOT NULL,
    every_s integer NOT NULL,
    due_at  timestamptz NOT NULL DEFAULT now()
);

-- What can be run, and under which tag: the catalogue that coverage is judged over.
INSERT INTO app (workspace_id, app_key, tag) VALUES ('acme', 'studio', 'render'), ('acme', 'by-hand', '');
INSERT INTO action (workspace_id, app_key, action_key, tag) VALUES
    ('acme', 'studio', 'write to a customer', 'mail'),
    ('acme', 'studio', 'make a small picture', 'thumbnail'),
    ('acme', 'studio', 'make a film', NULL);

-- Two groups of workers. `light` breathes with its backlog, `heavy` has the replicas that somebody asked for.
INSERT INTO worker_group (name, tags, desired_replicas, autoscale_min, autoscale_max, target_queue_depth,
                          polling_interval, cooldown_period, drain_timeout_s) VALUES
    ('light', '{mail,thumbnail}', 1, 1, 3, 10, 1, 10, 10),
    ('heavy', '{render}', 1, NULL, NULL, NULL, 1, 10, 25);

INSERT INTO schedule (name, tag, input, every_s) VALUES
    ('newsletter', 'mail', '{"seconds": 0.3}', 5),
    ('gallery', 'thumbnail', '{"seconds": 0.8}', 7),
    ('trailer', 'render', '{"seconds": 5}', 12);
