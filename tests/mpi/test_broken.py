"""A rank that breaks away: killed, gone, or no longer understood. A typed error or the job's end, within seconds."""

from __future__ import annotations

import time

import pytest

LIMIT = 20


@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.parametrize("when", ["running", "before", "waiting"])
def test_a_killed_rank_ends_the_job_within_seconds(mpi_run, size, when):
    begun = time.monotonic()
    job = mpi_run(
        size,
        f"""
        import os, signal

        def die():
            os.kill(os.getpid(), signal.SIGKILL)

        lanes = make_lanes()
        if rank == size - 1:
            if "{when}" == "before":
                die()
            threading.Timer(0.3, die).start()
        seconds = 30 if "{when}" == "waiting" else 0.01
        td.pmap_lanes(lambda x, e: time.sleep(seconds), range(5000), lanes)
        """,
        timeout=LIMIT,
    )
    assert job.status != 0
    assert time.monotonic() - begun < LIMIT


#: A process that has ended stands for that of a rank, which itself stays and says nothing more.
GONE = """
import subprocess
from treadle.lanes import presence, preflight

if rank == {where}:
    # It ends in half a second, and is reaped, so that its number means nothing any more.
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(0.5)"])
    threading.Thread(target=child.wait, daemon=True).start()
    import struct
    card = struct.unpack("<QQQ", presence.own_card())
    preflight.own_card = lambda: struct.pack("<QQQ", card[0], child.pid, presence._begun(child.pid))
"""


@pytest.mark.parametrize("where", [0, 1])
def test_a_lost_rank_is_a_typed_error_on_the_others(mpi_run, where):
    """The launcher would end the job at once; this is what happens where it does not."""
    job = mpi_run(
        3,
        GONE.format(where=where)
        + f"""
lanes = make_lanes()
begun = time.monotonic()

def body(item, engine):
    if rank == {where} and time.monotonic() - begun > 0.4:
        time.sleep(60)
    time.sleep(0.01)

got = outcome(body, range(5000), lanes)
say(got=got, took=time.monotonic() - begun)
""",
        timeout=LIMIT,
    )
    import json

    rows = {}
    for line in job.out.replace("}{", "}\n{").splitlines():
        if line.startswith("{"):
            row = json.loads(line)
            rows[row["rank"]] = row
    others = [rank for rank in range(3) if rank != where]
    assert set(others) <= set(rows), job.out + job.err
    for rank in others:
        got = rows[rank]["got"]
        assert (got["type"], got["kind"], got["on"]) == ("PmapError", "rank_lost", where), got
        assert f"rank {where} is lost" in got["text"]
        assert rows[rank]["took"] < 10
    # MPI cannot be ended without the lost rank; the job ends all the same.
    assert job.status != 0
    assert "a rank broke away" in job.err


CORRUPT = """
from treadle.lanes.wire import Wire

real, count = Wire._start, 0

def start(self, dest, data, tag):
    global count
    if tag == 0:
        count += 1
        if count == {number}:
            data = bytearray(data)
            data[{byte}] ^= 4
    real(self, dest, data, tag)

if rank == {where}:
    Wire._start = start
"""


@pytest.mark.parametrize(("where", "number", "byte"), [(0, 1, 0), (0, 3, 24), (1, 1, 16), (1, 3, 60), (1, 2, 41)])
def test_a_corrupt_message_is_the_same_typed_error_on_every_rank(mpi_run, where, number, byte):
    begun = time.monotonic()
    job = mpi_run(
        3,
        CORRUPT.format(where=where, number=number, byte=byte)
        + """
got = outcome(lambda x, e: time.sleep(0.01), range(60), make_lanes(), root_computes=False)
say(got=got)
""",
        timeout=LIMIT,
    )
    job.status, status = 0, job.status
    rows = job.said(3)
    for row in rows:
        assert (row["got"]["type"], row["got"]["kind"]) == ("PmapError", "protocol"), row
        assert row["got"]["text"] == rows[0]["got"]["text"]
        assert row["got"]["on"] == rows[0]["got"]["on"]
    # 75, or 9 where the launcher had ended another rank before it had left by itself.
    assert status in (75, 9)
    assert time.monotonic() - begun < LIMIT


def test_an_item_that_never_ends_does_not_keep_a_broken_job_alive(mpi_run):
    begun = time.monotonic()
    job = mpi_run(
        3,
        CORRUPT.format(where=1, number=3, byte=16)
        + """
def body(item, engine):
    time.sleep(100 if rank == 2 else 0.01)

td.pmap_lanes(body, range(60), make_lanes(), root_computes=False)
""",
        timeout=30,
    )
    assert job.status == 75
    assert "does not end" in job.err or "did not end" in job.err
    assert time.monotonic() - begun < 30
