"""What `make test` leaves out is named, exists, and is shown by something that it does not leave out."""

import re
from pathlib import Path

from tritonrl.harness.bench.verifier.attacks import read_attacks

from .selection import FURTHER, KERNELS, attacks_by_default, is_further

TESTS = Path(__file__).parent
ATTACKS = read_attacks(TESTS / "attacks")
CHOSEN = attacks_by_default(ATTACKS, (TESTS / "attacks/README.md").read_text())


def test_every_mechanism_in_every_line_of_defence_has_an_attack_by_default() -> None:
    """Whatever pair of mechanism and folder any attack shows, a chosen one shows; and each own outcome of a folder."""
    for attack in ATTACKS:
        folder = attack.name.partition("/")[0]
        beside = [other for other in ATTACKS if other.name in CHOSEN and other.name.startswith(f"{folder}/")]
        for mechanism in attack.mechanisms:
            assert any(mechanism in other.mechanisms for other in beside), attack.name
        if not attack.mechanisms:
            assert any(other.answers[0] == attack.answers[0] for other in beside if not other.mechanisms), attack.name


def test_every_point_of_the_readme_has_an_attack_by_default() -> None:
    """What the README lists beside the mechanisms is tried, point by point."""
    readme = (TESTS / "attacks/README.md").read_text()
    points = re.split(r"\n- ", readme[readme.index("Of these, the following compute") :])[1:]
    assert len(points) >= 10
    for point in points:
        assert set(re.findall(r"`([a-z_]+/[a-z0-9_]+\.py)`", point.split("\n\n")[0])) & CHOSEN, point


def test_thirty_right_kernels_are_tried_by_default() -> None:
    """Each has a file."""
    assert len(KERNELS) == 30
    assert {path.stem for path in (TESTS / "genuine/candidates").glob("*.py")} >= KERNELS


def test_every_further_test_is_there() -> None:
    """A function that is listed is one test's name, so that a renamed one is not run by default without a word."""
    sources = [path.read_text() for path in TESTS.rglob("test_*.py")]
    for function, _ in FURTHER:
        assert sum(f"def {function}(" in source for source in sources) == 1, function


def test_a_test_is_further_by_its_name_and_parameters() -> None:
    """A part of the parameters is enough, and another function's are not."""
    assert is_further("test_secrets_stay_secret[no namespaces]")
    assert not is_further("test_secrets_stay_secret[Landlock alone]")
    assert not is_further("test_secrets_stay_secrets[no namespaces]")
    assert is_further("test_soak_takes_stock_after_each_round")
