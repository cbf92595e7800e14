"""Sizes for the runs on the interpreter: few bytes and operations, none collapsed, the larger ones above the small."""

from __future__ import annotations

import pytest
from attrs import evolve
from tritonrl.core.task import Constants, Profile, Task
from tritonrl.core.text.named_sizes import name_sizes, read_constants
from tritonrl.harness.reference.operators import trace_operators
from tritonrl.harness.reference.sizes.declared_sizes import (
    accepted_remainders,
    find_between,
    find_beyond,
    find_inner_one,
    find_past_block,
    find_single_sizes,
    find_twice,
    find_whole_blocks,
    measure,
    with_declared,
)
from tritonrl.harness.reference.sizes.quick_sizes import runs_with, with_quick_sizes

from ..datasets.made_up import HEAD

INIT = "\n\ndef get_init_inputs():\n    return "
VOLUME = f"""{HEAD}class Model(nn.Module):
    def forward(self, x):
        return x / x.pow(2).mean(1, keepdim=True).add(1e-5).sqrt()

batch, features, height, width = 112, 64, 512, 512

def get_inputs():
    return [torch.rand(batch, features, height, width)]
{INIT}[]
"""
# declared sizes that no ceiling of a dimension changes, and 54 operations for each element of a channel
BLOCK = f"""{HEAD}class Model(nn.Module):
    def __init__(self, inner, outer, groups):
        super().__init__()
        self.layer = nn.Conv3d(inner, outer, 3, groups=groups)

    def forward(self, x):
        return self.layer(x)

batch, inner, outer, groups = 16, 32, 32, 4
depth, height, width = 12, 24, 48

def get_inputs():
    return [torch.rand(batch, inner, depth, height, width)]
{INIT}[inner, outer, groups]
"""
STRIDES = f"""{HEAD}class Model(nn.Module):
    def __init__(self, outer):
        super().__init__()
        self.layer = nn.Conv2d(3, outer, 11, 4, 2)

    def forward(self, x):
        return self.layer(x)

outer = 96

def get_inputs():
    return [torch.rand(256, 3, 224, 224)]
{INIT}[outer]
"""
# groups of three and quarters of a width: neither 80 nor 64 nor 78 will do
SHUFFLE = f"""{HEAD}class Model(nn.Module):
    def __init__(self, outer, groups):
        super().__init__()
        assert outer % 4 == 0
        self.layer = nn.Conv1d(outer, outer // 4, 1, groups=groups)

    def forward(self, x):
        return self.layer(x)

outer, groups, length = 480, 3, 224

def get_inputs():
    return [torch.rand(10, outer, length)]
{INIT}[outer, groups]
"""


def _prepare(source: str) -> tuple[Task, dict[str, int]]:
    named = name_sizes(source)
    task = Task(task_id="made-up", level=1, family="made-up", description="made up", source=named)
    constants = read_constants(named)
    return with_quick_sizes(task, constants), constants


@pytest.mark.parametrize("source", [VOLUME, BLOCK, STRIDES, SHUFFLE], ids=["volume", "block", "strides", "shuffle"])
def test_runs_are_small_and_in_order(source: str) -> None:
    """However many dimensions there are, runs are of a few bytes and operations, and grow in what they change."""
    task, declared = _prepare(source)

    def full(sizes: Constants) -> dict[str, int]:
        return {**declared, **dict(sizes)}

    small, larger = full(task.small), full(task.larger)
    assert all(larger[name] >= size for name, size in small.items())
    assert any(larger[name] > size for name, size in small.items())
    for sizes, most_bytes, most_flops in (
        (task.tiny, 1 << 20, 3e5),
        (task.small, 1 << 20, 3e5),
        (task.larger, 4 << 20, 1.5e6),
    ):
        assert runs_with(task, sizes)
        num_bytes, num_flops = measure(with_declared(task, sizes))
        # a kernel of eleven taps takes its operations at any size
        assert num_bytes <= most_bytes
        assert num_flops <= (most_flops if source != STRIDES else 10 * most_flops)


