"""Memory that is asked for: one line for everyone, and no byte lost with a worker."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from tritonrl.harness.lending import Borrower, lend
from tritonrl.harness.verification.memory_budget import BorrowedBudget, BudgetSession, MemoryBudget


def test_a_worker_waits_in_its_owners_line_and_what_it_held_is_free_when_it_ends() -> None:
    """What a borrower holds counts for all; a connection that closes gives it back."""
    budget = MemoryBudget(4 << 30)
    connections = [lend({"memory": lambda: BudgetSession(budget)}) for _ in range(2)]
    first, second = (BorrowedBudget(budget.num_bytes, Borrower(each), "memory") for each in connections)
    first.take(3 << 30)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(second.take, 2 << 30)
        assert not waiting.done()
        connections[0].close()
        waiting.result(20)
    second.give_back(2 << 30)
    with budget.asked(4 << 30, "all of it"):
        assert budget.peak_bytes == 4 << 30
    connections[1].close()
