"""python -m bench [TOPIC …] [--rows N] [--rounds N] [--write]"""

from __future__ import annotations

import argparse
import importlib
import sys
import tempfile
from pathlib import Path

from bench import results

TOPICS = (
    "target",
    "streams",
    "batch",
    "tap",
    "state",
    "cluster",
    "query",
    "engines",
    "small",
    "commits",
    "combine",
    "erase",
    "site",
    "tables",
    "upload",
    "publish",
    "files",
    "wide",
)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("topics", nargs="*", metavar="TOPIC", help=f"of {', '.join(TOPICS)}")
    parser.add_argument("--rows", type=int, default=300_000, help="1000000 is the full size")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--write", action="store_true", help="put the results into RESULTS.md")
    parser.add_argument("--folder", help="where to work; a temporary folder by default")
    args = parser.parse_args()
    for topic in args.topics or TOPICS:
        print(f"{topic}:", file=sys.stderr)
        module = importlib.import_module(f"bench.{topic}")
        with tempfile.TemporaryDirectory(prefix="singerlake-bench-", dir=args.folder) as folder:
            found = module.run(Path(folder), args.rows, args.rounds)
        print(f"\n## {topic}\n\n{found}\n")
        if args.write:
            line = results.measured(args.rows, args.rounds)
            results.put(topic, found, line, TOPICS)


if __name__ == "__main__":
    main()