def test_sizes_that_the_reference_refuses_are_no_sizes_between() -> None:
    """Where the declared sizes are out of reach, nearer ones are tried, and groups that do not divide end nothing."""
    source = f"""{HEAD}class Model(nn.Module):
    def __init__(self, channels, groups):
        super().__init__()
        self.norm = nn.GroupNorm(groups, channels)

    def forward(self, x):
        return self.norm(x)

batch = 48
channels = 96
groups = 12
height = width = 256

def get_inputs():
    return [torch.rand(batch, channels, height, width)]
{INIT}[channels, groups]
"""
    task, declared = _prepare(source)
    between = {**declared, **dict(find_between(task, tuple(declared.items()), 0))}
    assert between["channels"] % between["groups"] == 0


def test_sizes_within_reach_leave_room_for_what_the_reference_keeps() -> None:
    """A product whose result is much larger than its factors and its sums: an unfused plan holds all of it."""
    task, declared = _prepare(f"""{HEAD}class Model(nn.Module):
    def forward(self, a, b):
        return torch.bmm(a, b).softmax(-1).sum(1)

batch, rows, inner, columns = 64, 2048, 128, 2048

def get_inputs():
    return [torch.rand(batch, rows, inner), torch.rand(batch, inner, columns)]
{INIT}[]
""")
    movable = tuple(declared.items())
    for found in (find_between(task, movable, 0), find_beyond(task, movable)):
        sizes = {**declared, **dict(found)}
        assert sizes != declared
        assert 4 * sizes["batch"] * sizes["rows"] * sizes["columns"] * 2 < 512 << 20


def test_sizes_beyond_take_little_more_where_the_reference_keeps_much() -> None:
    """A plan of forty operations that holds its declared sizes is not asked for half as much again."""
    task, declared = _prepare(f"""{HEAD}class Model(nn.Module):
    def forward(self, x):
        for _ in range(20):
            x = torch.sin(x) * 0.9
        return x

batch, rows, columns = 32, 64, 2048

def get_inputs():
    return [torch.rand(batch, rows, columns)]
{INIT}[]
""")
    found = find_beyond(task, tuple(declared.items()))
    work, beyond = (
        sum(operator.num_bytes for operator in trace_operators(sized)) for sized in (task, with_declared(task, found))
    )
    assert work < beyond < 1.1 * work
    assert work > 1 << 30


@pytest.mark.parametrize(("size", "seed"), [(64, 0), (368, 55), (8192, 1), (8192, 2)])
def test_sizes_of_a_sample_nearly_consist_of_no_blocks(size: int, seed: int) -> None:
    """Beyond the declared sizes and below them, an incomplete block is neither nearly whole nor nearly empty."""
    task, declared = _prepare(f"""{HEAD}class Model(nn.Module):
    def forward(self, x):
        return x.sum(dim=-1)

length = {size}

def get_inputs():
    return [torch.rand(2, length)]
{INIT}[]
""")
    movable = tuple(declared.items())
    for found in (find_beyond(task, movable), find_between(task, movable, seed)):
        for drawn in dict(found).values():
            blocks = [1 << power for power in range(3, 20) if 4 << power <= drawn]
            assert all(block <= 8 * (drawn % block) <= 7 * block for block in blocks)
    assert max(dict(find_beyond(task, movable)).values()) > size


@pytest.mark.parametrize(
    ("sizes", "wanted"),
    [
        ((24, 288), (32, 512)),
        ((1536, 1096), (512, 512)),
        ((64, 512), ()),
        ((2048, 40), (2048, 64)),
        ((3, 288), (3, 512)),
    ],
)
def test_whole_blocks_hold_the_declared_sizes_or_are_equal(sizes: tuple[int, int], wanted: tuple[int, ...]) -> None:
    """Powers of two alone, that a large constant's is cut to; none where such sizes are declared."""
    task, declared = _prepare(f"""{HEAD}class Model(nn.Module):
    def forward(self, x):
        return x.cumsum(dim=-1)

rows = {sizes[0]}
length = {sizes[1]}

def get_inputs():
    return [torch.rand(rows, length)]
{INIT}[]
""")
    found = dict(find_whole_blocks(task, tuple(declared.items())))
    assert tuple({**declared, **found}.values() if found else ()) == wanted


