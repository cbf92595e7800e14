"""The dialects: how people write the same module, as data.

A dialect says what its authors do and how often (the numbers stand side by side in one table); the passes of this
package do it. Ten are listed, and two of them
(`is_heldout`) are written for examinations alone: no training task has them, so that a policy's share of right answers
there is not that of a policy that knows the handwriting. Each of these two also has habits that no other one has.
"""

from __future__ import annotations

from attrs import evolve, frozen

from ..builder.draw import Draw

Weights = tuple[tuple[str, int], ...]
"""What is drawn, and how often."""

_PLAIN_IMPORTS = ("import torch\nimport torch.nn as nn",)
_FUNCTIONAL_IMPORTS = ("import torch\nimport torch.nn as nn\nimport torch.nn.functional as F",)


@frozen(kw_only=True)
class Dialect:
    """One way to write programs; floats are shares, from 0 to 1."""

    name: str
    is_heldout: bool = False
    superclass: tuple[str, ...] = ("super().__init__()",)
    imports: tuple[str, ...] = _PLAIN_IMPORTS
    """Those of PyTorch; `F` is imported where it is used, and at times where it is not."""
    unused_imports: tuple[str, ...] = ()
    unused_import_share: float = 0.0
    typing_hints: float = 0.0
    """Share of the typed programs whose constructors say `Optional[int]`, `Tuple[int, int]` and so on."""
    indents: Weights = (("    ", 92), ("\t", 4), ("   ", 2), ("        ", 2))
    """Of the prompt; two spaces are a held-out dialect's."""
    quote: str = '"'
    num_blank: int = 2
    """Blank lines between what stands at the top level."""

    class_doc: Weights = (("none", 1),)
    """none, line, block, args, attributes, sphinx or numpy."""
    init_doc: Weights = (("none", 1),)
    forward_doc: Weights = (("none", 1),)
    comments: float = 0.0
    hints: Weights = (("none", 1),)
    """none, torch (torch.Tensor) or tensor (Tensor)."""
    described: float = 0.0
    """Share of the prompts in which a sentence or a title stands before the program."""

    sizes_above: float = 0.0
    size_style: Weights = (("long", 1),)
    """long (batch_size), upper (BATCH_SIZE) or given (as the family calls it)."""
    literal_sizes: float = 0.0
    tuple_sizes: float = 0.0
    joined_sizes: float = 0.0
    """Several in one statement: `height = width = 64`, `depth, height = 8, 64`."""
    named_inputs: float = 0.0
    uniform_inputs: float = 0.0
    """Of those to which it makes no difference: `rand` in place of `randn`."""

    passes_numbers: float = 0.0
    """Of the numbers in layers and in `forward`: arguments of the constructor."""
    named_values: float = 0.0
    """Of the numbers that `get_init_inputs` gives: constants of the module."""
    defaults: float = 0.0
    named_defaults: float = 0.0
    """Of the fractions among them: their value is a default that a constant of the module names (`eps=EPS`)."""
    global_numbers: float = 0.08
    """Of the fractions in `forward` that no argument gives: constants of the module that it names."""
    flags: float = 0.025
    """Steps of `forward` under a flag of the constructor: `if self.use_relu:`."""
    asserts: float = 0.03
    """Constructors that assert something of an argument."""
    further_keywords: float = 0.015
    """Constructors that take `**kwargs`."""
    computed_attributes: float = 0.0
    """Constructors that keep the root of a size beside what they need."""
    full_layers: float = 0.0
    """Layers whose every option is an argument of the constructor."""
    keyword_layers: float = 0.0
    unused_parameters: float = 0.0
    passed_shapes: float = 0.0
    """The shapes of parameters are arguments of the constructor: `bias_shape = (channels, 1, 1)`."""
    init_functions: float = 0.0
    """Parameters that are filled after they are made."""
    keyword_inputs: bool = False
    """Whether `get_init_inputs` returns a list and a dictionary."""

    operators: Weights
    """module, function (F.), long (torch.nn.functional.), torch, method: in which space an operator is taken."""
    arithmetic: Weights = (("operator", 8), ("torch", 1), ("method", 1))
    flow: Weights = (("again", 2), ("nested", 1), ("names", 1))
    """again (x = f(x)), nested (f(g(x))), names (one for each value) or inplace (x += y)."""
    sequential: float = 0.0
    """Programs whose operators are modules, in `nn.Sequential` where they follow one another."""
    helper_methods: float = 0.0
    returns_name: float = 0.0


