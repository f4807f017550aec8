"""Let PyPI's torch for Linux start without CUDA's libraries: 3 GB that a comparison on CPUs never calls.

torch_without_cuda.py    # by the interpreter whose torch it is, after ``pip install --no-deps torch``

For each library that torch is linked against and that is not there, an empty one of that name is built into torch's own
folder. Its functions return an error, so that torch sees no device.
"""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
import tempfile
from pathlib import Path

#: What the interpreter's own module pulls in, directly or not.
ROOTS = ("libtorch_python.so", "libtorch_global_deps.so")
#: cudaErrorNoDevice; other libraries' errors are numbers above 0, too.
NO_DEVICE = 100


def output(*command: str | Path) -> str:
    """What a command prints."""
    return subprocess.run([str(word) for word in command], check=True, capture_output=True, text=True).stdout


def needed(library: Path) -> list[str]:
    """Names of the libraries that one is linked against."""
    return re.findall(r"\(NEEDED\).*\[(.+)\]", output("readelf", "-d", library))


def closure(folder: Path) -> tuple[list[Path], list[str]]:
    """Torch's own libraries that are loaded, and CUDA's that these want."""
    own: list[Path] = []
    foreign: list[str] = []
    waiting = list(ROOTS)
    while waiting:
        name = waiting.pop()
        path = folder / name
        if path in own or name in foreign:
            continue
        if path.is_file() and not is_stub(path):
            own.append(path)
            waiting += needed(path)
        elif re.match(r"lib(cu|nv|nccl)", name):
            foreign.append(name)
    return own, sorted(foreign)


def is_stub(path: Path) -> bool:
    """Whether this file was made here."""
    return path.stat().st_size < 200_000 and b"torch_without_cuda" in path.read_bytes()


def wanted(own: list[Path]) -> dict[str, set[str]]:
    """Functions of CUDA's libraries: by version, which names the library; "" has those without one."""
    found: dict[str, set[str]] = {}
    for library in own:
        for word in re.findall(r" U (\S+)", output("nm", "-D", "--undefined-only", library)):
            name, _, version = word.partition("@")
            if re.match(r"(lib(cu|nv|nccl)|NVSHMEM|$)", version) and re.match(r"(__)?(cu|nv|nccl)", name):
                found.setdefault(version.lstrip("@"), set()).add(name)
    return found


def build(folder: Path, library: str, versions: dict[str, set[str]]) -> None:
    """One empty library with the functions of these versions."""
    names = sorted(set().union(*versions.values()))
    source = 'const char made_by[] = "torch_without_cuda";\n'
    source += "".join(f"long {name}(void) {{ return {NO_DEVICE}; }}\n" for name in names)
    script = "".join(
        f"{version} {{ global: {' '.join(f'{name};' for name in sorted(own) or ['made_by'])} }};\n"
        for version, own in versions.items()
        if version
    )
    with tempfile.TemporaryDirectory() as place:
        (Path(place) / "stub.c").write_text(source, encoding="ascii")
        command = ["gcc", "-w", "-shared", "-fPIC", "-O1", "-nostdlib", f"-Wl,-soname,{library}"]
        if script:
            (Path(place) / "stub.map").write_text(script, encoding="ascii")
            command.append(f"-Wl,--version-script,{place}/stub.map")
        output(*command, "-o", folder / library, f"{place}/stub.c")


def main() -> None:
    """Build what is missing."""
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        sys.exit("this interpreter has no torch")
    folder = Path(spec.origin).parent / "lib"
    own, foreign = closure(folder)
    found = wanted(own)
    unversioned = found.pop("", set())
    for library in foreign:
        versions = {version: names for version, names in found.items() if version == library}
        if library.startswith("libnvshmem") and "NVSHMEM" in found:
            versions = {"NVSHMEM": found["NVSHMEM"]}
        if not versions:
            stem = re.match(r"lib([A-Za-z]+?)(_host)?\.so", library)
            versions = {"": {name for name in unversioned if stem and name.lower().startswith(stem[1].lower())}}
        build(folder, library, versions)
    sys.stderr.write(f"empty libraries beside torch: {', '.join(foreign) or 'none needed'}\n")


if __name__ == "__main__":
    main()
