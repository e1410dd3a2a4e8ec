# SPDX-FileCopyrightText: The KokkosXent authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tests of tools/sweep_report on small synthetic results."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import json
import math
import sys
import tempfile
import unittest
from importlib.machinery import SourceFileLoader
from pathlib import Path
from typing import Any
from unittest import mock

SCRIPT = Path(__file__).resolve().parents[1] / "tools" / "sweep_report"
HAS_MATPLOTLIB = importlib.util.find_spec("matplotlib") is not None


def load_script() -> Any:
    loader = SourceFileLoader("sweep_report", str(SCRIPT))
    spec = importlib.util.spec_from_loader("sweep_report", loader)
    module = importlib.util.module_from_spec(spec)
    sys.modules["sweep_report"] = module
    with mock.patch.object(sys, "dont_write_bytecode", True):
        loader.exec_module(module)
    return module


report = load_script()


def benchmark(space: str, gbs: float = 10.0, **changes: Any) -> dict[str, Any]:
    rows, classes = 64, 32000
    size = rows * classes * 4
    entry = {
        "name": f"vocabulary/{space}",
        "family": "vocabulary",
        "space": space,
        "design": "kokkosxent",
        "entry_point": "forward",
        "in_place": False,
        "value_type": "float",
        "layout": "right",
        "rows": rows,
        "classes": classes,
        "must_move_bytes": size,
        "design_moves_bytes": size,
        "saved_bytes": 528,
        "real_time": size / gbs,
        "cv": 0.01,
        "gbs": gbs,
        "share_of_copy": gbs / 20,
        "share_of_limit": gbs / 25,
    }
    entry.update(changes)
    return entry


def limit(figure: str = "share_of_limit", space: str = "Cuda", **changes: Any) -> dict[str, Any]:
    """A benchmark of the limits family."""
    fields = {
        "name": "limits/a case",
        "family": "limits",
        "group": "contiguous",
        "figure": figure,
        "limit_ns": 1000.0,
    }
    return benchmark(space, **{**fields, **changes})


def peer(design: str, gbs: float, space: str = "torch_cuda", **changes: Any) -> dict[str, Any]:
    name = f"peers/{design}"
    return benchmark(space, gbs, **{"name": name, "family": "peers", "design": design, **changes})


def document(*benchmarks: dict[str, Any], **context: Any) -> dict[str, Any]:
    spaces = {entry.get("space") for entry in benchmarks}
    bandwidths = {
        f"{kind}_gbs_{space}": 20.0 for space in spaces for kind in ("copy", "read", "inplace")
    }
    about = {
        "project": "KokkosXent",
        "revision": "abc",
        "host_processor": "a processor",
        "num_cpus": 2,
    }
    return {"context": {**about, **bandwidths, **context}, "benchmarks": list(benchmarks)}


