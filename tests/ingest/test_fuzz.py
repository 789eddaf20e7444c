"""Mutated files: no traceback, no hang, and what is accepted reads back to the same numbers.

`FUZZ_EXAMPLES` sets how many files the longer, marked run tries.
"""

from __future__ import annotations

import os

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import scalefit.ingest.delimited as delimited
from scalefit.errors import ScalefitError
from scalefit.runs import Runs

SEEDS = [
    "width,depth,tokens,loss\n512,8,1000000000,4.54307787815135\n1024,16,10000000000,3.12273465\n2048,32,1e11,2.4\n",
    "Lauf;d_model;n_layer;Tokens;Loss\r\nr0;512;8;1.000.000.000;4,543077\r\nr1;1.024;8;10.000.000.000;3,747734\r\n",
    '"Name","State","model.hidden_dim","eval/loss"\n"a","finished","512","4.5"\n"b","crashed","1024","9.9"\n',
    '"Step","w512-d8 - val/loss","w512-d8 - val/loss__MIN"\n"1000","4.5","4.5"\n"2000","",""\n"3000","4.25","4.2"\n',
    "Wall time,Step,Value\n1700000000,1000,3.6\n1700000060,2000,3.4\n",
    "epoch,step,train_loss_step,val_loss\n0,50,4.0,\n0,50,,3.85\n0,150,3.8,\n0,150,,3.5\n",
    '{"run_name": "512x8", "width": 512, "tokens": 1000000, "final_loss": 4.5}\n{"run_name": "b", "final_loss": 4}\n',
    '[{"width": 512, "loss": 4.5}, {"width": 1024, "loss": null}]',
    '{"log_history": [{"loss": 4.0, "step": 100}, {"eval_loss": 3.9, "step": 100}, {"train_loss": 3.8}]}',
    "model_name,hidden_size,training_tokens,val_loss\nm0,512,1B,4.5\nm1,512,1.0 billion,4.0\nm2,512,10_000_000,3.7\n",
    "# scalefit-runs 1; loss in nats per token\nrun,width,loss\na,512,4.5\n'=b,1024,\n",
    "512 8 4.5\n1024 16 3.5\n",
]
PIECES = [
    ",", ";", "\t", "|", '"', "'", "\n", "\r", "\r\n", "\x00", ".", "-", "=", "+1", "@", "1,024", "1.024", "1e999",
    "NaN", "inf", "10B", "%", "loss",
    "width", "\ufeff", "\u00a0", "\ud7ff", "é", "#", "# ", "{", "}", "[", "]", ":", "9" * 30,
    "0", " ", "null", "true", "Infinity", "-Infinity", "1_000", "run", "__MIN", " - ",
]  # fmt: skip


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    """A seed file after some insertions, deletions, copies and replaced bytes."""
    data = bytearray(draw(st.sampled_from(SEEDS)).encode())
    for _ in range(draw(st.integers(0, 6))):
        at = draw(st.integers(0, len(data)))
        kind = draw(st.integers(0, 4))
        if kind == 0:
            data[at:at] = draw(st.sampled_from(PIECES)).encode("utf-8", "surrogatepass")
        elif kind == 1:
            del data[at : at + draw(st.integers(1, 8))]
        elif kind == 2:
            end = at + draw(st.integers(1, 40))
            data[at:at] = data[at:end]
        elif kind == 3 and data:
            data[at % len(data)] = draw(st.integers(0, 255))
        else:
            data[at:at] = draw(st.binary(max_size=4))
    return bytes(data)


def same(a: Runs, b: Runs) -> None:
    """Both hold the same numbers, bit for bit, and the same grouping into runs."""
    assert a.columns == b.columns
    for name in a.columns:
        assert a[name].tobytes() == b[name].tobytes(), name
    assert np.array_equal(a.run_ids, b.run_ids)
    assert a.origin.units == b.origin.units


def read_and_return(data: bytes, folder) -> bool:
    """Read a file; if it is accepted, write it in both tidy forms and read these."""
    path = folder / "runs.csv"
    path.write_bytes(data)
    try:
        runs = Runs.from_csv(path)
    except ScalefitError:
        return False
    for name in runs.columns:
        assert not np.isinf(runs[name]).any()
    assert np.isfinite(runs["loss"]).all()
    runs.to_csv(folder / "tidy.csv")
    same(runs, Runs.from_csv(folder / "tidy.csv"))
    runs.to_json(folder / "tidy.json")
    same(runs, Runs.from_csv(folder / "tidy.json"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(delimited, "PANDAS_FROM", 0)
        same(runs, Runs.from_csv(path))
    return True


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(delimited, "PANDAS_FROM", 1 << 40)
    return tmp_path


RELAXED = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large]


@settings(max_examples=250, deadline=2000, derandomize=True, suppress_health_check=RELAXED)
@given(data=mutated())
def test_mutated_files(data, folder):
    read_and_return(data, folder)


@pytest.mark.slow
def test_mutated_files_longer(folder):
    accepted = []

    @settings(
        max_examples=int(os.environ.get("FUZZ_EXAMPLES", "1500")),
        deadline=2000,
        suppress_health_check=RELAXED,
        database=None,
        derandomize=True,
    )
    @given(data=mutated())
    def run(data):
        accepted.append(read_and_return(data, folder))

    run()
    # the mutations must leave enough files whole for the round trip to mean something
    assert 0.1 < sum(accepted) / len(accepted) < 0.95


@pytest.mark.parametrize("seed", SEEDS[:-1])
def test_seeds_are_accepted(seed, folder):
    assert read_and_return(seed.encode(), folder)
