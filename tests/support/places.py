"""The folder of the repository, for processes of tests, which would import pytest for half a second."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
