"""In which pages of the driver's captured work comes to lie, and when others may have them."""

from __future__ import annotations

import gc
from types import SimpleNamespace

import pytest
import torch
from tritonrl.harness.gpu.device import graphs
from tritonrl.harness.gpu.device.graphs import Graph
from tritonrl.harness.gpu.device.launcher import DriverError
from tritonrl.harness.gpu.timing import pages as module
from tritonrl.harness.gpu.timing.pages import REFUSALS, Pages, count_nodes, in_pages, put_in_page

from .driver_stub import Driver


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Driver:
    """A made-up driver, "filler" for what takes up room, and "add" for kernels that nobody times."""
    found = Driver()
    for each in (graphs, module):
        monkeypatch.setattr(each, "load_driver", lambda: found)
    monkeypatch.setattr(module, "_additions", lambda number: "filler" if number > 100 else " ".join(["add"] * number))
    monkeypatch.setattr(torch.cuda, "current_stream", lambda: SimpleNamespace(cuda_stream=0))
    return found


def graph_of(nodes: str) -> Graph:
    """What was captured, of these nodes."""
    return Graph(SimpleNamespace(raw_cuda_graph=lambda: nodes))


def test_each_executable_has_a_page_of_its_own(driver: Driver) -> None:
    """A filler is made before each, of other kernels than the work's, and all are on the device at once."""
    pages = Pages()
    taken = [pages.take("work") for _ in range(3)]
    assert driver.made == ["filler", "add"] * 3
    assert [driver.now[page.executable] for page in taken] == ["work"] * 3
    assert len({page.executable for page in taken}) == 3
    assert set(driver.uploaded) == set(driver.now)


def test_a_page_that_waits_has_other_work(driver: Driver) -> None:
    """Of the same form, to which its executable is updated; other forms have other pages."""
    pages = Pages()
    for page in [pages.take("old") for _ in range(3)]:
        pages.put_back(page)
    num_made, num_uploaded = len(driver.made), len(driver.uploaded)
    taken = [pages.take("new") for _ in range(2)]
    assert [driver.now[page.executable] for page in taken] == ["new"] * 2
    assert len(driver.made) == num_made
    assert driver.uploaded[num_uploaded:] == [page.executable for page in taken]
    other = pages.take("two kernels")
    assert driver.made[num_made:] == ["filler", "add add"]
    assert sorted(driver.now.values()) == ["filler"] * 4 + ["new"] * 2 + ["old", "two kernels"]
    pages.put_back(other)
    assert pages.take("new") not in [*taken, other]
    assert len(driver.made) == num_made + 2


