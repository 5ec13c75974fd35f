"""What a pin is about, in the words that tell it from another."""

from archive.records import NewPin


def test_a_pin_is_about_a_cell_or_a_candidate() -> None:
    assert NewPin("p", "s", "d", 7, None).subject == "cell 7"
    assert NewPin("p", "s", "d", None, "c").subject == "candidate c"
