#include "plan_notes.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <set>

#include "memory_words.h"

namespace meshwright {

namespace {

// An axis along which every op repeats its work is worth knowing of: its devices only store.
void note_idle_axes(const Plan& plan, std::vector<std::string>& notes) {
  for (std::size_t axis = 0; axis < plan.mesh.rank(); ++axis) {
    const auto works = [&](const PlannedVariable& variable) {
      return variable.node() != nullptr && variable.node()->call.axes[axis].use != AxisUse::repeat;
    };
    if (std::any_of(plan.variables.begin(), plan.variables.end(), works)) continue;
    notes.push_back("Mesh axis " + std::to_string(axis) + " (" + plan.mesh.axes[axis].slowest_link +
                    ") is idle: every op repeats its work along it, because sharing the work would cost more "
                    "communication than it saves.");
  }
}

// Seconds of the nodes with this op. Those without a gradient have no variable: they read and write their tensors
// whole.
double seconds_of(const std::string& op, const Plan& plan, const CostProfile& profile) {
  double seconds = 0;
  std::set<NodeId> planned;
  for (const PlannedVariable& variable : plan.variables) {
    const PlannedNode* node = variable.node();
    if (node == nullptr || plan.graph().nodes[node->node].op != op) continue;
    seconds += variable.forward_seconds + variable.backward_seconds;
    planned.insert(node->node);
  }
  for (NodeId id = 0; id < plan.graph().nodes.size(); ++id) {
    const Node& node = plan.graph().nodes[id];
    if (node.op != op || planned.contains(id)) continue;
    Work work;
    for (const Operand& operand : node.operands)
      work.bytes += static_cast<double>(plan.graph().type(operand.value).bytes());
    for (const ValueId result : node.results) work.bytes += static_cast<double>(plan.graph().type(result).bytes());
    seconds += compute_seconds(profile, work);
  }
  return seconds;
}

// "2 modules: encoder.a, encoder.b"
std::string modules_of(const std::string& op, const Plan& plan) {
  constexpr std::size_t kMostNamed = 4;
  std::vector<std::string> modules;
  for (const Node& node : plan.graph().nodes) {
    const std::string module = node.module_path.empty() ? "the model itself" : node.module_path;
    if (node.op == op && std::find(modules.begin(), modules.end(), module) == modules.end()) modules.push_back(module);
  }
  std::string text = std::to_string(modules.size()) + (modules.size() == 1 ? " module: " : " modules: ");
  for (std::size_t i = 0; i < std::min(modules.size(), kMostNamed); ++i) text += (i > 0 ? ", " : "") + modules[i];
  return text + (modules.size() > kMostNamed ? ", ..." : "");
}

// The budget that somebody gave is of the program's peak alone.
void note_memory(const Plan& plan, std::vector<std::string>& notes) {
  const std::int64_t memory = plan.cluster.device.memory_bytes, total = plan.memory.total_bytes();
  if (total <= memory) return;
  notes.push_back("The plan keeps to its budget, but with all that a device's memory holds it takes " +
                  size_text(total) + " of " + size_text(memory) + " (" + overheads_text(plan.memory) +
                  "): it may not fit.");
}

}  // namespace

std::vector<std::string> notes_of(const Plan& plan) {
  std::vector<std::string> notes;
  note_idle_axes(plan, notes);
  note_memory(plan, notes);
  return notes;
}

std::optional<std::string> step_note(const Plan& plan, const Timeline& times, double counted) {
  constexpr double kMostDifference = 0.05, kLeastNamed = 0.005;  // of the objective
  const double objective = plan.objective_seconds, difference = times.step_seconds - objective;
  if (std::abs(difference) <= kMostDifference * objective) return std::nullopt;
  // All is priced alike, but what overlaps and what several ops share.
  const double waits = times.waits_before_updates + times.waits_at_end;
  const double of_parameters = waits - counted, of_others = difference - of_parameters - times.waits_for_host;
  char text[512];
  std::snprintf(text, sizeof text, "The simulated step is %.1f %% %s the objective", 100 * std::abs(difference) / objective, difference > 0 ? "above" : "below");
  std::string note = text;
  if (std::abs(of_parameters) > kLeastNamed * objective) {
    std::snprintf(text, sizeof text,
                  ": of %.3f ms in which parameters are gathered and reduced, it waits for %.3f ms (%.3f ms before the updates, %.3f ms "
                  "at the end); the search, which hides each parameter's behind the op that uses it, counts %.3f ms",
                  1e3 * times.communication_seconds, 1e3 * waits, 1e3 * times.waits_before_updates, 1e3 * times.waits_at_end, 1e3 * counted);
    note += text;
  }
  note += ".";
  if (times.waits_for_host > kLeastNamed * objective) {
    std::snprintf(text, sizeof text, " For %.3f ms the device waits until the host has issued its kernels, which CUDA graphs would do away with ([train] cuda_graphs).", 1e3 * times.waits_for_host);
    note += text;
  }
  if (std::abs(of_others) <= kLeastNamed * objective) return note;
  std::snprintf(text, sizeof text,
                of_others < 0 ? " Conversions and constants that several ops share run once; the search counts them for each op, %.3f ms more."
                              : " All but the communication of parameters takes %.3f ms more than the search counts.",
                1e3 * std::abs(of_others));
  return note + text;
}

std::vector<std::string> unruled_notes(const Plan& plan, const CostProfile& profile,
                                       const std::vector<std::string>& warnings) {
  std::vector<std::string> notes;
  for (const std::string& warning : warnings) {
    const std::string op = warning.substr(0, warning.find(' '));
    char text[32];
    std::snprintf(text, sizeof(text), "%.3f ms", seconds_of(op, plan, profile) * 1e3);
    notes.push_back(warning + ". It stands in " + modules_of(op, plan) + ", and costs every device " + text +
                    " a step.");
  }
  return notes;
}

std::string again_note(std::optional<double> seconds_without, const std::string& how) {
  const std::string note = seconds_without ? "the fastest plan found that fits without has a step of " + milliseconds(*seconds_without) + "." : "no plan was found that fits without.";
  return how.empty() ? note : note + " By " + how;
}

}  // namespace meshwright
