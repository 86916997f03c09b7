#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "test_ops.h"
#include "timeline_text.h"

namespace meshwright {
namespace {

using nlohmann::json;
using testing::count_up;
using testing::ProgramBuilder;

const testing::TestOps kOps;

TEST(Trace, IsJsonWithAnEventForEachInstruction) {
  ProgramBuilder build = testing::slow_builder({2});
  const ProgramValueId weight = build.parameter("a \"quoted\"\\ name\n", count_up({4}), "S0");
  const ProgramValueId x = build.input("x", count_up({4}), "R");
  const ProgramValueId viewed = build.compute("view", {x}, "R");
  const ProgramValueId first = build.compute("first", {viewed}, "R");
  const ProgramValueId gathered = build.move(MoveKind::all_gather, 0, weight, "R");
  build.program.instructions.back().stream = Stream::communication;
  build.output(build.compute("second", {first, gathered}, "R"));
  place_frees(build.program);
  const Timeline timeline = make_timeline(build.program, kOps, build.profile).value();
  const json trace = json::parse(trace_json(build.program, timeline));

  std::map<std::string, json> spans;
  std::map<std::string, int> phases;
  std::int64_t peak = 0;
  double last = 0;
  for (const json& event : trace["traceEvents"]) {
    ++phases[event["ph"].get<std::string>()];
    if (event["ph"] == "X") spans[event["name"].get<std::string>()] = event;
    if (event["ph"] != "C") continue;
    peak = std::max(peak, event["args"]["bytes"].get<std::int64_t>());
    EXPECT_GE(event["ts"].get<double>(), last);
    last = event["ts"].get<double>();
  }
  EXPECT_EQ(phases["M"], 3);
  ASSERT_EQ(spans.size(), 3U);  // a view takes no time
  EXPECT_EQ(spans["first"]["tid"], 0);
  EXPECT_EQ(spans["all_gather 0"]["tid"], 1);
  EXPECT_EQ(spans["all_gather 0"]["args"]["from"], "S0");
  EXPECT_EQ(spans["second"]["ts"], 40e6);
  EXPECT_EQ(spans["second"]["dur"], 48e6);
  EXPECT_TRUE(spans["all_gather 0"]["args"].contains("makes a \"quoted\"\\ name\n'"));
  EXPECT_EQ(peak, std::ranges::max(memory_curve(build.program)));
}

}  // namespace
}  // namespace meshwright
