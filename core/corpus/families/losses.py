"""Losses: of elements (squared, absolute, Huber, hinge and others) and of rows (cross entropy, cosine, triplets).

A loss of all elements or rows is a total (see `totals`): partial sums, or a value a row, and then their sum in one
program. Values are those of PyTorch for any input: logarithms of exponentials are taken from shifted values.
"""

from __future__ import annotations

from attrs import evolve, frozen

from ...task import Example
from ..builder.drafts import Device, Draft, make_kernel
from ..builder.draw import Draw
from ..builder.row_bodies import RowBody
from ..builder.spec import Spec, draw_dtypes, draw_size
from ..builder.wording import Kernel, Names, draw_names, finish
from .totals import DIMENSIONS, draw_total_sizes, finish_total, part_launch, sum_parts

_BETAS = (0.25, 0.5, 0.75, 1.0, 1.0, 1.5, 2.0)


@frozen(kw_only=True)
class Loss:
    """A loss of elements: the reference's spellings, and the value of an element from `{p}` and `{t}`, or their
    difference `{d}`.

    `target` is what the second input is drawn from; `{r}` is the keyword that asks for a sum, `{a}` a number, `{f}`
    the function (mean or sum) of a reference that is written out.
    """

    text: str
    torch: tuple[str, ...]
    value: str
    number: str = ""
    target: str = "torch.randn({shape}) * (0.5 + torch.rand(1))"
    is_zero_at_zero: bool = True
    """Whether the value is zero where nothing was loaded."""


_ELEMENT: dict[str, Loss] = {
    "mse": Loss(
        text="Mean squared error",
        torch=("F.mse_loss({p}, {t}{r})", "torch.{f}(({p} - {t}) ** 2)"),
        value="{d} * {d}",
    ),
    "l1": Loss(
        text="Mean absolute error",
        torch=("F.l1_loss({p}, {t}{r})", "torch.{f}(torch.abs({p} - {t}))"),
        value="tl.abs({d})",
    ),
    "smooth_l1": Loss(
        text="Smooth L1 loss with beta {a}",
        torch=("F.smooth_l1_loss({p}, {t}, beta={a}{r})",),
        value="tl.where(tl.abs({d}) < {a}, 0.5 * {d} * {d} / {a}, tl.abs({d}) - 0.5 * {a})",
        number="beta",
    ),
    "huber": Loss(
        text="Huber loss with delta {a}",
        torch=("F.huber_loss({p}, {t}, delta={a}{r})",),
        value="tl.where(tl.abs({d}) < {a}, 0.5 * {d} * {d}, {a} * (tl.abs({d}) - 0.5 * {a}))",
        number="delta",
    ),
    "hinge": Loss(
        text="Hinge loss with margin {a}",
        torch=("torch.{f}(torch.clamp({a} - {p} * {t}, min=0))", "torch.{f}(torch.relu({a} - {p} * {t}))"),
        value="tl.maximum({a} - {p} * {t}, 0.0)",
        number="margin",
        target="(torch.rand({shape}) < torch.rand(1)).float() * 2 - 1",
        is_zero_at_zero=False,
    ),
    "bce_with_logits": Loss(
        text="Binary cross entropy of logits",
        torch=("F.binary_cross_entropy_with_logits({p}, {t}{r})",),
        value="tl.maximum({p}, 0.0) - {p} * {t} + tl.log(1.0 + tl.exp(-tl.abs({p})))",
        target="torch.rand({shape}) * torch.rand(1)",
        is_zero_at_zero=False,
    ),
    "soft_margin": Loss(
        text="Soft margin loss",
        torch=("F.soft_margin_loss({p}, {t}{r})", "torch.{f}(F.softplus(-{p} * {t}))"),
        value="tl.maximum(-{p} * {t}, 0.0) + tl.log(1.0 + tl.exp(-tl.abs({p} * {t})))",
        target="(torch.rand({shape}) < torch.rand(1)).float() * 2 - 1",
        is_zero_at_zero=False,
    ),
    "kl_div": Loss(
        text="KL divergence of log-probabilities",
        torch=("torch.{f}(torch.exp({t}) * ({t} - {p}))", "F.kl_div({p}, {t}, log_target=True{r})"),
        value="tl.exp({t}) * ({t} - {p})",
    ),
}
_ROW = ("cross_entropy", "cross_entropy", "cosine", "cosine_loss", "triplet", "triplet")


