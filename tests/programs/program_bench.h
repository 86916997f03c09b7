// What programs are made and run with in tests: the plugins in tree, opened once.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "case_runner.h"
#include "drawn_plan.h"
#include "meshwright/frontend.h"
#include "plugins/program_source.h"

namespace meshwright::test {

struct ProgramBench {
  // Partial values are random shares of the whole, so that an op that is not linear is found out.
  host::PluginHost host = open_host({"emit.reference.scatter_partials=7"}).value();
  host::ProgramTools tools = open_tools();
  std::shared_ptr<Backend> reference = host.create<Backend>("backend", "reference").value();

 private:
  host::ProgramTools open_tools() {
    host::ProgramTools opened = host::open_tools(host, Plan{}).value();
    opened.profile = plain_profile();
    return opened;
  }
};

inline ProgramBench& bench() {
  static ProgramBench opened;
  return opened;
}

inline Graph read_model(const std::string& name) {
  const auto frontend = bench().host.create<Frontend>("frontend", "torch_export").value();
  Graph graph = frontend->read(SOURCE_FOLDER "/tests/models/" + name + ".pt2").value();
  EXPECT_TRUE(gather_composites(graph, *bench().tools.ops).value().empty());
  return graph;
}

// How many of `count` random things to try: MESHWRIGHT_DRAWS=n says fewer, where each takes long (under a sanitizer).
inline int at_most_draws(int count) {
  const char* fewer = std::getenv("MESHWRIGHT_DRAWS");
  return fewer ? std::min(count, std::max(1, std::atoi(fewer))) : count;
}

}  // namespace meshwright::test