def test_pages_of_other_forms_are_given_back(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that wait, before there are too many; those in use are not, and what is asked for is had."""
    monkeypatch.setattr(module, "_MOST_PAGES", 3)
    pages = Pages()
    used = pages.take("used")
    for page in [pages.take("old") for _ in range(2)]:
        pages.put_back(page)
    taken = [pages.take("two kernels") for _ in range(3)]
    assert sorted(driver.now.values()) == ["filler"] * 4 + ["two kernels"] * 3 + ["used"]
    assert driver.now[used.executable] == "used"
    assert len(taken) == 3


def test_what_has_waited_longest_is_given_back(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the form that was used longest ago; what was put back is no longer in use."""
    monkeypatch.setattr(module, "_MOST_PAGES", 4)
    pages = Pages()
    first, second = pages.take("a"), pages.take("b b")
    other = pages.take("c")
    for page in (first, second, other):
        pages.put_back(page)
    assert pages.take("d d") is second
    pages.put_back(second)
    taken = [pages.take("e e e"), pages.take("f f f")]
    assert sorted(driver.now.values()) == ["c", "d d", "e e e", "f f f", *["filler"] * 4]
    other = pages.take("h")
    pages.put_back(other)
    pages.put_back(taken[0])
    pages.put_back(pages.take("i"))
    taken += [pages.take("g g g g")]
    assert sorted(driver.now.values()) == ["e e e", "f f f", *["filler"] * 4, "g g g g", "i"]


@pytest.mark.parametrize("every", [1, 2, 3, 5, 26, 27, 28, 29])
def test_a_page_may_be_put_back_at_any_time(driver: Driver, every: int) -> None:
    """In the middle of what is done with pages as well, by the collector."""
    pages = Pages()
    others = [pages.take(" ".join(["k"] * number)) for number in range(1, 40)]
    left, num_collected = others[5:], [0]

    def put_back(phase: str, info: object) -> None:
        num_collected[0] += phase == "start"
        if phase == "start" and num_collected[0] % every == 0 and left:
            pages.put_back(left.pop())

    for page in others[:5]:
        pages.put_back(page)
    thresholds = gc.get_threshold()
    gc.callbacks.append(put_back)
    gc.set_threshold(1)
    try:
        taken = [pages.take(" ".join(["new"] * number)) for number in range(60, 100)]
        pages.empty()
        pages.free()
    finally:
        gc.set_threshold(*thresholds)
        gc.callbacks.remove(put_back)
    while left:
        pages.put_back(left.pop())
    pages.free()
    assert len(driver.now) == 2 * len(taken)


def test_pages_can_be_made_ahead(driver: Driver) -> None:
    """As many as are wanted, or as there is memory for; a kernel takes one of them."""
    pages = Pages()
    pages.stock(3)
    pages.stock(2)
    assert sorted(driver.now.values()) == ["add"] * 3 + ["filler"] * 3
    num_made = len(driver.made)
    taken = [pages.take("work") for _ in range(3)]
    assert len(driver.made) == num_made
    driver.never_made.add("filler")
    pages.stock(5)
    assert sorted(driver.now.values()) == ["filler"] * 3 + ["work"] * 3
    for page in taken:
        pages.put_back(page)
    pages.stock(5)
    assert sorted(driver.now.values()) == ["add"] * 3 + ["filler"] * 3


def test_something_can_be_made_between_pages(driver: Driver) -> None:
    """Before each of them; it is told how many there are."""
    found: list[tuple[int, int]] = []
    Pages().stock(3, lambda made: found.append((made, sorted(driver.now.values()).count("add"))))
    assert found == [(0, 0), (1, 1), (2, 2)]


@pytest.mark.parametrize("error", [DriverError("CUDA_ERROR_OUT_OF_MEMORY"), torch.cuda.OutOfMemoryError("no")])
def test_memory_that_ends_leaves_fewer_pages(driver: Driver, monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    """Whoever says so; what was had is used."""
    pages = Pages()
    additions = module._additions

    def run_out(number: int) -> str:
        if len(driver.now) >= 4 and number > 100:
            raise error
        return additions(number)

    monkeypatch.setattr(module, "_additions", run_out)
    pages.stock(5)
    assert sorted(driver.now.values()) == ["add"] * 2 + ["filler"] * 2
    works = in_pages(graph_of("work"), pages, 5)
    assert len(works) == 2
    assert sorted(driver.now.values()) == ["filler"] * 2 + ["work"] * 2


def test_what_has_more_than_kernels_had_others_as_well(driver: Driver) -> None:
    """It is made of a copy with other kernels in place of its own; when its code goes, so does its executable."""
    pages = Pages()
    page = pages.take("memset work")
    assert driver.was[page.executable] == ["memset add's", "memset work"]
    assert not driver.copied
    pages.put_back(page)
    pages.empty()
    assert list(driver.now.values()) == ["filler"]
    assert pages.take("memset work") is page
    assert driver.was[page.executable] == ["memset add's", "memset work"]


def test_what_cannot_be_updated_is_made_anew(driver: Driver) -> None:
    """A kernel that is launched together with others takes no other's place, but a copy's; and none takes its place."""
    pages = Pages()
    driver.never_updated |= {"cooperative", "add"}
    for name in ("cooperative", "work"):
        page = pages.take(name)
        assert driver.was[page.executable] == ["add's", name]
        pages.put_back(page)
    assert sorted(driver.now.values()) == ["filler", "work"]
    driver.never_updated |= {"add's", "work"}
    for name in ("work", "other"):
        assert pages.take(name) is page
        assert driver.was[page.executable] == [name]
        pages.put_back(page)
    assert sorted(driver.now.values()) == ["filler", "other"]
    assert not driver.copied


def test_a_copy_that_cannot_be_made_is_none(driver: Driver) -> None:
    """Then the work is made as it is."""
    pages = Pages()
    driver.never_made.add("memset add's")
    page = pages.take("memset work")
    assert driver.was[page.executable] == ["memset work"]
    assert not driver.copied


@pytest.mark.parametrize("kind", ["never_made", "never_uploaded"])
def test_nothing_is_lost_by_what_cannot_be_made(driver: Driver, kind: str) -> None:
    """The page waits for the next one, with nothing in it."""
    pages = Pages()
    getattr(driver, kind).add("refused")
    with pytest.raises(DriverError):
        pages.take("refused")
    assert list(driver.now.values()) == ["filler"]
    page = pages.take("work")
    assert driver.made.count("filler") == 1
    pages.put_back(page)
    driver.never_updated.add("work")
    with pytest.raises(DriverError):
        pages.take("refused")
    assert list(driver.now.values()) == ["filler"]
    pages.free()
    assert not driver.now


def test_pages_that_wait_can_be_emptied(driver: Driver) -> None:
    """Of code that is unloaded nothing is left in them; what takes up room is, and the pages are used again."""
    pages = Pages()
    used, idle = pages.take("used"), pages.take("idle")
    pages.put_back(idle)
    num_made = len(driver.made)
    pages.empty()
    assert sorted(driver.now.values()) == ["add", "filler", "filler", "used"]
    assert len(driver.made) == num_made
    num_uploaded = len(driver.uploaded)
    pages.empty()
    assert len(driver.uploaded) == num_uploaded
    assert pages.take("work") is idle
    assert driver.now[used.executable] == "used"
    pages.put_back(idle)
    pages.empty()
    assert driver.now[idle.executable] == "add"


def test_pages_that_wait_can_be_given_back(driver: Driver) -> None:
    """Those in use stay."""
    pages = Pages()
    used, idle = pages.take("used"), pages.take("idle")
    others = [pages.take("idle") for _ in range(2)]
    for page in (idle, *others):
        pages.put_back(page)
    pages.free()
    assert sorted(driver.now.values()) == ["filler", "used"]
    pages.put_back(used)
    pages.free()
    assert not driver.now


def test_a_page_is_in_use_for_as_long_as_its_work_is_there(driver: Driver) -> None:
    """When that is let go, and not before, other work may have it."""
    pages = Pages()
    (first,), (second,) = (in_pages(graph_of("work"), pages, 1) for _ in range(2))
    executables = {first._page.executable, second._page.executable}
    assert len(executables) == 2
    del second
    (third,) = in_pages(graph_of("work"), pages, 1)
    assert third._page.executable in executables
    assert third._page.executable != first._page.executable


def test_short_work_lies_in_several_pages(driver: Driver) -> None:
    """Each of which is another; where there are not so many there are fewer."""
    works = in_pages(graph_of("work"), Pages(), 4)
    assert len(works) == len(set(works)) == 4
    assert sorted(driver.now.values()) == ["filler"] * 4 + ["work"] * 4
    pages = Pages()
    kept = in_pages(graph_of("work"), pages, 1)
    driver.never_made.add("filler")
    assert in_pages(graph_of("work"), pages, 4) != kept
    assert len(driver.now) == 10


@pytest.mark.parametrize(("nodes", "number"), [("", 0), ("a", 1), ("memset b c", 3)])
def test_nodes_are_counted(driver: Driver, nodes: str, number: int) -> None:
    """Of whatever kind."""
    assert count_nodes(graph_of(nodes)) == number


def test_a_page_that_cannot_be_had_is_said_so(driver: Driver) -> None:
    """One graph in one page, or the driver's refusal."""
    pages = Pages()
    works = [put_in_page(graph_of("work"), pages) for _ in range(2)]
    assert sorted(driver.now.values()) == ["filler"] * 2 + ["work"] * 2
    assert len(set(works)) == 2
    driver.never_made.add("filler")
    with pytest.raises(REFUSALS):
        put_in_page(graph_of("work"), pages)


def test_what_has_no_page_lies_where_it_comes_to_lie(driver: Driver) -> None:
    """What Python launches is no graph; and the driver's refusal is no failure of the work."""

    def launch() -> None:
        pass

    assert in_pages(launch, Pages(), 3) == [launch]
    driver.never_made.add("work")
    work = graph_of("work")
    assert in_pages(work, Pages(), 3) == [work]
