"""Build the servers that integration tests talk to, from the Go modules pinned in the folders beside this file.

``python tests/backends/build.py`` (``make backends``) builds what is missing, ``… NAME`` only that one,
``… --list`` shows what is there. A binary lands in a per-user cache, in a folder named after the hash of
its module files, the Go version and the platform: an unchanged checkout builds nothing, two checkouts
with different pins don't disturb each other, and nothing is written into the repository.

Standard library only: it runs before anything of ours is installed. Tests ask ``path(name)``.
"""

from __future__ import annotations

import argparse
import fcntl
import functools
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parent

# A part at its first mention: name, and what tests use it for.
BACKENDS = {
    "victoria-metrics": "reads pushed and scraped metrics",
    "victoria-logs": "reads Loki pushes",
    "otelcol": "reads OTLP traces, logs and metrics",
    "node-exporter": "tells about this host, for the dashboard Host",
    "vmalert-tool": "runs the unit tests of alerting rules",
    "vmalert": "reads rule files as in production",
    "amtool": "says whom an Alertmanager would tell",
    "compose-check": "reads compose files as docker compose does",
    "kustomize": "builds kustomizations as Flux does",
}

# Static binaries without a C compiler: fewer things to install, and the pure Go paths are fast enough for tests.
_BUILD_FLAGS = ("-mod=readonly", "-trimpath", "-buildvcs=false", "-ldflags=-s -w")
_SETTINGS = {"CGO_ENABLED": "0", "GOWORK": "off"}

# Seconds between two progress lines where the output is not a terminal (a CI log).
_LOG_INTERVAL = 15.0


class BuildError(Exception):
    """A build that can't be done. The text is for the person who ran it."""


def cache_root() -> Path:
    """Where binaries are kept: ``$FLEETGLASS_BACKENDS_DIR``, else ``fleetglass/backends`` in the user's cache."""
    chosen = os.environ.get("FLEETGLASS_BACKENDS_DIR")
    if chosen:
        return Path(chosen).expanduser().absolute()
    base = os.environ.get("XDG_CACHE_HOME", "")
    # The XDG specification says to ignore a relative path.
    cache = Path(base) if base.startswith("/") else Path.home() / ".cache"
    return cache / "fleetglass" / "backends"


def path(name: str) -> Path | None:
    """The binary of the backend ``name`` for this checkout, or None where it has not been built.

    Needs Go only to know which build fits; without Go nothing fits. Raises KeyError for a name that is not one of
    ``BACKENDS``.
    """
    if name not in BACKENDS:
        raise KeyError(name)
    try:
        binary = _binary(name)
    except BuildError:
        return None
    return binary if binary.is_file() else None


def sources(name: str) -> list[Path]:
    """The files that decide what is built, sorted."""
    return sorted(file for file in (HERE / name).iterdir() if file.suffix in {".go", ".mod", ".sum"})


def _binary(name: str) -> Path:
    return cache_root() / f"{name}-{_key(name)}" / name


@functools.cache
def _key(name: str) -> str:
    digest = hashlib.sha256()
    for file in sources(name):
        digest.update(f"{file.name}\0".encode() + file.read_bytes() + b"\0")
    # Asked in the module's folder: its go.mod may select another toolchain than the one on PATH.
    digest.update(_go(["env", "GOVERSION", "GOOS", "GOARCH"], HERE / name).encode())
    return digest.hexdigest()[:16]


def _minimum_go() -> str:
    """The Go version that all modules accept, from their ``go`` lines."""
    versions = [
        line.split()[1]
        for name in BACKENDS
        for line in (HERE / name / "go.mod").read_text(encoding="utf-8").splitlines()
        if line.startswith("go ")
    ]
    return max(versions, key=lambda version: [int(part) for part in version.split(".")])


