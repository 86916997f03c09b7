#include <algorithm>
#include <cmath>
#include <numeric>

#include "broadcast.h"
#include "dimensions.h"
#include "numbers.h"
#include "selection.h"

namespace meshwright {

std::vector<bool> compared_dimensions(const Node& node, std::int64_t rank) {
  std::vector<std::int64_t> dims = list_of(node, "dim");
  if (dims.empty() && sorts(node)) dims = {-1};
  // any and all, alone among the ops that reduce, take an empty list for no dimension.
  if (node.op.ends_with(".dims") && node.attributes.contains("dim")) return named_dimensions(dims, rank);
  return named_or_all_dimensions(dims, rank);
}

namespace {

// The operand's shape with 1 where it is compared along.
std::vector<std::int64_t> kept_shape(const Node& node, const TensorType& operand) {
  return shape_with_ones(operand.shape, compared_dimensions(node, operand.rank()));
}

// NaN is larger than any number, as in PyTorch.
bool is_larger(double a, double b) { return a > b || (std::isnan(a) && !std::isnan(b)); }

// One line of numbers that are compared with each other, and its results: values and positions.
class Line {
 public:
  Line(const Node& node, std::vector<double> numbers) : node_(node), numbers_(std::move(numbers)) {}

  // Positions of the elements that the results hold; equal ones in their order.
  [[nodiscard]] std::vector<std::size_t> order() const {
    std::vector<std::size_t> order(numbers_.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    const bool down = node_.op == "aten.topk" ? node_.boolean("largest", true) : node_.boolean("descending", false);
    std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) {
      return down ? is_larger(numbers_[a], numbers_[b]) : is_larger(numbers_[b], numbers_[a]);
    });
    return order;
  }

  [[nodiscard]] std::size_t extreme() const {
    const bool smallest = node_.op.find("min") != std::string::npos || node_.op.starts_with("aten.all");
    std::size_t found = 0;
    for (std::size_t i = 1; i < numbers_.size(); ++i) {
      const bool wins = smallest ? !std::isnan(numbers_[found]) && (numbers_[i] < numbers_[found] || std::isnan(numbers_[i]))
                                 : is_larger(numbers_[i], numbers_[found]);
      if (wins) found = i;
    }
    return found;
  }

  [[nodiscard]] double operator[](std::size_t i) const { return numbers_[i]; }

 private:
  const Node& node_;
  std::vector<double> numbers_;
};

}  // namespace

Result<std::vector<Tensor>> selection_evaluate(const OpCall& call, std::span<const Tensor* const> operands) {
  const Node& node = call.node;
  const Tensor& self = *operands[0];
  const std::vector<std::int64_t> kept = kept_shape(node, self.type());
  const BroadcastIndex index(kept, self.shape());
  std::vector<std::vector<double>> lines(to_size(TensorType{DType::float64, kept}.elements()));
  const bool logical = node.op.starts_with("aten.any") || node.op.starts_with("aten.all");
  for (std::int64_t i = 0; i < self.elements(); ++i) {
    lines[to_size(index(i))].push_back(logical ? static_cast<double>(self.get(i) != 0) : self.get(i));
  }
  std::vector<Tensor> results;
  for (const TensorType& type : call.results) results.emplace_back(type);
  if (!sorts(node)) {
    const bool position = node.op.starts_with("aten.arg");
    for (std::size_t l = 0; l < lines.size(); ++l) {
      const Line line(node, std::move(lines[l]));
      const std::size_t found = line.extreme();
      results[0].set(static_cast<std::int64_t>(l), position ? static_cast<double>(found) : line[found]);
      if (results.size() == 2) results[1].set(static_cast<std::int64_t>(l), static_cast<double>(found));
    }
    return results;
  }
  std::vector<std::vector<std::size_t>> orders;
  std::vector<Line> sorted;
  for (std::vector<double>& numbers : lines) {
    sorted.emplace_back(node, std::move(numbers));
    orders.push_back(sorted.back().order());
  }
  std::vector<std::size_t> next(orders.size(), 0);
  const BroadcastIndex line_of(kept, call.results[0].shape);
  for (std::int64_t i = 0; i < results[0].elements(); ++i) {
    const std::size_t l = to_size(line_of(i));
    if (next[l] >= orders[l].size()) return bad_input("more elements are picked than there are");
    const std::size_t found = orders[l][next[l]++];
    const bool position = results.size() == 1;
    results[0].set(i, position ? static_cast<double>(found) : sorted[l][found]);
    if (!position) results[1].set(i, static_cast<double>(found));
  }
  return results;
}

// Elements that were picked get the gradient back at their positions; those that were equal share it.
Result<std::vector<ValueId>> selection_gradient(const GradientCall& call) {
  const Node& node = call.node;
  if (!call.wanted[0] || call.result_gradients[0] == kNoId) return std::vector<ValueId>{kNoId};
  const TensorType type = call.type(node.operands[0].value);
  const TensorType kept{type.dtype, kept_shape(node, type)};
  const auto view = [&](ValueId id) {
    const TensorType wide{call.type(id).dtype, sorts(node) ? call.type(id).shape : kept.shape};
    return call.type(id) == wide ? id : call.build.emit("aten.view", {{"self", id}}, {{"size", wide.shape}}, wide);
  };
  const ValueId gradient = view(call.result_gradients[0]);
  if (type.rank() == 0) return std::vector<ValueId>{gradient};
  if (node.results.size() == 2) {
    const std::vector<bool> compared = compared_dimensions(node, type.rank());
    const std::int64_t dim = std::ranges::find(compared, true) - compared.begin();
    const ValueId zeros = call.build.emit("aten.zeros", {}, {{"size", type.shape}}, type);
    return std::vector<ValueId>{call.build.emit(
        "aten.scatter_add", {{"self", zeros}, {"index", view(node.results[1])}, {"src", gradient}}, {{"dim", dim}}, type)};
  }
  const ValueId extreme = view(node.results[0]);
  const ValueId mask = call.build.emit("aten.eq.Tensor", {{"self", node.operands[0].value}, {"other", extreme}}, {},
                                       TensorType{DType::boolean, type.shape});
  const ValueId ones = call.build.emit("aten._to_copy", {{"self", mask}}, {{"dtype", std::string(name(type.dtype))}}, type);
  std::vector<std::int64_t> dims;
  for (std::size_t i = 0; i < kept.shape.size(); ++i) {
    if (kept.shape[i] != type.shape[i]) dims.push_back(static_cast<std::int64_t>(i));
  }
  if (dims.empty()) return std::vector<ValueId>{gradient};
  const ValueId count = call.build.emit("aten.sum.dim_IntList", {{"self", ones}}, {{"dim", dims}, {"keepdim", true}}, kept);
  const ValueId share = call.build.emit("aten.div.Tensor", {{"self", gradient}, {"other", count}}, {}, kept);
  return std::vector<ValueId>{call.build.emit("aten.mul.Tensor", {{"self", ones}, {"other", share}}, {}, type)};
}

}  // namespace meshwright
