"""Reads lc0's network files (`.pb.gz`: a gzipped protocol buffer of lc0's net.proto): form and layers.

`convert.py` says what the layers compute. Messages are read by field numbers, as fields that an empty message
does not know: so no compiled schema is needed. For a field that is not repeated the last value counts, as the
format requires.

Weights are float32. A fully connected layer has `[out, in]`; squares are a1, b1, ... h8, in the view of the
side to move.
"""

from __future__ import annotations

import gzip
import importlib
import io
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...base.errors import EvaluatorError, EvaluatorFileError, InputFileError, MissingPackageError
from ...base.limits import NETWORK, read_all


def needed(module: str) -> Any:
    """Imports a module of the extra `lc0`; raises EvaluatorError if it is not installed."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingPackageError(
            f"an lc0 network needs the package {module} ({error}): pip install '.[lc0]' in the folder of"
            " graphsearch"
        ) from None


# -------------------------------------------------------------------------- protocol buffers
VARINT, BYTES, WORD32 = 0, 2, 5  # wire types


class WireError(ValueError):
    """Raised for bytes that are no protocol buffer, or not the expected message."""


class Message:
    """One message; the constructor decodes its fields, each call of `message` decodes a nested one."""

    def __init__(self, data: bytes) -> None:
        """Reads the fields of a message.

        Raises:
          WireError: if the bytes are no message.
        """
        self._fields: dict[int, list[tuple[int, int | bytes]]] = {}
        try:
            read = needed("google.protobuf.empty_pb2").Empty.FromString(data)
        except needed("google.protobuf.message").DecodeError as error:
            raise WireError(f"its bytes are no message: {error}") from None
        for field in needed("google.protobuf.unknown_fields").UnknownFieldSet(read):
            self._fields.setdefault(field.field_number, []).append((field.wire_type, field.data))

    def renumbered(self, numbers: Mapping[int, int]) -> Message:
        """Returns a message with the fields in `numbers` only, renumbered from its keys to its values."""
        made = Message(b"")
        made._fields = {numbers[key]: found for key, found in self._fields.items() if key in numbers}
        return made

    def __contains__(self, key: int) -> bool:
        return key in self._fields

    def _all(self, key: int, kind: int) -> list[Any]:
        found = self._fields.get(key, [])
        for other, _ in found:
            if other != kind:
                raise WireError(f"field {key} has the wire type {other}, not {kind}")
        return [value for _, value in found]

    def _last(self, key: int, kind: int, default: Any) -> Any:
        found = self._all(key, kind)
        return found[-1] if found else default

    def number(self, key: int, default: int = 0) -> int:
        """Returns a varint; `default` if the field is missing."""
        return int(self._last(key, VARINT, default))

    def raw(self, key: int) -> bytes:
        """Returns bytes; none if the field is missing."""
        return bytes(self._last(key, BYTES, b""))

    def real(self, key: int) -> float:
        """Returns a 32-bit float; 0 if the field is missing."""
        return float(np.uint32(self._last(key, WORD32, 0)).view(np.float32))

    def word(self, key: int) -> int | None:
        """Returns a 32-bit unsigned word, None if the field is missing."""
        found = self._last(key, WORD32, None)
        return None if found is None else int(found)

    def text(self, key: int) -> str:
        """Returns a text, with invalid UTF-8 replaced; empty if the field is missing."""
        return self.raw(key).decode(errors="replace")

    def message(self, key: int) -> Message:
        """Returns a nested message; an empty one if the field is missing."""
        return Message(self.raw(key))

    def messages(self, key: int) -> list[Message]:
        """Returns the nested messages of a repeated field."""
        return [Message(data) for data in self._all(key, BYTES)]


# -------------------------------------------------------------------------- the architecture
# lc0's numbers; `planes.py` describes the inputs
CLASSICAL_INPUT = 1
INPUTS = (1, 2, 3, 4, 5, 132, 133)
NETWORKS = CLASSICAL, SE, CLASSICAL_HEADS, SE_HEADS, ATTENTION, MULTIHEAD, OLD_MULTIHEAD = (
    1,
    2,
    3,
    4,
    6,
    7,
    134,
)
HEADLESS = (CLASSICAL, SE)  # older than the fields for head formats
POLICIES = CLASSICAL_POLICY, CONVOLUTION_POLICY, ATTENTION_POLICY = 1, 2, 3
VALUES = Q_VALUE, WDL_VALUE = 1, 2
EMBEDDINGS = NO_MAP, PE_MAP, PE_DENSE = 0, 1, 2
DEFAULTS = {0: "Relu", 1: "Mish"}
ACTIVATIONS = {
    1: "Mish", 2: "Relu", 3: "Identity", 4: "Tanh", 5: "Sigmoid", 6: "Selu", 7: "Swish", 8: "Relu squared"
}  # fmt: skip
SWISH, RELU_SQUARED = 7, 8

ANOTHER = "use another network"
SMOLGEN, ENCODER, VALUE_HEADS, POLICY_HEADS = 35, 27, 44, 45  # fields of `Weights`


@dataclass(frozen=True, slots=True)
class Form:
    """The architecture of a network.

    Attributes:
      input: the input format, one of INPUTS.
      attention: whether the body has attention encoders.
      policy: one of POLICIES. wdl: whether the value head gives WDL; else Q.
      activation: the default of all layers. smolgen, ffn: that of these layers of an encoder.
      embedding: the position encoding of the squares, one of EMBEDDINGS.
    """

    input: int
    attention: bool
    policy: int
    wdl: bool
    activation: str
    smolgen: str
    ffn: str
    embedding: int


def read_form(form: Message, weights: Message, name: str) -> Form:
    """Returns the architecture that the messages `Format` and `Weights` describe, completed for old files.

    Raises:
      EvaluatorError: if a part of it is not supported.
    """

    def known(what: str, number: int, numbers: Iterable[int]) -> int:
        if number not in numbers:
            expected = ", ".join(map(str, numbers))
            raise EvaluatorError(
                f"{name} is not supported: its {what} is {number}, expected one of {expected}; {ANOTHER}"
            )
        return number

    # LINEAR16, or one for each layer
    known("encoding of the weights", form.number(1, 1), (0, 1))
    net = form.message(2)
    network = known("structure", net.number(3, 1), NETWORKS)
    embedding, smolgen, ffn = net.number(10), net.number(8), net.number(9)
    if network == SE_HEADS and ENCODER in weights:
        network = ATTENTION
        if SMOLGEN in weights:
            smolgen, ffn = SWISH, RELU_SQUARED
    if network == ATTENTION and VALUE_HEADS in weights and POLICY_HEADS in weights:
        network, embedding = MULTIHEAD, PE_DENSE
    elif network == ATTENTION and 10 not in net:
        embedding = PE_MAP
    policy, value = (1, 1) if network in HEADLESS else (net.number(4), net.number(5))
    usual = DEFAULTS[known("activation", net.number(7), DEFAULTS)]
    activations = ACTIVATIONS | {0: usual}
    return Form(
        input=known("input format", net.number(1, 1), INPUTS),
        attention=network in (ATTENTION, MULTIHEAD, OLD_MULTIHEAD),
        policy=known("policy head", policy, POLICIES),
        wdl=known("value head", value, VALUES) == WDL_VALUE,
        activation=usual,
        smolgen=activations[known("smolgen activation", smolgen, activations)],
        ffn=activations[known("FFN activation", ffn, activations)],
        embedding=known("input embedding", embedding, EMBEDDINGS),
    )


# -------------------------------------------------------------------------------- the layers
Floats = NDArray[np.float32]
ENCODINGS = LINEAR16, FLOAT16, BFLOAT16, FLOAT32 = 1, 2, 3, 4


def read_numbers(layer: Message, name: str) -> Floats:
    """Returns the numbers of a `Layer` message, none if it is missing.

    Raises:
      ValueError: if they are damaged; the text begins with the layer's name.
    """
    encoding, raw = layer.number(4, LINEAR16), layer.raw(3)
    if encoding not in ENCODINGS:
        raise ValueError(f"{name} has the encoding {encoding}, expected 1 to {len(ENCODINGS)}")
    width = 4 if encoding == FLOAT32 else 2
    if len(raw) % width:
        raise ValueError(f"{name} has {len(raw)} bytes of weights, expected a multiple of {width}")
    if encoding == BFLOAT16:  # the upper 16 bits of a float32
        words = np.frombuffer(raw, "<u2").astype(np.uint32) << np.uint32(16)
        return finite(words.view(np.float32), name)
    if encoding != LINEAR16:
        return finite(np.frombuffer(raw, "<f2" if encoding == FLOAT16 else "<f4"), name)
    # relative to the least and the largest number
    share = np.frombuffer(raw, "<u2").astype(np.float32) / np.float32(65535)
    with np.errstate(invalid="ignore", over="ignore"):
        return finite(np.float32(layer.real(1)) * (1 - share) + np.float32(layer.real(2)) * share, name)


def finite(values: NDArray[np.floating[Any]], name: str) -> Floats:
    """Returns numbers as float32; ValueError if one is not finite."""
    with np.errstate(invalid="ignore", over="ignore"):
        floats = values.astype(np.float32, copy=False)
    if not np.isfinite(floats).all():
        raise ValueError(f"{name} has weights that are not finite numbers")
    return floats


# ---------------------------------------------------------------------------------- the file
MAGIC = 0x1C0
KNOWN_VERSION = (0, 33)  # of lc0; the format of a later one may differ
PLACEHOLDER_VERSION = (97, 98, 99)  # in some old files instead of a version; lc0 reads them
GZIP_MAGIC = b"\x1f\x8b"


def read_file(data: bytes, name: str) -> tuple[Form, Message]:
    """Returns the architecture of the network in a `.pb.gz` or `.pb` file, and its message `Weights`.

    Raises:
      EvaluatorError: if the file is damaged, or no supported network.
      WireError: if it is no protocol buffer.
    """
    net = Message(_decompressed(data, name))
    if net.word(1) != MAGIC:
        found = "none" if net.word(1) is None else f"{net.word(1):#x}"
        raise EvaluatorError(
            f"{name} is not an Lc0 network: expected a .pb.gz file with the magic number {MAGIC:#x},"
            f" found {found}"
        )
    version = tuple(net.message(3).number(key) for key in (1, 2, 3))
    if version[:2] > KNOWN_VERSION and version != PLACEHOLDER_VERSION:
        raise EvaluatorError(
            f"{name} needs lc0 {'.'.join(map(str, version))} or later; expected a format of at most lc0"
            f" {'.'.join(map(str, KNOWN_VERSION))}; use an older network, or a later graphsearch"
        )
    weights = net.message(10)
    return read_form(net.message(4), weights, name), weights


def _decompressed(data: bytes, name: str) -> bytes:
    if data[:2] != GZIP_MAGIC:
        return data
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(data)) as file:
            return read_all(file, NETWORK, name, packed=len(data))
    except InputFileError as error:
        raise EvaluatorFileError(str(error)) from None
    except (EOFError, OSError, zlib.error) as error:
        raise EvaluatorError(
            f"{name} is damaged: expected a whole gzip file ({error}); download it again"
        ) from None
