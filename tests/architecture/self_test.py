"""Each architecture check can fail: given something that breaks the rule, it says so; given something sound, it doesn't."""

import tempfile
import unittest
from pathlib import Path

import check_exports
import check_sizes
from arrows import include_violations, link_violations, zone_of
from kinds import kind_violations, listed_kinds
from ninja_build import Compilation, Link, parse_deps, parse_links
from rooms import room_violations

ROOT = "/src"
BUILD = "/src/build"


def includes(source: str, *files: str) -> list[str]:
    absolute = tuple(file if file.startswith("/") else f"{ROOT}/{file}" for file in files)
    return include_violations([Compilation(f"{ROOT}/{source}", absolute)], ROOT, BUILD)


class Includes(unittest.TestCase):
    def test_sound_ones(self):
        self.assertEqual(includes("kernel/graph/graph.cpp", "kernel/include/meshwright/graph.h", "kernel/rule/parse.h",
                                  "/usr/include/c++/12/vector", "/usr/include/string.h", "build/generated/meshwright/abi_tag.h",
                                  "/usr/include/x86_64-linux-gnu/bits/types.h", "/usr/lib/gcc/x86_64-linux-gnu/12/include/x.h"), [])
        self.assertEqual(includes("plugins/ops/matmul/matmul.cpp", "plugins/ops/matmul/matmul.h",
                                  "sdk/lib/sampling/sampling.h", "kernel/include/meshwright/op.h"), [])
        self.assertEqual(includes("plugins/intra/ilp_lp_solve/model.cpp", "/usr/include/lpsolve/lp_lib.h"), [])
        self.assertEqual(includes("kernel/graph/graph_test.cpp", "/usr/include/gtest/gtest.h"), [])
        self.assertEqual(includes("tests/abi/registry_test.cpp", "kernel/host/plugins/plugin_registry.h"), [])

    def test_plugin_to_plugin(self):
        self.assertEqual(includes("plugins/ops/matmul/matmul.cpp", "plugins/ops/norm/norm.h"),
                         ["plugins/ops/matmul/matmul.cpp (plugins/ops/matmul) must not include plugins/ops/norm/norm.h "
                          "(plugins/ops/norm)"])

    def test_plugin_to_private_header(self):
        self.assertEqual(len(includes("plugins/intra/tap/tap.cpp", "kernel/strategy/reduce.h")), 1)
        self.assertEqual(len(includes("frontends/onnx/onnx.cpp", "kernel/host/files/json.h")), 1)
        self.assertEqual(len(includes("sdk/lib/x/x.cpp", "kernel/rule/parse.h")), 1)

    def test_kernel_to_plugin_host_or_third_party(self):
        for file in ("plugins/ops/norm/norm.h", "kernel/host/files/json.h", "sdk/lib/x/x.h", "/usr/include/toml++/toml.h",
                     "/usr/include/zip.h", "/usr/include/gtest/gtest.h", "/usr/include/dlfcn.h"):
            self.assertEqual(len(includes("kernel/graph/graph.cpp", file)), 1, file)

    def test_host_to_private_header_or_plugin(self):
        for file in ("plugins/ops/norm/norm.h", "kernel/strategy/reduce.h"):
            self.assertEqual(len(includes("kernel/host/plugins/pipeline.cpp", file)), 1, file)

    def test_heavy_library_twice(self):
        users = [Compilation(f"{ROOT}/kernel/host/{name}.cpp", ("/usr/include/nlohmann/json.hpp",)) for name in "ab"]
        self.assertEqual(include_violations(users, ROOT, BUILD),
                         ["nlohmann-json must be included by one .cpp of the host, not by kernel/host/a.cpp, "
                          "kernel/host/b.cpp"])
        self.assertEqual(include_violations(users[:1], ROOT, BUILD), [])


