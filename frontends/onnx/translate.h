// Makes a Graph of a Model: functional ATen, every shape known.
#pragma once

#include <set>
#include <string>
#include <unordered_map>

#include "constants.h"
#include "meshwright/frontend.h"
#include "scope.h"

namespace meshwright::onnx {

class Translator {
 public:
  // All three outlive the translator.
  Translator(const Model& model, const Constants& constants, const Options& options);

  // Errors: bad_input, one sentence that names the node or the input, without the file.
  Result<Graph> run(const OpenDimensions& open, const std::string& graph_name);

  // Constants of the graph that no file holds: they follow from the shapes, which the file fixes. By the value's name.
  [[nodiscard]] const std::map<std::string, Literal>& computed() const { return computed_; }

 private:
  friend class Scope;

  // A value of the model.
  struct Slot {
    TensorType type;
    ValueId id = kNoId;                // in the graph, once something needs it there
    std::optional<Literal> literal;    // computed here from shapes; that of constants stands in `constants`
    const ModelNode* maker = nullptr;  // of a literal: who computes it if the graph needs it as a tensor
  };

  Status add_inputs(const OpenDimensions& open);
  Result<TensorType> bound_type(const ModelValue& input, const OpenDimensions& open, std::set<std::string>& used) const;
  bool is_batch(const std::string& symbol) const;
  void translate(const ModelNode& node);
  void pass_through(const ModelNode& node);
  bool fold_node(const ModelNode& node);
  void add_outputs();

  Slot& slot(const std::string& name);
  const Literal* literal(const std::string& name) const;
  const TensorType& type(const std::string& name);
  ValueId value(const std::string& name);
  ValueId source(const std::string& name, const TensorType& type);
  ValueId generated(const std::string& name, const Literal& literal);
  std::string unique(std::string name);
  std::vector<ValueId> emit(const std::string& op, const std::vector<Operand>& operands, Attributes attributes,
                            const std::vector<TensorType>& results);

  const Model& model_;
  const Constants& constants_;
  const Options& options_;
  Graph graph_;
  std::map<std::string, Slot> slots_;
  bool is_closed_ = true;  // the file leaves no dimension open
  std::map<std::string, Literal> computed_;
  std::map<std::string, std::vector<ValueId>> sequences_;
  std::map<ValueId, Shape> strides_;   // of values that do not lie row-major, as PyTorch would have them
  std::set<std::string> names_;        // of nodes
  std::set<std::string> value_names_;  // the file's, and those made up for what stands between
  const ModelNode* current_ = nullptr;
  NodeId first_of_current_ = 0;
};

}  // namespace meshwright::onnx
