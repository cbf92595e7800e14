"""Decide which tests are `slow`: `make test` leaves them to `make test-all`, and takes eight minutes on two cores so.

This is the only place that decides. Nothing is drawn: the same files give the same selection everywhere. What is slow
repeats a behaviour that another test shows by default, on more inputs:

- attacks: by default one for each mechanism in each line of defence (the folder). Attacks of no numbered mechanism have
  one for each outcome and stage in each folder, and the first file of every point in the README's list of them.
- attacks on the contract: CONTRACT by default.
- right kernels written by hand: KERNELS by default, one style for each mechanism of the verifier that could reject it.
- FURTHER: tests that cost much and go over the same ground again, with what shows it by default.
- properties: hypothesis draws `quick` examples by default, and 100 in `test-all` (profile `thorough`). A test that asks
  for a number of its own has that number in both.

`pytest` without `-m` runs everything, with quick properties.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from hypothesis import settings
from tritonrl.harness.bench.verifier.attacks import Attack

PROFILES = {"quick": settings(max_examples=30, deadline=None), "thorough": settings(max_examples=100, deadline=None)}
"""Of hypothesis, without deadlines, as how long an example takes is the machine's doing."""

KERNELS = frozenset(
    (
        "argmax_two_step",  # kernels in a row, integer results
        "atomic_column_sum",  # atomics, order of additions
        "autograd_layer_norm",  # host code: autograd.Function, nn.Module as holder of parameters
        "autotuned_split_k",  # tuner with reset_to_zero and pruning
        "batch_norm_buffers",  # registered buffers
        "bfloat16_norm",  # narrow dtype in and out
        "block_pointer_matmul",  # block pointers, tl.dot
        "bool_argument",  # truth value at run time
        "built_in_extremes",  # Python's built-ins in a kernel
        "causal_attention",  # loop bound that depends on the program
        "chunks_by_ticket",  # programs that wait for one another
        "constants_on_device",  # tensors made in __init__
        "cross_entropy_gather",  # address that depends on data
        "descriptor_matmul",  # tensor descriptors
        "dispatch_by_shape",  # host code that chooses a kernel
        "divisions_that_are_masked",  # undefined results in lanes that nothing is made of
        "driver_properties",  # host code that asks the driver
        "expand_views",  # strides of 0, libdevice
        "half_squares",  # overflows where the reference does
        "histogram_atomics",  # integer atomics
        "in_place_on_copy",  # a clone that is written
        "kept_workspace",  # memory kept between calls
        "kernel_from_factory",  # a kernel that a function defines
        "lock_accumulate",  # spin lock
        "nan_in_helpers",  # NaN as a constant
        "one_pass_variance",  # cancellation
        "persistent_silu",  # a grid of as many programs as processors
        "reduce_custom_product",  # custom combine over tuples
        "scan_recurrence",  # associative scan
        "wrapping_hash",  # integers that wrap around
    )
)

CONTRACT = frozenset(
    (
        "bounds/items_of_one_block.py",  # sizes that follow from the text
        "declared/running_maximum_from_zero.py",  # values arranged at the declared sizes
        "integers/mask_of_ones_not_obeyed.py",  # inputs that the draws do not vary
        "operators/nan_added_up.py",  # inputs that are no numbers
        "recording/deterministic_convolutions.py",  # settings that host code reads, at the declared sizes
    )
)
"""Attacks on the contract that are tried by default: the others' inputs have tests of their own."""

