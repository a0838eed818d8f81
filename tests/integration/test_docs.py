"""The documentation says what is so: links, commands, exit codes, options, metrics, rooms."""

import glob
import os
import re
import subprocess
import sys

import pytest

from support.relay import binary

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PAGES = ["README.md"] + sorted(
    os.path.relpath(path, ROOT) for path in glob.glob(os.path.join(ROOT, "docs", "**", "*.md"),
                                                      recursive=True))
pytestmark = pytest.mark.smoke

SECTIONS = ("log", "http", "control", "source", "outbox", "route", "kafka", "delivery",
            "dead_letters", "limits")


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return file.read()


def without_blocks(text):
    return re.sub(r"^```.*?^```", "", text, flags=re.M | re.S)


def code_spans(text):
    return re.findall(r"`([^`\n]+)`", without_blocks(text))


def shell_lines(text):
    """Lines of the sh blocks, joined where a backslash continues them, without comments."""
    for block in re.findall(r"^```sh\n(.*?)^```", text, flags=re.M | re.S):
        block = re.sub(r"<<'(\w+)'.*?^\1$", "", block.replace("\\\n", " "), flags=re.M | re.S)
        for line in block.splitlines():
            yield re.sub(r"(^|\s)#.*", "", line)


def commands(text):
    """Words of each `outrider …` or `./dev …` in the shell blocks and in code spans."""
    for line in list(shell_lines(text)) + code_spans(text):
        for part in re.split(r"&&|\||;", line):
            words = [word for word in part.split() if not re.fullmatch(r"[A-Z_]+=\S*", word)]
            if words and words[0] in ("outrider", "./dev"):
                yield words


def outrider_help(*arguments):
    return subprocess.run([binary(), *arguments, "--help"], capture_output=True, text=True,
                          timeout=30, check=True).stdout


def anchors(text):
    """As GitHub makes them of headings."""
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
            for heading in re.findall(r"^#+ (.*)$", without_blocks(text), flags=re.M)}


# Links, pictures, decisions ----------------------------------------------------------------------


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)\s]+)\)", without_blocks(read(page))):
        if re.match(r"https?:", target):
            continue
        path, _hash, anchor = target.partition("#")
        path = os.path.normpath(os.path.join(os.path.dirname(page), path)) if path else page
        assert os.path.exists(os.path.join(ROOT, path)), f"{page}: {target}"
        if anchor:
            assert anchor in anchors(read(path)), f"{page}: {target}"


def test_every_page_can_be_reached_from_the_readme():
    linked = set()
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#\s]+)", read(page)):
            linked.add(os.path.normpath(os.path.join(os.path.dirname(page), target)))
    lost = [page for page in PAGES[1:]
            if page not in linked and os.path.dirname(page) not in linked]
    assert not lost


def test_the_picture_is_what_its_source_makes():
    source = os.path.join(ROOT, "docs", "images", "outbox.py")
    made = subprocess.run([sys.executable, source], capture_output=True, text=True,
                          encoding="utf-8", check=True).stdout
    assert read("docs/images/outbox.svg") == made, (
        "run docs/images/outbox.py > docs/images/outbox.svg")
    assert "prefers-color-scheme: dark" in made


def test_decisions_have_their_parts_and_are_there_where_they_are_named():
    numbers = {}
    for path in glob.glob(os.path.join(ROOT, "docs", "adr", "*.md")):
        name = os.path.basename(path)
        number = name[:4]
        assert number not in numbers, f"{name} and {numbers[number]}"
        numbers[number] = name
        text = read(f"docs/adr/{name}")
        for part in ("## Context", "## Decision", "## What it costs",
                     "## What would change our mind"):
            assert part in text, f"{name} lacks {part}"
        if number != "0000":
            assert text.startswith(f"# {int(number)}. "), name
    for folder in ("src", "include", "tests"):
        for path in glob.glob(os.path.join(ROOT, folder, "**", "*.*"), recursive=True):
            if not path.endswith((".h", ".cc", ".py", ".txt")):
                continue
            for number in re.findall(r"(?:docs/adr/|ADR )(\d{4})", read(path)):
                assert number in numbers, f"{path} names decision {number}"


# Commands, exit codes, options, metrics ----------------------------------------------------------


@pytest.mark.parametrize("page", PAGES)
def test_commands_and_flags_exist(page):
    known = set(re.findall(r"^  (\w[\w-]*) ", outrider_help(), flags=re.M)) | {"config-docs"}
    dev = read("dev")
    for words in commands(read(page)):
        if words[0] == "./dev":
            assert len(words) == 1 or f"    {words[1]}" in dev.partition("main() {")[2], words
            continue
        if len(words) == 1:
            continue
        if words[1].startswith("-"):
            assert words[1] in outrider_help(), words
            continue
        assert words[1] in known, f"{page}: {' '.join(words)}"
        flags = [word.partition("=")[0] for word in words[2:] if re.match(r"--?[a-z]", word)]
        text = outrider_help(words[1])
        for flag in flags:
            assert re.search(rf"(^|[\s,]){re.escape(flag)}\b", text), f"{page}: {' '.join(words)}"


