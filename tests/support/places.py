"""The folder of the repository; processes of tests import it without pytest, which takes them half a second."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
