#include "plan/simulate.h"

#include <algorithm>

namespace meshwright {

namespace {

// Edges by the variable that uses the value.
std::vector<std::vector<std::size_t>> edges_into(const Problem& problem) {
  std::vector<std::vector<std::size_t>> edges(problem.variables.size());
  for (std::size_t i = 0; i < problem.edges.size(); ++i) edges[problem.edges[i].to].push_back(i);
  return edges;
}

}  // namespace

namespace {

class Step {
 public:
  explicit Step(const StepInput& input) : input_(input), edges_(edges_into(input.problem)) {}

  StepTimes run() {
    const std::int64_t microbatches = input_.training.microbatches;
    for (std::int64_t microbatch = 0; microbatch < microbatches; ++microbatch) {
      for (std::size_t i = 0; i < input_.chosen.size(); ++i) run_forward(i);
      for (std::size_t i = input_.chosen.size(); i-- > 0;) run_backward(i, microbatch + 1 == microbatches);
    }
    for (const Strategy* chosen : input_.chosen) update_ += chosen->update_seconds;
    times_.waits_at_end += std::max(0.0, communication_ - compute_);
    times_.seconds = std::max(compute_, communication_) + update_;
    return times_;
  }

 private:
  [[nodiscard]] const ProblemEdge& edge(std::size_t at) const { return input_.problem.edges[at]; }
  [[nodiscard]] const Strategy& parameter(std::size_t at) const { return *input_.chosen[edge(at).from]; }

  void run_forward(std::size_t i) {
    const Strategy& chosen = *input_.chosen[i];
    double gathered = 0;
    for (const std::size_t at : edges_[i]) {
      if (edge(at).of_parameter) gathered = std::max(gathered, gather(at));
      else compute_ += input_.forward[at];
    }
    begin(gathered, chosen.forward_seconds);
    compute_ += chosen.forward_seconds + chosen.forward_communication_seconds + chosen.constant_seconds;
  }

  void run_backward(std::size_t i, bool last_microbatch) {
    const Strategy& chosen = *input_.chosen[i];
    if (input_.problem.variables[i].kind == VariableKind::parameter) {
      compute_ += chosen.backward_seconds;  // sums of its gradients: nothing is prefetched beside them
      return;
    }
    double gathered = 0;
    for (const std::size_t at : edges_[i]) {
      if (edge(at).of_parameter && parameter(at).regather) gathered = std::max(gathered, gather(at));
    }
    begin(gathered, chosen.backward_seconds);
    compute_ += chosen.backward_seconds + chosen.backward_communication_seconds;
    for (const std::size_t at : edges_[i]) {
      if (!edge(at).of_parameter) compute_ += input_.backward[at];
      else if (last_microbatch || input_.training.reduces_each_microbatch(parameter(at).zero)) reduce(at);
    }
  }

  // When it is there. It starts, if it is prefetched, when the op before the one that needs it starts.
  double gather(std::size_t at) {
    if (input_.forward[at] <= 0) return 0;
    const double issued = parameter(at).prefetch ? previous_start_ : compute_;
    times_.parameter_seconds += input_.forward[at];
    return communication_ = std::max(communication_, issued) + input_.forward[at];
  }

  void reduce(std::size_t at) {
    if (input_.backward[at] <= 0) return;
    times_.parameter_seconds += input_.backward[at];
    if (input_.training.reduces_at_end(parameter(at).zero)) {
      update_ += input_.backward[at];
      times_.waits_at_end += input_.backward[at];
      return;
    }
    communication_ = std::max(communication_, compute_) + input_.backward[at];
  }

  void begin(double gathered, double seconds) {
    times_.waits_for_gathers += std::max(0.0, gathered - compute_);
    compute_ = std::max(compute_, gathered);
    if (seconds > 0) previous_start_ = compute_;
  }

  const StepInput& input_;
  const std::vector<std::vector<std::size_t>> edges_;
  StepTimes times_;
  double compute_ = 0;        // when the computing stream is free
  double communication_ = 0;  // when the parameters' stream is free
  double update_ = 0;
  double previous_start_ = 0;
};

}  // namespace

StepTimes simulate_step(const StepInput& step) { return Step(step).run(); }

}  // namespace meshwright
