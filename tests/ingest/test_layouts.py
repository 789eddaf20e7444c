"""One law in every layout of delimited text: the numbers that come back are the ones that went in."""

import gzip

import numpy as np
import pytest

import scalefit.ingest.delimited as delimited
from scalefit.errors import DataError, OptionError
from scalefit.ingest import ReadOptions
from scalefit.runs import Runs


def lines_of(table, header, cell=str, delimiter=",", end="\n"):
    rows = [delimiter.join(cell(v) for v in row) for row in table]
    return end.join([delimiter.join(header), *rows]) + end


HEADERS = [
    ("width", "depth", "tokens", "loss"),
    ("d_model", "n_layers", "training_tokens", "val_loss"),
    ("n_embd", "n_layer", "tokens_seen", "eval/loss"),
    ("model.hidden_size", "model.num_hidden_layers", "throughput/total_tokens", "final_loss"),
    ("Hidden Size", "Num Layers", "Total Tokens", "Validation Loss"),
]


@pytest.mark.parametrize("header", HEADERS)
@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_names_delimiters_and_line_ends(table, write, assert_law, header, delimiter, end):
    runs = Runs.from_csv(write(lines_of(table, header, delimiter=delimiter, end=end)))
    assert_law(runs)
    assert runs.origin.columns["width"] == header[0]
    assert runs.lines.tolist() == list(range(2, 29))
    assert runs.n_dropped == 0


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252"])
def test_encodings(table, write, assert_law, encoding):
    text = "note,width,depth,tokens,loss\n" + "".join(f"größe,{','.join(map(str, row))}\n" for row in table)
    runs = Runs.from_csv(write(text, encoding=encoding))
    assert_law(runs)
    assert [w.code for w in runs.warnings] == (["encoding-assumed"] if encoding == "cp1252" else [])


def test_quoted_cells_keep_their_lines(table, write, assert_law):
    rows = "".join('"a\nb","' + '","'.join(map(str, row)) + '"\n' for row in table)
    runs = Runs.from_csv(write('"note","width","depth","tokens","loss"\n' + rows))
    assert_law(runs)
    assert runs.row_name(1) == "row 2 (line 4) of runs.csv"


def test_gzip_by_content(table, assert_law, tmp_path):
    path = tmp_path / "runs.csv.gz"
    path.write_bytes(gzip.compress(lines_of(table, HEADERS[0]).encode()))
    assert_law(Runs.from_csv(path))
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(DataError, match="gzip that ends too early"):
        Runs.from_csv(path)


@pytest.mark.parametrize("order", [(3, 0, 2, 1), (1, 3, 0, 2)])
def test_column_order_does_not_matter(table, write, assert_law, order):
    text = lines_of([tuple(row[i] for i in order) for row in table], [HEADERS[0][i] for i in order])
    assert_law(Runs.from_csv(write(text)))


def german(value):
    if isinstance(value, float):
        return repr(value).replace(".", ",")
    return f"{value:,}".replace(",", ".")


def test_decimal_comma_with_dots_between_thousands(table, write, assert_law):
    runs = Runs.from_csv(write(lines_of(table, HEADERS[0], german, ";"), encoding="utf-8-sig"))
    assert_law(runs)
    assert runs.origin.locale == "decimal comma"


def test_thousands_commas_in_quotes(table, write, assert_law):
    text = lines_of(table, HEADERS[0], lambda v: f'"{v:,}"' if isinstance(v, int) else repr(v))
    assert_law(Runs.from_csv(write(text)))


@pytest.mark.parametrize("mark", [" ", "\u00a0", "\u202f", "'", "_"])
def test_other_marks_between_thousands(table, write, assert_law, mark):
    text = lines_of(table, HEADERS[0], lambda v: f"{v:,}".replace(",", mark) if isinstance(v, int) else repr(v))
    assert_law(Runs.from_csv(write(text)))


def test_a_mark_with_two_readings_is_refused_until_told(write):
    text = "width;depth;tokens;loss\n" + "".join(f"1,024;{d};1000000;{3 + d % 2},125\n" for d in range(1, 9))
    path = write(text)
    with pytest.raises(DataError, match=r"may be a decimal mark or stand between thousands; say --decimal , for"):
        Runs.from_csv(path)
    told = Runs.from_csv(path, options=ReadOptions(decimal=",", thousands="."), columns={"width": "width*1000"})
    assert told["loss"][0] == 4.125
    assert Runs.from_csv(path, options=ReadOptions(thousands=","))["width"][0] == 1024


