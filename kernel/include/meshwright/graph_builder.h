// Appends nodes to a graph: how an op family states a gradient, in the same vocabulary as the forward.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "meshwright/export.h"
#include "meshwright/graph.h"

namespace meshwright {

using Attributes = std::map<std::string, Attribute, std::less<>>;

class MESHWRIGHT_API GraphBuilder {
 public:
  // `graph` outlives the builder. New nodes and values are named `prefix` and a number, and carry `module_path`.
  GraphBuilder(Graph& graph, std::string prefix);

  void set_module_path(std::string module_path) { module_path_ = std::move(module_path); }

  // One node; gives its results. An operand without a value (kNoId) is left out, as an absent optional tensor is.
  std::vector<ValueId> emit(std::string op, const std::vector<Operand>& operands, Attributes attributes,
                            const std::vector<TensorType>& results);
  ValueId emit(std::string op, const std::vector<Operand>& operands, Attributes attributes, const TensorType& result);

  // By value: the next node may move all values.
  [[nodiscard]] TensorType type(ValueId id) const { return graph_.values[id].type; }

 private:
  Graph& graph_;
  std::string prefix_;
  std::string module_path_;
};

}  // namespace meshwright
