"""What is installed: every package and data file of the tree, listed by hand in pyproject.toml."""

from __future__ import annotations

import importlib
import tomllib
from pathlib import Path
from typing import Any

import pytest

from graphsearch.base.version import __version__

from .conftest import ROOT

PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
SETUPTOOLS = PYPROJECT["tool"]["setuptools"]
FOLDERS = {"graphsearch": "graphsearch", "cli": "graphsearch.cli", "schema": "graphsearch.schema"}


def package_of(folder: Path) -> str:
    """Returns the package name that a folder of the tree has once installed."""
    top = next(top for top in FOLDERS if folder.is_relative_to(ROOT / top))
    return ".".join([FOLDERS[top], *folder.relative_to(ROOT / top).parts])


def files_of(pattern: str) -> list[Path]:
    found = [path for top in FOLDERS for path in (ROOT / top).rglob(pattern)]
    return [path for path in found if path.is_file() and "__pycache__" not in path.parts]


def test_every_package_is_listed_every_listed_package_exists_and_every_module_lies_in_one() -> None:
    packages = set(SETUPTOOLS["packages"])
    assert {package_of(path.parent) for path in files_of("__init__.py")} == packages
    assert {package_of(path.parent) for path in files_of("*.py")} <= packages


def test_every_data_file_is_packaged() -> None:
    assert SETUPTOOLS["package-dir"] == {name: folder for folder, name in FOLDERS.items()}
    folders = {package: ROOT / folder for folder, package in FOLDERS.items()}
    packaged = set()
    for package, patterns in SETUPTOOLS["package-data"].items():
        top = max((name for name in folders if f"{package}.".startswith(f"{name}.")), key=len)
        folder = folders[top].joinpath(*package.removeprefix(top).split("."))
        packaged |= {path for pattern in patterns for path in folder.glob(pattern)}
    data = {path for path in files_of("*") if path.suffix not in {".py", ".pyc"}}
    assert data <= packaged, f"{sorted(data - packaged)} are in no package-data pattern"


def test_the_version_stands_in_one_place() -> None:
    assert PYPROJECT["project"]["dynamic"] == ["version"]
    assert SETUPTOOLS["dynamic"]["version"] == {"attr": "graphsearch.base.version.__version__"}
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert __version__ in changelog


# ------------------------------------------------------------------ wheels with machine code
@pytest.fixture
def backend(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The build backend; it needs a newer setuptools than some environments have."""
    pytest.importorskip("setuptools.command.bdist_wheel")
    from tools.wheel import kernel_wheel

    monkeypatch.chdir(ROOT)
    monkeypatch.setattr("setuptools.build_meta.get_requires_for_build_wheel", lambda _: ["other"])
    return kernel_wheel


def test_a_wheel_asks_for_the_compiler_only_if_it_brings_kernels(
    backend: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(backend.VARIABLE, "")
    assert backend.get_requires_for_build_wheel() == ["other"]
    monkeypatch.setenv(backend.VARIABLE, "x86-64-v3")
    assert backend.get_requires_for_build_wheel() == ["other", *PYPROJECT["project"]["dependencies"]]


def test_a_source_distribution_brings_kernels_and_a_checkout_leaves_them_to_the_first_search(
    backend: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv(backend.VARIABLE, raising=False)
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    monkeypatch.chdir(tmp_path)
    assert backend.wanted_levels() == []
    (tmp_path / "PKG-INFO").touch()
    assert backend.wanted_levels() == ["x86-64-v3", "x86-64-v2"]
    monkeypatch.setattr("platform.machine", lambda: "arm64")
    assert backend.wanted_levels() == ["generic"]


def test_a_wheel_is_for_every_linux_with_such_a_processor_or_for_windows(
    backend: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    tags = {"linux-aarch64": "manylinux_2_17_aarch64", "macosx-14.0-arm64": "macosx_14_0_arm64"}
    for platform, tag in (tags | {"win-amd64": "win_amd64"}).items():
        monkeypatch.setattr("sysconfig.get_platform", lambda platform=platform: platform)
        assert backend.wanted_platform() == tag
    monkeypatch.setenv(backend.PLATFORM, "win_amd64")
    assert backend.wanted_platform() == "win_amd64"


def test_kernels_that_cannot_be_compiled_are_left_out_with_one_line(backend: Any, tmp_path: Path) -> None:
    package = tmp_path / "graphsearch" / "cli"
    package.mkdir(parents=True)
    for folder in (package.parent, package):
        (folder / "__init__.py").write_text("")
    (package / "compile_kernels.py").write_text("raise SystemExit('no\\ncompiler here')")
    assert backend.compile_kernels(tmp_path, ["x86-64-v2"]) == "compiler here"


def test_a_wheel_has_no_modules_of_an_earlier_build(
    backend: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    command = backend.BuildModules(importlib.import_module("setuptools").Distribution())
    command.build_lib = str(tmp_path)
    (tmp_path / "graphsearch").mkdir()
    monkeypatch.setattr(backend.build_py, "run", lambda _: None)
    monkeypatch.setenv(backend.VARIABLE, "")
    command.run()
    assert not (tmp_path / "graphsearch").exists()


def test_the_build_backend_is_in_the_archive_of_sources() -> None:
    folder, module = PYPROJECT["build-system"]["backend-path"], PYPROJECT["build-system"]["build-backend"]
    name = f"{folder[0]}/{module}.py"
    assert (ROOT / name).is_file()
    assert f"include {name}" in (ROOT / "MANIFEST.in").read_text(encoding="utf-8").splitlines()
