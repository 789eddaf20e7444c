"""Where tables come from, and files that unfold to more than they could hold: bounded, refused in a sentence."""

import bz2
import gzip
import io
import json
import lzma
import resource
import sys
import time
import zipfile

import pytest

from scalefit.errors import DataError, MissingExtraError
from scalefit.ingest import read_table
from scalefit.runs import Runs

TEXT = "width,tokens,loss\n512,1e9,3.5\n1024,1e9,3.3\n"


def zipped(text, *names):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in names:
            archive.writestr(name, text)
    return out.getvalue()


@pytest.fixture
def put(tmp_path):
    def writer(name, data):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(data)
        return path

    return writer


PACKED = {"a.csv.gz": gzip.compress, "a.csv.bz2": bz2.compress, "a.csv.xz": lzma.compress, "a.csv": lambda data: data}


@pytest.mark.parametrize("name", PACKED)
@pytest.mark.parametrize("text", [TEXT, TEXT.replace(",", "\t")])
def test_compressed_files(put, name, text):
    runs = Runs.from_csv(put(name, PACKED[name](text.encode())))
    assert runs["loss"].tolist() == [3.5, 3.3]
    if name != "a.csv":
        with pytest.raises(DataError, match=r"too early|damaged"):
            Runs.from_csv(put(name, PACKED[name](text.encode())[:-5]))


def test_archives(put):
    assert Runs.from_csv(put("a.zip", zipped(TEXT, "deep/a.csv")))["loss"].tolist() == [3.5, 3.3]
    document = json.dumps([{"loss": 3.5, "width": 512}])
    assert Runs.from_csv(put("a.zip", zipped(document, "a.json")))["loss"].tolist() == [3.5]
    with pytest.raises(DataError, match=r"a\.zip holds 2 files \(a\.csv, b\.csv\); unpack it"):
        Runs.from_csv(put("a.zip", zipped(TEXT, "a.csv", "b.csv")))
    with pytest.raises(DataError, match=r"a\.zip is a damaged zip archive"):
        Runs.from_csv(put("a.zip", zipped(TEXT, "a.csv")[:60]))


def test_zstd(put, monkeypatch):
    monkeypatch.setitem(sys.modules, "zstandard", None)
    with pytest.raises(MissingExtraError, match=r"reading \.zst files needs the package zstandard: .*\[remote\]"):
        Runs.from_csv(put("a.csv.zst", b"\x28\xb5\x2f\xfd rest"))


def test_standard_input(monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(TEXT.encode())))
    runs = Runs.from_csv("-")
    assert (runs.origin.name, runs["loss"].tolist()) == ("standard input", [3.5, 3.3])


def test_addresses_go_through_fsspec(monkeypatch):
    fsspec = pytest.importorskip("fsspec")
    with fsspec.open("memory://logs/a.csv", "wb") as out:
        out.write(TEXT.encode())
    runs = Runs.from_csv("memory://logs/a.csv")
    assert (runs.origin.name, runs["loss"].tolist()) == ("a.csv", [3.5, 3.3])
    for address in ("memory://logs/absent.csv", "nothing://a.csv"):
        with pytest.raises(DataError, match="cannot be read"):
            Runs.from_csv(address)
    with pytest.raises(DataError, match="is read alone"):
        read_table(["memory://logs/a.csv", "-"])
    monkeypatch.setitem(sys.modules, "fsspec", None)
    with pytest.raises(MissingExtraError, match=r"reading s3://a/b\.csv needs the package fsspec: .*\[remote\]"):
        Runs.from_csv("s3://a/b.csv")


def test_quoted_patterns_expand(put, tmp_path):
    for i in range(3):
        put(f"logs/w{i}.csv", TEXT.replace("3.5", f"3.{i}").encode())
    runs = Runs(read_table(str(tmp_path / "logs" / "w[01].csv")))
    assert (runs["loss"].tolist(), runs.n_runs) == ([3.0, 3.3, 3.1, 3.3], 2)
    assert Runs(read_table([str(tmp_path / "*" / "*.csv")])).n_runs == 3
    with pytest.raises(DataError, match=r"no file matches '.*x\*\.csv'; name a file"):
        read_table(str(tmp_path / "x*.csv"))


