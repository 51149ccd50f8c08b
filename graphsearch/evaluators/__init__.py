"""Evaluators: positions in, WDL and priors out.

factory.py     evaluators by name and options: `create`
base.py        what an evaluator is; batches and answers
builtin.py, uniform.py, table.py, lc0/, uci/      evaluators
combined.py    priors of one, values of another
tablebase.py   what Syzygy tables know needs no evaluator
pool/          evaluators in other processes, on other machines
absent.py      none, for a file that is only read and written
assess.py      what one says about positions, without any search
"""

from .absent import AbsentEvaluator
from .assess import Assessment, assess
from .base import Evaluation, Evaluator, PositionBatch, calls_kernels, checked, close
from .builtin import BuiltinEvaluator
from .combined import CombinedEvaluator
from .factory import NAMES, EvaluatorSpec, check, create, parse_options, split_options
from .lc0 import Lc0Evaluator
from .pool import PooledEvaluator, pooled
from .table import TableEntry, TableEvaluator
from .tablebase import Syzygy, TablebaseEvaluator
from .uci import UciEvaluator, UciSettings
from .uniform import UniformEvaluator

__all__ = [
    "NAMES",
    "AbsentEvaluator",
    "Assessment",
    "BuiltinEvaluator",
    "CombinedEvaluator",
    "Evaluation",
    "Evaluator",
    "EvaluatorSpec",
    "Lc0Evaluator",
    "PooledEvaluator",
    "PositionBatch",
    "Syzygy",
    "TableEntry",
    "TableEvaluator",
    "TablebaseEvaluator",
    "UciEvaluator",
    "UciSettings",
    "UniformEvaluator",
    "assess",
    "calls_kernels",
    "check",
    "checked",
    "close",
    "create",
    "parse_options",
    "pooled",
    "split_options",
]
