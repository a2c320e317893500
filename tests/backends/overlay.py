"""Packages that requirements.lock can't hold beside ours: each set in a folder that comes first on a process's path.

``python -m tests.backends.overlay`` (part of ``make backends``) installs what is missing, hashes checked, into the
same per-user cache as the servers. A test asks ``path(name)`` and starts a process with ``environ(name)``.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.backends import build

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
OVERLAYS = {"arq": "runs jobs of arq, on the Redis client that it takes"}


def path(name: str) -> Path | None:
    """The folder of the set ``name``, or None where it has not been installed. Raises KeyError for an unknown name."""
    folder = _folder(name)
    return folder if folder.is_dir() else None


def missing(name: str) -> str:
    """What to do about a set that ``path`` does not find."""
    return f"{name} is missing: run `make backends`"


def environ(name: str) -> dict[str, str]:
    """The environment of a process that has the set, and this checkout; what ``os.environ`` holds otherwise."""
    return {**os.environ, "PYTHONPATH": f"{_folder(name)}{os.pathsep}{ROOT}"}


def install(name: str) -> Path:
    """The folder of the set ``name``, made if it is not there. Raises BuildError; nothing half-made stays behind."""
    folder = _folder(name)
    with build._locked(build.cache_root()):
        if folder.is_dir():
            print(f"{name}: there")
            return folder
        partial = Path(tempfile.mkdtemp(prefix=f".partial-{name}-", dir=build.cache_root()))
        try:
            pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input", "install", "--quiet"]
            exact = ["--require-hashes", "--no-deps", "--only-binary", ":all:", "--no-compile"]
            command = [*pip, *exact, "--target", str(partial), "-r", str(_requirements(name))]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode != 0:
                raise build.BuildError(f"{name}: pip failed: {done.stderr.strip()[-500:]}")
            partial.chmod(0o755)
            partial.rename(folder)
        finally:
            shutil.rmtree(partial, ignore_errors=True)
    print(f"{name}: installed")
    return folder


def _requirements(name: str) -> Path:
    if name not in OVERLAYS:
        raise KeyError(name)
    return HERE / f"{name}.txt"


def _folder(name: str) -> Path:
    digest = hashlib.sha256(_requirements(name).read_bytes())
    digest.update(f"{sys.version_info[:2]} {sys.platform}".encode())
    return build.cache_root() / f"{name}-{digest.hexdigest()[:16]}"


def main() -> int:
    """Run the command; 0 when all sets are there."""
    for name in OVERLAYS:
        try:
            install(name)
        except build.BuildError as error:
            print(error, file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
