"""The binary of the Rust peers and of the machine's limits."""

from __future__ import annotations

import shutil
import subprocess
import sys

from rounds import HERE, NATIVE


def build() -> None:
    """Build it with cargo, in a target folder of its own. Without cargo the binary that is there is taken."""
    cargo = shutil.which("cargo")
    if cargo is None:
        if not NATIVE.is_file():
            sys.stderr.write("no cargo: the Rust peers and the machine's limits are left out\n")
        return
    manifest = HERE / "native" / "Cargo.toml"
    subprocess.run([cargo, "build", "--locked", "--release", "--quiet", "--manifest-path", str(manifest)], check=True)
