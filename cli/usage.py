"""The errors of a command line, of click's or ours, in the one form of all errors."""

from __future__ import annotations

import re
from difflib import get_close_matches
from typing import Any

import click
from typing_extensions import override

from gpu_node.facts.ask.pyinfra_file import CLUSTER_FILES, INVENTORIES
from gpu_node.inventories.errors import as_printed, did_you_mean, failed, shown, worded

_EXTRA = re.compile(r"Got unexpected extra arguments? \((.*)\)", re.DOTALL)
# What an argument that is left out stands for.
_ARGUMENTS = {
    "INVENTORY": INVENTORIES,
    "DIR": "a folder for the new inventory",
    "LOG": "log files, folders of them, or - for stdin",
    "NODE": "a node of the inventory",
    "NAME": "a node of the inventory",
    "RULE": "a rule or an area, see gpu-node rules",
    "--output": "a folder for the scripts",
    "--inventory": CLUSTER_FILES,
}
# What other programs call it; the word that is near, such as explain for plan, is another thing.
_OTHER_WORDS = {
    "help": "--help",
    "version": "--version",
    **dict.fromkeys(("plan", "diff", "preview"), "deploy --dry"),
    **dict.fromkeys(("fix", "repair", "apply"), "deploy"),
    **dict.fromkeys(("report", "status", "scan", "audit"), "drift"),
    **dict.fromkeys(("add", "join"), "onboard"),
    **dict.fromkeys(("validate", "lint"), "check"),
    "test": "verify",
    **dict.fromkeys(("undo", "revert", "rollback"), "restore"),
}
# What other programs call an option, and what has no option here.
_OTHER_OPTIONS = {
    "--ask-sudo-password": ("-K", "--ask-become-pass"),
    "--dry": ("-n", "-C", "--check", "--diff", "--dry-run", "--dry"),
    "--limit": ("-l", "--host", "--hosts", "--node", "--nodes"),
    "--areas": ("-t", "--tags", "--only", "--area"),
    "--only": ("-t", "--tags", "--areas", "--area", "--rule"),
    "--full": ("-v", "-vv", "--verbose"),
    "--version": ("-V", "-v"),
}
_IN_THE_INVENTORY = {
    ("-b", "--become", "--sudo"): "has it, as ssh: {sudo: true}",
    ("-u", "--user"): "has it, as ssh: {user: NAME}",
    ("-p", "--port"): "has it, as ssh: {port: NUMBER}",
    ("--key", "--private-key"): "has it, as ssh: {key: FILE}",
    ("-i", "--inventory"): "is a word without an option",
}
_READERS = ("check", "check-job", "diagnose", "drift", "explain", "fit", "history", "hostfile")


def printed(error: click.ClickException) -> str:
    """Return an error as it is printed: one line for each problem; help where nothing was given."""
    text = as_printed(_in_form(error))
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        text += f"\n\n{error.ctx.get_help()}"
    return text


def failure(error: Exception, name: str = "") -> click.ClickException:
    """Return the failure of a command for its user; `name` is the node that it is about."""
    return click.ClickException(failed(error, name))


class Choice(click.Choice[str]):
    """One of some words."""

    @override
    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if value not in self.choices:
            why = did_you_mean(str(value), self.choices).removeprefix(", ")
            allowed = ", ".join(self.choices)
            raise click.BadParameter(worded(shown(value), why, allowed), ctx, param)
        return value


class Number(click.IntRange):
    """A whole number from a range."""

    @override
    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        try:
            return int(super().convert(value, param, ctx))
        except click.BadParameter:
            allowed = f"a whole number, {self.min} to {self.max}"
            raise click.BadParameter(worded(shown(value), "", allowed), ctx, param) from None


def _in_form(error: click.ClickException) -> str:
    """Return the problems of an error, one a line, without the program's name."""
    if not isinstance(error, click.UsageError):
        return error.format_message()
    text = _usage(error)
    if error.ctx is None:
        return text
    then = f"; next: {error.ctx.command_path} --help"
    return "\n".join(line if "; next: " in line else line + then for line in text.split("\n"))


