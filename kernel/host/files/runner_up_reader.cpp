#include "files/runner_up_reader.h"

#include <algorithm>

#include "break_even.h"
#include "plan_words.h"

namespace meshwright::host {

namespace {

constexpr double kMostSeconds = 1e9;

BreakEven read_break_even(const JsonPlace& place, const Cluster& cluster) {
  BreakEven one;
  one.coefficient = place.at("coefficient").one_of(CostCoefficient::host_time, [](CostCoefficient each) { return word(each); });
  if (const std::optional<JsonPlace> level = place.find("level")) {
    one.level = level->text();
    const auto is_named = [&](const LinkLevel& each) { return each.name == one.level; };
    if (!is_link(one.coefficient)) level->fail("only a coefficient of links has a level");
    else if (std::ranges::none_of(cluster.levels, is_named)) level->fail("the cluster has no level '" + one.level + "'");
  } else if (is_link(one.coefficient)) {
    place.fail("it has no level, and is a coefficient of links");
  }
  one.part_seconds = place.at("part_seconds").number(-kMostSeconds, kMostSeconds);
  one.runner_up_part_seconds = place.at("runner_up_part_seconds").number(-kMostSeconds, kMostSeconds);
  if (const JsonPlace factor = place.at("factor"); !factor.is_null()) one.factor = factor.number(kLeastFactor, kMostFactor);
  return one;
}

}  // namespace

RunnerUp read_runner_up(const JsonPlace& place, const Cluster& cluster) {
  RunnerUp read;
  const JsonPlace mesh = place.at("mesh");
  read.mesh = mesh.text();
  read.objective_seconds = place.at("objective_seconds").seconds();
  read.step_seconds = place.at("step_seconds").seconds();
  read.differences = place.at("differences").texts();
  if (place.failed()) return read;
  const Result<std::vector<std::int64_t>> shape = parse_mesh_shape(read.mesh);
  if (!shape) {
    mesh.fail(shape.error().message);
  } else if (const Result<Mesh> made = make_mesh(cluster, *shape); !made) {
    mesh.fail(made.error().message);
  }
  for (const JsonPlace& one : place.at("break_evens").elements()) {
    const BreakEven here = read_break_even(one, cluster);
    const auto is_same = [&](const BreakEven& known) { return known.coefficient == here.coefficient && known.level == here.level; };
    if (std::ranges::any_of(read.break_evens, is_same)) one.fail("the coefficient stands there twice");
    read.break_evens.push_back(here);
  }
  return read;
}

}  // namespace meshwright::host
