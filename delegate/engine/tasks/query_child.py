"""The child of `querying`: reads a body and jq expressions from a file, and prints the paths that each leads to. Shut in by its parent."""

import json
import sys
from typing import Any

import jq


def main(file: str) -> None:
    with open(file, encoding="utf-8") as text:
        question = json.load(text)
    paths, faults = {}, {}
    for expression in question["expressions"]:
        try:
            found = jq.compile(f"[path({expression})]").input_value(question["body"]).first()
        except ValueError as error:
            faults[expression] = str(error)
            continue
        paths[expression] = [path for path in found if _leads_somewhere(question["body"], path)]
    json.dump({"paths": paths, "faults": faults}, sys.stdout)


def _leads_somewhere(body: Any, path: list[Any]) -> bool:
    here = body
    for step in path:
        if (isinstance(here, dict) and step in here) or (isinstance(here, list) and isinstance(step, int) and 0 <= step < len(here)):
            here = here[step]
        else:
            return False
    return True


if __name__ == "__main__":
    main(sys.argv[1])