class Links(unittest.TestCase):
    PLUGIN = Link(f"{BUILD}/bin/plugins/ops/matmul.so", "module", (f"{ROOT}/plugins/ops/matmul/matmul.cpp",))
    OTHER = Link(f"{BUILD}/bin/plugins/ops/norm.so", "module", (f"{ROOT}/plugins/ops/norm/norm.cpp",))

    def violations(self, output: str, kind: str, source: str, *libraries: str) -> list[str]:
        link = Link(f"{BUILD}/{output}", kind, (f"{ROOT}/{source}",), libraries)
        return link_violations([self.PLUGIN, self.OTHER, link], ROOT, BUILD)

    def test_sound_ones(self):
        kernel = f"{BUILD}/bin/libmeshwright_kernel.so"
        self.assertEqual(self.violations("bin/plugins/intra/tap.so", "module", "plugins/intra/tap/tap.cpp", kernel,
                                         f"{BUILD}/sdk/lib/sampling/libsampling.a", "-lm"), [])
        self.assertEqual(self.violations("bin/meshwright", "executable", "kernel/host/main.cpp", kernel,
                                         "/usr/lib/x86_64-linux-gnu/libspdlog.so.1.10.0"), [])

    def test_forbidden_ones(self):
        norm = self.OTHER.output
        self.assertEqual(self.violations("bin/plugins/intra/tap.so", "module", "plugins/intra/tap/tap.cpp", norm),
                         ["bin/plugins/intra/tap.so must not link the plugin norm.so: plugins are loaded at run time"])
        self.assertEqual(len(self.violations("bin/libmeshwright_kernel.so", "shared", "kernel/graph/graph.cpp", norm)), 1)
        self.assertEqual(self.violations("bin/libmeshwright_kernel.so", "shared", "kernel/graph/graph.cpp", "-lzip"),
                         ["bin/libmeshwright_kernel.so must link the standard library only, not -lzip"])
        self.assertEqual(self.violations("bin/plugins/intra/tap.so", "module", "plugins/intra/tap/tap.cpp",
                                         f"{BUILD}/kernel/host/libmeshwright_host.a"),
                         ["bin/plugins/intra/tap.so must not link the host"])
        self.assertEqual(self.violations("bin/meshwright", "executable", "kernel/host/main.cpp", "/usr/lib/libzip.so"),
                         ["bin/meshwright must not link libzip.so"])
        mixed = Link(f"{BUILD}/bin/plugins/ops/mixed.so", "module",
                     (f"{ROOT}/plugins/ops/mixed/a.cpp", f"{ROOT}/plugins/ops/norm/norm.cpp"))
        self.assertEqual(link_violations([mixed], ROOT, BUILD),
                         ["bin/plugins/ops/mixed.so must be built from one folder, not from plugins/ops/mixed, "
                          "plugins/ops/norm"])


class Reading(unittest.TestCase):
    def test_zones(self):
        self.assertEqual(zone_of("/src/kernel/graph/graph.cpp", ROOT, BUILD), "kernel")
        self.assertEqual(zone_of("/src/kernel/host/files/json.h", ROOT, BUILD), "kernel/host")
        self.assertEqual(zone_of("/src/plugins/ops/norm/norm.cpp", ROOT, BUILD), "plugins/ops/norm")
        self.assertEqual(zone_of("/src/build/generated/meshwright/abi_tag.h", ROOT, BUILD), "generated")
        self.assertEqual(zone_of("/src/build/kernel/CMakeFiles/meshwright_kernel.dir/Unity/unity_0_cxx.cxx", ROOT, BUILD), "kernel")
        self.assertEqual(zone_of("/src/build/backends/cuda/CMakeFiles/cuda_objects.dir/Unity/unity_1_cxx.cxx", ROOT, BUILD), "backends/cuda")
        self.assertEqual(zone_of("/src/build/kernel/CMakeFiles/other.cxx", ROOT, BUILD), "outside")
        self.assertEqual(zone_of("/usr/include/zip.h", ROOT, BUILD), "outside")

    def test_deps(self):
        text = "a.o: #deps 2, deps mtime 1 (VALID)\n    ../a.cpp\n    ../a.h\n\nb.o: #deps 1, deps mtime 1 (VALID)\n    ../b.cpp\n"
        self.assertEqual(parse_deps(text), {"a.o": ["../a.cpp", "../a.h"], "b.o": ["../b.cpp"]})

    def test_links(self):
        text = ("build bin/plugins/ops/x.so: CXX_MODULE_LIBRARY_LINKER__x_Release x.o y.o | bin/k.so || order\n"
                "  LINK_FLAGS = -z\n  LINK_LIBRARIES = -Wl,-rpath,/b  bin/k.so  -lm\n  OBJECT_DIR = d\n\n"
                "build other: phony\n")
        self.assertEqual(parse_links(text, BUILD, {"x.o": "/src/x.cpp"}),
                         [Link(f"{BUILD}/bin/plugins/ops/x.so", "module", ("/src/x.cpp",),
                               ("-Wl,-rpath,/b", f"{BUILD}/bin/k.so", "-lm"))])