_SHARES = """
                     benchmark documented terse modules functional tensor_methods parameters scraped sphinx numpy_style
unused_import_share          0          0     0       0         .3              0         .2      .4     .3           0
typing_hints                .1         .3     0       0        .35              0         .1       0     .3           0
comments                   .15          0    .1       0         .4             .3        .25      .1     .2          .3
described                   .4         .3    .4      .4         .4             .4         .4      .4     .4          .4
sizes_above                  0          0     0       0         .3             .9          0       0      0          .5
literal_sizes                0          0   .75       0          0              0          0      .5      0         .15
tuple_sizes                  0         .1     0     .15          0              0        .35       0     .2           0
joined_sizes               .15         .2     0      .4         .2              0         .3       0     .5          .3
named_inputs                .7         .8    .1      .6         .5             .2         .5       0     .5          .4
uniform_inputs              .6         .4     0      .3          0              0         .2       0     .3           0
passes_numbers              .8         .7   .25      .5         .4             .2         .6      .4     .6          .5
named_values               .95         .8    .1      .7         .5             .4         .9       0     .7          .5
defaults                   .15         .6    .1      .3         .5             .3         .4      .6     .4          .5
named_defaults              .2         .3    .3     .25         .4             .4         .4     .25     .4          .5
computed_attributes        .05         .1   .05      .1        .15             .1         .2      .1     .1          .1
full_layers                 .4         .5     0       0          0              0          0       0     .2           0
keyword_layers              .2         .4    .2      .3         .2             .2         .2      .2     .5          .3
unused_parameters            0         .1     0       0         .1              0         .2     .25    .15           0
passed_shapes               .7        .35   .15     .35         .2              0         .6       0      0          .2
init_functions               0          0     0       0          0              0         .4       0      0          .2
sequential                  .7         .7   .25      .9         .2             .2         .6      .6     .4          .2
helper_methods             .05        .15     0     .15        .15             .2         .2      .1      0          .3
returns_name                .8         .5    .1      .4         .3             .2         .5      .6     .5          .4
"""
"""The shares of what each dialect's authors do at times."""


def _read_shares(name: str) -> dict[str, float]:
    """Return a dialect's column of the table."""
    head, *rows = (line.split() for line in _SHARES.strip().splitlines())
    return {row[0]: float(row[1 + head.index(name)]) for row in rows}


