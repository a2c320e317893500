-- The queue of windforce, as far as its public documents tell it, for tests and for the example platform.
CREATE TABLE job_queue (
    job_id        uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    tag           text NOT NULL,
    priority      integer NOT NULL DEFAULT 0,
    priority_band integer NOT NULL DEFAULT 0,
    scheduled_for timestamptz NOT NULL DEFAULT now(),
    running       boolean NOT NULL DEFAULT false,
    started_at    timestamptz,
    worker        text,
    canceled_by   text,
    restarts      integer NOT NULL DEFAULT 0
);
CREATE TABLE job_runtime (
    job_id uuid PRIMARY KEY REFERENCES job_queue ON DELETE CASCADE,
    ping   timestamptz
);
CREATE TABLE job_completed (
    job_id        uuid PRIMARY KEY,
    tag           text NOT NULL,
    status        text NOT NULL,
    scheduled_for timestamptz NOT NULL,
    started_at    timestamptz NOT NULL,
    completed_at  timestamptz NOT NULL DEFAULT now(),
    worker        text
);
CREATE TABLE worker_group (
    name             text PRIMARY KEY,
    capabilities     text[] NOT NULL DEFAULT '{}',
    tags             text[] NOT NULL DEFAULT '{}',
    desired_replicas integer NOT NULL DEFAULT 0,
    autoscale_min    integer,
    autoscale_max    integer,
    target_queue_depth integer,
    polling_interval integer NOT NULL DEFAULT 15,
    cooldown_period  integer NOT NULL DEFAULT 600,
    drain_timeout_s  integer NOT NULL DEFAULT 570,
    enabled          boolean NOT NULL DEFAULT true,
    dedicated_workspace_id text
);
CREATE TABLE app (
    workspace_id text NOT NULL,
    app_key      text NOT NULL,
    tag          text NOT NULL DEFAULT 'default',
    tag_override text,
    capabilities text[] NOT NULL DEFAULT '{}',
    PRIMARY KEY (workspace_id, app_key)
);
CREATE TABLE action (
    workspace_id text NOT NULL,
    app_key      text NOT NULL,
    action_key   text NOT NULL,
    tag          text,
    PRIMARY KEY (workspace_id, app_key, action_key),
    FOREIGN KEY (workspace_id, app_key) REFERENCES app
);
