"""A process that has imported airfl from its own path and forks a child for every job.

`python -P installed.py`: each line of standard input is a job in JSON, `{"folder", "kind", "given", "told"}`, of kind
"airfl" (given: lists of words, one command after another), "script" (a text) or "pytest" (words). Output is written to
the file `told`; each answer is a line with the exit code.
"""

import gc
import json
import os
import sys
import traceback
from typing import Any


def main() -> None:
    """Work through the jobs."""
    import matplotlib.figure  # noqa: F401
    import pandas  # noqa: F401
    import pytest  # noqa: F401
    import torch
    import xarray  # noqa: F401

    import airfl
    import airfl.cli
    import airfl.simulation
    import channels

    torch.set_num_threads(1)
    print(json.dumps([airfl.__file__, channels.__file__]), flush=True)
    gc.freeze()
    for line in sys.stdin:
        child = os.fork()
        if not child:
            become(json.loads(line))
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


def become(job: dict[str, Any]) -> None:
    out = os.open(job["told"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for number in (1, 2):
        os.dup2(out, number)
    os.chdir(job["folder"])
    sys.path.insert(0, job["folder"])
    code = 1
    try:
        code = {"airfl": commands, "script": script, "pytest": tests}[job["kind"]](job["given"])
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    except BaseException:
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def commands(given: list[list[str]]) -> int:
    """The last one's exit code, or the first that is none of a success."""
    from airfl.cli import app

    for words in given:
        if code := app(words, standalone_mode=False):
            return int(code)
    return 0


def script(text: str) -> int:
    exec(compile(text, "the page", "exec"), {"__name__": "__main__"})
    return 0


def tests(words: list[str]) -> int:
    import pytest

    return int(pytest.main(["-p", "no:cacheprovider", "-rA", *words]))


if __name__ == "__main__":
    main()
