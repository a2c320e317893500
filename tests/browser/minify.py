"""Minify the browser client into ``ingest/browser/min``, which the service sends and the repository keeps.

``--check`` only says, through the exit code, whether what lies there is what the sources give.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ROOT / "ingest" / "browser"
ESBUILD = ROOT / "tests" / "browser" / "node_modules" / ".bin" / "esbuild"
# Chrome and Edge 94, Firefox 93, Safari 16.4 read this as it stands.
OPTIONS = (
    "--minify",
    "--format=esm",
    "--target=es2022",
    "--charset=utf8",
    "--mangle-props=^(unsent|span|timer|key)$",  # of an entry, which nobody outside browser.js sees
)


def minified() -> dict[Path, bytes]:
    """What each file of ``ingest/browser/min`` should hold; the program ends with a sentence if esbuild can't run."""
    if not ESBUILD.exists():
        sys.exit("esbuild is not there: npm ci --prefix tests/browser")
    return {
        SOURCES / "min" / source.name: subprocess.run(
            [ESBUILD, *OPTIONS], input=source.read_bytes(), stdout=subprocess.PIPE, check=True
        ).stdout
        for source in sorted(SOURCES.glob("*.js"))
    }


def main(arguments: list[str]) -> int:
    """Write what differs; returns 1 when ``--check`` finds something that does."""
    status = 0
    for path, content in minified().items():
        if path.exists() and path.read_bytes() == content:
            continue
        status = 1
        if "--check" in arguments:
            print(f"{path.relative_to(ROOT)} is out of date: run `make browser`")
            continue
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)
        print(f"written   {path.relative_to(ROOT)} ({len(content):,} bytes)")
    return status if "--check" in arguments else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