_WITHOUT_SHARES = (
    Dialect(
        name="benchmark",
        superclass=("super(Model, self).__init__()",),
        class_doc=(("line", 2), ("block", 4), ("args", 1)),
        forward_doc=(("args", 1), ("none", 2)),
        hints=(("none", 1), ("torch", 2)),
        operators=(("module", 1), ("function", 1), ("long", 4), ("torch", 5), ("method", 1)),
        flow=(("again", 4), ("nested", 1)),
    ),
    Dialect(
        name="documented",
        superclass=("super(Model, self).__init__()", "super(Model, self).__init__()", "super().__init__()"),
        class_doc=(("args", 3), ("block", 1)),
        init_doc=(("none", 2), ("args", 1)),
        forward_doc=(("args", 3), ("line", 1)),
        hints=(("torch", 4), ("none", 1)),
        operators=(("module", 3), ("function", 2), ("long", 2), ("torch", 3), ("method", 1)),
        flow=(("again", 2), ("names", 1)),
    ),
    Dialect(
        name="terse",
        superclass=("super().__init__()", "nn.Module.__init__(self)"),
        num_blank=1,
        size_style=(("given", 1),),
        operators=(("module", 1), ("function", 2), ("torch", 3), ("method", 5)),
        flow=(("nested", 3), ("again", 1), ("names", 1)),
    ),
    Dialect(
        name="modules",
        superclass=("super(Model, self).__init__()", "super().__init__()"),
        class_doc=(("none", 2), ("line", 1), ("attributes", 1)),
        hints=(("none", 2), ("torch", 1)),
        operators=(("module", 10), ("function", 1), ("long", 1), ("torch", 1), ("method", 1)),
        flow=(("again", 2), ("nested", 2)),
    ),
    Dialect(
        name="functional",
        imports=_FUNCTIONAL_IMPORTS,
        unused_imports=("import math", "import math\nfrom typing import Optional", "from typing import Tuple"),
        class_doc=(("none", 1), ("line", 2)),
        hints=(("torch", 3), ("none", 1)),
        size_style=(("long", 2), ("given", 1)),
        operators=(("function", 8), ("torch", 2), ("method", 2)),
        arithmetic=(("operator", 9), ("method", 1)),
        flow=(("names", 3), ("again", 1), ("inplace", 2)),
    ),
    Dialect(
        name="tensor_methods",
        superclass=("nn.Module.__init__(self)", "super().__init__()"),
        imports=("import torch\nfrom torch import nn", "import torch\nfrom torch import nn, Tensor"),
        hints=(("none", 3), ("tensor", 2)),
        size_style=(("upper", 3), ("given", 2)),
        operators=(("method", 8), ("torch", 1), ("function", 1)),
        arithmetic=(("operator", 6), ("method", 2)),
        flow=(("names", 2), ("nested", 2), ("inplace", 2)),
    ),
    Dialect(
        name="parameters",
        superclass=("super(Model, self).__init__()",),
        imports=_FUNCTIONAL_IMPORTS,
        unused_imports=("import math",),
        class_doc=(("line", 1), ("block", 1), ("none", 1)),
        hints=(("none", 1), ("torch", 1)),
        operators=(("module", 1), ("function", 2), ("long", 2), ("torch", 5), ("method", 2)),
        arithmetic=(("operator", 7), ("torch", 2)),
        flow=(("again", 3), ("inplace", 2), ("names", 1)),
    ),
    Dialect(
        name="scraped",
        superclass=("super().__init__()", "super(Model, self).__init__()"),
        imports=(*_PLAIN_IMPORTS, *_FUNCTIONAL_IMPORTS),
        unused_imports=("import torch.utils.data", "import numpy as np", "import math"),
        quote="'",
        class_doc=(("none", 2), ("line", 1)),
        size_style=(("long", 1), ("given", 1)),
        keyword_inputs=True,
        operators=(("module", 3), ("function", 2), ("long", 2), ("torch", 3), ("method", 2)),
        flow=(("again", 1), ("names", 2)),
    ),
    Dialect(
        name="sphinx",
        is_heldout=True,
        superclass=("super(Model, self).__init__()", "nn.Module.__init__(self)"),
        imports=_FUNCTIONAL_IMPORTS,
        unused_imports=("from typing import List, Optional, Tuple",),
        indents=(("  ", 1),),
        quote="'",
        num_blank=1,
        class_doc=(("sphinx", 2), ("block", 1)),
        init_doc=(("sphinx", 1), ("none", 1)),
        forward_doc=(("sphinx", 1), ("none", 1)),
        size_style=(("long", 2), ("upper", 1)),
        operators=(("module", 2), ("function", 3), ("long", 1), ("torch", 3), ("method", 2)),
        flow=(("names", 2), ("again", 2), ("nested", 1)),
    ),
    Dialect(
        name="numpy_style",
        is_heldout=True,
        indents=(("    ", 1),),
        superclass=("super().__init__()", "super(Model, self).__init__()"),
        imports=("import torch\nfrom torch import Tensor, nn\nfrom torch.nn import functional as F",),
        class_doc=(("numpy", 3), ("line", 1)),
        forward_doc=(("numpy", 1), ("none", 2)),
        hints=(("tensor", 3), ("none", 1)),
        size_style=(("upper", 1), ("long", 1)),
        operators=(("module", 2), ("function", 2), ("torch", 3), ("method", 3)),
        arithmetic=(("operator", 7), ("torch", 1), ("method", 1)),
        flow=(("nested", 1), ("names", 2), ("again", 1), ("inplace", 2)),
    ),
)
DIALECTS: tuple[Dialect, ...] = tuple(
    evolve(dialect, **_read_shares(dialect.name))  # type: ignore[arg-type]
    for dialect in _WITHOUT_SHARES
)
"""In the order in which they are drawn."""


def dialects(is_heldout: bool = False) -> tuple[Dialect, ...]:
    """Return the dialects that training may have, or those that it never has."""
    return tuple(dialect for dialect in DIALECTS if dialect.is_heldout is is_heldout)


def weighted(draw: Draw, weights: Weights) -> str:
    """Return one of the weighted choices."""
    rest = draw.below(sum(weight for _, weight in weights))
    for choice, weight in weights:
        rest -= weight
        if rest < 0:
            return choice
    raise ValueError("no weights")
