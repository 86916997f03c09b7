// What lowering asks of the model's graph, and how it names what it makes.
#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "meshwright/plan.h"
#include "meshwright/program.h"
#include "meshwright/training_graph.h"

namespace meshwright {

// The values of a program while it is made: copies of one value have its name and a number.
class NamedValues {
 public:
  explicit NamedValues(Program& program) : program_(program) {}

  ProgramValueId make(const std::string& base, ShardedType type) {
    const int copies = copies_[base]++;
    program_.values.push_back({copies > 0 ? base + "." + std::to_string(copies) : base, std::move(type)});
    bases_.push_back(base);
    return static_cast<ProgramValueId>(program_.values.size() - 1);
  }

  // Its name without the number of the copy.
  [[nodiscard]] const std::string& base(ProgramValueId id) const { return bases_[id]; }

 private:
  Program& program_;
  std::unordered_map<std::string, int> copies_;
  std::vector<std::string> bases_;  // by value
};

inline const Source& source_of(const Graph& graph, ValueId id) { return *std::ranges::find(graph.sources, id, &Source::value); }

inline ValueId buffer_named(const Graph& graph, const std::string& target) {
  for (const Source& source : graph.sources) {
    if (std::ranges::find(source.names, target) != source.names.end()) return source.value;
  }
  return kNoId;
}

// What the model leaves in a buffer; null: nothing.
inline const Output* change_of(const Graph& graph, ValueId buffer) {
  for (const Output& output : graph.outputs) {
    if (output.kind == OutputKind::buffer_mutation && buffer_named(graph, output.target) == buffer) return &output;
  }
  return nullptr;
}

// How a conversion of the plan gets there; kNoId: it goes nowhere.
inline PlannedPath planned_path(const Plan& plan, std::uint32_t planned) {
  PlannedPath path{planned, {}};
  if (planned == kNoId) return path;
  for (const PlannedMove& move : plan.conversions[planned].moves) path.moves.push_back(move.move);
  return path;
}

// By value: how many addends its gradient has from ops that use it.
inline std::map<ValueId, int> contributions_of(const TrainingGraph& training) {
  std::map<ValueId, int> counts;
  for (NodeId id = 0; id < training.contributions.size(); ++id) {
    for (std::size_t i = 0; i < training.contributions[id].size(); ++i) {
      if (training.contributions[id][i] != kNoId) ++counts[training.graph.nodes[id].operands[i].value];
    }
  }
  return counts;
}

// Outputs are those of the last microbatch, but for losses, of which each gives its own: in their order.
inline void give_each_loss(Program& program) {
  std::vector<ProgramOutput> all;
  for (std::int64_t microbatch = 0; microbatch < program.order.microbatches; ++microbatch) {
    for (ProgramOutput output : program.outputs) {
      if (output.kind != OutputKind::loss && microbatch + 1 < program.order.microbatches) continue;
      output.microbatch = microbatch;
      all.push_back(std::move(output));
    }
  }
  program.outputs = std::move(all);
}

}  // namespace meshwright
