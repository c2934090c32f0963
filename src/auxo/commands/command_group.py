"""What all commands share: how they are found, how errors end, exit codes, and how examples stand below a help page.

Exit codes: 0 when all went well, 1 when a run came to its end and failed, 2 for bad input (one message, no traceback),
130 after Ctrl-C, 143 after SIGTERM.
"""

import copy
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar, cast

import click
import typer
from typer.core import TyperGroup

from auxo.commands.stopping import exit_code, words_for_stop
from auxo.registry.expectation import nearest
from auxo.registry.import_path import load_callable

FAILED = 1
BAD_INPUT = 2

# Options of `auxo data convert` that other commands are asked for; some settings of these names mean something else.
_OF_TABLES = ("client", "features", "label", "split", "group", "text", "shape", "tokens", "categories", "task")
_SUGGESTS = not hasattr(click.exceptions, "NoSuchCommand")  # newer versions of click say themselves what was meant


@dataclass(frozen=True)
class Listed:
    """A command that is imported when it is asked for.

    The module of a function may have ``EXAMPLES``, the end of its help page.
    """

    name: str
    path: str  # import path of the function, or of the typer app of a group
    about: str  # the first sentence of its help, for the list of commands

    def load(self) -> click.Command:
        """Import the command."""
        found: Any = load_callable(self.path)
        around = typer.Typer(add_completion=False, suggest_commands=_SUGGESTS)
        around.callback()(_nothing)  # so that it is a group, though of one command
        if isinstance(found, typer.Typer):
            around.add_typer(found, name=self.name)
        else:
            around.command(self.name, epilog=found.__globals__.get("EXAMPLES"))(found)
        return cast("TyperGroup", typer.main.get_command(around)).commands[self.name]


def _nothing() -> None:
    """Do nothing."""


class ListedCommands(Mapping[str, click.Command]):
    """Commands by name; what is not asked for is not imported."""

    def __init__(self, listed: tuple[Listed, ...], registered: Mapping[str, click.Command]) -> None:
        self._listed = {one.name: one for one in listed}
        self._loaded = dict(registered)

    def __getitem__(self, name: str) -> click.Command:
        if name not in self._loaded:
            self._loaded[name] = self._listed[name].load()
        return self._loaded[name]

    def __iter__(self) -> Iterator[str]:
        return iter({**self._listed, **self._loaded})

    def __len__(self) -> int:
        return len({**self._listed, **self._loaded})


class CommandGroup(TyperGroup):
    """Turns errors that the user can mend into one message and exit code 2, for all commands."""

    listed: ClassVar[tuple[Listed, ...]] = ()

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**{**attributes, "suggest_commands": _SUGGESTS})
        if self.listed:
            # Nothing is ever added to it, so that it need not be mutable.
            known = ListedCommands(self.listed, self.commands)
            self.commands = cast("MutableMapping[str, click.Command]", known)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands."""
        return list(self.commands)

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the help page; commands on its list are not imported for it."""
        page = copy.copy(self)
        page.commands = {name: self._on_a_list(name) for name in self.commands}
        TyperGroup.format_help(page, ctx, formatter)

    def _on_a_list(self, name: str) -> click.Command:
        about = next((one.about for one in self.listed if one.name == name), None)
        return self.commands[name] if about is None else click.Command(name, help=about)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that was asked for, its name and the rest of the words."""
        name, command, rest = super().resolve_command(ctx, args)
        if command is not None and not isinstance(command, click.Group):
            _refuse_repeated(command, rest)
        return name, command, rest

    def invoke(self, ctx: click.Context) -> object:
        """Invoke the command that was asked for."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            raise  # `auxo config show | head` is no error; click ends quietly
        except click.NoSuchOption as error:
            raise _with_setting(error) from None
        except KeyboardInterrupt as stop:
            typer.echo(f"auxo: {words_for_stop(stop)}", err=True)
            raise typer.Exit(exit_code(stop)) from None
        except Exception as error:
            if not isinstance(error, _mendable()):
                raise
            typer.echo(f"auxo: {_message(error)}", err=True)
            raise typer.Exit(BAD_INPUT) from None


@cache
def _mendable() -> tuple[type[Exception], ...]:
    """Return the errors that the user can mend; imported when there is one, for their modules take long."""
    from auxo.experiments.config_file import ConfigError  # noqa: PLC0415
    from auxo.files.errors import FileError  # noqa: PLC0415
    from auxo.runtime.failures import WorkersLost  # noqa: PLC0415

    return (ConfigError, FileError, OSError, MemoryError, WorkersLost)


def _with_setting(error: click.NoSuchOption) -> click.UsageError:
    """Return the error for an unknown option, with the setting of that name if the command takes settings."""
    own = [] if error.ctx is None else [name for one in error.ctx.command.params for name in one.opts]
    name = error.option_name.lstrip("-").replace("-", "_")
    if "--set" not in own:
        return error
    if name in _OF_TABLES:
        return click.UsageError(
            f"No such option '{error.option_name}'. It is one of `auxo data convert TABLE TABLE.arrow`, which says "
            "what the columns of a table are; then give TABLE.arrow with --population",
            ctx=error.ctx,
        )
    from auxo.experiments.config_file import setting_called  # noqa: PLC0415 - takes long, and is seldom needed

    setting = setting_called(name)
    near = nearest(error.option_name, (one for one in own if one.startswith("--")))
    if setting is not None and near is not None and setting.rpartition(".")[2] != name:
        return click.NoSuchOption(error.option_name, possibilities=[near], ctx=error.ctx)
    if setting is None:
        return error
    return click.UsageError(
        f"No such option '{error.option_name}'. It is a setting: --set {setting}=VALUE", ctx=error.ctx
    )


def _refuse_repeated(command: click.Command, args: Sequence[str]) -> None:
    """Refuse an option that is given again although it has one value: the first would be dropped without a word."""
    given = list(args[: list(args).index("--")] if "--" in args else args)
    for option in command.params:
        if not isinstance(option, click.Option) or option.multiple or option.is_flag:
            continue
        values = [word for word in given if word.partition("=")[0] in option.opts]
        if len(values) > 1:
            raise click.UsageError(f"{option.opts[0]} is given {len(values)} times; it takes one value, give it once")


def examples(*commands: str) -> str:
    """Return the end of a help page that shows how a command is used."""
    return "\n\n".join(("Examples:", *commands))  # the help page joins lines, but not paragraphs


def _message(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return str(error)
