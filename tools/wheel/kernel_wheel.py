"""The build backend: setuptools, and wheels that bring the machine code of the kernels.

A wheel for the platform holds the code of kernels for levels of x86-64 processors
(`graphsearch/jit/cache.py`), so that a first search starts at once. GRAPHSEARCH_WHEEL_LEVELS names the
levels. If it is empty, in a checkout where nobody names any, and wherever the kernels cannot be compiled, the
wheel is pure, and they are compiled when they are first used, as those of an editable install are.

GRAPHSEARCH_WHEEL_PLATFORM=win_amd64 makes the wheel for Windows on another system with such a processor.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from setuptools import build_meta
from setuptools.build_meta import (  # noqa: F401 # what a front end calls here
    build_editable,
    build_sdist,
    build_wheel,
    get_requires_for_build_editable,
    get_requires_for_build_sdist,
    prepare_metadata_for_build_editable,
    prepare_metadata_for_build_wheel,
)
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_py import build_py

VARIABLE, PLATFORM = "GRAPHSEARCH_WHEEL_LEVELS", "GRAPHSEARCH_WHEEL_PLATFORM"
X86, ARM = {"x86_64", "amd64"}, {"aarch64", "arm64"}
USUAL = {"x86-64-v3 x86-64-v2": X86, "generic": ARM}
READY = Path("graphsearch", "jit", "ready")
# of `graphsearch.cli.compile_kernels`: one process each
PARTS = os.environ.get("GRAPHSEARCH_WHEEL_PARTS", "waves rest").split()


def wanted_levels() -> list[str]:
    """Returns the levels of processors to compile for.

    A wheel that `python -m build` makes of a source distribution is for others, and has the usual ones. A
    checkout is installed sooner without: its first search compiles what it needs.
    """
    machine = platform.machine().lower()
    usual = next((levels for levels, machines in USUAL.items() if machine in machines), "")
    return os.environ.get(VARIABLE, usual if Path("PKG-INFO").exists() else "").split()


def wanted_platform() -> str:
    """Returns the tag of the platform that the code of a wheel is for.

    The code calls no library of the system: it fits every Linux with such a processor.
    """
    tag = sysconfig.get_platform().replace("-", "_").replace(".", "_")
    if tag.startswith("linux_"):
        tag = tag.replace("linux_", "manylinux_2_17_", 1)
    return os.environ.get(PLATFORM, "") or tag


def get_requires_for_build_wheel(config_settings: Mapping[str, Any] | None = None) -> list[str]:
    """Returns what a build needs: to compile kernels, what the program needs."""
    found: list[str] = build_meta.get_requires_for_build_wheel(config_settings)
    project = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["project"]
    return [*found, *(project["dependencies"] if wanted_levels() else [])]


class BuildModules(build_py):  # type: ignore[misc]
    """Copies the modules, and compiles the kernels beside them."""

    def run(self) -> None:
        """Does both; without a compiler, the first."""
        if not self.editable_mode:
            shutil.rmtree(self.build_lib, ignore_errors=True)  # modules that an earlier build had
        super().run()
        if not self.editable_mode and wanted_levels():
            problem = compile_kernels(Path(self.build_lib), wanted_levels())
            if problem:
                shutil.rmtree(Path(self.build_lib, READY), ignore_errors=True)
                print(f"graphsearch: kernels are compiled at first use, not now: {problem}", file=sys.stderr)


class PlatformWheel(bdist_wheel):  # type: ignore[misc]
    """A wheel for this Python and platform if it has machine code, for all if it has none."""

    def get_tag(self) -> tuple[str, str, str]:
        """Returns the tags of Python, its ABI and the platform."""
        tags: tuple[str, str, str] = super().get_tag()
        if not Path(self.bdist_dir, READY).is_dir():
            return tags
        version = "".join(map(str, sys.version_info[:2]))
        return f"cp{version}", "none", wanted_platform()


def compile_kernels(root: Path, levels: list[str]) -> str:
    """Compiles all kernels of the package in a folder, beside its modules; returns why not, or nothing."""
    names = " and ".join(levels)
    print(f"graphsearch: compiling the kernels for {names}; this takes a minute or two", file=sys.stderr)
    environment = os.environ | {
        "GRAPHSEARCH_BUILD_LEVELS": " ".join(levels),
        "GRAPHSEARCH_BUILD_PLATFORM": os.environ.get(PLATFORM, "").replace("_", "-", 1),
        "NUMBA_CPU_NAME": levels[-1],
        "NUMBA_CPU_FEATURES": "",
        "PYTHONPATH": os.pathsep.join([str(root.resolve()), *sys.path]),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    with tempfile.TemporaryDirectory() as scratch:
        environment["GRAPHSEARCH_CACHE_DIR"] = scratch  # of the code that runs here
        parts = [_start(part, Path(scratch), environment) for part in PARTS]
        said = [part.communicate()[0] for part in parts]
    failed = [text for part, text in zip(parts, said, strict=True) if part.returncode]
    return (failed[0].strip().splitlines() or ["the compiler failed"])[-1] if failed else ""


def _start(part: str, scratch: Path, environment: dict[str, str]) -> subprocess.Popen[str]:
    folder = scratch / part
    folder.mkdir()
    return subprocess.Popen(
        [sys.executable, "-m", "graphsearch.cli.compile_kernels", part],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=folder,
        env=environment,
    )
