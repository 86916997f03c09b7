// What a translation of one ONNX node works with: the node's operands and attributes, and a way to write ATen nodes.
// Types of results follow from the operands here and in the translations (shapes.h); the file's own are only asked for
// ops that nobody here knows.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "literal.h"
#include "meshwright/graph_builder.h"
#include "model.h"
#include "shapes.h"

namespace meshwright::onnx {

// Thrown by translations, and caught where the node's name is added. It never leaves the frontend.
struct Refusal {
  std::string sentence;
};

// Settings of the plugin, [frontend.onnx].
struct Options {
  bool batch_statistics = false;  // batch normalization as in training, whatever the file says
  std::string patterns = "auto";  // what is recognised from its pieces: auto, all, none
};

class Translator;

class Scope {
 public:
  Scope(Translator& translator, const ModelNode& node) : node(node), translator_(translator) {}

  const ModelNode& node;
  [[nodiscard]] std::int64_t opset() const;
  [[nodiscard]] const Options& options() const;

  // Operands, by position. All but `has` refuse where the operand is absent.
  [[nodiscard]] bool has(std::size_t i) const { return i < node.inputs.size() && !node.inputs[i].empty(); }
  [[nodiscard]] TensorType type(std::size_t i) const;
  [[nodiscard]] const Shape& shape(std::size_t i) const;
  ValueId value(std::size_t i);                               // as a tensor of the graph
  [[nodiscard]] const Literal* literal(std::size_t i) const;  // its elements, if they are known
  [[nodiscard]] const Literal* setting(std::size_t i) const;  // as `literal`, of a short list of reals too
  [[nodiscard]] std::vector<std::int64_t> known_integers(std::size_t i) const;  // refuses if they are not known
  [[nodiscard]] std::optional<double> scalar(std::size_t i) const;  // the one element of a constant, as a number
  [[nodiscard]] bool is_weight(std::size_t i) const;                // the file holds it as a tensor
  [[nodiscard]] bool is_turned(std::size_t i) const;                // constants.h, Constants::turned

  [[nodiscard]] bool has_attribute(std::string_view name) const { return node.attributes.contains(name); }
  [[nodiscard]] std::int64_t integer(std::string_view name, std::int64_t otherwise) const;
  [[nodiscard]] double number(std::string_view name,
                              double otherwise) const;  // as the file's float32, written shortest
  [[nodiscard]] std::string text(std::string_view name, std::string_view otherwise) const;
  [[nodiscard]] std::vector<std::int64_t> integers(std::string_view name) const;
  // A list that was an attribute once and is the operand `i` now; none if it is absent.
  [[nodiscard]] std::optional<std::vector<std::int64_t>> list(std::string_view name, std::size_t i) const;
  [[nodiscard]] std::size_t axis(std::int64_t axis,
                                 std::int64_t rank) const;  // from the front; refuses what is outside

  // One ATen node. Operands without a value (kNoId) are left out.
  ValueId emit(const std::string& op, const std::vector<Operand>& operands, Attributes attributes,
               const TensorType& result);
  std::vector<ValueId> emit(const std::string& op, const std::vector<Operand>& operands, Attributes attributes,
                            const std::vector<TensorType>& results);
  [[nodiscard]] TensorType type_of(ValueId id) const;

  ValueId view(
      ValueId id,
      const Shape& shape);  // with a copy before it where PyTorch needs one; the value itself if it has the shape
  ValueId permute(ValueId id, const std::vector<std::int64_t>& order);
  ValueId cast(ValueId id, DType dtype);

  [[nodiscard]] bool wants(std::size_t output) const {
    return output < node.outputs.size() && !node.outputs[output].empty();
  }
  void bind(std::size_t output, ValueId id);
  void bind_sequence(std::vector<ValueId> tensors);                  // the one result is a sequence
  [[nodiscard]] std::vector<ValueId> sequence(std::size_t i) const;  // refuses where the operand is none
  void mutate(const std::string& buffer, ValueId id);                // `id` is the new content of the source `buffer`

  [[noreturn]] void refuse(const std::string& sentence) const { throw Refusal{sentence}; }
  // Refuses unless the two can be broadcast.
  [[nodiscard]] Shape broadcast(const Shape& a, const Shape& b) const;

 private:
  Translator& translator_;
};

using Translation = void (*)(Scope&);

// All translations, by ONNX op. Each file of ops/ adds its own.
const std::map<std::string, Translation, std::less<>>& translations();

using Translations = std::map<std::string, Translation, std::less<>>;
void add_attention(Translations& all);
void add_convolutions(Translations& all);
void add_generators(Translations& all);
void add_indexing(Translations& all);
void add_joins(Translations& all);
void add_losses(Translations& all);
void add_norms(Translations& all);
void add_pointwise(Translations& all);
void add_pooling(Translations& all);
void add_products(Translations& all);
void add_reductions(Translations& all);
void add_sequences(Translations& all);
void add_views(Translations& all);

}  // namespace meshwright::onnx
