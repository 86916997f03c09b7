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

void check_mesh(const JsonPlace& place, const std::string& text, const Cluster& cluster) {
  const Result<std::vector<std::int64_t>> shape = parse_mesh_shape(text);
  if (!shape) return place.fail(shape.error().message);
  std::int64_t devices = 1;
  for (const std::int64_t size : *shape) {
    if (__builtin_mul_overflow(devices, size, &devices)) return place.fail("the mesh is impossibly large");
  }
  if (devices != cluster.devices()) place.fail("its axes make " + std::to_string(devices) + " devices, and the cluster has " + std::to_string(cluster.devices()));
}

}  // namespace

RunnerUp read_runner_up(const JsonPlace& place, const Cluster& cluster) {
  RunnerUp read;
  const JsonPlace mesh = place.at("mesh");
  read.mesh = mesh.text();
  read.objective_seconds = place.at("objective_seconds").seconds();
  read.step_seconds = place.at("step_seconds").seconds();
  // Lines to be printed, in which a model's names stand.
  read.differences = place.at("differences").texts();
  const auto is_control = [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; };
  for (std::string& difference : read.differences) std::ranges::replace_if(difference, is_control, '?');
  if (place.failed()) return read;
  check_mesh(mesh, read.mesh, cluster);
  for (const JsonPlace& one : place.at("break_evens").elements()) {
    const BreakEven here = read_break_even(one, cluster);
    const auto is_same = [&](const BreakEven& known) { return known.coefficient == here.coefficient && known.level == here.level; };
    if (std::ranges::any_of(read.break_evens, is_same)) one.fail("the coefficient stands there twice");
    read.break_evens.push_back(here);
  }
  return read;
}

}  // namespace meshwright::host
