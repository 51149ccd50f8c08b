"""What is installed: every package and data file of the tree, listed by hand in pyproject.toml."""

from __future__ import annotations

import tomllib
from pathlib import Path

from graphsearch.version import __version__

from .conftest import ROOT

PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
SETUPTOOLS = PYPROJECT["tool"]["setuptools"]
FOLDERS = {
    "graphsearch": "graphsearch",
    "cli": "graphsearch.cli",
    "schema": "graphsearch.schema",
    "datasette-graphsearch/datasette_graphsearch": "datasette_graphsearch",
}


def package_of(folder: Path) -> str:
    """Returns the package name that a folder of the tree has once installed."""
    top = next(top for top in FOLDERS if folder.is_relative_to(ROOT / top))
    return ".".join([FOLDERS[top], *folder.relative_to(ROOT / top).parts])


def files_of(pattern: str) -> list[Path]:
    found = [path for top in FOLDERS for path in (ROOT / top).rglob(pattern)]
    return [path for path in found if path.is_file() and "__pycache__" not in path.parts]


def test_every_package_is_listed_and_every_listed_package_exists() -> None:
    assert {package_of(path.parent) for path in files_of("__init__.py")} == set(SETUPTOOLS["packages"])


def test_every_module_lies_in_a_listed_package() -> None:
    assert {package_of(path.parent) for path in files_of("*.py")} <= set(SETUPTOOLS["packages"])


def test_every_data_file_is_packaged() -> None:
    folders = {package: ROOT / folder for folder, package in FOLDERS.items()}
    packaged = set()
    for package, patterns in SETUPTOOLS["package-data"].items():
        top = max((name for name in folders if f"{package}.".startswith(f"{name}.")), key=len)
        folder = folders[top].joinpath(*package.removeprefix(top).split("."))
        packaged |= {path for pattern in patterns for path in folder.glob(pattern)}
    data = {path for path in files_of("*") if path.suffix not in {".py", ".pyc"}}
    assert data <= packaged, f"{sorted(data - packaged)} are in no package-data pattern"


def test_folders_outside_the_package_are_mapped_into_it() -> None:
    mapped = {name: folder for name, folder in SETUPTOOLS["package-dir"].items() if "." in name}
    for name, folder in mapped.items():
        assert package_of(ROOT / folder) == name


def test_the_version_stands_in_one_place() -> None:
    assert PYPROJECT["project"]["dynamic"] == ["version"]
    assert SETUPTOOLS["dynamic"]["version"] == {"attr": "graphsearch.version.__version__"}
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert __version__ in changelog
