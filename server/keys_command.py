"""``parley keys``: makes, lists and revokes API keys. A server that runs follows at once."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence

from server import keys
from server.settings import load

_ABOUT = {
    "create": "Make an API key and print it, once.",
    "list": "Show which keys there are: id, day of making, name.",
    "revoke": "Take a key back: it starts nothing more; sessions that run go on.",
}


def main(command: str, arguments: Sequence[str]) -> int:
    """Runs ``create``, ``list`` or ``revoke`` and returns the exit status.

    Raises:
        SettingsProblem: the settings that say where the file is cannot be used.
        KeysProblem: the file cannot be used.
    """
    parser = argparse.ArgumentParser(f"parley keys {command}", description=_ABOUT[command])
    if command == "create":
        parser.add_argument("--name", default="", help="what the key is for")
    if command == "revoke":
        parser.add_argument("id", help="as `parley keys list` shows it")
    parser.add_argument("--keys-file", default="", help="the server's setting of that name")
    parser.add_argument("--config", default="", help="the server's TOML file")
    given = parser.parse_args(arguments)
    told = {"--keys-file": given.keys_file, "--config": given.config}
    settings = load([word for option, value in told.items() if value for word in (option, value)])
    path = keys.keys_path(settings.keys_file)
    if command == "create":
        key, secret = keys.create(path, given.name, int(time.time()))
        print(f"{key.id}: keep it now, it is not shown again", file=sys.stderr)
        print(secret)
    elif command == "list":
        for key in keys.read(path) or ():
            print(key.id, time.strftime("%Y-%m-%d", time.gmtime(key.created)), key.name)
    elif not keys.revoke(path, given.id):
        print(f"parley: no key has the id {given.id}", file=sys.stderr)
        return 1
    return 0
