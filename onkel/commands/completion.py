"""`onkel completion SHELL`: a script that completes commands, options, their choices and file names.

The script is made from the parser itself, so it knows exactly what this version of onkel knows.
"""

from __future__ import annotations

import argparse
from typing import Any

HOW = """
installing
  bash   eval "$(onkel completion bash)"                                       in ~/.bashrc
  zsh    eval "$(onkel completion zsh)"                                        in ~/.zshrc, after compinit
  fish   onkel completion fish > ~/.config/fish/completions/onkel.fish
"""


def add_parser(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        "completion",
        help="print a completion script for bash, zsh or fish",
        description="Prints a script that completes onkel's commands, options, choices and file names.",
        epilog=HOW,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("shell", choices=("bash", "zsh", "fish"))
    parser.set_defaults(run=command)


def command(arguments: argparse.Namespace) -> int:
    from onkel.cli import parser

    tree = commands(parser(everything=True))
    print({"bash": bash, "zsh": zsh, "fish": fish}[arguments.shell](tree), end="")
    return 0


Options = dict[str, list[str] | None]  # option: its choices, [] if it takes anything, None if it takes nothing


def commands(parser: argparse.ArgumentParser) -> dict[str, tuple[str, Options]]:
    """Each command with its help line and its options."""
    found: dict[str, tuple[str, Options]] = {}
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            lines = {choice.dest: choice.help or "" for choice in action._choices_actions}
            for name, inner in action.choices.items():
                found[name] = (lines.get(name, ""), _options(inner))
    return found


def _options(parser: argparse.ArgumentParser) -> Options:
    found: Options = {}
    for action in parser._actions:
        takes = None if action.nargs == 0 else [str(choice) for choice in action.choices or ()]
        if action.option_strings:
            found |= dict.fromkeys(action.option_strings, takes)
        elif takes:  # a positional argument with choices
            found |= dict.fromkeys(takes, None)
    return found


def bash(tree: dict[str, tuple[str, Options]]) -> str:
    cases, values = [], []
    for name, (_, options) in tree.items():
        cases.append(f"        {name}) words='{' '.join(options)}' ;;")
        values += [f"        {name}:{option}) words='{' '.join(takes)}' ;;" for option, takes in options.items() if takes]
        free = [f"{name}:{option}" for option, takes in options.items() if takes == []]
        values += [f"        {'|'.join(free)}) compopt -o default; return ;;"] if free else []
    return f"""_onkel() {{
    local word=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD-1]}} command=${{COMP_WORDS[1]}} words=''
    COMPREPLY=()
    if [ "$COMP_CWORD" -eq 1 ]; then
        COMPREPLY=($(compgen -W '{" ".join(tree)} --help --version' -- "$word"))
        return
    fi
    case "$command:$before" in
{chr(10).join(values)}
    esac
    [ -n "$words" ] || case "$command" in
{chr(10).join(cases)}
    esac
    COMPREPLY=($(compgen -W "$words" -- "$word"))
    [ ${{#COMPREPLY[@]}} -gt 0 ] || compopt -o default
}}
complete -F _onkel onkel
"""


def zsh(tree: dict[str, tuple[str, Options]]) -> str:
    cases = []
    for name, (_, options) in tree.items():
        specs = []
        for option, takes in options.items():
            if not option.startswith("-"):
                continue
            value = "" if takes is None else f":value:({' '.join(takes)})" if takes else ":value:_files"
            specs.append(f"'{option}{value}'")
        words = [word for word in options if not word.startswith("-")]
        specs.append(f"'*:argument:({' '.join(words)})'" if words else "'*:file:_files'")
        cases.append(f"        {name}) _arguments {' '.join(specs)} ;;")
    lines = [f"        '{name}:{_quoted(line)}'" for name, (line, _) in tree.items()]
    return f"""#compdef onkel
_onkel() {{
    local -a commands
    commands=(
{chr(10).join(lines)}
    )
    if (( CURRENT == 2 )); then
        _describe 'command' commands
        return
    fi
    local command=$words[2]
    shift words
    (( CURRENT-- ))
    case $command in
{chr(10).join(cases)}
    esac
}}
compdef _onkel onkel
"""


def fish(tree: dict[str, tuple[str, Options]]) -> str:
    lines = ["complete -c onkel -n __fish_use_subcommand -f"]
    for name, (line, options) in tree.items():
        lines.append(f"complete -c onkel -n __fish_use_subcommand -a {name} -d '{_quoted(line)}'")
        for option, takes in options.items():
            when = f"complete -c onkel -n '__fish_seen_subcommand_from {name}'"
            if not option.startswith("-"):
                lines.append(f"{when} -f -a {option}")
                continue
            flag = f"-l {option[2:]}" if option.startswith("--") else f"-s {option[1:]}"
            needs = "" if takes is None else f" -x -a '{' '.join(takes)}'" if takes else " -r"
            lines.append(f"{when} {flag}{needs}")
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    return text.replace("'", "").replace(":", "\\:")
