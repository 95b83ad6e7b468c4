"""The options of `script/server`. Read before anything is installed, so only with the standard library."""

import argparse
import shlex


def parse(arguments: list[str]) -> argparse.Namespace:
    """Return the options, or end the process with argparse's usage and one sentence."""
    parser = argparse.ArgumentParser(
        prog="script/server",
        description="Run the whole site: PostgreSQL, Redis, web server, Celery worker and beat, and the fleet.",
        epilog="DATABASE_URL and REDIS_URL put servers of your own in place of the embedded ones; VAR_DIR another "
        "folder in place of var/. Every setting: openrl_site/settings.py.",
    )
    parser.add_argument("--port", type=_port, default=8000, metavar="N", help="port of the web server (8000)")
    parser.add_argument("--host", default="127.0.0.1", help="address of the web server (127.0.0.1); 0.0.0.0 opens it")
    fleet = parser.add_mutually_exclusive_group()
    fleet.add_argument("--no-fleet", action="store_true", help="the site without the reference fleet")
    fleet.add_argument(
        "--fleet-only",
        action="store_true",
        help="only the reference fleet, on REDIS_URL or the Redis of a script/server that runs",
    )
    parser.add_argument("--fleet-args", type=_words, default=[], metavar='"…"', help="passed on to the fleet")
    parser.add_argument("--reset", action="store_true", help="delete all data, users and secrets first")
    options = parser.parse_args(arguments)
    if options.reset and options.fleet_only:
        parser.error("argument --reset: not allowed with --fleet-only, which has no data")
    return options


def _port(text: str) -> int:
    if not text.isdigit() or not 1 <= int(text) <= 65535:
        raise argparse.ArgumentTypeError(f"{text!r} must be a whole number from 1 to 65535")
    return int(text)


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} must be words as in a shell ({error})") from None