@pytest.mark.parametrize("seed", range(4))
def test_single_sizes_move_alone(seed: int) -> None:
    """Of two sizes with room each is less than declared once, and of one alone none is."""
    task, declared = _prepare(f"""{HEAD}class Model(nn.Module):
    def forward(self, x):
        return x.cumsum(dim=-1)

rows = 1000
length = 2000
taps = 3

def get_inputs():
    return [torch.rand(rows, length)[taps:]]
{INIT}[]
""")
    movable = tuple(declared.items())
    found = find_single_sizes(task, movable, seed, 2)
    assert sorted(name for ((name, _),) in found) == ["length", "rows"]
    assert all(dict(task.larger)[name] < size < declared[name] ** 0.75 * 3 for ((name, size),) in found)
    assert len(find_single_sizes(task, movable, seed, 1)) == 1
    assert not find_single_sizes(task, (("rows", 1000), ("taps", 3)), seed, 2)


def test_a_size_of_one_is_one_that_the_reference_accepts() -> None:
    """Not the groups that a norm's channels must fill."""
    source = f"""{HEAD}class Model(nn.Module):
    def forward(self, x):
        return nn.functional.group_norm(x, 4)

batch = 24
channels = 96
length = 300

def get_inputs():
    return [torch.rand(batch, channels, length)]
{INIT}[]
"""
    task, _ = _prepare(source)
    found = {find_inner_one(task, (("channels", 96), ("length", 300)), seed) for seed in range(8)}
    assert found == {(("length", 1),)}
    assert not find_inner_one(task, (("channels", 96),), 0)


def test_a_block_of_one_element_is_tried_where_that_is_quick() -> None:
    """One size of the others is one more than a block, unless it makes the reference work much."""
    task, declared = _prepare(f"""{HEAD}class Model(nn.Module):
    def forward(self, x):
        return (x @ x.transpose(1, 2)).sum(-1)

batch = 24
rows = 96
length = 300

def get_inputs():
    return [torch.rand(batch, rows, length)]
{INIT}[]
""")
    movable = tuple(declared.items())
    found = {find_past_block(task, movable, (("batch", 1),), 1025, seed) for seed in range(8)}
    assert found == {(("length", 1025),)}
    assert not find_past_block(task, (("batch", 24), ("rows", 96)), (("batch", 1),), 1025, 0)


@pytest.mark.parametrize(("size", "wanted"), [(24, 33), (64, 65), (512, 513), (600, None), (12, None)])
def test_a_small_constant_passes_the_block_that_holds_it(size: int, wanted: int | None) -> None:
    """Beyond the declared sizes another constant is the one that moves so far."""
    task, declared = _prepare(f"""{HEAD}class Model(nn.Module):
    def forward(self, x):
        return x.cumsum(dim=-1)

length = 70000
width = {size}

def get_inputs():
    return [torch.rand(length, width)]
{INIT}[]
""")
    task = evolve(task, tiny=(), small=(("length", 9), ("width", 11)), larger=())
    found = dict(accepted_remainders(task))
    assert found["width"] == (wanted or dict(task.constants(Profile.REMAINDER))["width"])
    assert found["length"] < declared["length"]


def test_tiny_result_has_more_than_one_place() -> None:
    """An image that a wide window covers at once is no test of strides: the tiny run takes a wider one."""
    task, declared = _prepare(STRIDES)
    (image,) = (name for name, value in declared.items() if value == 224)
    assert dict(task.tiny)[image] + 4 - 11 >= 4


@pytest.mark.parametrize(("length", "chosen"), [(2000, {"length", "rows"}), (20_000, {"rows"})])
def test_one_size_is_more_than_doubled_where_no_sum_grows_long(length: int, chosen: set[str]) -> None:
    """All others are as declared; a long row of which each element follows from those before it is left alone."""
    task, declared = _prepare(f"""{HEAD}class Model(nn.Module):
    def forward(self, x):
        return x.cumsum(dim=-1)

rows = 200
length = {length}
taps = 3

def get_inputs():
    return [torch.rand(rows, length)[taps:]]
{INIT}[]
""")
    found = [find_twice(task, tuple(declared.items()), seed) for seed in range(8)]
    assert {name for ((name, _),) in found} == chosen
    assert all(2 * declared[name] < size < 2.1 * declared[name] for ((name, size),) in found)
    # what no small size moves grows too, if it is no number of taps
    kept = [find_twice(task, (("taps", 3),), seed) for seed in range(8)]
    assert {name for ((name, _),) in kept} == chosen
