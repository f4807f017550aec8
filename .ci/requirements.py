"""Print the requirements of extras of pyproject.toml, one a line; ``run`` is what the package itself needs."""

import sys
import tomllib
from pathlib import Path

project = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["project"]
for extra in sys.argv[1:]:
    wanted = project["dependencies"] if extra == "run" else project["optional-dependencies"][extra]
    print(*wanted, sep="\n")
