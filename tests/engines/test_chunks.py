"""Chunks of jobs: all jobs in order, none too large, as many for everybody."""

from hypothesis import given, settings
from hypothesis import strategies as st

from auxo.engines.chunks import chunks_of, most_jobs
from auxo.training.trainer import Job


@given(count=st.integers(0, 300), takers=st.integers(1, 9), most=st.integers(1, 70))
@settings(deadline=None, max_examples=100)
def test_chunks_hold_all_jobs_in_order_and_are_about_as_large(count: int, takers: int, most: int) -> None:
    jobs = [Job(row, visit=0) for row in range(count)]
    chunks = chunks_of(jobs, takers, most)
    sizes = [len(chunk) for chunk in chunks]

    assert [job for chunk in chunks for job in chunk] == jobs
    assert all(0 < size <= most for size in sizes)
    assert not sizes or max(sizes) - min(sizes) <= 1
    assert len(sizes) == count or len(sizes) % takers == 0


def test_a_chunk_has_room_for_one_update_however_large() -> None:
    assert most_jobs(n_params=10, most_bytes=400, most=64) == 10
    assert most_jobs(n_params=10, most_bytes=4000, most=64) == 64
    assert most_jobs(n_params=1000, most_bytes=400, most=64) == 1
