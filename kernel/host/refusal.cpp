#include "refusal.h"

#include <algorithm>
#include <cstdio>
#include <set>

#include "plan_notes.h"

namespace meshwright::host {

namespace {

constexpr std::size_t kMostTensors = 3;
constexpr std::int64_t kWorkLimit = 50'000'000;

// "parameters 0.46 GiB, gradients 0.46 GiB, ..."; nothing of what holds less than a hundredth.
std::string split_text(const MemorySplit& split) {
  std::vector<std::size_t> kinds;
  for (std::size_t kind = 0; kind < kMemoryKinds; ++kind) {
    if (split.bytes[kind] > split.sum() / 100) kinds.push_back(kind);
  }
  std::stable_sort(kinds.begin(), kinds.end(), [&](std::size_t a, std::size_t b) { return split.bytes[a] > split.bytes[b]; });
  std::string text;
  for (const std::size_t kind : kinds) {
    text += (text.empty() ? "" : ", ") + std::string(name(static_cast<MemoryKind>(kind))) + " " + bytes_text(split.bytes[kind]);
  }
  return text;
}

// The largest activations: what recomputation would save.
std::string largest_text(const MemoryProfile& memory) {
  std::string text;
  std::size_t named = 0;
  for (const HeldTensor& tensor : memory.peak_tensors) {
    if (tensor.kind != MemoryKind::activation && tensor.kind != MemoryKind::temporary) continue;
    text += (named > 0 ? ", " : "") + ("'" + tensor.name + "' ") + to_string(tensor.type) + " " + bytes_text(tensor.bytes);
    if (++named == kMostTensors) break;
  }
  return text;
}

}  // namespace

std::string refusal_text(const std::vector<MeshTrial>& trials, const FittedPlan* smallest, std::int64_t budget_bytes) {
  std::string text = "no plan fits into " + bytes_text(budget_bytes) + " per device";
  std::int64_t bound = 0;
  bool bounded = !trials.empty();
  for (const MeshTrial& trial : trials) {
    text += "\n  mesh " + trial.mesh + ": " + trial.binding;
    if (trial.smallest_bytes > 0) text += "; the smallest plan that is known holds " + bytes_text(trial.smallest_bytes);
    // A mesh on which nothing is allowed whatever the memory bounds nothing.
    if (trial.least_bytes > 0) bound = bound == 0 ? trial.least_bytes : std::min(bound, trial.least_bytes);
    else if (trial.smallest_bytes > 0) bounded = false;
  }
  if (smallest == nullptr) return text;
  text += "\n  the smallest budget for which a plan is known is " + bytes_text(smallest->plan.peak_bytes) + ", on mesh " +
          to_string(smallest->plan.mesh);
  if (bounded && bound > 0) text += "; below " + bytes_text(bound) + " there is none";
  const MemoryProfile& memory = smallest->memory;
  if (memory.curve.empty()) return text;
  text += "\n  its peak is at '" + memory.peak_node + "': " + split_text(memory.curve[memory.peak]);
  if (const std::string largest = largest_text(memory); !largest.empty()) text += "; the largest of its values: " + largest;
  return text;
}

std::vector<Suggestion> suggestions(const SuggestionInput& input) {
  std::vector<Suggestion> made;
  const auto suggest = [&](const std::string& key_and_value) {
    Suggestion& suggestion = made.emplace_back(Suggestion{key_and_value, input.options});
    suggestion.options.set.push_back(key_and_value);
  };
  if (input.limits_zero) suggest("search.zero=free");
  if (input.limits_mesh) {
    Suggestion& suggestion = made.emplace_back(Suggestion{"any other mesh", input.options});
    suggestion.options.mesh.clear();
    suggestion.options.set.push_back("cluster.mesh=");
  }
  for (std::int64_t parts = 2 * input.microbatches; parts <= std::min<std::int64_t>(input.batch, 16 * input.microbatches); parts *= 2) {
    if (input.batch % parts == 0) suggest("train.microbatches=" + std::to_string(parts));
  }
  if (input.is_fp32) suggest("train.dtype=bf16");
  for (const int factor : {2, 4}) {
    Suggestion& suggestion = made.emplace_back(Suggestion{std::to_string(factor) + " times the nodes", input.options});
    suggestion.options.mesh.clear();
    suggestion.options.set.push_back("cluster.mesh=");
    suggestion.options.node_factor = factor;
  }
  // It is enough to know whether anything fits.
  for (Suggestion& suggestion : made) {
    suggestion.options.explain = false;
    suggestion.options.set.push_back("search.work_limit=" + std::to_string(kWorkLimit));
  }
  return made;
}

std::string suggestions_text(const std::vector<Suggestion>& suggestions,
                             const std::function<Result<PlanOutcome>(const PlanOptions&)>& plan) {
  std::string text, tried;
  std::set<std::string> fitted;  // kinds of changes
  for (const Suggestion& suggestion : suggestions) {
    const std::string kind = suggestion.options.node_factor > 1 ? "nodes" : suggestion.change.substr(0, suggestion.change.find('='));
    if (fitted.contains(kind)) continue;  // less of the same is enough
    const Result<PlanOutcome> outcome = plan(suggestion.options);
    if (outcome && outcome->plan) {
      fitted.insert(kind);
      char step[32];
      std::snprintf(step, sizeof step, "%.3f ms", outcome->plan->step_seconds * 1e3);
      text += "\n  with " + suggestion.change + " a plan fits: " + bytes_text(outcome->plan->peak_bytes) + " on mesh " +
              to_string(outcome->plan->mesh) + ", " + step + " a step";
    } else {
      tried += (tried.empty() ? "" : ", ") + suggestion.change;
    }
  }
  if (text.empty() && !tried.empty()) text = "\n  none of these alone would fit: " + tried;
  return text;
}

}  // namespace meshwright::host
