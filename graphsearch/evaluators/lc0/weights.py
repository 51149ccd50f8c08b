"""Reads lc0's network files (`.pb.gz`: a gzipped protocol buffer of lc0's net.proto) into arrays.

It supports residual towers with or without squeeze-and-excitation, attention bodies, both together, every
policy and value head that lc0 runs, and files that wrap an ONNX model. It ignores the moves-left head. An
error for anything else gives its name in the format.
"""

from __future__ import annotations

import gzip
import io
import zlib
from dataclasses import dataclass

from ...base.errors import EvaluatorError, EvaluatorFileError, InputFileError
from ...base.limits import NETWORK, read_all
from .form import ANOTHER, read_form
from .layers import AttentionReader
from .layout import PLANES, POLICY_SIZE, SQUARES
from .network import (
    AttentionBody,
    Block,
    ClassicalPolicy,
    Convolution,
    ConvolutionPolicy,
    Network,
    Policy,
    Value,
    WrappedModel,
)
from .policy import CONVOLUTION_PLANES
from .wire import Message, WireError

MAGIC = 0x1C0
KNOWN_VERSION = (0, 33)  # of lc0; the format of a later one may differ
PLACEHOLDER_VERSION = (97, 98, 99)  # in some old files instead of a version; lc0 reads them
GZIP_MAGIC = b"\x1f\x8b"
TEXT_FORMATS = (b"1\n", b"2\n")  # first bytes of networks of 2018

POLICY_HEAD, VALUE_HEAD = "vanilla", "winner"  # lc0's defaults
_POLICY_FIELDS = {"vanilla": 3, "optimistic": 4, "soft": 5, "opponent": 6}  # of PolicyHeads
_VALUE_FIELDS = {"winner": 1, "q": 2, "st": 3}  # of ValueHeads
_POLICY_MAP, _VALUE_MAP = 7, 4  # fields of the heads with any other name
# fields of a head that stands in `Weights` itself: field of PolicyHead or ValueHead -> field of `Weights`
_PLAIN_POLICY = {1: 4, 2: 5, 3: 17, 4: 18, 5: 19, 6: 20, 7: 22, 8: 21, 9: 24, 10: 11, 11: 3}
_PLAIN_VALUE = {1: 29, 2: 30, 3: 7, 4: 8, 5: 9, 6: 10, 11: 6}
_VALUE_HEADS, _POLICY_HEADS = 44, 45  # of `Weights`


@dataclass(frozen=True, slots=True)
class Heads:
    """The heads to read from a network with several, by lc0's names."""

    policy: str = POLICY_HEAD
    value: str = VALUE_HEAD


USUAL_HEADS = Heads()


def read_network(data: bytes, name: str, heads: Heads = USUAL_HEADS) -> Network | WrappedModel:
    """Reads the network of a `.pb.gz` or `.pb` file.

    Args:
      data: the file's content.
      name: the file's name, for errors.
      heads: the heads to read if there are several.

    Raises:
      EvaluatorError: if the file is damaged, is no supported network, or does not have the head.
    """
    buffer = _decompressed(data, name)
    if buffer[:2] in TEXT_FORMATS:
        raise EvaluatorError(
            f"{name} is in the text format of 2018; expected a protocol buffer (.pb.gz); use a later network"
        )
    try:
        return _network(Message(buffer), name, heads)
    except WireError as error:
        raise EvaluatorError(
            f"{name} is not an Lc0 network: expected the protocol buffer of a .pb.gz file, but {error};"
            " download it again"
        ) from None


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
            f"{name} is damaged: expected a whole gzip file, found that {_lower(error)}; download it again"
        ) from None


def _lower(error: Exception) -> str:
    """Returns an error's text for the middle of a sentence; an abbreviation such as CRC stays."""
    text = " ".join(str(error).split())
    return text if text[1:2].isupper() else text[:1].lower() + text[1:]


def _network(net: Message, name: str, heads: Heads) -> Network | WrappedModel:
    if net.word(1) != MAGIC:
        found = "none" if net.word(1) is None else f"{net.word(1):#x}"
        raise EvaluatorError(
            f"{name} is not an Lc0 network: expected the magic number {MAGIC:#x}, found {found}"
        )
    _check_version(net.message(3), name)
    weights = net.message(10)
    form = read_form(net.message(4), weights, name)
    if form.onnx:
        if heads != USUAL_HEADS:
            raise EvaluatorError(
                f"{name} holds an ONNX model with one policy and one value head; name no other"
            )
        onnx = net.message(11)
        if not (model := bytes(onnx.raw(1))):
            raise EvaluatorError(f"{name} says that it holds an ONNX model, but has none; download it again")
        return WrappedModel(model, onnx.text(3), onnx.text(6), onnx.text(5), onnx.text(4), form.input)
    return _Reader(name, form, heads).network(weights)


