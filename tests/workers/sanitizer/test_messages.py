from workers.sanitizer.messages import BufferAllocation


def test_the_distance_to_an_allocation_is_zero_inside_it() -> None:
    place = BufferAllocation(shape="N=4", name="input 'x'", address=1000, bytes=16)
    assert [place.distance(address) for address in (1000, 1015, 1016, 1020, 999, 900)] == [0, 0, 1, 5, 1, 100]
