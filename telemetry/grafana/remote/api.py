"""A client of Grafana's HTTP API that turns every refusal into a sentence.

Dashboards and folders go through the resource API (``/apis``), which replaces ``/api/dashboards`` from Grafana 12 on
(Grafana's documentation, *Dashboard HTTP API* and *New API structure*); what it has no resource for, search and
settings of the page, through ``/api``.
"""

from __future__ import annotations

from typing import Any, Final, Self

import httpx

from telemetry.grafana.remote.access import Access
from telemetry.version import VERSION

VERSIONS: Final = ("v1", "v1beta1")
"""Versions of a resource group that we speak, the best first: Grafana 13, Grafana 12."""


class GrafanaError(Exception):
    """Grafana refused, or can't be reached; the message says what to do."""


class Grafana:
    """A connection, to be closed (or used as a context manager). ``timeout`` counts seconds, for each request."""

    def __init__(self, access: Access, *, timeout: float = 30.0) -> None:
        who = access.credentials
        headers = {"User-Agent": f"fleetglass/{VERSION}", "X-Grafana-Org-Id": str(access.organisation)}
        if who.token:
            headers["Authorization"] = f"Bearer {who.token}"
        self._url = access.url
        self.organisation = access.organisation
        self._client = httpx.Client(
            base_url=access.url,
            auth=None if who.token else httpx.BasicAuth(who.user, who.password),
            headers=headers,
            timeout=timeout,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    @property
    def namespace(self) -> str:
        """Name of the organisation in the resource API."""
        return "default" if self.organisation == 1 else f"org-{self.organisation}"

    def ask(self, method: str, path: str, **more: Any) -> httpx.Response:
        """One request; an answer of any status but those that say who we are not. Raises GrafanaError."""
        try:
            answer = self._client.request(method, path, **more)
        except httpx.TimeoutException:
            raise GrafanaError(f"Grafana at {self._url} did not answer {method} {path} in time") from None
        except httpx.HTTPError as error:
            raise GrafanaError(f"Grafana at {self._url} can't be reached: {error}") from None
        if answer.status_code == 401:
            raise GrafanaError(f"Grafana at {self._url} does not know these credentials (401)")
        if answer.status_code == 403:
            raise GrafanaError(f"these credentials may not {method} {path} (403): {said(answer)}")
        if answer.is_redirect:
            where = answer.headers.get("location", "?")
            raise GrafanaError(f"Grafana at {self._url} sends {path} on to {where}; give that address as --url")
        return answer

    def read(self, path: str, **more: Any) -> Any:
        """The JSON of a GET. Raises GrafanaError for any status but 200."""
        return decoded(self.ask("GET", path, **more))

    def resource(self, group: str, kind: str) -> tuple[str, str]:
        """Version, and path, of the resources ``kind`` of ``group`` in this organisation. Raises GrafanaError."""
        answer = self.ask("GET", f"/apis/{group}")
        offered = [] if answer.status_code == 404 else [each["version"] for each in decoded(answer)["versions"]]
        for version in VERSIONS:
            if version in offered:
                return version, f"/apis/{group}/{version}/namespaces/{self.namespace}/{kind}"
        raise GrafanaError(
            f"Grafana at {self._url} offers {group} in {', '.join(offered) or 'no version'}, and none of "
            f"{', '.join(VERSIONS)}: Grafana 12 or newer is needed"
        )


def decoded(answer: httpx.Response, *, fine: tuple[int, ...] = (200, 201)) -> Any:
    """The JSON of an answer whose status is one of ``fine``. Raises GrafanaError."""
    where = f"{answer.request.method} {answer.request.url.path}"
    if answer.status_code not in fine:
        raise GrafanaError(f"Grafana answered {where} with {answer.status_code}: {said(answer)}")
    try:
        return answer.json()
    except ValueError:
        raise GrafanaError(f"Grafana answered {where} with something else than JSON: is the address right?") from None


def said(answer: httpx.Response) -> str:
    """What Grafana says about a refusal, as one line."""
    try:
        text = str(answer.json()["message"])
    except (ValueError, KeyError, TypeError):
        text = answer.text
    return " ".join("".join(char if char.isprintable() else " " for char in text[:300]).split()) or "nothing said"
