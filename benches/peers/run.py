"""Compare treadle with its peers on this machine and write ``docs/performance.md``.

python benches/peers/run.py                 # everything, about half an hour
python benches/peers/run.py --quick         # fewer rounds, no large cases; printed
python benches/peers/run.py --only tccg     # one section, by its key in sections/; printed
python benches/peers/run.py --only tccg 1t dfce --peers numpy tcontract --rounds 3   # titles that contain all words
python benches/peers/run.py --render FILE   # the page of an earlier run's --json FILE
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

from case import Case
from machine import about
from native_build import build
from report import page
from result import OURS, Result
from rounds import PEERS_PYTHON, UNKNOWN, Workers, measure
from section import Section
from sections import SECTIONS
from tables import seconds

KEYS = {section.key for section in SECTIONS}
ROOT = Path(__file__).resolve().parents[2]


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description="Compare treadle with its peers on this machine.")
    parser.add_argument("--quick", action="store_true", help="three rounds and no large cases; prints the page")
    parser.add_argument("--only", metavar="WORD", nargs="+", default=[], help="cases that contain all words; prints")
    parser.add_argument("--peers", metavar="NAME", nargs="+", help="contenders besides treadle; all by default")
    parser.add_argument("--rounds", metavar="N", type=int, help="rounds of each case")
    parser.add_argument("--json", metavar="FILE", type=Path, help="where all numbers go")
    parser.add_argument("--output", metavar="FILE", type=Path, help="where the page goes")
    parser.add_argument("--render", metavar="FILE", type=Path, help="the numbers of an earlier run; measures nothing")
    parser.add_argument(
        "--peers-python", metavar="FILE", type=Path, help="the interpreter that has torch, jax, pytblis"
    )
    return parser.parse_args()


def chosen(section: Section, options: argparse.Namespace) -> list[Case]:
    """The cases of a section that were asked for."""
    words = [word.lower() for word in options.only]
    named = [word for word in words if word in KEYS]
    if named and section.key not in named:
        return []
    words = [word for word in words if word not in KEYS]
    return [
        case
        for case in section.cases()
        if (case.quick or not options.quick) and all(word in f"{section.title.lower()} {case.words}" for word in words)
    ]


def apart(section: Section, options: argparse.Namespace) -> bool:
    """Whether what a section measures otherwise was asked for."""
    return not options.peers and (not options.only or options.only == [section.key])


def line(result: Result) -> str:
    """One result, for a person who waits."""
    found = [f"{result.section} {result.threads}T {result.title}:"]
    for name in result.seconds:
        if result.has(OURS) and name != OURS:
            found.append(f"{name} {result.ratio(name):.2f}/{result.ratio(name, best=True):.2f}")
        else:
            found.append(f"{name} {seconds(result.time(name))};")
    found += [f"({name}: {why})" for name, why in result.left_out.items() if why != UNKNOWN]
    return " ".join(found)


def run(options: argparse.Namespace) -> dict[str, Any]:
    """Measure, and print what came as it comes."""
    build()
    python = options.peers_python or (PEERS_PYTHON if PEERS_PYTHON.is_file() else None)
    workers = Workers(python)
    results, others = [], {}
    try:
        machine = about(workers, options.peers)
        for section in SECTIONS:
            for case in chosen(section, options):
                kept = case.only(options.peers) if options.peers else case
                rounds = options.rounds or (3 if options.quick else case.rounds)
                start = time.monotonic()
                result = measure(kept, workers, rounds)
                if result is not None:
                    results.append(result)
                    sys.stderr.write(f"{line(result)} [{time.monotonic() - start:.0f} s]\n")
            if apart(section, options):
                sys.stderr.write(f"{section.key}\n")
                others[section.key] = section.measure_apart(workers, quick=options.quick)
    finally:
        workers.close()
    return {"machine": machine, "results": [result.to_json() for result in results], "apart": others}


def main() -> int:
    """Measure or read, and write the page."""
    options = parse()
    found = run(options) if options.render is None else json.loads(options.render.read_text(encoding="utf-8"))
    if options.json is not None:
        options.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    text = page(SECTIONS, found)
    target = options.output
    if target is None and not (options.quick or options.only or options.peers):
        target = ROOT / "docs" / "performance.md"
    if target is None:
        sys.stdout.write(text)
    else:
        target.write_text(text, encoding="utf-8")
        sys.stderr.write(f"written: {target}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
