"""Numbers of a file are changed one at a time."""

from tests.workers.kernelbench.files import FUNCTION
from tests.workers.kernelbench.problems import LINEAR, forward
from workers.kernelbench.loading import load
from workers.kernelbench.naming import size_numbers, unpacked_names
from workers.protocol.kernelbench import ProblemQuestion


def numbers(source: str) -> dict[str, tuple[tuple[int, int], ...]]:
    return {each.name: each.places for each in size_numbers(source, load(ProblemQuestion(source=source)))}


def test_equal_numbers_are_told_apart() -> None:
    equal = LINEAR.replace("= 48", "= 64").replace("= 32", "= 64")
    # x, the weight (out, in), the bias, and the norm's two.
    assert numbers(equal) == {
        "batch_size": ((0, 0),),
        "in_features": ((0, 1), (1, 1)),
        "out_features": ((1, 0), (2, 0), (3, 0), (4, 0)),
    }


def test_numbers_in_the_functions_that_make_inputs_count_without_a_name() -> None:
    images = forward("return x", "torch.rand(4, 3, 32, 32)")
    places = [each.places for each in size_numbers(images, load(ProblemQuestion(source=images)))]
    assert places == [((0, 0),), ((0, 1),), ((0, 2),), ((0, 3),)]


def test_a_number_that_the_file_cannot_change_is_left_out() -> None:
    fixed = forward("return x", "torch.rand(size, 8)") + "\nsize = 16\nassert size == 16\n"
    assert numbers(fixed) == {"": ((0, 1),)}


def test_names_are_those_that_the_file_unpacks() -> None:
    problem = load(ProblemQuestion(source=FUNCTION))
    assert unpacked_names(FUNCTION, problem) == {(0, 0): "rows", (0, 1): "columns"}
