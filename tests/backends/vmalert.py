"""vmalert as production has it, evaluating rule files against a VictoriaMetrics, and its checker of rule files."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.backends.process import Server, request
from tests.backends.programs import program


@dataclass(frozen=True)
class RuleState:
    """What vmalert knows of one rule: how its last evaluation went, and the alerts that wait or fire.

    ``samples`` is how many series its query returned.
    """

    name: str
    query: str
    error: str
    evaluated: bool
    samples: int
    alerts: tuple[dict[str, str], ...]


class VmAlert:
    """A vmalert that reads from a VictoriaMetrics, writes recordings back, and notifies nobody."""

    def __init__(self, server: Server, port: int) -> None:
        self.server = server
        self.address = f"127.0.0.1:{port}"

    @classmethod
    def start(cls, folder: Path, rules: str, store: str) -> VmAlert:
        """Start it with the text of a rule file and the URL of the ``store``."""
        binary = program("vmalert")
        (folder / "rules.yaml").write_text(rules, encoding="utf-8")

        def command(ports: Sequence[int]) -> list[str]:
            return [
                binary,
                "-rule=rules.yaml",
                f"-httpListenAddr=127.0.0.1:{ports[0]}",
                f"-datasource.url={store}",
                f"-remoteWrite.url={store}",
                "-remoteWrite.flushInterval=200ms",
                "-rule.evalDelay=0s",
                "-notifier.blackhole",
            ]

        server, ports = Server.start(
            "vmalert", folder, 1, command, lambda ports: f"http://127.0.0.1:{ports[0]}/health", 30
        )
        return cls(server, ports[0])

    def rules(self) -> list[RuleState]:
        """Every rule, in the order of the file."""
        answer: Any = request("GET", f"http://{self.address}/api/v1/rules").ok().json()
        return [
            RuleState(
                name=rule["name"],
                query=rule["query"],
                error=rule["lastError"],
                evaluated=not rule["lastEvaluation"].startswith("0001-"),
                samples=int(rule["lastSamples"]),
                alerts=tuple(alert["labels"] for alert in rule.get("alerts") or ()),
            )
            for group in answer["data"]["groups"]
            for rule in group["rules"]
        ]

    def stop(self) -> None:
        self.server.stop()


def refusal(path: Path) -> str:
    """What ``vmalert -dryRun`` has against the rule file at ``path``; empty where it takes it."""
    command = [program("vmalert"), f"-rule={path}", "-dryRun", "-loggerLevel=ERROR"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60, cwd=path.parent)
    return "" if done.returncode == 0 else done.stdout + done.stderr or f"exit status {done.returncode}"
