"""The options of ``parley talk``, and how its ends look to a shell.

Status 0: the file was answered, or the caller hung up; 1: the server was not there, refused or
left; 2: an option, a file or a device cannot be used; 130: interrupted before a file was answered.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import ssl
import sys
from collections.abc import Sequence
from pathlib import Path

from server.talk import address, devices
from server.talk.client import Call, CallProblem
from server.talk.devices import DeviceHandset
from server.talk.dialogue import Dialogue, Refused
from server.talk.files import FileHandset, Recording
from server.talk.handset import Handset, HandsetProblem
from server.talk.screen import Screen

KEY = "PARLEY_KEY"


def main(arguments: Sequence[str]) -> int:
    """Runs the command; returns its exit status."""
    parser = _parser()
    given = parser.parse_args(arguments)
    if given.file and (given.input or given.output):
        parser.error("--file takes the place of --input and --output")
    try:
        if given.list_devices:
            print(devices.listed())
            return 0
        where = address.read(given.url, given.key, os.environ.get(KEY))
        return asyncio.run(_talk(given, where, _trust(given)))
    except (address.AddressProblem, HandsetProblem) as problem:
        return _complain(problem, 2)
    except Refused as problem:
        return _complain(f"the server refuses: {problem}", 1)
    except CallProblem as problem:
        return _complain(problem, 1)
    except KeyboardInterrupt:
        return 130 if given.file else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="parley talk",
        description="Talk to a server from the terminal, or play it a WAV file.",
    )
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--url", help="of the server, as it printed it or as clients have it")
    what.add_argument("--list-devices", action="store_true", help="show the sound devices")
    parser.add_argument("--key", help=f"API key or token; else the URL's, else {KEY}'s")
    parser.add_argument("--file", type=Path, help="WAV file to say instead of a microphone's sound")
    parser.add_argument("--save", type=Path, help="WAV file to write: what is played, in step")
    parser.add_argument("--input", help="microphone: a device's number, or part of its name")
    parser.add_argument("--output", help="loudspeaker: likewise")
    parser.add_argument("--ca", type=Path, help="PEM file of certificates to trust for TLS")
    parser.add_argument("--insecure", action="store_true", help="trust any certificate")
    return parser


async def _talk(
    given: argparse.Namespace, where: address.Address, tls: ssl.SSLContext | None
) -> int:
    with contextlib.ExitStack() as stack:
        handset: Handset = (
            FileHandset(given.file) if given.file else DeviceHandset(given.input, given.output)
        )
        stack.callback(handset.close)
        recording = None
        if given.save:
            recording = Recording(given.save)
            stack.callback(recording.close)
        dialogue = Dialogue(handset.silence)
        screen = Screen(sys.stdout, dialogue.captions)
        await Call(dialogue, handset, screen, recording).run(where, tls)
        return 1 if dialogue.failed else 0


def _trust(given: argparse.Namespace) -> ssl.SSLContext | None:
    """What TLS trusts; None is what the system does.

    Raises:
        HandsetProblem: the certificates cannot be read.
    """
    if not given.ca and not given.insecure:
        return None
    try:
        context = ssl.create_default_context(cafile=given.ca)
    except OSError as problem:
        raise HandsetProblem(f"--ca: cannot read {given.ca}: {problem.strerror}") from None
    if given.insecure:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def _complain(problem: Exception | str, status: int) -> int:
    print(f"parley: {problem}", file=sys.stderr)
    return status