def _usage(error: click.UsageError) -> str:
    context = error.ctx
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        return f"COMMAND: {worded('nothing', '', _commands(context))}"
    if isinstance(error, click.exceptions.NoSuchOption):
        return worded(*_option(error))
    if isinstance(error, click.BadOptionUsage):
        return _without_or_with_a_value(error)
    if isinstance(error, click.MissingParameter) and error.param is not None:
        key = _key(error.param)
        return f"{key}: {worded('nothing', '', _ARGUMENTS.get(key, 'a value'))}"
    if isinstance(error, click.BadParameter):
        key = f"{_key(error.param)}: " if error.param is not None else ""
        return f"{key}{error.message}"
    if extra := _EXTRA.match(error.message):
        return worded(shown(extra[1]), "more than the command takes", _words_of(context))
    if isinstance(context and context.command, click.Group) and (
        unknown := re.match(r"No such command '(.*)'", error.message, re.DOTALL)
    ):
        commands = _commands(context)
        other = _OTHER_WORDS.get(unknown[1]) if context and context.parent is None else None
        near = did_you_mean(unknown[1], commands.split(", "))
        why = f"no such command{f', did you mean {other}?' if other else near}"
        return worded(shown(unknown[1]), why, commands)
    return error.message


def _key(param: click.Parameter) -> str:
    """Return how a user names a parameter: --limit, INVENTORY."""
    if isinstance(param, click.Option):
        return max(param.opts, key=len)
    return (param.metavar or param.human_readable_name).strip("[].").upper()


def _option(error: click.exceptions.NoSuchOption) -> tuple[str, str, str]:
    options = [
        name
        for param in (error.ctx.command.get_params(error.ctx) if error.ctx else ())
        if isinstance(param, click.Option)
        for name in param.opts
        if name.startswith("--")
    ]
    why = _elsewhere(error, options)
    plain = {name.lstrip("-"): name for name in options}
    near = get_close_matches(error.option_name.lstrip("-"), plain, n=1)
    close = [] if why else [*_of_a_choice(error), *_of_others(error, options)]
    close += [plain[each] for each in near if not why]
    hint = f", did you mean {close[0]}?" if close else why
    return shown(error.option_name), f"no such option{hint}", ", ".join(options)


def _of_others(error: click.exceptions.NoSuchOption, options: list[str]) -> list[str]:
    """Return what other programs' option is here, where the command has it."""
    meant = (option for option, others in _OTHER_OPTIONS.items() if error.option_name in others)
    return [option for option in meant if option in options]


def _elsewhere(error: click.exceptions.NoSuchOption, options: list[str]) -> str:
    """Return where that is which no option of the command has; empty for another option."""
    command = error.ctx.command if error.ctx else None
    takes = [_key(each) for each in command.params] if command else []
    if "INVENTORY" in takes and "--user" not in options:
        for words, where in _IN_THE_INVENTORY.items():
            if error.option_name in words:
                return f"; the inventory {where}"
    is_reader = command is not None and command.name in _READERS
    is_dry = error.option_name in _OTHER_OPTIONS["--dry"]
    return "; this command changes nothing" if is_reader and is_dry else ""


def _of_a_choice(error: click.exceptions.NoSuchOption) -> list[str]:
    """Return the option that takes the word of an unknown one: --format json for --json."""
    word = error.option_name.lstrip("-")
    params = error.ctx.command.get_params(error.ctx) if error.ctx else []
    return [
        f"{max(param.opts, key=len)} {word}"
        for param in params
        if isinstance(param.type, click.Choice) and word in param.type.choices
    ]


def _without_or_with_a_value(error: click.BadOptionUsage) -> str:
    """Return what is wrong with an option that lacks its value, or that takes none."""
    name = error.option_name
    if "does not take a value" in error.message:
        return f"{name}: {worded('a value', '', f'{name} alone')}"
    return f"{name}: {worded('nothing', '', f'a value behind {name}')}"


def _commands(context: click.Context | None) -> str:
    command = context.command if context else None
    if context is None or not isinstance(command, click.Group):
        return ""
    return ", ".join(command.list_commands(context))


def _words_of(context: click.Context | None) -> str:
    if context is None:
        return ""
    return " ".join([context.command_path, *context.command.collect_usage_pieces(context)])
