"""Completion and man page: every command and flag is in them, and the shells take them."""

import re
import shutil
import subprocess

import pytest

from support.relay import binary

pytestmark = pytest.mark.smoke


def outrider(*arguments):
    return subprocess.run([binary(), *arguments], capture_output=True, text=True, timeout=30,
                          check=True).stdout


def help_of(*words):
    """(commands, flags) of a command's help."""
    text = outrider(*words, "--help")
    _options, _mark, rest = text.partition("\nOptions:\n")
    flags = set(re.findall(r"(?<![\w-])--?[a-z][\w-]*", "\n".join(
        line[:30] for line in rest.splitlines() if re.match(r"  -", line))))
    commands = []
    group = False
    for line in rest.splitlines():
        if re.match(r"\S.*:$", line):
            group = line != "Exit codes:"
        elif group and (found := re.match(r"  ([a-z][\w-]*)", line)):
            commands.append(found.group(1))
    return commands, flags


def everything():
    """[(words of a command, its flags)], the whole tree."""
    found = []
    waiting = [()]
    while waiting:
        words = waiting.pop()
        commands, flags = help_of(*words)
        found.append((words, flags))
        waiting += [words + (command,) for command in commands]
    return found


@pytest.fixture(scope="module")
def tree():
    return everything()


def complete(*words):
    """What bash offers behind these words."""
    script = outrider("completion", "bash") + (
        f"\nCOMP_WORDS=(outrider {' '.join(words)} '')\nCOMP_CWORD={len(words) + 1}\n_outrider\n"
        'printf "%s\\n" "${COMPREPLY[@]}"\n')
    return set(subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=30,
                              check=True).stdout.split())


def test_the_tree_is_seen(tree):
    words = {" ".join(words) for words, _flags in tree}
    assert {"run", "doctor", "teardown", "completion zsh", "dead-letters retry"} <= words, words


def test_bash_offers_every_command_and_flag(tree):
    for words, flags in tree:
        offered = complete(*words)
        missing = flags - offered
        assert not missing, f"{words}: {missing} not in {offered}"
    for words, _flags in tree:
        if words:
            assert words[-1] in complete(*words[:-1]), words


def test_bash_offers_files_and_no_flags_behind_a_flag_with_a_value(tmp_path):
    (tmp_path / "outrider.yaml").write_text("")
    script = outrider("completion", "bash") + (
        f"\ncd {tmp_path}\nCOMP_WORDS=(outrider run -c out)\nCOMP_CWORD=3\n_outrider\n"
        'printf "%s\\n" "${COMPREPLY[@]}"\n')
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["outrider.yaml"]
    assert complete("run", "--set") == set()


def test_zsh_knows_every_command_and_flag(tree):
    script = outrider("completion", "zsh")
    for words, flags in tree:
        name = "_outrider" + "".join("_" + word.replace("-", "_") for word in words)
        body = re.search(rf"^{name}\(\) \{{\n(.*?)^\}}", script, flags=re.M | re.S)
        assert body, name
        for flag in flags:
            assert f"'*{flag}[" in body.group(1), f"{words}: {flag}"
    if shutil.which("zsh"):
        subprocess.run(["zsh", "-n"], input=script, text=True, check=True)


def test_the_man_page_has_every_command_and_flag(tree):
    page = outrider("man")
    plain = page.replace("\\-", "-")
    for words, flags in tree:
        if not words:
            part = plain.partition(".SH OPTIONS")[2].partition(".SH COMMANDS")[0]
        else:
            part = plain.partition(f'.SS "outrider {" ".join(words)}"\n')[2].partition("\n.SS ")[0]
        assert part, words
        for flag in flags:
            assert f"\\fB{flag}\\fR" in part, f"{words}: {flag}"
    if shutil.which("groff"):
        done = subprocess.run(["groff", "-man", "-Tascii", "-ww"], input=page, text=True,
                              capture_output=True, check=True)
        assert done.stderr == "", done.stderr
        assert "EXIT STATUS" in re.sub(r".\x08|\x1b\[\d*m", "", done.stdout)
