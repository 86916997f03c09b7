// Reads a Graph from a value upwards, for patterns.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "../graph_edit.h"

namespace meshwright::onnx {

// A product of tensors and numbers, however its multiplications are nested.
struct Product {
  double number = 1;
  std::vector<ValueId> factors;
};

class Reader {
 public:
  explicit Reader(Graph& graph) : graph_(graph), users_(graph) {}

  [[nodiscard]] Graph& graph() const { return graph_; }
  [[nodiscard]] const Users& users() const { return users_; }

  // The node that makes the value, if there is one, and it is this op.
  [[nodiscard]] Node* maker(ValueId value) const;
  [[nodiscard]] Node* maker(ValueId value, std::string_view op) const;

  // The number that a node adds, multiplies by or the like; none where it has a second tensor.
  [[nodiscard]] static std::optional<double> number(const Node& node, std::string_view attribute = "other");

  // What `root` multiplies; goes on through operands that nothing else uses.
  [[nodiscard]] Product product(const Node& root) const;

  // x of x^exponent, written as a power or as x times x.
  [[nodiscard]] std::optional<ValueId> base_of_power(ValueId value, int exponent) const;

  // The trailing dimensions that a mean is over, as a shape; none unless they are the last ones and are kept.
  [[nodiscard]] std::optional<std::vector<std::int64_t>> trailing(const Node& mean) const;

 private:
  void multiply(ValueId value, Product& product) const;

  Graph& graph_;
  Users users_;
};

bool is_near(double a, double b);  // to the precision of float32's decimal form

// Rewrites `node`, which keeps its results.
void become(Node& node, std::string op, std::vector<Operand> operands,
            std::map<std::string, Attribute, std::less<>> attributes);

}  // namespace meshwright::onnx
