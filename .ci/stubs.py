"""Compare the stub with the binary: stubtest, with an allow-list in which every line has its reason."""

import subprocess
import sys
from pathlib import Path

ALLOWED = Path(__file__).with_name("stubtest-allowlist.txt")

for number, line in enumerate(ALLOWED.read_text(encoding="utf-8").splitlines(), start=1):
    if line and not line.startswith("#") and "#" not in line:
        sys.exit(f"{ALLOWED.name}, line {number}: {line!r} has no reason")
sys.exit(
    subprocess.run(
        [
            sys.executable,
            "-m",
            "mypy.stubtest",
            "treadle",
            "--mypy-config-file",
            "pyproject.toml",
            "--allowlist",
            str(ALLOWED),
        ],
        check=False,
    ).returncode
)