class Exports(unittest.TestCase):
    def test_one_symbol(self):
        self.assertIsNone(check_exports.violation("x.so", ["meshwright_plugin"]))
        self.assertEqual(check_exports.violation("x.so", ["meshwright_plugin", "other"]),
                         "x.so must export meshwright_plugin and nothing else, but exports meshwright_plugin, other")
        self.assertEqual(check_exports.violation("x.so", []),
                         "x.so must export meshwright_plugin and nothing else, but exports nothing")


class Rooms(unittest.TestCase):
    def test_sound_ones(self):
        self.assertEqual(room_violations({
            "graph/graph.cpp": '#include "meshwright/graph.h"\n#include <vector>\n#include "graph/aten/call.h"\n',
            "graph/aten/call.h": "", "graph/aten/call.cpp": '#include "call.h"\n', "include/meshwright/graph.h": "",
            "strategy/solver_test.cpp": '#include "program/lower.h"\n', "program/lower.h": '#include "meshwright/graph.h"\n'}), [])

    def test_planning_does_not_know_its_host(self):
        found = room_violations({"planning/planner.cpp": '#include "plugins/plugin_host.h"\n', "host/plugins/plugin_host.h": ""})
        self.assertEqual(found, ["kernel/planning/planner.cpp (planning) must not include plugins/plugin_host.h (host/plugins), a later room"])

    def test_reports_do_not_know_commands(self):
        files = {"host/commands/plan_command.h": "", "host/report/plan_text.cpp": '#include "commands/plan_command.h"\n',
                 "host/main.cpp": '#include "commands/plan_command.h"\n'}
        found = room_violations(files)
        self.assertEqual(found, ["kernel/host/report/plan_text.cpp (host/report) must not include commands/plan_command.h (host/commands), a later room"])

    def test_a_later_room(self):
        for include in ("meshwright/strategy.h", "strategy/price.h"):
            found = room_violations({"graph/graph.cpp": f'  # include "{include}"\n', "include/meshwright/strategy.h": "", "strategy/price.h": ""})
            self.assertEqual(found, [f"kernel/graph/graph.cpp (graph) must not include {include} (strategy), a later room"])

    def test_no_room(self):
        self.assertEqual(len(room_violations({"attic/old.cpp": ""})), 1)
        self.assertEqual(len(room_violations({"include/meshwright/unlisted.h": ""})), 1)


class Kinds(unittest.TestCase):
    def test_what_a_kind_sees(self):
        kinds = listed_kinds("# What they see.\nops: op\nintra: solver\n")
        public = {"op": '#include "meshwright/rule.h"\n', "rule": "", "solver": "", "program": ""}
        sound = {"plugins/ops/x/x.cpp": ("ops", '#include "meshwright/rule.h"\n'), "backends/y/y.cpp": ("backend", '#include "meshwright/program.h"\n')}
        self.assertEqual(kind_violations(kinds, public, sound), [])
        self.assertEqual(len(kind_violations(kinds, public, {"plugins/ops/x/x.cpp": ("ops", '#include "meshwright/program.h"\n')})), 1)


class Sizes(unittest.TestCase):
    def test_a_long_file(self):
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            (root / "long.cpp").write_text("\n" * 501)
            (root / "fits.cpp").write_text("\n" * 500)
            (root / "data.json").write_text("\n" * 900)
            self.assertEqual(check_sizes.too_long(root), ["long.cpp has 501 lines, more than 500: split it"])


if __name__ == "__main__":
    unittest.main()
