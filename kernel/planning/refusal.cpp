#include "refusal.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "memory_words.h"
#include "units.h"

namespace meshwright {

namespace {

constexpr std::size_t kMostTensors = 3;
constexpr std::size_t kMostMeshes = 2;  // those that need least

// "parameters 0.46 GiB, gradients 0.46 GiB, ..."; nothing of what holds less than a hundredth.
std::string split_text(const MemorySplit& split) {
  std::vector<std::size_t> kinds;
  for (std::size_t kind = 0; kind < kMemoryKinds; ++kind) {
    if (split.bytes[kind] > split.sum() / 100) kinds.push_back(kind);
  }
  std::stable_sort(kinds.begin(), kinds.end(), [&](std::size_t a, std::size_t b) { return split.bytes[a] > split.bytes[b]; });
  std::string text;
  for (const std::size_t kind : kinds) {
    text += (text.empty() ? "" : ", ") + std::string(name(static_cast<MemoryKind>(kind))) + " " + size_text(split.bytes[kind]);
  }
  return text;
}

// The largest activations: what recomputation would save.
std::string largest_text(const MemoryProfile& memory) {
  std::string text;
  std::size_t named = 0;
  for (const HeldTensor& tensor : memory.peak_tensors) {
    if (tensor.kind != MemoryKind::activation && tensor.kind != MemoryKind::temporary) continue;
    text += (named > 0 ? ", " : "") + ("'" + tensor.name + "' ") + to_string(tensor.type) + " " + size_text(tensor.bytes);
    if (++named == kMostTensors) break;
  }
  return text;
}

// What the mesh is nearest to fit by; most where nothing is known.
std::int64_t need(const MeshTrial& trial) {
  const std::int64_t known = trial.smallest_bytes > 0 ? trial.smallest_bytes : trial.least_bytes;
  return known > 0 ? known : std::numeric_limits<std::int64_t>::max();
}

}  // namespace

std::string refusal_text(const std::vector<MeshTrial>& trials, const FittedPlan* smallest, std::int64_t smallest_budget_bytes,
                         std::int64_t budget_bytes, const DeviceSpec* device) {
  std::string text = "no plan fits into " + size_text(budget_bytes) + " per device";
  if (device != nullptr && smallest != nullptr) {
    const std::string overheads = overheads_text(smallest->plan.memory);
    if (!overheads.empty()) {
      text += "; of its " + size_text(device->memory_bytes) + " the smallest plan that is known takes " +
              size_text(smallest->plan.memory.total_bytes()) + ": the program's " +
              size_text(smallest->plan.peak_bytes) + ", " + overheads;
    }
  }
  std::int64_t bound = 0;
  bool bounded = !trials.empty();
  std::vector<const MeshTrial*> nearest;
  for (const MeshTrial& trial : trials) nearest.push_back(&trial);
  std::stable_sort(nearest.begin(), nearest.end(), [](const MeshTrial* a, const MeshTrial* b) { return need(*a) < need(*b); });
  for (std::size_t i = 0; i < std::min(nearest.size(), kMostMeshes); ++i) {
    text += "\n  mesh " + nearest[i]->mesh + ": " + nearest[i]->binding;
    if (nearest[i]->smallest_bytes > 0) text += "; the smallest plan that is known holds " + size_text_beside(nearest[i]->smallest_bytes, budget_bytes);
    if (i + 1 == kMostMeshes && nearest.size() > kMostMeshes) text += "; so " + std::to_string(nearest.size() - kMostMeshes) + " more";
  }
  for (const MeshTrial& trial : trials) {
    // A mesh on which nothing is allowed whatever the memory bounds nothing.
    if (trial.least_bytes > 0) bound = bound == 0 ? trial.least_bytes : std::min(bound, trial.least_bytes);
    else if (trial.smallest_bytes > 0) bounded = false;
  }
  if (smallest == nullptr) return text;
  if (smallest_budget_bytes > 0) text += "\n  the smallest budget for which a plan is known is " + size_text_beside(smallest_budget_bytes, budget_bytes);
  else text += "\n  the smallest plan that is known holds " + size_text_beside(smallest->plan.peak_bytes, budget_bytes);
  text += ", on mesh " + to_string(smallest->plan.mesh);
  if (bounded && bound > 0) text += "; below " + size_text_beside(bound, budget_bytes) + " there is none";
  else text += "; that a smaller one has none is not proven";
  const MemoryProfile& memory = smallest->memory;
  if (memory.curve.empty()) return text;
  text += "; its peak is at '" + memory.peak_node + "': " + split_text(memory.curve[memory.peak].held);
  if (const std::string largest = largest_text(memory); !largest.empty()) text += "; the largest of its values: " + largest;
  return text;
}

Result<std::string> contradiction_of(const FittedSolver& solver, const ProblemInput& input, std::vector<Pin> pins) {
  for (std::size_t i = 0; i < pins.size();) {
    std::vector<Pin> others = pins;
    others.erase(others.begin() + static_cast<std::ptrdiff_t>(i));
    Result<Problem> problem = build_pinned(input, others);
    if (!problem) return problem.error();
    Result<Assignment> answer = solver.solve(input, *problem, kNoBudget, kAnyWork);
    if (!answer) return answer.error();
    if (answer->choice.empty()) pins = std::move(others);
    else ++i;
  }
  if (pins.empty()) return std::string();
  std::string text = pins.size() > 1 ? "these pins contradict each other: " : "no plan meets the pin ";
  for (const Pin& pin : pins) text += (&pin == &pins.front() ? "" : ", ") + to_string(pin);
  return text;
}

}  // namespace meshwright
