"""Candidates of one task are judged apart from each other, and all of them."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st
from tritonrl.core.ordering import order_apart


@given(st.lists(st.sampled_from("abcdefg")), st.integers(1, 9))
def test_an_order_has_every_position_once_and_keeps_each_groups_own(groups: list[str], apart: int) -> None:
    """Nothing is left out or judged twice, and a group's members stay in their order."""
    order = order_apart(groups, apart)
    assert sorted(order) == list(range(len(groups)))
    for group in set(groups):
        own = [at for at in order if groups[at] == group]
        assert own == sorted(own)


@given(st.integers(1, 40), st.integers(1, 10), st.integers(1, 12))
def test_members_of_a_group_are_apart_and_few_groups_are_at_hand(num_groups: int, num_members: int, apart: int) -> None:
    """Members are `apart` places from each other, or fewer in a last block, and blocks follow one another."""
    groups = [str(number) for number in range(num_groups) for _ in range(num_members)]
    places = {at: place for place, at in enumerate(order_apart(groups, apart))}
    last = num_groups % apart
    for number in range(num_groups):
        own = [places[number * num_members + member] for member in range(num_members)]
        in_last_block = number >= num_groups - last
        assert {later - earlier for earlier, later in pairwise(own)} <= {last if in_last_block else apart}
        assert max(own) - min(own) < num_members * apart
