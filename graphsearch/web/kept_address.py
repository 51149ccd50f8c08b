"""Keeps the port and the secrets of a page in a user's file, so that its addresses survive a restart."""

from __future__ import annotations

import os
from pathlib import Path

from ..base.errors import InputFileError, InvalidParameterError
from ..base.limits import PASSWORD, read_file
from ..base.outside import KeptAddress, declared

OTHERS = 0o077  # permissions of other users


def read_address(path: Path) -> KeptAddress | None:
    """Returns the kept address; None if there is no file.

    Raises:
      InvalidParameterError: if the file holds no address, or if other users may read it.
      InputFileError: if it cannot be read.
    """
    try:
        mode = path.stat().st_mode
        text = read_file(path, PASSWORD)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InputFileError(f"cannot read {path}: {error.strerror or error}") from None
    if os.name == "posix" and mode & OTHERS:
        raise InvalidParameterError(f"{path} opens the page: other users must not read it (chmod 600 {path})")
    try:
        return declared(KeptAddress, text)
    except InputFileError:
        raise InvalidParameterError(f"{path} holds no address of a page; name another file") from None


def write_address(path: Path, address: KeptAddress) -> None:
    """Writes an address into a new file, for this user alone.

    Raises:
      InputFileError: if the file cannot be written.
    """
    try:
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(address.model_dump_json() + "\n")
    except OSError as error:
        raise InputFileError(f"cannot write {path}: {error.strerror or error}") from None