def _go(arguments: list[str], folder: Path) -> str:
    """Run a short ``go`` command; return what it prints."""
    if shutil.which("go") is None:
        raise BuildError(
            f"Go is not on PATH: install Go {_minimum_go()} or newer (https://go.dev/dl) and run this again."
        )
    done = subprocess.run(
        ["go", *arguments], cwd=folder, env={**os.environ, **_SETTINGS}, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise BuildError(f"`go {' '.join(arguments)}` failed in {folder.name}: {done.stderr.strip()}")
    return done.stdout


@dataclass
class _Progress:
    """What a running ``go build -v`` has said so far."""

    name: str
    started: float = field(default_factory=time.monotonic)
    modules: int = 0
    packages: int = 0
    tail: deque[str] = field(default_factory=lambda: deque(maxlen=30))

    def read(self, lines: Iterator[str]) -> None:
        for line in lines:
            text = line.rstrip()
            if text.startswith("go: downloading "):
                self.modules += 1
            elif text and " " not in text and ":" not in text:  # -v names each package that it compiles
                self.packages += 1
            else:
                self.tail.append(text)

    def show(self, *, live: bool) -> None:
        elapsed = time.monotonic() - self.started
        parts = [f"{self.modules} modules downloaded"] if self.modules else []
        parts.append(f"{self.packages} packages compiled" if self.packages else "resolving modules")
        text = f"{self.name}: {', '.join(parts)}, {elapsed:.0f} s"
        print(f"\r\x1b[2K{text}" if live else text, end="" if live else "\n", flush=True)


def _compile(name: str, target: Path) -> None:
    """Run the build into the file ``target``, showing progress."""
    live = sys.stdout.isatty()
    progress = _Progress(name)
    folder = HERE / name
    package = "." if any(file.suffix == ".go" for file in sources(name)) else "tool"
    process = subprocess.Popen(
        ["go", "build", "-v", *_BUILD_FLAGS, "-o", str(target), package],
        cwd=folder,
        env={**os.environ, **_SETTINGS},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
    )
    assert process.stderr is not None
    reader = threading.Thread(target=progress.read, args=(process.stderr,), daemon=True)
    reader.start()
    try:
        while True:
            progress.show(live=live)
            try:
                code = process.wait(timeout=0.5 if live else _LOG_INTERVAL)
                break
            except subprocess.TimeoutExpired:
                continue
    except BaseException:  # Ctrl-C: the compiler goes with us
        process.terminate()
        process.wait()
        raise
    finally:
        if live:
            print("\r\x1b[2K", end="", flush=True)
    reader.join()
    process.stderr.close()
    if code != 0 or not target.is_file():
        told = "\n  ".join(progress.tail) or f"exit code {code}"
        raise BuildError(f"{name}: the build failed. The end of what Go said:\n  {told}")


@contextmanager
def _locked(root: Path) -> Iterator[None]:
    """One builder at a time in a cache: a second one waits, then finds the work done."""
    root.mkdir(parents=True, exist_ok=True)
    with (root / ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print("another build is running; waiting for it", flush=True)
            fcntl.flock(lock, fcntl.LOCK_EX)
        # Whoever held the lock is gone, so a partial folder is what a killed build left.
        for leftover in root.glob(".partial-*"):
            shutil.rmtree(leftover, ignore_errors=True)
        yield


def build(name: str) -> Path:
    """The binary of ``name``, built if it is not there. Raises BuildError; nothing half-made stays behind."""
    binary = _binary(name)
    if binary.is_file():
        print(f"{name}: there ({_size(binary)})")
        return binary
    with _locked(cache_root()):
        if binary.is_file():
            print(f"{name}: there ({_size(binary)})")
            return binary
        started = time.monotonic()
        partial = Path(tempfile.mkdtemp(prefix=f".partial-{name}-", dir=cache_root()))
        try:
            _compile(name, partial / name)
            partial.chmod(0o755)  # mkdtemp makes it private; a cache may be shared
            partial.rename(binary.parent)
        finally:
            shutil.rmtree(partial, ignore_errors=True)
        print(f"{name}: built in {time.monotonic() - started:.0f} s ({_size(binary)})", flush=True)
    return binary


def _size(file: Path) -> str:
    return f"{file.stat().st_size / 2**20:.0f} MiB"


def _list() -> None:
    """Print one line a backend, then builds of other pins or Go versions that lie in the cache."""
    current = {path(name) for name in BACKENDS}
    for name, purpose in BACKENDS.items():
        binary = path(name)
        state = f"{_size(binary)}  {binary}" if binary else "not built: run `make backends`"
        print(f"{name:18}{purpose:40}{state}")
    for name in BACKENDS:
        for file in sorted(cache_root().glob(f"{name}-*/{name}")):
            if file not in current:
                print(f"{name:18}{'of other pins or another Go version':40}{_size(file)}  {file}")


def main(arguments: list[str] | None = None) -> int:
    """Run the command; 0 when everything asked for is there."""
    parser = argparse.ArgumentParser(prog="build.py", description="Build the servers that integration tests talk to.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"only these: {', '.join(BACKENDS)}")
    parser.add_argument("--list", action="store_true", help="show what is there and build nothing")
    options = parser.parse_args(arguments)
    unknown = [name for name in options.names if name not in BACKENDS]
    if unknown:
        parser.error(f"no backend is called {', '.join(unknown)}; there are {', '.join(BACKENDS)}")
    if options.list:
        _list()
        return 0
    failures = []
    for name in options.names or BACKENDS:
        try:
            build(name)
        except BuildError as error:
            failures.append(str(error))
            if shutil.which("go") is None:
                break  # the same sentence for each would say nothing new
    for failure in failures:
        print(failure, file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        print("stopped; nothing half-made was kept", file=sys.stderr)
        sys.exit(130)
