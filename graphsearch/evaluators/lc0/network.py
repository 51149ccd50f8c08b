"""A network's weights: one class for each kind of layer, body and head of lc0.

Weights are float32. A fully connected layer has `[out, in]`; squares are a1, b1, ... h8, in the view of the
side to move. `convert.py` defines the computation.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .form import Activation
from .layout import SQUARES

Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Convolution:
    """A convolution with its batch normalisation folded in: kernel `[out, in, k, k]`, bias `[out]`."""

    kernel: Floats
    bias: Floats


@dataclass(frozen=True, slots=True)
class Dense:
    """A fully connected layer: weights `[out, in]`, bias `[out]`."""

    weights: Floats
    bias: Floats


@dataclass(frozen=True, slots=True)
class Norm:
    """A layer normalisation: scale and offset `[width]`, and the epsilon added to the variance."""

    gammas: Floats
    betas: Floats
    epsilon: float


@dataclass(frozen=True, slots=True)
class Block:
    """A residual block; `squeeze` and `excite` are its squeeze-and-excitation unit, None without one."""

    first: Convolution
    second: Convolution
    squeeze: Dense | None
    excite: Dense | None


@dataclass(frozen=True, slots=True)
class Smolgen:
    """Smolgen layers: compute an addend to the attention of each pair of squares from the whole position.

    Attributes:
      compress: `[channels, width]`, for each square. dense1, norm1, dense2, norm2: over all squares.
      shared: `[64 * 64, inputs of a head]`, the same in all encoders.
      activation: of dense1 and dense2.
    """

    compress: Floats
    dense1: Dense
    norm1: Norm
    dense2: Dense
    norm2: Norm
    shared: Floats
    activation: Activation


@dataclass(frozen=True, slots=True)
class FeedForward:
    """Two fully connected layers with `activation` between them: `norm(x + alpha * dense2(dense1(x)))`."""

    dense1: Dense
    dense2: Dense
    norm: Norm
    activation: Activation
    alpha: float


@dataclass(frozen=True, slots=True)
class Encoder:
    """Attention with `heads` heads, `norm(x + alpha * attention(x))`, then a feed-forward part."""

    heads: int
    query: Dense
    key: Dense
    value: Dense
    out: Dense
    smolgen: Smolgen | None
    norm: Norm
    alpha: float
    feed: FeedForward


@dataclass(frozen=True, slots=True)
class AttentionBody:
    """An attention body, over the input planes or the outputs of a residual tower.

    Attributes:
      preprocess: layer over the 12 planes of the men on all squares; its outputs extend each square's inputs.
      position_map: whether a square's inputs end with its row of `policy.reach_map`.
      embedding: layer over a square's inputs. norm: after it.
      multiply, add: `[64, width]`, gates by square.
      feed: after the gates.
    """

    preprocess: Dense | None
    position_map: bool
    embedding: Dense
    norm: Norm | None
    multiply: Floats | None
    add: Floats | None
    feed: FeedForward | None
    encoders: tuple[Encoder, ...]


@dataclass(frozen=True, slots=True)
class ClassicalPolicy:
    """A convolution (1x1), then a fully connected layer with 1858 outputs."""

    first: Convolution
    dense: Dense


@dataclass(frozen=True, slots=True)
class ConvolutionPolicy:
    """Two convolutions (3x3); the last one has a plane for each kind of move."""

    first: Convolution
    last: Convolution


@dataclass(frozen=True, slots=True)
class AttentionPolicy:
    """Logits by attention of from-squares to to-squares; `promotions` is `[4, width]`: q, r, b, any."""

    embedding: Dense
    activation: Activation
    encoders: tuple[Encoder, ...]
    query: Dense
    key: Dense
    promotions: Floats


Policy = ClassicalPolicy | ConvolutionPolicy | AttentionPolicy


@dataclass(frozen=True, slots=True)
class Value:
    """A value head: `first` by square, then all squares; three outputs are WDL, one is Q before tanh."""

    first: Convolution | Dense
    hidden: Dense
    output: Dense


@dataclass(frozen=True, slots=True)
class Network:
    """A network.

    Attributes:
      stem: the convolution of the 112 planes; None without a residual tower.
      blocks: the residual tower. attention: the body after it, or without it.
      activation: the default of all layers.
      input: the input format, a number of `form.INPUTS`.
    """

    stem: Convolution | None
    blocks: tuple[Block, ...]
    attention: AttentionBody | None
    policy: Policy
    value: Value
    activation: Activation
    input: int

    def widest(self) -> int:
        """Returns the number of outputs of the largest layer for one position."""
        widths = [len(self.stem.bias)] if self.stem else []
        pairs = []  # attention scores of a square, over all heads
        body = self.attention
        encoders = body.encoders if body else ()
        if body:
            widths += [len(body.embedding.bias), len(body.feed.dense1.bias) if body.feed else 0]
            widths += [len(body.preprocess.bias) // SQUARES if body.preprocess else 0]
        if isinstance(self.policy, AttentionPolicy):
            widths += [len(self.policy.embedding.bias), len(self.policy.key.bias)]
            encoders += self.policy.encoders
        for encoder in encoders:
            widths += [len(encoder.query.bias), len(encoder.feed.dense1.bias)]
            pairs.append(encoder.heads * SQUARES)
        return SQUARES * max(widths + pairs)


@dataclass(frozen=True, slots=True)
class WrappedModel:
    """An ONNX model inside an lc0 file, and the names of its input and outputs, "" if the file has none."""

    model: bytes
    planes: str
    policy: str
    wdl: str
    value: str
    input: int