NO_NAMESPACES = "either protection alone is tried by default, and this is both of them"
SAME_KIND = "right kernels of the same kind are among KERNELS"
FURTHER: Mapping[tuple[str, str], str] = {
    # (function, a part of its parameters or "" for all of them): why no behaviour goes without a test
    ("test_secrets_stay_secret", "no namespaces"): NO_NAMESPACES,
    ("test_nothing_is_written_outside_scratch", "no namespaces"): NO_NAMESPACES,
    ("test_network_attempt_has_its_outcome", "no namespaces"): NO_NAMESPACES,
    ("test_other_processes_are_not_signalled", "no namespaces"): NO_NAMESPACES,
    ("test_other_processes_are_not_read", "no namespaces"): NO_NAMESPACES,
    ("test_daemon_ends_with_its_job", "no namespaces"): NO_NAMESPACES,
    ("test_no_users_variable_is_read", "no namespaces"): NO_NAMESPACES,
    ("test_two_processes_are_one", ""): "processes that a launcher starts do what one does",
    ("test_the_honest_kernel_of_each_attacked_task_is_accepted", "l1-"): "those of Level 2, and KERNELS",
    **{
        ("test_a_teacher_is_accepted", family): SAME_KIND
        for family in (
            "activation",
            "attention",
            "structured_matmul",
            "group_norm_chain",
            "batch_norm",
            "cumulative_sum",
        )
    },
    ("test_weights_beyond_the_declared_sizes_do_not_count_against_a_kernel", "the reference's"): "its own weights",
    ("test_what_is_run_does_not_depend_on_the_clock", "not scanned"): "what is scanned, whose work is counted as well",
    ("test_whatever_asks_for_symbolic_shapes_has_them", ""): "the compiler, which is put off in the same way",
    ("test_held_out_tasks_of_the_first_part_do_share_graphs", ""): "novel tasks, which are compared with the same ones",
    ("test_a_kernel_in_place_on_a_clone_is_genuine", "torch.rand("): "inputs of both signs",
    ("test_what_construction_makes_neutral_must_be_applied", "a running mean"): "a running variance",
    ("test_what_construction_makes_neutral_must_be_applied", "a scale of one"): "a gain of zero",
    ("test_capabilities_say_what_is_lost", "no namespaces"): NO_NAMESPACES,
    ("test_packed_gradients_are_the_models_own", "compiled-qwen2"): "traced with llama, and qwen2 not compiled",
    ("test_the_bench_reports_its_mix_and_its_ratios", ""): "its parts beside it, the verifiers in verification",
    ("test_soak_takes_stock_after_each_round", ""): "what jobs leave behind: the sandbox's contract and hostile jobs",
    ("test_a_run_judges_what_it_was_asked_to", ""): "the oracle and the plan of mutants beside it, scores in mutation",
    ("test_the_table_and_the_summary_give_the_same_rates", ""): "scores in mutation",
    ("test_rows_depend_on_neither_workers_nor_other_tasks", ""): "the oracle and the plan of mutants beside it",
}


def attacks_by_default(attacks: Iterable[Attack], readme: str) -> frozenset[str]:
    """Returns the names of the attacks that `make test` tries: a cover of what is to be shown, in the names' order."""
    attacks = sorted(attacks, key=lambda attack: attack.name)
    points = re.split(r"\n- |: |; |\n\n", readme[readme.index("The files under `own`") :])
    first = {found[1] for point in points if (found := re.search(r"`([a-z_]+/[a-z0-9_]+\.py)`", point))}
    chosen = {attack.name for attack in attacks if attack.name in first}
    shown = {what for attack in attacks if attack.name in chosen for what in _shown_by(attack)}
    for attack in attacks:
        if not shown.issuperset(_shown_by(attack)):
            chosen.add(attack.name)
            shown |= _shown_by(attack)
    return frozenset(chosen)


def _shown_by(attack: Attack) -> set[tuple[str, ...]]:
    folder = attack.name.partition("/")[0]
    if attack.mechanisms:
        return {(folder, str(mechanism)) for mechanism in attack.mechanisms}
    return {(folder, *map(str, attack.answers[0]))}


def is_further(name: str) -> bool:
    """Returns whether FURTHER has a test's name, such as `test_secrets_stay_secret[no namespaces]`."""
    function, _, parameters = name.partition("[")
    return any(function == listed and part in parameters for listed, part in FURTHER)