def exit_codes():
    header = read("src/app/exit_code.h")
    named = dict(re.findall(r"(kExit\w+) = (\d+)", header))
    table = header.partition("kExitCodes")[2]
    rows = re.findall(r"\{(kExit\w+|\d+),\s*\"", table)
    return {int(named.get(row, row)) for row in rows}


@pytest.mark.parametrize("page", ["README.md", "docs/DELIVERY.md"])
def test_tables_of_exit_codes_are_complete(page):
    table = re.search(r"^\| code \|.*?\n\n", read(page), flags=re.M | re.S).group(0)
    assert {int(code) for code in re.findall(r"^\| (\d+) \|", table, flags=re.M)} == exit_codes()


@pytest.mark.parametrize("page", PAGES)
def test_exit_codes_that_are_named_exist(page):
    for code in re.findall(r"exit codes? \**(\d+)", read(page)):
        assert int(code) in exit_codes(), f"{page}: exit code {code}"


def options():
    """Every option's path without the list it stands in."""
    found = set()
    section = ""
    for line in read("docs/CONFIGURATION.md").splitlines():
        if heading := re.match(r"### `([^`]+)`", line):
            section = re.sub(r"^pipelines\[\]\.?", "", heading.group(1))
        elif line.startswith("### "):
            section = ""
        elif row := re.match(r"\| `([a-z_]+)` \|", line):
            found.add(f"{section}.{row.group(1)}".lstrip("."))
    return found


@pytest.mark.parametrize("page", [page for page in PAGES if page != "docs/CONFIGURATION.md"])
def test_options_that_are_named_exist(page):
    known = options()
    last_words = {option.rpartition(".")[2] for option in known}
    sections = {option.rpartition(".")[0] for option in known}
    for span in code_spans(read(page)):
        name = span.partition(":")[0].strip()
        if re.fullmatch(r"[a-z_]+(\.[a-z_]+)+", name) and name.split(".")[0] in SECTIONS:
            if name.startswith("outbox.event"):
                continue  # A topic.
            assert name in known or name in sections, f"{page}: {span}"
        elif re.fullmatch(r"[a-z_]+_(ms|us)|[a-z]+_[a-z_]*_max", name):
            assert name in last_words, f"{page}: {span}"


@pytest.mark.parametrize("page", PAGES)
def test_metrics_that_are_named_exist(page):
    listed = re.findall(r"^\| `(outbox_\w+)`", read("docs/METRICS.md"), flags=re.M)
    assert len(listed) > 50, "the table of the generated page"
    for name in re.findall(r"`(outbox_[a-z_]+_(?:total|seconds|bytes))(?:\{[a-z,]*\})?`", read(page)):
        assert name in listed, f"{page}: {name}"


# Rooms -------------------------------------------------------------------------------------------


def test_the_table_of_rooms_is_the_one_that_tidy_holds():
    rules = read("tests/tidy/tidy_rules.cc")
    held = {}
    body = re.search(r"room_table\(\) \{.*?return table;", rules, flags=re.S).group(0)
    body = re.sub(r"\s+", "", body)
    for name, rest in re.findall(r'\{"(\w+)",\{(.*?)\}\}(?=,\{"|,\};|\};)', body):
        rooms, _comma, headers = rest.partition("},{")
        everything = rest.endswith("true")
        held[name] = ({"everything"} if everything
                      else set(re.findall(r'"([^"]+)"', rooms + "," + headers)))
    assert len(held) > 10, held
    written = {}
    table = read("docs/ARCHITECTURE.md").partition("| room |")[2].partition("\n\n")[0]
    for name, may in re.findall(r"^\| `(\w+)` \|[^|]*\|([^|]*)\|", table, flags=re.M):
        words = {word.strip(" `") for word in may.split(",")} - {"–"}
        written[name] = words
    assert written == held


def test_the_table_of_rooms_names_their_libraries():
    rules = read("tests/tidy/tidy_rules.cc")
    held = {}
    for prefix, rooms in re.findall(r'\{"([\w/.+-]+)", \{([^}]*)\}, (?:true|false)\}', rules):
        for room in re.findall(r'"(\w+)"', rooms):
            held.setdefault(room, set()).add(prefix)
    table = read("docs/ARCHITECTURE.md").partition("| room |")[2].partition("\n\n")[0]
    rows = re.findall(r"^\| `(\w+)` \|[^|]*\|[^|]*\|([^|]*)\|", table, flags=re.M)
    for name, libraries in rows:
        if name in ("app", "demo"):
            continue
        words = {word.strip(" `") for word in libraries.split(",")} - {"–"}
        assert words == held.get(name, set()), name
