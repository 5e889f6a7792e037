"""Puts a benchmark's table into its own section of docs/BENCHMARKS.md."""

import datetime
import os
import pathlib
import platform
import re

FILE = pathlib.Path(__file__).parent.parent / "docs" / "BENCHMARKS.md"
HEAD = """# Benchmarks

Measured by `bench/run`, never by hand. Every table compares within one run on one machine: read the ratios
and differences, not the absolute numbers.
"""


def machine():
    """What it ran on, without naming it."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    cpu = re.search(r"model name\s*: (.*)", open("/proc/cpuinfo").read())
    name = cpu.group(1) if cpu else platform.machine()
    return f"{os.cpu_count()} cores ({name}), {memory:.0f} GiB, Linux {platform.release().split('-')[0]}"


def write(section, title, body):
    """Replaces the section, or appends it."""
    text = FILE.read_text() if FILE.exists() else HEAD
    start, end = f"<!-- {section} -->", f"<!-- /{section} -->"
    day = datetime.date.today().isoformat()
    block = f"{start}\n## {title}\n\n{day}, {machine()}.\n\n{body.strip()}\n{end}"
    if start in text:
        before, rest = text.split(start, 1)
        text = before + block + rest.split(end, 1)[1]
    else:
        text = text.rstrip() + "\n\n" + block + "\n"
    FILE.write_text(text)
