#include "drawn_plan.h"

#include <random>

namespace meshwright {

Result<ModelAnalysis> make_float64_model(Graph graph, const OpTable& ops) {
  for (Value& value : graph.values) {
    if (value.type.dtype == DType::float32) value.type.dtype = DType::float64;
  }
  return analyze_model(std::move(graph), ops);
}

Mesh plain_mesh(const std::vector<std::int64_t>& shape) {
  Mesh mesh;
  for (const std::int64_t size : shape) mesh.axes.push_back({size, 1e-6, 1e-10, "link"});
  return mesh;
}

CostProfile plain_profile() {
  CostProfile profile;
  profile.device.name = "plain";
  profile.device.memory_bytes_per_second = 1e12;
  profile.device.vector_flops_per_second = 1e13;
  profile.device.launch_seconds = 1e-6;
  for (const DType dtype : {DType::float64, DType::float32}) profile.device.matrix_flops_per_second[dtype] = 1e14;
  return profile;
}

namespace {

class Drawing {
 public:
  Drawing(const Problem& problem, std::uint64_t seed) : problem_(problem), random_(seed), choice_(problem.variables.size(), kUndrawn) {
    edges_.resize(problem.variables.size());
    for (const SpaceEdge& edge : problem.space.edges) {
      edges_[edge.from].push_back(&edge);
      edges_[edge.to].push_back(&edge);
    }
  }

  void fix(std::size_t variable, std::uint32_t strategy) { choice_[variable] = strategy; }

  // Ops first, then what lies between them, then parameters. False if a variable is left without a choice.
  bool draw() {
    for (const VariableKind kind : {VariableKind::node, VariableKind::output, VariableKind::fork, VariableKind::parameter}) {
      for (std::uint32_t i = 0; i < choice_.size(); ++i) {
        if (choice_[i] != kUndrawn || problem_.variables[i].kind != kind) continue;
        const std::vector<std::uint32_t> allowed = choices_of(i);
        if (allowed.empty()) return false;
        choice_[i] = allowed[random_() % allowed.size()];
      }
    }
    return true;
  }

  [[nodiscard]] const std::vector<std::uint32_t>& choice() const { return choice_; }

 private:
  static constexpr std::uint32_t kUndrawn = 0xffffffffU;

  [[nodiscard]] std::vector<std::uint32_t> choices_of(std::uint32_t variable) const {
    std::vector<std::uint32_t> allowed;
    for (std::uint32_t s = 0; s < problem_.space.nodes[variable].costs.size(); ++s) {
      bool fits = problem_.space.nodes[variable].costs[s] < kForbidden;
      for (const SpaceEdge* edge : edges_[variable]) {
        const std::uint32_t other = edge->from == variable ? edge->to : edge->from;
        if (!fits || choice_[other] == kUndrawn) continue;
        const CostTable& table = problem_.space.tables[edge->table];
        const std::uint32_t row = edge->from == variable ? s : choice_[other], column = edge->from == variable ? choice_[other] : s;
        fits = table.costs[row * table.columns + column] < kForbidden;
      }
      if (fits) allowed.push_back(s);
    }
    return allowed;
  }

  const Problem& problem_;
  std::mt19937_64 random_;
  std::vector<std::uint32_t> choice_;
  std::vector<std::vector<const SpaceEdge*>> edges_;
};

constexpr int kAttempts = 200;

}  // namespace

Result<Plan> plan_of_choice(const ProblemInput& input, const Problem& problem, std::vector<std::uint32_t> choice) {
  Assignment assignment;
  assignment.choice = std::move(choice);
  assignment.status = SolveStatus::heuristic;
  assignment.method = "drawn";
  assignment.peak_bytes = evaluate(problem.space, assignment.choice).peak_bytes;
  return make_plan(input, problem, assignment);
}

Result<std::vector<std::uint32_t>> draw_choice(const Problem& problem, std::uint64_t seed) {
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    Drawing drawing(problem, seed * kAttempts + static_cast<std::uint64_t>(attempt));
    if (drawing.draw()) return drawing.choice();
  }
  return internal_error("no strategies that go together were drawn in many attempts");
}

Result<Plan> draw_plan(const ProblemInput& input, const Problem& problem, std::uint64_t seed) {
  Result<std::vector<std::uint32_t>> choice = draw_choice(problem, seed);
  if (!choice) return choice.error();
  return plan_of_choice(input, problem, std::move(*choice));
}

Result<Plan> draw_plan_with(const ProblemInput& input, const Problem& problem, std::size_t variable, std::uint32_t strategy) {
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    Drawing drawing(problem, static_cast<std::uint64_t>(attempt));
    drawing.fix(variable, strategy);
    if (drawing.draw()) return plan_of_choice(input, problem, drawing.choice());
  }
  return internal_error("no strategies go together with number " + std::to_string(strategy) + " of '" +
                        problem.variables[variable].name + "'");
}

}  // namespace meshwright