def draw_element_loss(draw: Draw, family: str) -> Spec:
    """Draw a loss of elements, averaged or summed."""
    producer = draw.choice(tuple(_ELEMENT))
    reduction = "sum" if draw.chance(0.25) else "mean"
    return Spec(
        producer=producer,
        sizes=draw_total_sizes(draw, draw.choice((1, 2, 2, 3))),
        options=(
            ("reduction", reduction),
            *((("number", draw.choice(_BETAS)),) if _ELEMENT[producer].number else ()),
        ),
    )


def draw_row_loss(draw: Draw, family: str) -> Spec:
    """Draw a loss that has a value a row: averaged, summed, or as it is."""
    producer = draw.choice(_ROW)
    reduction = draw.choice(("mean", "none")) if producer != "cosine" else "none"
    reduction = "sum" if producer != "cosine" and draw.chance(0.15) else reduction
    columns = draw.size(16, 2048)
    rows = draw.size(32, max(32, min(1024, 400_000 // columns)))
    return Spec(
        producer=producer,
        sizes=(
            draw_size(draw, rows, (3, 5, 7), (11, 15), (20, 25)),
            draw_size(draw, columns, (5, 7, 9), (40, 70), (270, 350)),
        ),
        dtypes=draw_dtypes(draw) if reduction == "none" and producer != "cross_entropy" else ("float32",),
        options=(
            ("reduction", reduction),
            *((("number", draw.choice(_BETAS)),) if producer == "triplet" else ()),
        ),
    )


def write_element_loss(spec: Spec, task_id: str, draw: Draw) -> Example:
    """Write the task and a teacher for a loss of elements."""
    loss = _ELEMENT[spec.producer]
    names = draw_names(draw, DIMENSIONS[len(spec.sizes)])
    p, t = draw.choice((("pred", "target"), ("predictions", "targets"), ("x", "y"), ("inp", "target")))
    names = names.beside(p, t)
    draft = Draft()
    is_sum = spec.option("reduction") == "sum"
    # a mean over many elements hardly depends on which they are: so inputs differ as a whole from draw to draw
    draft.take(p, f"torch.randn({names.shape}) + 1 + 2 * torch.rand(1)")
    draft.take(t, loss.target.format(shape=names.shape))
    number = repr(spec.option("number"))
    text = loss.text.format(a=number)
    written = number
    is_argument = bool(loss.number) and draw.chance(0.3)
    if is_argument:
        draft.pass_number(loss.number, number)
        written = f"self.{loss.number}"
    keyword = ', reduction="sum"' if is_sum else ""
    # PyTorch warns of its own mean here
    spellings = loss.torch if is_sum or spec.producer != "kl_div" else loss.torch[:1]
    expression = draw.choice(spellings).format(p=p, t=t, a=written, r=keyword, f="sum" if is_sum else "mean")
    head = f"{text} of {p} and {t}, {'summed over' if is_sum else 'averaged over'} all elements."
    cast = spec.cast
    style = draw.choice(("block", "strided"))
    difference = draw.choice(("d", "d", "diff"))
    value = loss.value.format(p=p, t=t, d=difference, a=loss.number if is_argument else number)
    item = draw.choice(("loss", "loss", "err"))
    lines = [f"{difference} = {p} - {t}"] if "{d}" in loss.value else []
    if loss.is_zero_at_zero:
        lines.append(f"{item} = {value}")
    else:
        lines += [f"{item} = {value}", f"{item} = tl.where(mask, {item}, 0.0)"]
    body = sum_parts(names, [p, t], lines, item, style, cast)
    name = draw.choice((spec.producer, f"{spec.producer}_loss", "loss")) + names.suffix
    more = [(loss.number, f"<{loss.number}>")] if is_argument else []
    first, host = part_launch(names, name, [p, t], body, style, draw, more)
    kernel = _finish(spec, names, draft, [first], host, p, f"total-{style}", draw)
    return finish(spec, task_id, head, draft.reference([f"return {expression}"]), kernel, names, draw)


def _finish(
    spec: Spec, names: Names, draft: Draft, devices: list[Device], host: list[str], first: str, style: str, draw: Draw
) -> Kernel:
    """Return the solution with the launch that adds the partial sums."""
    result = names.out
    is_sum = spec.option("reduction") == "sum"
    count = "num" if spec.family == "row_loss" else "n"
    more = [] if is_sum or count == "num" else [("n", "n")]
    second = finish_total(names, "{total}" if is_sum else f"{{total}} / {count}", more, draw.choice((256, 512, 1024)))
    host = [*host, f"{result} = torch.empty((), device=<{first}>.device, dtype=<{first}>.dtype)"]
    return make_kernel([*devices, second], [*host, second.launch("(1,)")], draft.tensors, result, style)


def write_row_loss(spec: Spec, task_id: str, draw: Draw) -> Example:
    """Write the task and a teacher for a loss that has a value a row."""
    names = draw_names(draw, DIMENSIONS[2])
    draft = Draft()
    rows, columns = names.dimensions
    reduction = str(spec.option("reduction"))
    end = {"mean": ", averaged over the rows", "sum": ", summed over the rows", "none": ", one value a row"}[reduction]
    keyword = "" if reduction == "mean" else f', reduction="{reduction}"'
    number, argument = repr(spec.option("number")), ""
    match spec.producer:
        case "cross_entropy":
            inputs = list(draw.choice((("logits", "target"), ("x", "labels"), ("pred", "target"))))
            draft.take(inputs[0], f"torch.randn({names.shape}) * 4")
            draft.take(inputs[1], f"torch.randint(0, {columns}, ({rows},))")
            expression = f"F.cross_entropy({inputs[0]}, {inputs[1]}{keyword})"
            head = f"Cross entropy of {inputs[0]} and class indices {inputs[1]}{end}."
        case "triplet":
            inputs = list(draw.choice((("anchor", "positive", "negative"), ("a", "p", "n_pairs"))))
            for name in inputs:
                draft.take(name, f"torch.randn({names.shape})")
            written = number
            if draw.chance(0.3):
                argument, written = "margin", "self.margin"
                draft.pass_number("margin", number)
            expression = f"F.triplet_margin_loss({', '.join(inputs)}, margin={written}{keyword})"
            head = f"Triplet margin loss with margin {number}{end}."
        case _:
            inputs = list(draw.choice((("x", "y"), ("pred", "target"), ("a", "b"))))
            for name in inputs:
                draft.take(name, f"torch.randn({names.shape}) + torch.randn(1)")
            dim = draw.choice(("-1", "1"))
            expression = f"F.cosine_similarity({', '.join(inputs)}, dim={dim})"
            head = f"Cosine similarity of {' and '.join(inputs)}{end}."
            if spec.producer == "cosine_loss":
                expression = f"1 - {expression}"
                expression = expression if reduction == "none" else f"torch.{reduction}({expression})"
                head = f"One minus the cosine similarity of {' and '.join(inputs)}{end}."
    kernel = _row_kernel(spec, names.beside(*inputs), inputs, argument, draft, draw)
    return finish(spec, task_id, head, draft.reference([f"return {expression}"]), kernel, names, draw)


def _row_lines(spec: Spec, names: Names, inputs: list[str], style: str, argument: str) -> list[str]:
    """Write lines up to the value of a row."""
    columns, v, low, x = names.columns, names.value, '-float("inf")', inputs[0]
    # both styles write out where elements are, as the row families' loops do
    body = RowBody(spec=spec, names=evolve(names, x=x), style="loop", n="dim", rows="num")
    row, whole = "row = tl.program_id(0)", f"{columns} = tl.arange(0, {names.block})"
    if spec.producer == "cross_entropy":
        index = f"label = tl.load({names.ptr(inputs[1])} + row)"
        pick = f"tl.load({names.ptr(x)} + row * dim + label)"
        if style == "row":
            top = f"top = tl.max({x}, axis=0)"
            total = f"total = tl.sum(tl.exp({x} - top), axis=0)"
            return [row, whole, body.load_x(low), index, top, total, f"{v} = top + tl.log(total) - {pick}"]
        return [
            row,
            index,
            body.full("high", low),
            *body.sweep(low, [f"high = tl.maximum(high, {x})"]),
            "top = tl.max(high, axis=0)",
            body.zeros("acc"),
            *body.sweep(low, [f"acc += tl.exp({x} - top)"]),
            f"{v} = top + tl.log(tl.sum(acc, axis=0)) - {pick}",
        ]
    steps, sums, last = _row_sums(spec, inputs, columns, argument)
    steps = [*(f"{name} = {body.load(names.ptr(name), '0.0')}" for name in inputs[1:]), *steps]
    if style == "row":
        lines = [row, whole, body.load_x("0.0"), *steps]
        lines += [f"{name} = tl.sum({item}, axis=0)" for name, item in sums]
    else:
        steps += [f"{name} += {item}" for name, item in sums]
        lines = [row, *(body.zeros(name) for name, _ in sums), *body.sweep("0.0", steps)]
        lines += [f"{name} = tl.sum({name}, axis=0)" for name, _ in sums]
    return [*lines, f"{v} = {last}"]


def _row_sums(
    spec: Spec, inputs: list[str], columns: str, argument: str
) -> tuple[list[str], list[tuple[str, str]], str]:
    """Return lines from what was loaded, the sums that a row's value is made of, and the value."""
    if spec.producer == "triplet":
        a, p, n = inputs
        margin = argument or repr(spec.option("number"))
        # PyTorch adds 1e-6 to each difference
        steps = [
            f"d_{name} = tl.where({columns} < dim, {a} - {other} + 1e-6, 0.0)" for name, other in (("p", p), ("n", n))
        ]
        sums = [("near", "d_p * d_p"), ("far", "d_n * d_n")]
        return steps, sums, f"tl.maximum(tl.sqrt(near) - tl.sqrt(far) + {margin}, 0.0)"
    x, y = inputs
    sums = [("dot", f"{x} * {y}"), ("xx", f"{x} * {x}"), ("yy", f"{y} * {y}")]
    cosine = "dot / (tl.maximum(tl.sqrt(xx), 1e-8) * tl.maximum(tl.sqrt(yy), 1e-8))"
    return [], sums, cosine if spec.producer == "cosine" else f"1.0 - {cosine}"


def _row_kernel(spec: Spec, names: Names, inputs: list[str], argument: str, draft: Draft, draw: Draw) -> Kernel:
    style = draw.choice(("row", "row", "loop"))
    is_total = spec.option("reduction") != "none"
    target = "partial" if is_total else names.out
    first = inputs[0]
    body = _row_lines(spec, names, inputs, style, argument)
    body.append(f"tl.store({names.ptr(target)} + row, {names.value})")
    block = "triton.next_power_of_2(dim)" if style == "row" else str(draw.choice((128, 256, 512)))
    device = Device(
        name=draw.choice((spec.producer, f"{spec.producer}_rows", "row_loss")) + names.suffix,
        arguments=draft.pass_to(names.ptr, target, ["dim"], len(inputs)),
        constants=((names.block, block),),
        body=tuple(body),
    )
    dtype = "torch.float32" if is_total else f"<{first}>.dtype"
    host = [
        f"num, dim = <{first}>.shape",
        f"{target} = torch.empty((num,), device=<{first}>.device, dtype={dtype})",
        device.launch("(num,)"),
    ]
    if not is_total:
        return make_kernel([device], host, draft.tensors, target, f"loss-{style}")
    return _finish(spec, names, draft, [device], host, first, f"total-{style}", draw)
