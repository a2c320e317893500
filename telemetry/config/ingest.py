"""Settings of the ingest service: where it listens, who may speak, how much."""

from __future__ import annotations

from telemetry.config import addresses, kinds, principals
from telemetry.config.kinds import Kind
from telemetry.config.setting import Setting


def _ingest(name: str, env: str, kind: Kind, default: object, doc: str, *, secret: bool = False) -> Setting:
    return Setting(name, (env,), kind, default, doc, "Ingest service", section="ingest", secret=secret)


_NOISE = ("drop", "keep", "extension", "script_error", "resize_observer")


def _limit(name: str, env: str, kind: Kind, default: object, doc: str) -> Setting:
    return Setting(name, (env,), kind, default, doc, "Ingest: limits", section="ingest")


def _principal(name: str, env: str, kind: Kind, default: object, doc: str) -> Setting:
    return Setting(name, (env,), kind, default, doc, "Ingest: who is speaking", section="ingest")


# fmt: off
INGEST: tuple[Setting, ...] = (
    _ingest("listen", "FLEETGLASS_LISTEN", addresses.listen_address(), "127.0.0.1:8000",
        "Where the ingest service listens."),
    _ingest("feedback_url", "FEEDBACK_URL", addresses.feedback_url(), None,
        "Where pages send users with feedback; `GET /api/config` hands it out. https or mailto only."),
    _ingest("tokens", "FLEETGLASS_TOKENS", kinds.tokens(), {},
        'Static bearer tokens for development: `{"token": {"email": "…", "workspace": "…", "roles": ["…"], '
        '"workspaces": ["…"]}}`, all but the email optional.',
        secret=True),
    _ingest("allowed_origins", "FLEETGLASS_ALLOWED_ORIGINS", addresses.origins(), (),
        "Web origins, beside the service's own, whose pages may send reports and read answers (CORS): "
        "`https://console.example`. No wildcards."),
    _ingest("metrics_public", "FLEETGLASS_METRICS_PUBLIC", kinds.switch(), True,
        "`/metrics` answers without a token."),

    _ingest("fleet", "FLEETGLASS_FLEET", kinds.switch(), False,
        "`fleetglass serve` observes the platform's PostgreSQL (`DATABASE_URL`, `FLEETGLASS_QUEUE_PROFILE`) and serves "
        "`/api/admin/fleet`, `/api/admin/coverage` and the `fleet_*` metrics."),

    _limit("limit_rate", "FLEETGLASS_LIMIT_RATE", kinds.number("reports a second", 0, 100_000), 1.0,
        "Reports a second that one principal may send in the long run; more is answered 429. 0: no limit."),
    _limit("limit_burst", "FLEETGLASS_LIMIT_BURST", kinds.count(1, 1_000_000), 20,
        "Reports that one principal may send at once."),
    _limit("limit_ceiling", "FLEETGLASS_LIMIT_CEILING", kinds.number("reports a second", 0, 1_000_000), 5000.0,
        "Reports a second of all principals together. 0: no limit."),
    _limit("limit_fingerprints", "FLEETGLASS_LIMIT_FINGERPRINTS", kinds.count(0, 1000), 20,
        'Different errors that one principal may bring in a minute; the rest are logged with `fp="other"`. '
        "0: no limit."),
    _limit("limit_principals", "FLEETGLASS_LIMIT_PRINCIPALS", kinds.count(1, 10_000_000), 100_000,
        "Principals whose limits are remembered; the one heard from longest ago is forgotten first."),
    _limit("limit_windows", "FLEETGLASS_LIMIT_WINDOWS", kinds.count(1, 10_000_000), 50_000,
        "Most open dedupe windows; the oldest is closed when there are more."),
    _limit("dedupe_window", "FLEETGLASS_DEDUPE_WINDOW", kinds.number("seconds", 0, 60), 10.0,
        "A principal's repeats of an error within this time are counted, and told in one line at its end. "
        "0: every report is logged."),
    _limit("noise", "FLEETGLASS_NOISE", kinds.names(*_NOISE, none="keep", every="drop"), _NOISE[2:],
        "Reports that are counted and dropped: errors of browser extensions, `Script error.` without a stack, "
        "ResizeObserver loops. `drop` is all of them, `keep` none."),
    _ingest("sourcemaps", "FLEETGLASS_SOURCEMAPS", kinds.folder(), None,
        "Directory of source maps; a second line with the same `fp` then has the stack in terms of the sources. "
        "Nothing is ever fetched."),
    _limit("store_url", "FLEETGLASS_STORE_URL", addresses.store_url(), None,
        "Valkey or Redis server through which replicas share limits and windows: `redis://valkey:6379/0`, or "
        "`rediss://` for TLS. Unset: each replica limits alone."),

    _principal("oidc_issuer", "FLEETGLASS_OIDC_ISSUER", principals.issuer_url(), None,
        "Issuer of the tokens that are taken (JWT in `Authorization: Bearer`), exactly as their `iss` says it."),
    _principal("oidc_audience", "FLEETGLASS_OIDC_AUDIENCE", principals.texts(), (),
        "Audiences, one of which a token's `aud` must hold. Needed beside an issuer."),
    _principal("oidc_jwks_url", "FLEETGLASS_OIDC_JWKS_URL", principals.keys_url(), None,
        "Where the issuer's keys are. Unset: what `/.well-known/openid-configuration` of the issuer says."),
    _principal("oidc_algorithms", "FLEETGLASS_OIDC_ALGORITHMS", kinds.names(*principals.ALGORITHMS),
        ("RS256", "ES256", "EdDSA"), "Signature algorithms that are taken."),
    _principal("oidc_leeway", "FLEETGLASS_OIDC_LEEWAY", kinds.number("seconds", 0, 300), 30.0,
        "How far the issuer's clock and ours may be apart."),
    _principal("oidc_stale_keys", "FLEETGLASS_OIDC_STALE_KEYS", kinds.number("seconds", 0, 604800), 3600.0,
        "How long keys are used when the issuer can't be reached; after that, tokens are answered 503."),
    _principal("oidc_cookie", "FLEETGLASS_OIDC_COOKIE", principals.cookie_name(), None,
        "Cookie that may hold the token as well, such as `__Host-session`; its requests need an allowed origin."),
    _principal("oidc_email_claim", "FLEETGLASS_OIDC_EMAIL_CLAIM", kinds.text(), "email",
        "Claim with the email. Dots reach into objects (`user.email`) unless a claim has that very name."),
    _principal("oidc_workspace_claim", "FLEETGLASS_OIDC_WORKSPACE_CLAIM", kinds.text(), "workspace",
        "Claim with the caller's own workspace."),
    _principal("oidc_workspaces_claim", "FLEETGLASS_OIDC_WORKSPACES_CLAIM", kinds.text(), "workspaces",
        "Claim with the workspaces that the caller may name: a list, or text with blanks or commas."),
    _principal("oidc_roles_claim", "FLEETGLASS_OIDC_ROLES_CLAIM", kinds.text(), "roles",
        "Claim with the roles, such as `realm_access.roles`; form as above."),
    _principal("oidc_require_verified", "FLEETGLASS_OIDC_REQUIRE_VERIFIED", kinds.switch(), False,
        "Refuse tokens without `email_verified`, too. One that says it is not true is refused always."),
    _principal("trusted_proxies", "FLEETGLASS_TRUSTED_PROXIES", principals.networks(), (),
        "Networks of the proxies that say in headers who is speaking: `10.1.2.0/24`. The peer of the connection "
        "counts, never `X-Forwarded-For`. From anywhere else these headers mean nothing."),
    _principal("proxy_email_header", "FLEETGLASS_PROXY_EMAIL_HEADER", principals.header_name(), "X-Forwarded-Email",
        "Header with the email. The proxy must set or remove each of these headers on every request."),
    _principal("proxy_workspace_header", "FLEETGLASS_PROXY_WORKSPACE_HEADER", principals.header_name(), None,
        "Header with the caller's own workspace. Unset: none is read."),
    _principal("proxy_workspaces_header", "FLEETGLASS_PROXY_WORKSPACES_HEADER", principals.header_name(), None,
        "Header with the workspaces that the caller may name, separated by commas. Unset: none is read."),
    _principal("proxy_roles_header", "FLEETGLASS_PROXY_ROLES_HEADER", principals.header_name(), None,
        "Header with the roles, separated by commas, such as `X-Forwarded-Groups`. Unset: none is read."),
    _principal("admin_roles", "FLEETGLASS_ADMIN_ROLES", principals.texts(), ("super_admin",),
        "Roles, as tokens or headers name them, that may read `/api/admin/…`; any one of them is enough."),
    _principal("workspace_header", "FLEETGLASS_WORKSPACE_HEADER", principals.header_name(), "X-Workspace",
        "Header with which a caller chooses one of its workspaces; 403 for any other."),
)
# fmt: on
