#include "plan_notes.h"

#include <algorithm>
#include <cstdio>

namespace meshwright::host {

namespace {

// An axis along which every op repeats its work is worth knowing of: its devices only store.
void note_idle_axes(const Plan& plan, std::vector<std::string>& notes) {
  for (std::size_t axis = 0; axis < plan.mesh.rank(); ++axis) {
    const auto works = [&](const PlannedVariable& variable) {
      return axis < variable.axes.size() && variable.axes[axis] != "repeat";
    };
    if (std::any_of(plan.variables.begin(), plan.variables.end(), works)) continue;
    notes.push_back("Mesh axis " + std::to_string(axis) + " (" + plan.mesh.axes[axis].slowest_link +
                    ") is idle: every op repeats its work along it, because sharing the work would cost more "
                    "communication than it saves.");
  }
}

void note_unruled(const Plan& plan, std::vector<std::string>& notes) {
  for (const std::string& op : plan.unruled_ops) {
    double seconds = 0;
    for (const PlannedVariable& variable : plan.variables) {
      if (variable.op == op) seconds += variable.forward_seconds + variable.backward_seconds;
    }
    char text[32];
    std::snprintf(text, sizeof(text), "%.3f ms", seconds * 1e3);
    notes.push_back(op + " has no sharding rule: every device does all of its work, " + text + " a step.");
  }
}

}  // namespace

std::string bytes_text(std::int64_t bytes) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.2f GiB", static_cast<double>(bytes) / 1073741824.0);
  return text;
}

std::vector<std::string> notes_of(const Plan& plan) {
  std::vector<std::string> notes = {
      "Memory counts every operand of a differentiable op, views apart, as saved until its backward: it is an upper "
      "estimate until gradients say what is really saved."};
  note_idle_axes(plan, notes);
  note_unruled(plan, notes);
  return notes;
}

std::string least_memory_text(const Problem& problem) {
  std::int64_t state = 0, saved = 0;
  for (const Variable& variable : problem.variables) {
    const auto least = [&](std::int64_t Strategy::*bytes) {
      const auto& all = variable.set->strategies;
      return (*std::min_element(all.begin(), all.end(), [&](const Strategy& a, const Strategy& b) {
               return a.*bytes < b.*bytes;
             })).*bytes;
    };
    state += least(&Strategy::state_bytes);
    saved += least(&Strategy::saved_bytes);
  }
  return " (parameters with gradients and optimizer state take at least " + bytes_text(state) +
         ", activations kept for the backward at least " + bytes_text(saved) + ")";
}

}  // namespace meshwright::host
