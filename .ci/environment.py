"""Make or mend ``.venv`` from ``requirements.lock``; do nothing when it is as it should be.

Runs under the interpreter that ``.ci/environment`` chose, with the standard library only. The stamp
inside ``.venv`` holds what it was made from; while packages are being installed a marker lies there
instead, so that an interrupted run is told from a finished one and begun again.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import shutil
import subprocess
import sys
import sysconfig
import time
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
STAMP = VENV / "fleetglass.stamp"
UNFINISHED = VENV / "fleetglass.unfinished"
LOCK = ROOT / "requirements.lock"
PROJECT = ROOT / "pyproject.toml"

_ABOUT = "import sys, sysconfig; print(sys.version.split()[0], sysconfig.get_platform())"


def own() -> str:
    """Version and platform of the running interpreter, as ``about`` says them of another."""
    return f"{sys.version.split()[0]} {sysconfig.get_platform()}"


def say(sentence: str) -> None:
    """Print one line of progress at once."""
    print(f"==> env: {sentence}", flush=True)


def about(python: Path | str) -> str:
    """Version and platform of an interpreter; empty when it does not run."""
    try:
        done = subprocess.run([str(python), "-c", _ABOUT], capture_output=True, text=True, timeout=60, check=True)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip()


def digest(path: Path) -> str:
    """SHA-256 of a file, in hexadecimal."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def wanted(interpreter: str) -> dict[str, str]:
    """What a finished environment of this interpreter is stamped with."""
    return {"interpreter": interpreter, "place": str(VENV), "lock": digest(LOCK), "project": digest(PROJECT)}


def stamped() -> dict[str, str]:
    """What ``.venv`` was made from; empty when it is not there, not ours, or not finished."""
    if UNFINISHED.exists():
        return {}
    try:
        lines = STAMP.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return {}
    return dict(line.split("=", 1) for line in lines if "=" in line)


def run(*command: str | Path) -> None:
    """Run a command with its output shown; a failure ends the program with one sentence."""
    done = subprocess.run([str(part) for part in command], cwd=ROOT, check=False)
    if done.returncode:
        sys.exit(f"env: `{' '.join(map(str, command))}` failed ({done.returncode}); run the same verb again to retry.")


def install_lock(*command: str | Path) -> None:
    """Run pip over the lock and show each package as it comes, in one moving line on a terminal."""
    total = sum(not line[0].isspace() for line in LOCK.read_text(encoding="utf-8").splitlines() if line)
    terminal, seen, tail = sys.stdout.isatty(), 0, list[str]()
    process = subprocess.Popen([str(part) for part in command], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    for line in process.stdout:
        tail = [*tail[-20:], line]
        word, _, rest = line.partition(" ")
        if word in {"Collecting", "Requirement", "Ignoring"}:
            seen += 1
            if word == "Collecting":
                text = f"    {seen}/{total} {rest.split(' ')[0].split(';')[0].strip()}"
                print(f"\r{text:<60}" if terminal else text, end="" if terminal else "\n", flush=True)
        elif line.startswith("Installing collected packages"):
            print("\r" if terminal else "", end="")
            say(f"writing {len(line.split(','))} packages")
    if process.wait():
        sys.exit(f"{''.join(tail)}env: pip failed ({process.returncode}); run the same verb again to retry.")


def create() -> None:
    """A new, empty ``.venv`` of the running interpreter."""
    if VENV.exists() or VENV.is_symlink():
        say("removing the old .venv")
        if VENV.is_symlink() or not VENV.is_dir():
            VENV.unlink()
        else:
            shutil.rmtree(VENV)
    say(f"creating .venv with Python {sys.version.split()[0]}")
    run(sys.executable, "-m", "venv", VENV)


@contextlib.contextmanager
def alone() -> Iterator[None]:
    """Hold a lock, so that two verbs started together don't make the same environment twice."""
    with LOCK.open("rb") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("waiting for another set-up to finish")
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def usable(chosen: str | None) -> bool:
    """Whether the ``.venv`` that is there can be kept and only needs (re)installing into."""
    if UNFINISHED.exists():
        say("the last set-up was interrupted")
        return False
    found = about(PYTHON)
    if not found:
        return False
    if chosen and found != chosen:
        say(f".venv is Python {found.split()[0]}, PYTHON is {chosen.split()[0]}")
        return False
    before = stamped()
    if before and (before.get("interpreter") != found or before.get("place") != str(VENV)):
        say("the interpreter behind .venv has changed, or .venv was moved")
        return False
    if tuple(int(part) for part in found.split()[0].split(".")[:2]) < (3, 11):
        return False
    pip = subprocess.run([str(PYTHON), "-m", "pip", "--version"], capture_output=True, check=False)
    return pip.returncode == 0


def install(before: dict[str, str]) -> None:
    """Install what the lock names, then the project itself; stamp it."""
    target = wanted(about(PYTHON))
    UNFINISHED.touch()
    pip = (PYTHON, "-m", "pip", "--disable-pip-version-check", "--no-input", "install")
    if before.get("lock") != target["lock"]:
        say("installing requirements.lock, hashes checked (a few minutes from nothing)")
        # The lock is complete, so pip need not resolve; --no-deps keeps it from trying.
        install_lock(*pip, "--progress-bar", "off", "--require-hashes", "--no-deps", "-r", LOCK)
    say("installing the project itself")
    run(*pip, "--quiet", "--no-build-isolation", "--no-deps", "-e", ROOT)
    STAMP.write_text("".join(f"{key}={value}\n" for key, value in target.items()), encoding="utf-8")
    UNFINISHED.unlink()


def main(arguments: list[str]) -> None:
    """Bring ``.venv`` up to date.

    ``--chosen``: the user named the interpreter, so ``.venv`` must be of it. ``--check``: run by ``.venv``
    itself, only say through the exit code whether there is nothing to do.
    """
    if "--check" in arguments:
        sys.exit(stamped() != wanted(own()))
    chosen = own() if "--chosen" in arguments else None
    current = about(PYTHON)
    if current and (not chosen or chosen == current) and stamped() == wanted(current):
        return
    with alone():
        current = about(PYTHON)
        if current and (not chosen or chosen == current) and stamped() == wanted(current):
            return
        began = time.monotonic()
        if not usable(chosen):
            create()
        install(stamped())
        say(f".venv is ready ({time.monotonic() - began:.0f} s)")


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except KeyboardInterrupt:
        sys.exit("env: interrupted; the next run begins the set-up again")