def test_the_command_line_reads_them(put, tmp_path, monkeypatch, capsys):
    from scalefit.cli import main

    put("logs/a.csv", TEXT.encode())
    put("logs/b.csv", TEXT.replace("3.5", "3.6").encode())
    monkeypatch.setattr(sys, "argv", ["scalefit", "check", str(tmp_path / "logs" / "*.csv"), "--json"])
    with pytest.raises(SystemExit):
        main()
    assert json.loads(capsys.readouterr().out)["n_rows"] == 4


def test_devices_are_no_files():
    with pytest.raises(DataError, match="/dev/zero is a device and no file"):
        Runs.from_csv("/dev/zero")


def gzip_bomb():
    member = gzip.compress(b"0" * 3 * 10**7)
    return member * 5


def far_cell():
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    sheet = book.active
    for row in (("width", "loss"), (512, 3.5), (1024, 3.3)):
        sheet.append(row)
    sheet.cell(row=1_000_000, column=3, value=1)
    out = io.BytesIO()
    book.save(out)
    return out.getvalue()


def far_column():
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    for i in range(2000):
        book.active.append((512 + i, 3.5))
    book.active.cell(row=1, column=16_000, value="x")
    out = io.BytesIO()
    book.save(out)
    return out.getvalue()


BOMBS = {
    "a.csv.gz": (gzip_bomb, "is gzip that unfolds to more than a table of its size can"),
    "a.zip": (lambda: zipped("0" * 10**8, "a.csv"), "is a zip archive that unfolds to more"),
    "far.xlsx": (far_cell, r"a cell near row \d+ stands far from the others; delete it"),
    "wide.xlsx": (far_column, "a cell in column 16000 stands far from the others"),
    "twice.json": (
        lambda: ("[{" + ",".join(f'"k{i}":1,"k{i}":1' for i in range(20_000)) + "}]").encode(),
        "the key 'k0' occurs twice",
    ),
    "outer.json": (
        lambda: json.dumps({**{f"k{i}": 1 for i in range(10_000)}, "rows": [{"loss": 3}] * 9000}).encode(),
        "settings repeat in too many rows",
    ),
    "keys.jsonl": (lambda: "".join(f'{{"k{i}":1}}\n' for i in range(20_000)).encode(), "share few of their 20000 keys"),
    "deep.json": (lambda: b"[" * 200_000, "nested too deeply"),
}


@pytest.mark.parametrize("name", BOMBS)
def test_small_files_unfold_within_bounds(put, name):
    make, message = BOMBS[name]
    path = put(name, make())
    assert path.stat().st_size < 1_500_000
    before, start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    with pytest.raises(DataError, match=message):
        Runs.from_csv(path)
    assert time.process_time() - start < 6
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 600 * 1024  # KiB


def test_honest_members_of_gzip_are_joined(put):
    members = [gzip.compress(line.encode() + b"\n") for line in TEXT.splitlines()]
    assert len(Runs.from_csv(put("a.csv.gz", b"".join(members)))) == 2
    repeated = "width,loss\n" + "512,3.5\n" * 20_000
    assert len(Runs.from_csv(put("a.csv.gz", gzip.compress(repeated.encode())))) == 20_000


def test_parquet_unfolds_within_bounds(put, monkeypatch):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    import scalefit.ingest.binary as binary

    out = io.BytesIO()
    pq.write_table(pa.table({"loss": [3.5] * 100_000, "note": ["x" * 300] * 100_000}), out)
    path = put("bomb.parquet", out.getvalue())
    assert path.stat().st_size < 100_000
    monkeypatch.setattr(binary, "_LEAST_BOUND", 16 * 1024**2)
    with pytest.raises(DataError, match=r"holds 100000 rows by 2 columns, more than 16 MB when unfolded"):
        Runs.from_csv(path)


def test_parquet_lists_and_structures(put):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    out = io.BytesIO()
    config = pa.array([{"width": 512, "opt": {"lr": 0.1}}, {"width": 1024, "opt": {"lr": 0.2}}])
    pq.write_table(pa.table({"loss": [3.5, 3.3], "config": config, "tags": [["a"], ["b", "c"]]}), out)
    runs = Runs.from_csv(put("a.parquet", out.getvalue()))
    assert (runs["width"].tolist(), runs["config.opt.lr"].tolist()) == ([512, 1024], [0.1, 0.2])
    assert runs.origin.ignored == ("tags (a list)",)
