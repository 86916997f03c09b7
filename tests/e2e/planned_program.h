// A plan made under a few settings, its program, and what `verify` says of it, in this process.
#pragma once

#include <gtest/gtest.h>

#include "files/plan_reader.h"
#include "planning.h"
#include "plugins/program_source.h"
#include "sources.h"
#include "verify.h"

namespace meshwright::test {

struct PlannedProgram {
  host::PluginHost host;
  Plan plan;
  host::ProgramTools tools;
  Program program;
};

// A cluster file with as many devices as the mesh.
inline std::string cluster_of(const std::string& mesh) {
  std::int64_t devices = 1;
  for (std::size_t at = 0; at <= mesh.size(); at = std::min(mesh.find('x', at), mesh.size()) + 1) devices *= std::stoll(mesh.substr(at));
  return devices == 4 ? TEST_FOLDER "/a100x4.toml" : cluster("h100x8");
}

inline Result<host::PlanOutcome> plan_tiny(const std::string& model, const std::string& mesh, const std::vector<std::string>& set) {
  host::PlanOptions options;
  options.model = tiny(model);
  options.cluster = cluster_of(mesh);
  options.mesh = mesh;
  options.set = {"search.sure=false", "search.step_rounds=2"};  // unless the trial says otherwise
  options.set.insert(options.set.end(), set.begin(), set.end());
  return plan(options);
}

inline Result<PlannedProgram> program_of(Plan plan) {
  host::PluginHost host = open_host();
  Result<host::ProgramTools> tools = host::open_tools(host, plan);
  if (!tools) return tools.error();
  Result<Program> program = host::make_program(plan, *tools);
  if (!program) return program.error();
  return PlannedProgram{std::move(host), std::move(plan), std::move(*tools), std::move(*program)};
}

inline Result<PlannedProgram> planned_program(const std::string& model, const std::string& mesh, const std::vector<std::string>& set) {
  Result<host::PlanOutcome> outcome = plan_tiny(model, mesh, set);
  if (!outcome) return outcome.error();
  if (!outcome->plan) return infeasible(outcome->refusal);
  return program_of(std::move(*outcome->plan));
}

inline void expect_verifies(PlannedProgram& planned, std::int64_t steps = 1) {
  const Graph& graph = planned.plan.graph();
  const auto sources = sample_sources(graph, {}, 0).value();
  const auto further = sample_microbatches(graph, {}, planned.plan.training.microbatches).value();
  const auto later = sample_steps(graph, {}, planned.plan.training.microbatches, steps).value();
  const auto backend = planned.host.create<Backend>("backend", "reference").value();
  const auto kernels = host::kernels_for(planned.host, "reference").value();
  const Result<Verification> result = verify({graph, planned.program, *planned.tools.ops, planned.tools.profile, kernels.get(), *backend,
                                              sources, 1e-4, 1e-3, further, false, later});
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_TRUE(result->equal) << result->worst_tensor << " on rank " << result->worst_rank << ": " << result->max_relative_error << " "
                             << result->problem;
  EXPECT_EQ(result->steps, steps);
  EXPECT_EQ(result->bytes_sent_measured, result->bytes_sent_predicted);
  EXPECT_EQ(result->peak_bytes_measured, result->peak_bytes_predicted);
}

// "search.zero=3, train.microbatches=2": the name of a trial.
inline std::string joined(const std::vector<std::string>& texts) {
  std::string all;
  for (const std::string& text : texts) all += (all.empty() ? "" : ", ") + text;
  return all;
}

}  // namespace meshwright::test
