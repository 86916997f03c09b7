// emit_random_plans FOLDER MODEL MESH COUNT: plans that nobody would choose, as PyTorch programs: FOLDER/MODEL-random.N.
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "program_bench.h"

namespace meshwright::test {
namespace {

Result<std::vector<EmittedFile>> emit(Backend& backend, const EmitterTable& emitters, const Plan& plan) {
  const host::ProgramTools& tools = bench().tools;
  const Result<Program> program = host::make_program(plan, tools);
  if (!program) return program.error();
  return backend.emit({*program, *tools.ops, tools.profile, nullptr, {}, nullptr, {}, &plan, &emitters});
}

Status emit_all(const std::filesystem::path& folder, const std::string& name, const std::string& shape, std::uint64_t count) {
  const Graph graph = read_model(name);
  const Result<std::vector<std::int64_t>> sizes = parse_mesh_shape(shape);
  if (!sizes) return sizes.error();
  const Mesh mesh = plain_mesh(*sizes);
  const CostProfile profile = plain_profile();
  const Result<ModelAnalysis> model = analyze_model(graph, *bench().tools.ops);
  if (!model) return model.error();
  const TrainingSettings training;
  const ProblemInput input{{*model, training, *bench().tools.ops, profile, *bench().tools.conversions}, mesh, {}};
  const Result<Problem> problem = build_problem(input);
  if (!problem) return problem.error();
  const auto backend = bench().host.create<Backend>("backend", "torch");
  if (!backend) return backend.error();
  const Result<std::unique_ptr<EmitterTable>> emitters = host::emitters_for(bench().host, "torch");
  if (!emitters) return emitters.error();
  for (std::uint64_t seed = 0; seed < count; ++seed) {
    const Result<Plan> plan = draw_plan(input, *problem, seed);
    if (!plan) return plan.error();
    const Result<std::vector<EmittedFile>> files = emit(**backend, **emitters, *plan);
    if (!files) return add_context("seed " + std::to_string(seed), files.error());
    const std::filesystem::path here = folder / (name + "-random." + shape + "." + std::to_string(seed));
    std::filesystem::create_directories(here);
    for (const EmittedFile& file : *files) std::ofstream(here / file.name) << file.text;
  }
  return Done{};
}

}  // namespace
}  // namespace meshwright::test

int main(int count, char** arguments) {
  if (count != 5) {
    std::fprintf(stderr, "usage: emit_random_plans FOLDER MODEL MESH COUNT\n");
    return 2;
  }
  const meshwright::Status done = meshwright::test::emit_all(arguments[1], arguments[2], arguments[3], std::strtoull(arguments[4], nullptr, 10));
  if (done) return 0;
  std::fprintf(stderr, "emit_random_plans: %s\n", done.error().message.c_str());
  return 1;
}