class SweepReportTest(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def write(self, name: str, contents: Any) -> Path:
        path = self.folder / name
        text = contents if isinstance(contents, str) else json.dumps(contents)
        path.write_text(text, encoding="utf-8")
        return path

    def join(self, *documents: Any) -> Any:
        return report.join([self.write(f"{i}.json", d) for i, d in enumerate(documents)])

    def table(self, *documents: Any) -> str:
        return report.write_table(self.join(*documents))

    def cells(self, table: str, first: str, space: str) -> list[str]:
        """The cells of the line that starts with `first` and is about `space`."""
        for line in table.splitlines():
            cells = [cell.strip() for cell in line.strip("|").split("|")]
            if cells[0] == first and space in cells:
                return cells
        self.fail(f"no line for {first} and {space} in\n{table}")

    def assert_refused(self, text: str, *documents: Any) -> None:
        with self.assertRaisesRegex(report.Refused, text):
            self.join(*documents)


class Joining(SweepReportTest):
    def test_two_files_become_one_table(self) -> None:
        table = self.table(document(benchmark("OpenMP", 12)), document(benchmark("Serial", 5)))
        self.assertEqual(self.cells(table, "32000", "OpenMP")[-1], "2.40")
        self.assertEqual(self.cells(table, "32000", "Serial")[-1], "-")

    def test_order_of_files_does_not_matter_for_order_of_spaces(self) -> None:
        sweep = self.join(document(benchmark("Serial")), document(benchmark("OpenMP")))
        self.assertEqual(sweep.spaces(), ["OpenMP", "Serial"])

    def test_stored_design_is_compared_within_its_space(self) -> None:
        stored = benchmark("OpenMP", 3, design="stored_log_softmax", saved_bytes=8_192_000)
        other = benchmark("Serial", 1, design="stored_log_softmax")
        table = self.table(document(benchmark("OpenMP", 12), stored, benchmark("Serial", 4), other))
        line = self.cells(table, "32000", "OpenMP")
        self.assertEqual(line[-2:], ["4.00", "3.00"])
        self.assertIn("8.2 MB", line)

    def test_out_of_place_backward_is_its_own_entry_point(self) -> None:
        entries = [
            benchmark("OpenMP", 12, entry_point="backward", in_place=True),
            benchmark("OpenMP", 8, entry_point="backward"),
            benchmark("OpenMP", 4, entry_point="backward", design="stored_log_softmax"),
        ]
        table = self.table(document(*entries))
        in_place, out_of_place = table.split("## float, backward, out of place")
        self.assertEqual(self.cells(in_place, "32000", "OpenMP")[-2], "3.00")
        self.assertEqual(self.cells(out_of_place, "32000", "OpenMP")[-2], "2.00")

    def test_missing_serial_is_said(self) -> None:
        table = self.table(document(benchmark("OpenMP")))
        self.assertIn("No file has results of Serial", table)
        self.assertEqual(self.cells(table, "32000", "OpenMP")[-2:], ["-", "-"])

    def test_serial_with_other_rows_is_compared_by_rate(self) -> None:
        table = self.table(document(benchmark("OpenMP", 9), benchmark("Serial", 3, rows=8)))
        self.assertEqual(self.cells(table, "32000", "OpenMP")[-1], "3.00")

    def test_first_of_two_files_with_the_same_result_is_taken(self) -> None:
        sweep = self.join(document(benchmark("Serial", 5)), document(benchmark("Serial", 7)))
        self.assertEqual([r.gbs for r in sweep.results], [5])
        self.assertIn("repeats results of Serial", sweep.warnings[0])

    def test_different_machines_are_refused(self) -> None:
        one, other = document(benchmark("OpenMP")), document(benchmark("Serial"), num_cpus=16)
        self.assert_refused("different machines: num_cpus is 2 and 16", one, other)

    def test_different_revisions_are_warned_of(self) -> None:
        sweep = self.join(
            document(benchmark("OpenMP")), document(benchmark("Serial"), revision="d")
        )
        self.assertIn("different revisions", sweep.warnings[0])


class Noise(SweepReportTest):
    def test_busy_machine_is_warned_of(self) -> None:
        sweep = self.join(document(benchmark("OpenMP"), load_avg=[7.5, 1, 1]))
        self.assertIn("load average 7.5, 2 cores", sweep.warnings[0])

    def test_machine_that_has_just_compiled_is_not(self) -> None:
        sweep = self.join(document(benchmark("OpenMP"), load_avg=[2.4, 3.5, 3.5]))
        self.assertEqual(sweep.warnings, ())

    def test_speed_up_within_the_spread_is_marked(self) -> None:
        table = self.table(document(benchmark("OpenMP", 11, cv=0.2), benchmark("Serial", 10)))
        self.assertEqual(self.cells(table, "32000", "OpenMP")[-1], "1.10 ~")

    def test_speed_up_beyond_the_spread_is_not_marked(self) -> None:
        table = self.table(document(benchmark("OpenMP", 11, cv=0.05), benchmark("Serial", 10)))
        self.assertEqual(self.cells(table, "32000", "OpenMP")[-1], "1.10")

    def test_spread_is_shown(self) -> None:
        table = self.table(document(benchmark("OpenMP", 8.192, cv=0.034)))
        self.assertEqual(self.cells(table, "32000", "OpenMP")[3], "1.000 ± 3 %")


class Shapes(SweepReportTest):
    def shapes(self, library: float, naive: float, cv: float = 0.01) -> str:
        common = {"family": "shapes", "rows": 4, "classes": 2, "cv": cv}
        loop = benchmark("one host thread", naive, design="naive_serial", **common)
        return self.table(document(benchmark("OpenMP", library, **common), loop))

    def test_slower_than_the_naive_loop_is_called_so(self) -> None:
        self.assertEqual(self.cells(self.shapes(2, 4), "4 x 2", "OpenMP")[-1], "0.50 SLOWER")

    def test_slower_within_the_spread_is_not(self) -> None:
        self.assertEqual(self.cells(self.shapes(3.9, 4, cv=0.1), "4 x 2", "OpenMP")[-1], "0.97 ~")

    def test_the_loop_of_the_same_file_is_used(self) -> None:
        common = {"family": "shapes", "rows": 4, "classes": 2}

        def file(space: str, naive: float) -> dict[str, Any]:
            loop = benchmark("one host thread", naive, design="naive_serial", **common)
            return document(benchmark(space, 8, **common), loop)

        sweep = self.join(file("OpenMP", 2), file("Serial", 4))
        table = report.write_table(sweep)
        self.assertEqual(sweep.warnings, ())
        self.assertEqual(self.cells(table, "4 x 2", "OpenMP")[-1], "4.00")
        self.assertEqual(self.cells(table, "4 x 2", "Serial")[-1], "2.00")


class Limits(SweepReportTest):
    def line(self, case: str, *entries: dict[str, Any]) -> list[str]:
        """The cells from figure on."""
        return self.cells(self.table(document(*entries)), case, "float")[4:]

    def test_share_is_held_against_its_target(self) -> None:
        line = self.line("contiguous", limit(share_of_limit=0.951, target=0.95, gbs=24.0))
        self.assertEqual(line[:3], ["0.951 of limit", "≥ 0.95", "yes"])

    def test_share_below_its_target_is_not_reached(self) -> None:
        line = self.line("contiguous", limit(share_of_limit=0.9499, target=0.95))
        self.assertEqual(line[1:3], ["≥ 0.95", "NO"])

    def test_time_and_rate_are_shown(self) -> None:
        line = self.line("contiguous", limit(real_time=12345.0, cv=0.02, gbs=24.0))
        self.assertEqual(line[-3:], ["12.3 ± 2 %", "24.0", "-"])

    def test_serial_is_compared(self) -> None:
        table = self.table(
            document(
                limit(space="OpenMP", name="openmp", gbs=24.0),
                limit(space="Serial", name="serial", gbs=12.0),
                limit(space="Serial", name="other", gbs=6.0, rows=1),
            )
        )
        self.assertEqual(self.case_of(table, "OpenMP")[-2:], ["24.0", "2.00"])
        self.assertEqual(self.case_of(table, "Serial")[-2:], ["6.0", "-"])
        self.assertNotIn("of computing |", table)

    def test_share_of_computing_is_that_of_type_and_entry_point(self) -> None:
        rates = {
            "exp_float_gbs_OpenMP": 32.0,
            "exp_in_place_float_gbs_OpenMP": 48.0,
            "exp_bfloat16_gbs_OpenMP": 16.0,
            "exp_float_gbs_Serial": 16.0,
        }
        entries = [
            limit(space="OpenMP", gbs=24.0),
            limit(space="OpenMP", name="b", group="b", entry_point="backward", in_place=True,
                  gbs=12.0),
            limit(space="OpenMP", name="both", group="both", entry_point="forward_backward",
                  in_place=True, gbs=36.0),
            limit(space="OpenMP", name="half", group="half", value_type="bfloat16", gbs=12.0),
            limit(space="OpenMP", name="unknown", group="unknown", value_type="double"),
        ]  # fmt: skip
        table = self.table(document(*entries, **rates))
        for case, value_type, share in (
            ("contiguous", "float", "75 %"),
            ("b", "float", "25 %"),
            ("both", "float", "75 %"),
            ("half", "bfloat16", "75 %"),
            ("unknown", "double", "-"),
        ):
            self.assertEqual(self.cells(table, case, value_type)[-2], share)

    def test_share_of_computing_is_of_the_same_file(self) -> None:
        def file(name: str, rate: float) -> dict[str, Any]:
            entry = limit(space="OpenMP", name=name, group=name, gbs=24.0)
            return document(entry, exp_float_gbs_OpenMP=rate)

        table = self.table(file("one", 24.0), file("other", 48.0))
        self.assertEqual(self.cells(table, "one", "float")[-2], "100 %")
        self.assertEqual(self.cells(table, "other", "float")[-2], "50 %")

    def case_of(self, table: str, space: str) -> list[str]:
        """The first line of a space's table."""
        return self.cells(table.split(f"## limits, {space}\n")[1], "contiguous", "float")

    def test_case_without_target_is_shown(self) -> None:
        self.assertEqual(self.line("contiguous", limit())[1:3], ["-", "-"])

    def test_time_over_limit(self) -> None:
        for time, reached in ((1999.0, "yes"), (2000.0, "yes"), (2010.0, "NO")):
            entry = limit("time_over_limit", group="few_rows", target=2, real_time=time)
            line = self.line("few rows", entry)
            self.assertEqual(line[:3], [f"{time / 1000:.2f} x limit", "≤ 2", reached])

    def ignored(self, **changes: Any) -> dict[str, Any]:
        return limit(
            "time_over_reference", name="limits/ignored", group="ignored_90", target=0.25,
            reference="limits/a case", **changes,
        )  # fmt: skip

    def test_time_over_that_of_another_case(self) -> None:
        line = self.line("ignored 90", self.ignored(real_time=20.0), limit(real_time=100.0))
        self.assertEqual(line[:3], ["0.200 x contiguous", "≤ 0.25", "yes"])

    def test_other_case_that_was_not_measured(self) -> None:
        line = self.line("ignored 90", self.ignored())
        self.assertEqual(line[:3], ["-", "≤ 0.25", "-"])

    def test_reached_targets_are_counted(self) -> None:
        entries = [
            limit(share_of_limit=0.9, target=0.8),
            limit(name="other", rows=3, share_of_limit=0.7, target=0.8),
            limit(name="free", rows=2),
        ]
        self.assertIn("Targets reached: 1 of 2.", self.table(document(*entries)))

    def test_cases_of_other_designs_are_left_out(self) -> None:
        stored = limit(design="stored_log_softmax", name="stored", gbs=3.5)
        table = self.table(document(limit(gbs=24.5), stored))
        self.assertIn("24.5", table)
        self.assertNotIn("3.5", table)

    def test_cases_need_a_group(self) -> None:
        entry = limit()
        del entry["group"]
        self.assert_refused("has no field 'group'", document(entry))

    def test_nothing_of_vocabularies_is_missed(self) -> None:
        self.assertNotIn("No file has results of Serial", self.table(document(limit())))


class Peers(SweepReportTest):
    ours = {"processor_Cuda": "a GPU", "processor_Serial": "a processor"}
    theirs = {"processor_torch_cuda": "a GPU", "peer_versions": {"torch": "2.0", "liger": "1"}}

    def joined(self, ours: list[dict[str, Any]], theirs: list[dict[str, Any]]) -> Any:
        return self.join(document(*ours, **self.ours), document(*theirs, **self.theirs))

    def line(self, title: str, ours: list[dict[str, Any]],
             theirs: list[dict[str, Any]]) -> dict[str, str]:  # fmt: skip
        """The cells of the only line of a table, by the table's header."""
        table = report.write_table(self.joined(ours, theirs))
        header, _, line = table.split(f"torch_cuda: {title}\n\n")[1].splitlines()[:3]
        return {
            name.strip(): cell.strip() for name, cell in zip(header.split("|"), line.split("|"))
        }

    def test_forward_is_side_by_side(self) -> None:
        ours = [limit(gbs=24.0), limit(design="stored_log_softmax", name="stored", gbs=6.0)]
        line = self.line("float, forward", ours, [peer("pytorch_eager", 5.0), peer("liger", 10.0)])
        self.assertEqual(line["KokkosXent"], "24.0 (96 %)")
        self.assertEqual(line["stored log-softmax"], "6.0 (24 %)")
        self.assertEqual(line["PyTorch eager"], "5.0 (20 %)")
        self.assertEqual(line["Liger"], "10.0 (40 %)")
        self.assertNotIn("QuACK", line)

    def test_two_calls_add_their_times(self) -> None:
        both: dict[str, Any] = {"in_place": True, "must_move_bytes": 1000}
        ours = [
            limit(real_time=30.0),
            limit(entry_point="backward", name="backward", real_time=70.0, **both),
            limit(entry_point="forward_backward", name="both", gbs=20.0, **both),
        ]
        eager = peer("pytorch_eager", 5.0, entry_point="forward_backward")
        line = self.line("float, forward + backward", ours, [eager])
        self.assertEqual(line["KokkosXent"], "20.0 (80 %)")
        self.assertEqual(line["KokkosXent, two calls"], "10.0 (40 %)")
        self.assertEqual(line["PyTorch eager"], "5.0 (20 %)")

    def test_vocabulary_stands_in_for_limits(self) -> None:
        line = self.line("float, forward", [benchmark("Cuda", 12.0)], [peer("liger", 10.0)])
        self.assertEqual(line["KokkosXent"], "12.0 (48 %)")

    def test_what_is_kept_is_shown(self) -> None:
        eager = peer("pytorch_eager", 5.0, entry_point="forward_backward", saved_bytes=8_192_000)
        line = self.line("float, kept for backward", [limit()], [eager])
        self.assertEqual(line["PyTorch eager"], "8.2 MB")

    def test_shape_that_we_lack_is_shown(self) -> None:
        line = self.line("float, forward", [limit(classes=7)], [peer("liger", 10.0)])
        self.assertEqual((line["classes"], line["Liger"]), ("32000", "10.0 (40 %)"))
        self.assertNotIn("KokkosXent", [cell for cell in line.values() if cell != "-"])

    def test_other_processors_are_not_paired(self) -> None:
        sweep = self.joined([benchmark("Serial")], [peer("liger", 10.0)])
        self.assertEqual([pair.space for pair in report.pairs_of_spaces(sweep)], [""])

    def test_peers_alone(self) -> None:
        table = self.table(document(peer("liger", 10.0), **self.theirs))
        self.assertIn("## side by side, torch_cuda: float, forward", table)

    def test_versions_are_shown_and_no_revision_is_missed(self) -> None:
        theirs = document(peer("liger", 10.0), **self.theirs)
        del theirs["context"]["revision"]
        sweep = self.join(document(limit(), **self.ours), theirs)
        self.assertEqual(sweep.warnings, ())
        self.assertIn("torch 2.0, liger 1", report.write_table(sweep))

    def test_kept_memory_is_said(self) -> None:
        for kept in (True, False):
            table = self.table(
                document(peer("liger", 10.0), **self.theirs, keeps_freed_memory=kept)
            )
            self.assertEqual("liger 1, freed memory kept" in table, kept)

    @unittest.skipUnless(HAS_MATPLOTLIB, "needs matplotlib")
    def test_picture_is_written(self) -> None:
        sweep = self.joined([limit()], [peer("liger", 10.0)])
        self.assertTrue(report.write_pictures(sweep, None, self.folder))
        self.assertTrue((self.folder / "peers.png").read_bytes().startswith(b"\x89PNG"))
        self.assertTrue((self.folder / "peers.svg").exists())
        self.assertFalse((self.folder / "sweep.png").exists())


class Bandwidths(SweepReportTest):
    def test_rates_of_exponentials_are_shown_where_they_were_measured(self) -> None:
        host = {
            "exp_float_gbs_OpenMP": 34.5,
            "exp_bfloat16_gbs_OpenMP": 17.5,
            "exp_double_gbs_OpenMP": 12.5,
            "exp_in_place_float16_gbs_OpenMP": 20.5,
        }
        table = self.table(document(benchmark("OpenMP"), benchmark("Cuda"), **host))
        self.assertEqual(
            self.cells(table, "OpenMP", "exponentials added up")[2:], ["34.5", "17.5", "-", "12.5"]
        )
        self.assertEqual(
            self.cells(table, "OpenMP", "exponentials in place")[2:], ["-", "-", "20.5", "-"]
        )
        self.assertNotIn("Cuda | exponentials", table)
        self.assertIn("*added up*: ", table)

    def test_without_them_nothing_is_explained(self) -> None:
        self.assertNotIn("exponentials added up", self.table(document(benchmark("Cuda"))))
        self.assertNotIn("*added up*: ", self.table(document(benchmark("Cuda"))))


class PeersOnAHost(SweepReportTest):
    def table_of(self, ours: list[dict[str, Any]], their_gbs: float, threads: int = 2,
                 design: str = "pytorch_eager") -> dict[str, str]:  # fmt: skip
        """The cells of the forward table's only line, by the table's header."""
        processors = {f"processor_{space}": "a processor" for space in ("OpenMP", "Serial")}
        theirs = peer(design, their_gbs, space="torch_cpu")
        table = self.table(
            document(*ours, **processors, threads_OpenMP=2, threads_Serial=1),
            document(theirs, processor_torch_cpu="a processor", threads_torch_cpu=threads,
                     peer_versions={"torch": "2.0"}),
        )  # fmt: skip
        header, _, line = table.split("torch_cpu: float, forward\n\n")[1].splitlines()[:3]
        return {
            name.strip(): cell.strip() for name, cell in zip(header.split("|"), line.split("|"))
        }

    def openmp(self, gbs: float) -> dict[str, Any]:
        return limit(space="OpenMP", name="openmp", gbs=gbs)

    def test_speed_up_over_pytorch_is_held_against_its_target(self) -> None:
        for gbs, shown, reached in ((10.0, "2.00", "yes"), (9.9, "1.98", "NO")):
            line = self.table_of([self.openmp(gbs)], 5.0)
            self.assertEqual(
                [line[name] for name in ("x PyTorch", "target", "reached")],
                [shown, "≥ 2", reached],
            )

    def test_serial_stands_beside(self) -> None:
        serial = limit(space="Serial", name="serial", gbs=6.0)
        line = self.table_of([self.openmp(12.0), serial], 5.0)
        self.assertEqual(line["KokkosXent"], "12.0 (48 %)")
        self.assertEqual(line["KokkosXent, Serial"], "6.0 (24 %)")

    def test_other_numbers_of_threads_are_not_compared(self) -> None:
        self.assertNotIn("x PyTorch", self.table_of([self.openmp(12.0)], 5.0, threads=16))

    def test_without_pytorch_eager_there_is_no_figure(self) -> None:
        line = self.table_of([self.openmp(12.0)], 5.0, design="torch_compile")
        self.assertEqual((line["x PyTorch"], line["reached"]), ("-", "-"))

    def test_nothing_is_asked_beside_a_gpu(self) -> None:
        theirs = document(peer("pytorch_eager", 5.0), **Peers.theirs, threads_torch_cuda=2)
        table = self.table(document(limit(), **Peers.ours, threads_Cuda=2), theirs)
        self.assertNotIn("| x PyTorch", table)


class Refusing(SweepReportTest):
    def test_no_such_file(self) -> None:
        with self.assertRaisesRegex(report.Refused, "No such file"):
            report.join([self.folder / "absent.json"])

    def test_not_json(self) -> None:
        self.assert_refused("is not JSON", "{")

    def test_another_programs_results(self) -> None:
        self.assert_refused("not written by KokkosXent_perf", {"context": {}, "benchmarks": []})

    def test_no_benchmarks(self) -> None:
        self.assert_refused("no results in", document())

    def test_missing_field_is_named(self) -> None:
        entry = benchmark("OpenMP")
        del entry["share_of_copy"]
        self.assert_refused("has no field 'share_of_copy'", document(entry))

    def test_missing_bandwidth_is_named(self) -> None:
        one = document(benchmark("OpenMP"))
        del one["context"]["copy_gbs_OpenMP"]
        self.assert_refused("has no field 'copy_gbs_OpenMP'", one)

    def test_not_a_number(self) -> None:
        self.assert_refused(
            "share_of_copy is nan", document(benchmark("OpenMP", share_of_copy=math.nan))
        )

    def test_not_positive(self) -> None:
        self.assert_refused("real_time is 0", document(benchmark("OpenMP", real_time=0)))

    def test_failed_benchmarks_are_listed(self) -> None:
        failed = {"name": "a case", "error": "disagrees", "space": "OpenMP"}
        self.assertIn("- a case: disagrees", self.table(document(benchmark("OpenMP"), failed)))


class CommandLine(SweepReportTest):
    def run_main(self, *arguments: str) -> tuple[int, str, str]:
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            status = report.main(["--output", str(self.folder / "out"), *arguments])
        return status, out.getvalue(), err.getvalue()

    def results(self) -> str:
        entries = [benchmark("OpenMP", 12), benchmark("Serial", 5)]
        stored = benchmark("OpenMP", 6, design="stored_log_softmax")
        return str(self.write("results.json", document(*entries, stored)))

    @unittest.skipUnless(HAS_MATPLOTLIB, "needs matplotlib")
    def test_table_and_picture_are_written(self) -> None:
        status, out, err = self.run_main(self.results())
        self.assertEqual(status, 0)
        self.assertNotIn("sweep_report:", err)  # matplotlib's own warnings may be there
        self.assertEqual((self.folder / "out" / "table.md").read_text(encoding="utf-8") + "\n", out)
        picture = (self.folder / "out" / "sweep.png").read_bytes()
        self.assertTrue(picture.startswith(b"\x89PNG"))

    def test_without_matplotlib_the_table_is_written(self) -> None:
        with mock.patch.dict(sys.modules, {"matplotlib": None}):
            status, out, err = self.run_main(self.results())
        self.assertEqual(status, report.EXIT_NO_PICTURE)
        self.assertIn("matplotlib", err)
        self.assertIn("2.40", out)
        self.assertTrue((self.folder / "out" / "table.md").exists())
        self.assertFalse((self.folder / "out" / "sweep.png").exists())

    def test_refusal_writes_nothing(self) -> None:
        status, out, err = self.run_main(str(self.write("bad.json", "[]")))
        self.assertEqual((status, out), (report.EXIT_REFUSED, ""))
        self.assertIn("bad.json has no context", err)
        self.assertFalse((self.folder / "out").exists())

    def test_absent_value_type_is_refused(self) -> None:
        status, _, err = self.run_main("--value-type=double", self.results())
        self.assertEqual(status, report.EXIT_REFUSED)
        self.assertIn("no results of value type double", err)


if __name__ == "__main__":
    unittest.main()
