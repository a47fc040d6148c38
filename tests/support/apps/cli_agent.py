"""A command line like Claude Code's, without a model; sessions are in `STAND_IN_SESSIONS`.

The last word of a prompt is what it does, else it answers with the prompt.
"""

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any


def write(**line: Any) -> None:
    print(json.dumps(line), flush=True)


def say(words: str) -> None:
    message = {"id": "m", "content": [{"type": "text", "text": words}]}
    write(type="assistant", message=message)


def main(arguments: list[str]) -> None:
    if arguments == ["--version"]:
        print("9.9 (a stand-in)")
        sys.exit(int(os.environ.get("STAND_IN_BROKEN", "0")))
    option = "--resume" if "--resume" in arguments else "--session-id"
    session = arguments[arguments.index(option) + 1]
    known = Path(os.environ["STAND_IN_SESSIONS"], session)
    if option == "--resume" and not known.exists():
        lost = {"is_error": True, "num_turns": 0, "errors": [f"no {session}"]}
        write(type="result", subtype="error_during_execution", **lost)
        sys.exit(1)
    with known.open("a") as kept:
        kept.write("turn\n")
    write(type="system", subtype="init", session_id=session)
    prompt = sys.stdin.read()
    match prompt.split()[-1]:
        case "hang":
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            say(str(os.getpid()))
            time.sleep(1_000)
        case "die":
            print("out of memory", file=sys.stderr)
            sys.exit(3)
        case "leave":
            sys.exit(0)
        case "refused":
            error = {"error_status": 401, "error": "authentication_failed"}
            write(type="system", subtype="api_retry", **error)
            time.sleep(1_000)
    told = {"argv": arguments, "prompt": prompt, "cwd": os.listdir(), "env": sorted(os.environ)}
    answer = json.dumps({**told, "turns": len(known.read_text().splitlines())})
    say(answer)
    usage = {"input_tokens": 2, "output_tokens": 3}
    write(type="result", result=answer, stop_reason="end_turn", usage=usage, total_cost_usd=0.5)


if __name__ == "__main__":
    main(sys.argv[1:])
