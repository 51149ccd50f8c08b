"""Reads the architecture of a network from lc0's `Format` message; completes old files as lc0 does.

An error for an unsupported part gives its name in lc0's net.proto.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from ...base.errors import EvaluatorError
from .wire import Message

Activation = Literal["mish", "relu", "none", "tanh", "sigmoid", "selu", "swish", "relu_2"]
Embedding = Literal["none", "map", "dense"]
Policy = Literal["classical", "convolution", "attention"]

CLASSICAL_INPUT = 1
INPUTS = {
    1: "INPUT_CLASSICAL_112_PLANE",
    2: "INPUT_112_WITH_CASTLING_PLANE",
    3: "INPUT_112_WITH_CANONICALIZATION",
    4: "INPUT_112_WITH_CANONICALIZATION_HECTOPLIES",
    5: "INPUT_112_WITH_CANONICALIZATION_V2",
    132: "INPUT_112_WITH_CANONICALIZATION_HECTOPLIES_ARMAGEDDON",
    133: "INPUT_112_WITH_CANONICALIZATION_V2_ARMAGEDDON",
}
_NETWORKS = {
    1: "NETWORK_CLASSICAL",
    2: "NETWORK_SE",
    3: "NETWORK_CLASSICAL_WITH_HEADFORMAT",
    4: "NETWORK_SE_WITH_HEADFORMAT",
    5: "NETWORK_ONNX",
    6: "NETWORK_ATTENTIONBODY_WITH_HEADFORMAT",
    7: "NETWORK_ATTENTIONBODY_WITH_MULTIHEADFORMAT",
    134: "NETWORK_AB_LEGACY_WITH_MULTIHEADFORMAT",
}
_HEADLESS = (1, 2)  # older than the fields for head formats
_SE, _ONNX, _ATTENTION, _MULTIHEAD, _LEGACY_MULTIHEAD = 4, 5, 6, 7, 134
_POLICIES: dict[int, Policy] = {1: "classical", 2: "convolution", 3: "attention"}
_POLICY_NAMES = {0: "POLICY_UNKNOWN", 1: "POLICY_CLASSICAL", 2: "POLICY_CONVOLUTION", 3: "POLICY_ATTENTION"}
_VALUE_NAMES = {0: "VALUE_UNKNOWN", 1: "VALUE_CLASSICAL", 2: "VALUE_WDL", 3: "VALUE_PARAM"}
_CLASSICAL_VALUE, _WDL = 1, 2
_DEFAULTS: dict[int, Activation] = {0: "relu", 1: "mish"}
_DEFAULT_NAMES = {0: "DEFAULT_ACTIVATION_RELU", 1: "DEFAULT_ACTIVATION_MISH"}
_ACTIVATIONS: dict[int, Activation] = dict(enumerate(get_args(Activation), 1))
_ACTIVATION_NAMES = {n: f"ACTIVATION_{name.upper()}" for n, name in _ACTIVATIONS.items()}
_ACTIVATION_NAMES[9] = "ACTIVATION_SOFTMAX"
_SWISH, _RELU_2 = 7, 8
_EMBEDDINGS: dict[int, Embedding] = dict(enumerate(get_args(Embedding)))
_EMBEDDING_NAMES = {0: "INPUT_EMBEDDING_NONE", 1: "INPUT_EMBEDDING_PE_MAP", 2: "INPUT_EMBEDDING_PE_DENSE"}
_MAP, _DENSE = 1, 2

ANOTHER = "use another network"
_SMOLGEN, _ENCODER, _VALUE_HEADS, _POLICY_HEADS = 35, 27, 44, 45  # fields of `Weights`


@dataclass(frozen=True, slots=True)
class Form:
    """The architecture of a network.

    Attributes:
      onnx: whether the file holds an ONNX model; then only `input` has a meaning.
      input: the input format, a number of INPUTS.
      attention: whether the body has attention encoders.
      policy: the kind of policy head. wdl: whether the value head gives WDL; else Q.
      activation: the default of all layers. smolgen, ffn: that of these layers of an encoder.
      embedding: the position encoding of the squares.
    """

    onnx: bool
    input: int
    attention: bool
    policy: Policy
    wdl: bool
    activation: Activation
    smolgen: Activation
    ffn: Activation
    embedding: Embedding


def read_form(form: Message, weights: Message, name: str) -> Form:
    """Returns the architecture that the messages `Format` and `Weights` describe.

    Raises:
      EvaluatorError: if a part of it is not supported.
    """
    encoding = form.number(1, 1)
    if encoding not in (0, 1):
        raise EvaluatorError(
            f"{name} is not supported: its weights have the encoding {encoding}, expected 1 (LINEAR16) or one"
            f" for each layer; {ANOTHER}"
        )
    net = form.message(2)
    network, embedding, smolgen, ffn = _completed(net, weights)
    policy, value = (1, 1) if network in _HEADLESS else (net.number(4), net.number(5))
    _expect(name, "input format", net.number(1, 1), INPUTS)
    _expect(name, "structure", network, _NETWORKS)
    if network != _ONNX:
        _expect(name, "policy head", policy, _POLICIES, _POLICY_NAMES)
        _expect(name, "value head", value, (_CLASSICAL_VALUE, _WDL), _VALUE_NAMES)
    _expect(name, "activation", net.number(7), _DEFAULTS, _DEFAULT_NAMES)
    _expect(name, "smolgen activation", smolgen, (0, *_ACTIVATIONS), _ACTIVATION_NAMES)
    _expect(name, "FFN activation", ffn, (0, *_ACTIVATIONS), _ACTIVATION_NAMES)
    _expect(name, "input embedding", embedding, _EMBEDDINGS, _EMBEDDING_NAMES)
    usual = _DEFAULTS[net.number(7)]
    return Form(
        onnx=network == _ONNX,
        input=net.number(1, 1),
        attention=network in (_ATTENTION, _MULTIHEAD),
        policy=_POLICIES.get(policy, "classical"),
        wdl=value == _WDL,
        activation=usual,
        smolgen=_ACTIVATIONS.get(smolgen, usual),
        ffn=_ACTIVATIONS.get(ffn, usual),
        embedding=_EMBEDDINGS[embedding],
    )


def _completed(net: Message, weights: Message) -> tuple[int, int, int, int]:
    """Returns structure, input embedding, and activations of smolgen and FFN, completed for old files."""
    network, embedding = net.number(3, 1), net.number(10)
    smolgen, ffn = net.number(8), net.number(9)
    if network == _SE and _ENCODER in weights:
        network = _ATTENTION
        if _SMOLGEN in weights:
            smolgen, ffn = _SWISH, _RELU_2
    if network == _LEGACY_MULTIHEAD:
        network = _MULTIHEAD
    if network == _ATTENTION and _VALUE_HEADS in weights and _POLICY_HEADS in weights:
        return _MULTIHEAD, _DENSE, smolgen, ffn
    if network == _ATTENTION and 10 not in net:
        embedding = _MAP
    return network, embedding, smolgen, ffn


def _expect(name: str, what: str, found: int, known: object, names: dict[int, str] | None = None) -> None:
    """Checks that a part of the format is supported; raises EvaluatorError if not."""
    assert isinstance(known, (dict, tuple))
    if found not in known:
        words = names or known
        assert isinstance(words, dict)
        raise EvaluatorError(
            f"{name} is not supported: its {what} is {words.get(found, found)}, expected"
            f" {' or '.join(words[n] for n in known if n in words)}; {ANOTHER}"
        )