def test_contradicting_marks_are_refused(write):
    path = write("width;depth;loss;lr\n512;8;4,54321;0.001\n1024;8;4,25011;0.001\n")
    with pytest.raises(DataError, match=r"'4,54321' has a decimal comma and '0\.001' a decimal point"):
        Runs.from_csv(path)
    assert Runs.from_csv(path, options=ReadOptions(decimal=","))["loss"].tolist() == [4.54321, 4.25011]


def test_a_width_is_never_a_fraction(write):
    path = write("width;depth;loss\n512;8;4.54321\n1.024;8;4.25011\n")
    with pytest.raises(DataError, match=r"row 2 \(line 3\) of runs.csv: width is '1.024' and must be a whole number"):
        Runs.from_csv(path)


SUFFIXES = [
    ("1B", 1e9), ("1e10", 1e10), ("0.1T", 1e11), ("100000M", 1e11), ("10 billion", 1e10), ("1.0 billion", 1e9),
    ("10_000_000_000", 1e10), ("10,000,000,000", 1e10), ("250k", 250e3), ("2.5bn", 2.5e9), ("12%", 0.12),
    ("+7", 7.0), (".5", 0.5), ("5.", 5.0), ("1E+3", 1e3), ("99999999999999999999999", 1e23),
]  # fmt: skip


@pytest.mark.parametrize(("cell", "value"), SUFFIXES)
def test_numbers_as_people_write_them(write, cell, value):
    runs = Runs.from_csv(write(f'tokens,loss\n"{cell}",3.25\n1000000,3.5\n'))
    assert runs["tokens"][0] == value


MISSING = ["", "-", "--", "NaN", "nan", "N/A", "NA", "null", "None", "inf", "-Infinity", "Infinity", "?", "#N/A"]


@pytest.mark.parametrize("cell", MISSING)
def test_missing_losses_are_listed_never_zero(write, cell):
    runs = Runs.from_csv(write(f"width,depth,tokens,loss\n512,8,1e9,3.5\n512,8,1e10,{cell}\n512,8,1e11,3.1\n"))
    assert runs["loss"].tolist() == [3.5, 3.1]
    assert [(d.row, d.line) for d in runs.dropped] == [(2, 3)]
    assert "is missing" in runs.dropped[0].reason or repr(cell) in runs.dropped[0].reason


@pytest.mark.parametrize("cell", ["3.5abc", "0x10", "1.2.3", "3,5,1", "=1+1", "1__0", "1 2", "twelve", "1e", "3;5"])
def test_what_is_no_number_is_dropped_with_its_text(write, cell):
    runs = Runs.from_csv(write(f'width,loss\n512,3.5\n512,"{cell}"\n1024,3.1\n'))
    assert runs["loss"].tolist() == [3.5, 3.1]
    assert runs.dropped[0].reason == f"loss is {cell!r}, not a finite number"


def test_footers_repeated_headers_titles_and_comments(table, write, assert_law):
    body = lines_of(table, HEADERS[0]).splitlines()
    text = "\n".join(["Results of spring", "# exported by hand", "", *body[:10], body[0], *body[10:], "", "Total: 27"])
    runs = Runs.from_csv(write(text + "\n"))
    assert_law(runs)
    reasons = {d.line: d.reason for d in runs.dropped}
    assert reasons == {14: "repeated header", 34: "1 cell where the header has 4"}
    assert runs.lines[0] == 5


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("name", ["", "Unnamed: 0", "index"])
def test_counters_of_rows_are_no_data(table, write, assert_law, first, name):
    rows = [(i, *row) if first else (*row, i) for i, row in enumerate(table)]
    header = [name, *HEADERS[0]] if first else [*HEADERS[0], name]
    runs = Runs.from_csv(write(lines_of(rows, header)))
    assert_law(runs)
    assert runs.columns == HEADERS[0]
    assert len(runs.origin.ignored) == 1


def test_row_names_that_the_header_lacks(table, write, assert_law):
    rows = [(i + 1, *row) for i, row in enumerate(table)]
    assert_law(Runs.from_csv(write(lines_of(rows, HEADERS[0]))))


def test_no_header_is_noticed_and_named(table, write, assert_law):
    path = write("\n".join(", ".join(map(str, row)) for row in table) + "\n")
    with pytest.raises(DataError, match=r"line 1 of runs.csv holds numbers, not column names .* --names"):
        Runs.from_csv(path)
    assert_law(Runs.from_csv(path, options=ReadOptions(names=("width", "depth", "tokens", "loss"))))


