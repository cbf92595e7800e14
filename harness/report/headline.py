"""The sentence at the top of the page: what the run found of the four extensions, and no more than it found."""

from __future__ import annotations

from collections.abc import Sequence

from ...core.recipe.extensions import LETTERS
from ...core.statistics import factorial
from ..analysis.conclusions import describe_gain, training_gain
from ..analysis.findings import Analysis
from ..analysis.number_format import Form, written

NAMES = {"m": "multi-input testing", "s": "staged evaluation", "c": "the curriculum", "t": "calibrated timing"}


def headline(analysis: Analysis) -> str:
    """Which extensions changed the rate of correct kernels by more than noise explains, and what training did at all.

    An extension is said to have changed it only where Holm's p over all effects allows it.
    """
    found = analysis.effects.get("correct")
    if found is None:
        return "No cell is complete, so nothing can be said of the extensions yet."
    known = [effect for effect in map(found.effect, LETTERS) if effect.estimable]
    if not known:
        return "The cells that were run cannot tell one extension from another."
    if "seeds" not in found.over:
        which = "One seed" if found.num_seeds == 1 else "Seeds that are not whole"
        return f"{which} cannot tell what an extension does from the chance of a training run: run at least three."
    beside = f"{_sensitivity(known)}{_training(analysis)}"
    told = sorted((effect for effect in known if effect.confirmed), key=lambda effect: -(effect.estimate or 0.0))
    if told:
        first = f"{_listed([_change(effect) for effect in told])}."
        others = [NAMES[effect.name] for effect in known if not effect.confirmed]
        rest = f" For {_listed(others)} no effect is shown." if others else ""
        return f"{first[0].upper()}{first[1:]}{rest}{beside}"
    which = "None of the four extensions" if len(known) == len(LETTERS) else "No extension that could be told apart"
    return f"{which} changed the rate of correct kernels by more than chance explains.{beside}"


def _sensitivity(known: Sequence[factorial.Effect]) -> str:
    sizes = [effect.detectable for effect in known if effect.detectable is not None]
    if not sizes:
        return ""
    return f" Main effects below about {written(max(sizes), Form.SIZE)} points were likely to be missed."


def _training(analysis: Analysis) -> str:
    gain = training_gain(analysis.comparisons)
    if gain is None:
        return ""
    told = describe_gain(gain)
    return f" {told[0].upper()}{told[1:]}."


def _change(effect: factorial.Effect) -> str:
    verb = "raised" if (effect.estimate or 0.0) > 0 else "lowered"
    low, high = written(effect.low, Form.POINTS), written(effect.high, Form.POINTS)
    size = written(abs(effect.estimate or 0.0), Form.SIZE)
    return f"{NAMES[effect.name]} {verb} the rate of correct kernels by {size} points (95% interval {low} to {high})"


def _listed(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