def _check_version(version: Message, name: str) -> None:
    needed = (version.number(1), version.number(2), version.number(3))
    if needed[:2] > KNOWN_VERSION and needed != PLACEHOLDER_VERSION:
        raise EvaluatorError(
            f"{name} needs lc0 {'.'.join(map(str, needed))} or later; expected a format of at most lc0"
            f" {'.'.join(map(str, KNOWN_VERSION))}; use an older network, or a later graphsearch"
        )


@dataclass(frozen=True, slots=True)
class _Reader(AttentionReader):
    heads: Heads

    def network(self, weights: Message) -> Network:
        """Returns the network of a `Weights` message."""
        stem, blocks = self.tower(weights)
        body, width = None, len(stem.bias) if stem else 0
        if self.form.attention:
            body = self.body(weights, width or None)
            width = len(body.embedding.bias)
        return Network(
            stem=stem,
            blocks=blocks,
            attention=body,
            policy=self.policy(weights, width),
            value=self.value(weights, width, body),
            activation=self.form.activation,
            input=self.form.input,
        )

    def tower(self, weights: Message) -> tuple[Convolution | None, tuple[Block, ...]]:
        """Returns the residual tower: stem and blocks; None and () if an attention body has none."""
        blocks = weights.messages(2)
        if self.form.attention and not blocks:
            return None, ()
        stem = self.convolution(weights.message(1), PLANES, 3, "the input convolution")
        filters = len(stem.bias)
        return stem, tuple(
            self.block(block, filters, f"residual block {i}") for i, block in enumerate(blocks, 1)
        )

    # -------------------------------------------------------------- heads
    def policy(self, weights: Message, width: int) -> Policy:
        """Returns the selected policy head."""
        several = weights.message(_POLICY_HEADS)
        plain = _renamed(weights, _PLAIN_POLICY)
        head = plain
        if _POLICY_HEADS in weights or self.heads.policy != POLICY_HEAD:
            head = self.chosen(several, _POLICY_FIELDS, _POLICY_MAP, self.heads.policy, "policy")
        if self.form.policy == "attention":
            return self.attention_policy(head, [several, plain], width, weights)
        if self.form.attention:
            raise EvaluatorError(
                f"{self.name} is not supported: its policy head over attention is {self.form.policy},"
                f" expected POLICY_ATTENTION; {ANOTHER}"
            )
        return self.convolutional_policy(head, width)

    def convolutional_policy(self, head: Message, filters: int) -> ClassicalPolicy | ConvolutionPolicy:
        """Returns a classical or convolutional policy head."""
        if self.form.policy == "convolution":
            first = self.convolution(head.message(10), filters, 3, "the policy head's first convolution")
            last = self.convolution(
                head.message(11), len(first.bias), 3, "the policy head's last convolution"
            )
            self.expect("the policy head's last convolution", len(last.bias), CONVOLUTION_PLANES)
            return ConvolutionPolicy(first, last)
        only = self.convolution(head.message(11), filters, 1, "the policy head's convolution")
        inputs = SQUARES * len(only.bias)
        return ClassicalPolicy(
            only, self.dense(head, (1, 2), inputs, "the policy head's last layer", POLICY_SIZE)
        )

    def value(self, weights: Message, width: int, body: AttentionBody | None) -> Value:
        """Returns the selected value head."""
        head = _renamed(weights, _PLAIN_VALUE)
        if _VALUE_HEADS in weights or self.heads.value != VALUE_HEAD:
            several = weights.message(_VALUE_HEADS)
            head = self.chosen(several, _VALUE_FIELDS, _VALUE_MAP, self.heads.value, "value")
        first = (
            self.dense(head, (1, 2), width, "the value head's embedding")
            if body
            else self.convolution(head.message(11), width, 1, "the value head's convolution")
        )
        hidden = self.dense(head, (3, 4), SQUARES * len(first.bias), "the value head's first layer")
        outputs = 3 if self.form.wdl else 1
        output = self.dense(head, (5, 6), len(hidden.bias), "the value head's last layer", outputs)
        return Value(first, hidden, output)

    def chosen(self, several: Message, fields: dict[str, int], named: int, wanted: str, what: str) -> Message:
        """Returns the head with the name `wanted`; raises EvaluatorError if there is none."""
        found = {name: several.message(field) for name, field in fields.items() if field in several}
        found |= {one.text(1): one.message(2) for one in several.messages(named)}
        if wanted not in found:
            has = ", ".join(ascii(name) for name in found) or "one without a name"
            raise EvaluatorError(f"{self.name} has no {what} head {wanted!r}; it has {has}")
        return found[wanted]


def _renamed(weights: Message, fields: dict[int, int]) -> Message:
    """Returns the head that stands in `Weights` itself, with the field numbers of a separate head."""
    return weights.renumbered({there: here for here, there in fields.items()})
