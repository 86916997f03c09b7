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

double simulate_step(const StepInput& step) {
  const auto edges = edges_into(step.problem);
  const std::size_t count = step.chosen.size();
  double compute = 0;        // when the computing stream is free
  double communication = 0;  // when the parameters' stream is free
  double previous_start = 0;  // a gather is started when the op before the one that needs it starts
  for (std::size_t i = 0; i < count; ++i) {
    double gathered = 0;
    for (const std::size_t edge : edges[i]) {
      if (!step.problem.edges[edge].of_parameter) {
        compute += step.forward[edge];
      } else if (step.forward[edge] > 0) {
        communication = std::max(communication, previous_start) + step.forward[edge];
        gathered = communication;
      }
    }
    compute = std::max(compute, gathered);
    if (step.chosen[i]->forward_seconds > 0) previous_start = compute;
    compute += step.chosen[i]->forward_seconds + step.chosen[i]->forward_communication_seconds +
               step.chosen[i]->constant_seconds;
  }
  double update = 0;
  for (std::size_t i = count; i-- > 0;) {
    compute += step.chosen[i]->backward_seconds + step.chosen[i]->backward_communication_seconds;
    update += step.chosen[i]->update_seconds;
    for (const std::size_t edge : edges[i]) {
      if (!step.problem.edges[edge].of_parameter) compute += step.backward[edge];
      else if (step.backward[edge] > 0) communication = std::max(communication, compute) + step.backward[edge];
    }
  }
  return std::max(compute, communication) + update;
}

}  // namespace meshwright
