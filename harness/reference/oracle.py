"""The trusted side: what a task's reference returns, in fp64, for inputs that only the judge knows.

Tasks are trusted input and run in this process; candidate code never does. Two choices decide what a wrong candidate
can get away with. Parameters are randomised, because a freshly built norm has weight 1 and bias 0 and a kernel that
omits both would pass; and expected values are computed in fp64 from inputs rounded to the dtype under test, so that
the error that is measured is the candidate's own.

A candidate that names its parameters as the reference does receives the randomised values. One that adds parameters
of its own can only rely on KernelBench's convention, the same seed and order of construction: then those that it does
not name keep their seeded values in the reference too, except for those that construction makes constant (all ones, all
zeros), which stay randomised, so that renaming a parameter is no way to have it left out.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from attrs import evolve
from torch._subclasses.fake_tensor import FakeTensorMode

from ...core.candidate import Comparison, Variant
from ...core.run import InitArgument, TensorSpec
from ...core.seeds import derive
from ...core.serialisation import fingerprint
from ...core.task import Profile, Task
from ...core.text.named_sizes import read_sizes
from ...stages.judge_run import is_sound
from ...stages.tolerance import WELL_WITHIN, accepts, compare, find_scale
from ...stages.variant_inputs import IntegerChange, VariantInputs
from ...stages.variants import HIDDEN_VARIANTS
from ..errors import TaskError
from .conditioning import Conditioning, SubtractingFromOne, find_conditioning
from .expected_run import Build, ExpectedRun
from .experiments import find_acceptable, find_changeable_integers, find_structures, is_same_in_evaluation
from .fair_values import choose_fair
from .products import ConvolutionsInParts
from .reference import (
    alone_with_generators,
    build_model,
    call_model,
    convert,
    describe_init,
    describe_input,
    draw_inputs,
    draw_signs,
    dtype_name,
    fake_reference,
    find_drawn,
    is_floating,
    load_task,
    randomise,
    round_parameters,
    to_double,
    torch_dtype,
)
from .task_facts import TaskFacts, count_bytes, keep
from .values import Structure, cancel, counterweigh, is_in_range, make_alike, restore, transform, values_of

SHARE_OF_SCALE, _SHARE_OF_OTHERS = 1e-2, 1e-3
"""Of what results are elsewhere, and at other sizes: where all are next to nothing, errors are measured by that."""
_WHOLE = (Profile.TINY, Profile.SMALL, Profile.LARGER)


class Oracle(TaskFacts):
    """Reference results of tasks, computed on demand and kept while they fit; safe to use from several threads.

    `harness.gpu.shared_oracle` has a GPU compute them; inputs and parameters are always drawn on the CPU.
    """

    device = "cpu"
    """Where references run."""

    @keep()
    def build(self, task: Task, profile: Profile, dtype: str) -> Build:
        """Init arguments and input descriptions for recording a candidate."""
        sized, profile_of_sizes = self._sized(task, profile)
        module = load_task(sized, profile_of_sizes)
        with FakeTensorMode():
            drawn = draw_inputs(sized, module, None)
        drawn = self._with_numbers(task, profile, drawn)
        return Build(
            init_json=describe_init(sized, module), inputs=tuple(describe_input(sized, value, dtype) for value in drawn)
        )

    @keep()
    def neighbours(self, task: Task, profile: Profile, dtype: str) -> tuple[tuple[TensorSpec | InitArgument, ...], ...]:
        """Inputs at small sizes, and at the profile's own, but for one, which is as declared; of the same model."""
        own, kind = self._sized(task, profile)
        if profile.is_large:
            return ()
        sizes, declared, found = dict(own.constants(kind)), read_sizes(task.source), []
        init_json = self.build(task, profile, dtype).init_json
        for name, _ in self.remainder(task):
            moved_sizes = ({**others, name: declared.get(name, 0)} for others in ({**sizes, **dict(task.small)}, sizes))
            for constants in dict.fromkeys(tuple(sized.items()) for sized in moved_sizes):
                moved = evolve(task, larger=constants)
                with contextlib.suppress(TaskError):
                    build = self.build(moved, Profile.LARGER, dtype)
                    if build.init_json == init_json:
                        found.append(build.inputs)
        return tuple(found)

    @keep(at_any_larger=True)
    def is_same_in_evaluation(self, task: Task) -> bool:
        """Whether the reference returns the same in evaluation mode as in training mode, and in a second call."""
        return is_same_in_evaluation(task, self.seed, self.init_seed(task))

    def expected(
        self, task: Task, inputs: VariantInputs, seeded_parameters: frozenset[str] = frozenset()
    ) -> ExpectedRun:
        """The reference's results on one variant's inputs."""
        return self._expected(task, inputs, seeded_parameters)

    def is_accepted(self, task: Task, inputs: VariantInputs) -> bool:
        """Whether the reference runs on a variant's inputs: one of probabilities accepts no others."""
        try:
            self.expected(task, inputs)
        except TaskError:
            return False
        return True

    @keep()
    def is_exact(self, task: Task, inputs: VariantInputs) -> bool:
        """Whether the reference itself, in the variant's dtype, is well within the tolerance, and all is finite."""
        errors, run = self.own_errors(task, inputs), self.expected(task, inputs)
        is_known = bool(errors) and all(map(is_in_range, run.expected, run.dtypes))
        return is_known and all(accepts(error, WELL_WITHIN) for error in errors)

    @keep()
    def own_errors(self, task: Task, inputs: VariantInputs) -> tuple[Comparison, ...]:
        """How each result of the reference itself, in the variant's dtype, differs; empty where it cannot be had."""
        run, found = self.expected(task, inputs), self.own_results(task, inputs, frozenset())
        pairs = zip(found, run.expected, run.dtypes, strict=True) if found else ()
        return tuple(compare(values_of(tensor), wanted, dtype) for tensor, wanted, dtype in pairs)

    def own_results(self, task: Task, inputs: VariantInputs, seeded_parameters: frozenset[str]) -> list[torch.Tensor]:
        """The reference's results in the variant's dtype, as exact as formulas are; empty where they cannot be had."""
        model, values = self._prepare(task, inputs, seeded_parameters)
        with contextlib.suppress(TaskError), SubtractingFromOne():  # not every operator exists for every dtype on a CPU
            return list(self._call_in_own(torch_dtype(inputs.dtype), task, model, values))
        return []

    @keep()
    def is_sound(self, task: Task, inputs: VariantInputs, share: float) -> bool:
        """Whether the reference gives numbers on a variant's inputs, and in its own dtype right ones (`judge_run`)."""
        return is_sound(self.expected(task, inputs).expected, self.own_errors(task, inputs), share)

    @keep(lambda found: 0 if found is None else found.num_bytes)
    def conditioning(self, task: Task, inputs: VariantInputs, seeded_parameters: frozenset[str]) -> Conditioning | None:
        """How results answer to noise in inputs and parameters; None where the reference has no results of its own."""
        expected = self.expected(task, inputs, seeded_parameters).expected
        model, values = self._prepare(task, inputs, seeded_parameters)
        seed = derive(self.seed, fingerprint(task), "moved")
        return find_conditioning(task, model, values, expected, torch_dtype(inputs.dtype), seed)

    @keep()
    def degree(self, task: Task, inputs: VariantInputs) -> int | None:
        """The power of a factor of all inputs that the result is multiplied by; None where there is no such power."""
        multiples = [evolve(inputs, scale=inputs.scale * factor) for factor in (1.0, 4.0)]
        if not all(self.is_accepted(task, each) for each in multiples):
            return None
        small, large = (self.expected(task, each).expected for each in multiples)
        if not all(
            np.issubdtype(wanted.dtype, np.floating) and np.isfinite(wanted).all() for wanted in (*small, *large)
        ):
            return None
        for degree in range(4):
            pairs = zip(small, large, strict=True)
            if all(np.allclose(b, np.multiply(a, 4.0**degree), rtol=1e-3, atol=1e-4 * find_scale(b)) for a, b in pairs):
                return degree
        return None

    @keep()
    def choose_fair(self, task: Task, inputs: VariantInputs) -> VariantInputs:
        """The inputs without what is not fair to the task."""
        return choose_fair(self, task, inputs)

    def are_arranged(self, task: Task, inputs: VariantInputs) -> bool:
        """Whether the variant's inputs are arranged at all, and the reference runs on them at their own sizes."""
        fair = self.choose_fair(task, inputs)
        return bool(fair.arrangements or fair.integers) and self.is_accepted(task, inputs)

    @keep()
    def changeable_integers(self, task: Task, change: IntegerChange) -> tuple[int, ...]:
        """The positions of integers and masks among the inputs that a variant may change so."""
        if not change:
            return ()
        # a few integers may all differ by chance, as if none could be repeated
        profile = Profile.SMALL if change == "repeated" else Profile.TINY
        spec = VariantInputs(variant=Variant.ORIGINAL, profile=profile, dtype=task.dtypes[0])
        model, inputs = self._prepare(task, spec, frozenset())
        find = find_changeable_integers if change in ("negated", "large") else find_acceptable
        return find(task, convert(model, torch.float64), inputs, change)

    def _with_numbers(self, task: Task, profile: Profile, drawn: list[Any]) -> list[Any]:
        others = dict(self.numbers(task)) if profile is Profile.NUMBERS else {}
        return [others.get(position, value) for position, value in enumerate(drawn)]

    def build_model(
        self, task: Task, profile: Profile, dtype: str, seeded_parameters: frozenset[str], device: str = "cpu"
    ) -> torch.nn.Module:
        """The reference's model with random parameters, exact in the dtype; each device draws its own."""
        identity = fingerprint(task)
        module = load_task(*self._sized(task, profile))
        seed = derive(self.seed, identity, "init")
        if device == "cpu":
            model = build_model(task, module, seed)
        else:
            with alone_with_generators(), torch.device(device):
                torch.cuda.manual_seed(seed)
                model = build_model(task, module, seed)
        generator = torch.Generator(device).manual_seed(derive(self.seed, identity, "parameters"))
        drawn: frozenset[str] = frozenset()
        if seeded_parameters and profile is Profile.INNER_ONE:
            small = build_model(task, load_task(task, Profile.SMALL), derive(self.seed, identity, "init"))
            drawn = find_drawn(small)
        randomise(model, generator, seeded_parameters, torch_dtype(dtype), drawn)
        return model

    def _prepare(
        self, task: Task, spec: VariantInputs, seeded_parameters: frozenset[str]
    ) -> tuple[torch.nn.Module, list[Any]]:
        """The model with its parameters, and the variant's inputs."""
        identity = fingerprint(task)
        profile, dtype = spec.profile, torch_dtype(spec.dtype)
        spec = self.choose_fair(task, spec)

        def draw(*labels: str) -> list[Any]:
            module = load_task(*self._sized(task, profile))
            drawn = draw_inputs(task, module, derive(self.seed, identity, "inputs", spec.stream, *labels))
            return self._with_numbers(task, profile, drawn)

        def build() -> torch.nn.Module:
            return self.build_model(task, profile, spec.dtype, seeded_parameters)

        # variants of one stream share the draw, and those of one size and dtype the model
        inputs_key = ("inputs", identity, profile, spec.stream)
        drawn = [*self._kept.once(inputs_key, draw, count_bytes)]
        if spec.fresh_input is not None:
            drawn[spec.fresh_input] = draw("fresh")[spec.fresh_input]
        changeable = self.changeable_integers(task, spec.integers)
        spec = evolve(spec, axes=self.traits(task).axes)
        fixed = evolve(spec, integers="")
        inputs = [transform(value, spec if at in changeable else fixed, dtype) for at, value in enumerate(drawn)]
        if spec.alike:
            inputs = make_alike(inputs, spec.alike)
        restore(drawn, inputs, self._structures(task))
        model_key = ("model", identity, profile, spec.dtype, seeded_parameters)
        model = self._kept.once(model_key, build, lambda made: count_bytes(made.state_dict().values()))
        try:
            model = copy.deepcopy(model)
        except RuntimeError:  # it keeps a tensor that was computed from parameters
            model = build()
        if spec.has_signed_parameters:
            signs = torch.Generator().manual_seed(derive(self.seed, identity, "signs"))
            draw_signs(model, seeded_parameters, signs)
        if spec.has_rounded_parameters and spec.rounded_through is not None:
            round_parameters(model, spec.rounded_through)
        if spec.counterweight and self._is_indifferent(task, spec, seeded_parameters):
            self._counterweigh(task, spec.counterweight, model, inputs, seeded_parameters)
        operands = self._find_operands(task, model, inputs, seeded_parameters) if spec.cancelled else ()
        if operands:
            # of an expanded operand several elements are one in memory
            with torch.no_grad(), contextlib.suppress(RuntimeError):
                cancel(operands, spec.cancelled, dtype)
        return model, inputs

    @keep(at_any_larger=True)
    def _structures(self, task: Task) -> dict[int, tuple[Structure, ...]]:
        """What all draws of an input have alike, by position."""
        identity = fingerprint(task)
        first, second = (derive(self.seed, identity, "structure", str(number)) for number in range(2))
        return find_structures(task, (first, second))

    def _find_operands(
        self, task: Task, model: torch.nn.Module, inputs: list[Any], seeded_parameters: frozenset[str]
    ) -> list[tuple[torch.Tensor, int]]:
        """The product's operands with the axes that it adds over; none where one may not be changed."""
        parameters = {name: value for name, value in model.state_dict().items() if name not in seeded_parameters}
        given = {str(at): value for at, value in enumerate(inputs)} | parameters
        axes, structures = self.inner_axes(task), self._structures(task)
        free = {place: value for place, value in given.items() if place not in map(str, structures)}
        operands = [(free[place], axis) for place, axis in axes if is_floating(free.get(place))]
        return operands if len(operands) == len(axes) else []

    def _counterweigh(
        self, task: Task, power: int, model: torch.nn.Module, inputs: list[Any], seeded_parameters: frozenset[str]
    ) -> bool:
        """Change both operands of the product, and return whether there are such that may be changed."""
        operands = self._find_operands(task, model, inputs, seeded_parameters)
        if not operands:
            return False
        with torch.no_grad():
            counterweigh(operands, power)
        return True

    @keep()
    def _is_indifferent(self, task: Task, spec: VariantInputs, seeded_parameters: frozenset[str]) -> bool:
        """Whether the reference's results stay as they are: at small sizes, which are soon computed, they do.

        float16 has no room for such values.
        """
        if spec.dtype == "float16" or not self.inner_axes(task):
            return False
        beside = evolve(spec, profile=Profile.SMALL, counterweight=0)
        (model, inputs), (other, others) = (self._prepare(task, beside, seeded_parameters) for _ in range(2))
        try:
            if not self._counterweigh(task, spec.counterweight, other, others, seeded_parameters):
                return False
        except RuntimeError:  # several elements are one in memory
            return False
        pairs = zip(self._call(task, model, inputs), self._call(task, other, others), strict=True)
        return all(torch.allclose(one, another, rtol=1e-6, equal_nan=True) for one, another in pairs)

    def _call_in_own(
        self, dtype: torch.dtype, task: Task, model: torch.nn.Module, inputs: list[Any]
    ) -> Sequence[torch.Tensor]:
        """The reference's results in the variant's dtype, on the CPU."""
        return call_model(task, convert(model, dtype), inputs)

    def _call(self, task: Task, model: torch.nn.Module, inputs: list[Any]) -> Sequence[torch.Tensor]:
        """The reference's results in float64, on the CPU."""
        with ConvolutionsInParts():
            return call_model(task, convert(model, torch.float64), [to_double(value) for value in inputs])

    @keep(lambda run: run.num_bytes)
    def _expected(self, task: Task, spec: VariantInputs, seeded_parameters: frozenset[str]) -> ExpectedRun:
        return self._compute(task, spec, seeded_parameters)

    def _compute(self, task: Task, spec: VariantInputs, seeded_parameters: frozenset[str]) -> ExpectedRun:
        model, inputs = self._prepare(task, spec, seeded_parameters)
        parameters = {name: value.detach().clone() for name, value in model.state_dict().items()}
        outputs = self._call(task, model, inputs)
        return ExpectedRun(
            inputs=tuple(value if isinstance(value, torch.Tensor) else None for value in inputs),
            parameters=parameters,
            expected=tuple(output.detach().numpy().copy() for output in outputs),
            dtypes=self.result_dtypes(task, spec.dtype),
            least_scales=self._least_scales(task, spec, seeded_parameters),
        )

    @keep(at_any_larger=True)
    def result_dtypes(self, task: Task, dtype: str) -> tuple[str, ...]:
        """The dtypes that the reference returns where its floating-point inputs have this one; no size changes them."""
        with fake_reference(task, Profile.TINY, dtype) as (model, inputs):
            return tuple(dtype_name(output) for output in call_model(task, model, inputs))

    def _least_scales(self, task: Task, spec: VariantInputs, seeded_parameters: frozenset[str]) -> tuple[float, ...]:
        original = VariantInputs(variant=Variant.ORIGINAL, profile=spec.profile, dtype=spec.dtype)
        is_alike = spec.variant in HIDDEN_VARIANTS and spec.stream == original.stream and abs(spec.scale) >= 1.0
        shares = {original: SHARE_OF_SCALE} if is_alike else {}
        is_other_size = spec.profile not in (*_WHOLE, Profile.DECLARED) or spec.variant is Variant.PAST_BOUNDS
        if is_other_size and spec.keeps_values:
            # of few results all may be
            shares |= {evolve(original, profile=each): _SHARE_OF_OTHERS for each in _WHOLE}
        runs = [(share, self.expected(task, each, seeded_parameters).expected) for each, share in shares.items()]
        scales = [[share * find_scale(wanted) for wanted in expected] for share, expected in runs]
        return tuple(map(max, zip(*scales, strict=True)))