def test_names_replace_a_header(table, write, assert_law):
    path = write(lines_of(table, ("a", "b", "c", "d")))
    assert_law(Runs.from_csv(path, options=ReadOptions(names=HEADERS[0])))


def test_decimal_commas_split_by_commas_are_refused(write):
    path = write("width,depth,loss\n" + "512,8,4,54\n1024,8,4,25\n" * 3)
    with pytest.raises(DataError, match="6 of 6 rows do not fit the header; line 2 has 4 cells and the header 3"):
        Runs.from_csv(path)


def test_truncated_rows_are_listed(write):
    runs = Runs.from_csv(write("width,loss,depth\n512,3.5,8\n512,3.4\n512,3.3,8\n1024,3.2,8,1\n"))
    assert runs["loss"].tolist() == [3.5, 3.3]
    assert [d.line for d in runs.dropped] == [3, 5]


def test_space_separated(table, write, assert_law):
    assert_law(Runs.from_csv(write(lines_of(table, HEADERS[0], delimiter="   "), name="runs.txt")))


@pytest.mark.parametrize("text", ["", "\n\n", "width,loss\n", "\x00\x01"])
def test_files_without_a_table_are_refused(write, text):
    with pytest.raises(DataError, match=r"runs\.csv"):
        Runs.from_csv(write(text))


def test_missing_file_and_bad_options(tmp_path):
    with pytest.raises(DataError, match="cannot be read: No such file"):
        Runs.from_csv(tmp_path / "absent.csv")
    with pytest.raises(OptionError, match="format 'xml' is unknown; the formats are csv"):
        ReadOptions(format="xml")
    with pytest.raises(OptionError, match="are both ','"):
        ReadOptions(decimal=",", thousands=",")
    with pytest.raises(OptionError, match="decimal mark 'x' is not possible"):
        ReadOptions(decimal="x")
    with pytest.raises(OptionError, match="delimiter '/' is not possible"):
        ReadOptions(delimiter="/")


IRREGULAR = ["512,8,1e9", "512,8,1e9,3.5,1", "", '"512",8,1e9,3.5', "# x", "# 512,8,1e9,3.5"]
ODD_CELLS = ["512,8,1e9,", "512,8,10B,3.5", "512,8,1e9,inf", "512,oops,1e9,3.5", "512,,1e9,3.5"]


@pytest.mark.parametrize("odd", ["512,8,1e9,3.5", *IRREGULAR, *ODD_CELLS])
@pytest.mark.parametrize("at", [0, 13, 27])
@pytest.mark.parametrize("block", [1, 200, 1 << 20])
def test_blocks_and_whole_files_agree(table, write, monkeypatch, odd, at, block):
    body = lines_of(table, HEADERS[0]).splitlines()
    body.insert(1 + at, odd)
    path = write("\n".join(body) + "\n")
    exact = Runs.from_csv(path)
    monkeypatch.setattr(delimited, "PANDAS_FROM", 0)
    monkeypatch.setattr(delimited, "_BLOCK", block)
    calls = []
    original = delimited._frame
    monkeypatch.setattr(delimited, "_frame", lambda *args: calls.append(args) or original(*args))
    quick = Runs.from_csv(path)
    assert calls or '"' in odd or (block == 1 << 20 and odd in IRREGULAR)
    assert (quick.origin, quick.columns, quick.dropped) == (exact.origin, exact.columns, exact.dropped)
    assert np.array_equal(quick.lines, exact.lines)
    assert all(np.array_equal(quick[name], exact[name], equal_nan=True) for name in exact.columns)


@pytest.mark.parametrize("n_bytes", [10, 70_000])
@pytest.mark.parametrize("rows", [3, 30_000])
def test_long_headers_and_undecodable_ones(write, rows, n_bytes):
    header = "width,depth,tokens,lo\xe9ss," + "x" * n_bytes
    text = header + "\n" + "512,8,1000000000,3.5,1\n" * rows
    path = write(text, encoding="cp1252")
    with pytest.raises(DataError, match=r"has no loss column.*lo\xe9ss"):
        Runs.from_csv(path)
    runs = Runs.from_csv(write(text.replace("\xe9", "")))
    assert (len(runs), runs.columns[-1]) == (rows, "x" * n_bytes)
