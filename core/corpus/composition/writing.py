"""Writes a composed task and its teacher."""

from __future__ import annotations

from ...task import Example, Task
from ..builder.draw import Draw
from ..builder.spec import Spec
from ..builder.wording import Names, Reference, draw_names, make_task, write_solution
from .lowering import Lowering
from .program import Node, ProgramSpec
from .reference import Wording, draw_wording, write_forward


def write_program(spec: Spec, task_id: str, draw: Draw) -> Example:
    """Write the reference, a teacher of one launch or several, and a sentence that says the task."""
    assert isinstance(spec, ProgramSpec)
    wording, reference = _write_reference(spec, draw)
    kernel = Lowering(spec=spec, wording=wording).write()
    task = make_task(spec, task_id, describe(spec), reference, _name_constants(spec, wording, draw))
    return Example(task=task, solution=write_solution(reference, kernel, ""), style=f"composed {kernel.style}")


def write_task(spec: Spec, task_id: str, draw: Draw) -> Task:
    """Write the reference alone, and the sentence, of a task that has no teacher."""
    assert isinstance(spec, ProgramSpec)
    wording, reference = _write_reference(spec, draw)
    return make_task(spec, task_id, describe(spec), reference, _name_constants(spec, wording, draw))


def _write_reference(spec: ProgramSpec, draw: Draw) -> tuple[Wording, Reference]:
    """Write the reference, and return it with its wording."""
    wording = draw_wording(spec, draw)
    write_forward(spec, wording, draw)
    arguments, values = _write_inputs(spec, wording)
    return wording, Reference(
        parameters=[(wording.arguments[role], wording.constants[role]) for role in wording.used],
        init=wording.init,
        arguments=arguments,
        forward=wording.forward,
        inputs=values,
    )


def _write_inputs(spec: ProgramSpec, wording: Wording) -> tuple[list[str], list[str]]:
    """Return the arguments of `forward` and the expressions that draw them."""
    arguments, values = [], []
    for node in spec.nodes:
        if node.op != "input":
            continue
        shape, kind = ", ".join(wording.outside(dim.text) for dim in node.shape), str(node.option("kind"))
        scale = wording.outside(str(node.option("scale")))
        match kind.partition(":")[0]:
            case "classes":
                value = f"torch.randint(0, {wording.outside(kind.partition(':')[2])}, ({shape},))"
            case "number":
                value = kind.partition(":")[2]
            case "mask":
                value = f"torch.rand({shape}) > 0.3"
            case "signs":
                value = f"(torch.rand({shape}) > 0.5).float() * 2 - 1"
            case "positive":
                value = f"torch.rand({shape}) + 0.5"
            case _:
                value = f"torch.randn({shape})"
        arguments.append(node.name)
        values.append(f"{value} / {f'({scale})' if ' ' in scale else scale}**0.5" if scale else value)
    return arguments, values


def _name_constants(spec: ProgramSpec, wording: Wording, draw: Draw) -> Names:
    return draw_names(draw, (tuple(wording.constants[role] for role in spec.roles),))


def describe(spec: ProgramSpec) -> str:
    """Return one sentence: each operation in its order."""
    words = [_describe_node(node, spec) for node in spec.nodes if node.op not in ("input", "flatten", "tokens")]
    text = ", then ".join(words)
    return f"{text[:1].upper()}{text[1:]}."


def _describe_node(node: Node, spec: ProgramSpec) -> str:
    names = [spec.nodes[place].name for place in node.inputs]
    kind = str(node.option("kind", "")).replace("_", " ")
    over = (
        f" over dimension{'s' if len(node.dims) > 1 else ''} {' and '.join(map(str, node.dims))}" if node.dims else ""
    )
    kept = ", kept as one" if node.option("keeps") else ""
    no_bias = "" if node.option("bias", 1) else ", no bias"
    match node.op:
        case "conv":
            window = node.window
            assert window is not None
            title = "transposed convolution" if window.is_transposed else "convolution"
            groups = node.number("groups")
            grouped = "depthwise " if groups < 0 else ""
            more = f", {groups} groups" if groups > 1 else ""
            return f"{window.rank}-D {grouped}{title}, {window.text}{more}{no_bias}"
        case "pool":
            assert node.window is not None
            return f"{node.window.rank}-D {'max' if kind == 'max' else 'average'} pooling, {node.window.text}"
        case "linear":
            return f"linear layer{no_bias}"
        case "matmul":
            turned = [
                f"{name} transposed" if way == "t" else name
                for name, way in zip(names, str(node.option("layout")), strict=True)
            ]
            return f"matrix product of {turned[0]} and {turned[1]}"
        case "point":
            assert node.applied is not None
            parameter = {"channel": "the parameter", "scalar": "a learned number"}.get(str(node.option("operand")), "")
            return node.applied.text(parameter or (names[1] if len(names) > 1 else ""), names[0])
        case "reduce":
            return f"{_REDUCTIONS.get(kind, kind)}{over}{kept}"
        case "position":
            return f"position of the {'largest' if kind == 'argmax' else 'least'} element{over}{kept}"
        case "pair":
            return f"{kind} of {names[0]} and {names[1]}{over}"
        case "matvec":
            return f"product of {names[0]} and {names[1]}{over}"
        case "softmax":
            return f"{kind}{over}"
        case "norm":
            stored = " with its running statistics" if node.option("running") else ""
            parted = f" with {node.option('groups')} groups" if kind == "group" else ""
            return f"{kind} norm{stored}{parted}{over}, eps {node.option('eps')!r}"
        case "scan":
            title = "cumulative product" if node.option("is_product") else "cumulative sum"
            return f"{title if kind == 'plain' else f'{kind} {title}'}{over}"
        case "attention":
            heads = node.number("num_heads")
            return (
                f"{'causal ' if node.option('is_causal') else ''}scaled dot-product attention"
                f"{f' of {heads} heads' if heads else ''}{' with a mask that is added' if len(names) > 3 else ''}"
            )
        case "concat":
            return f"concatenation of {names[0]} and {names[1]} over the channels"
        case "dropout":
            return "dropout in evaluation mode"
        case _:
            return "cross entropy of each row"


_REDUCTIONS = {
    "max": "maximum",
    "min": "minimum",
    "prod": "product",
    "var": "variance",
    "std": "standard deviation",
    "logsumexp": "log-sum-exp",
    "l1": "L1 norm",
    "l2": "L2 norm",
}
