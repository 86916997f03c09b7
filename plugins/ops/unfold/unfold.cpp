// Windows of an image as columns, and the sum of columns back to an image: n c !h !w <-> n (c !k) !l. Each is the other's
// gradient.
#include <array>

#include "meshwright/op.h"
#include "meshwright/plugin.h"

namespace meshwright {
namespace {

constexpr const char* kOps[] = {"aten.im2col", "aten.col2im", nullptr};

bool folds(const Node& node) { return node.op == "aten.col2im"; }

using Pair = std::array<std::int64_t, 2>;

// A list of one stands for both.
Pair pair_of(const Node& node, const char* name, std::int64_t otherwise) {
  const std::vector<std::int64_t> list = node.integers(name);
  if (list.empty()) return {otherwise, otherwise};
  return {list[0], list.size() > 1 ? list[1] : list[0]};
}

struct Windows {
  Pair kernel, dilation, padding, stride;

  explicit Windows(const Node& node)
      : kernel(pair_of(node, "kernel_size", 1)), dilation(pair_of(node, "dilation", 1)), padding(pair_of(node, "padding", 0)),
        stride(pair_of(node, "stride", 1)) {}
  [[nodiscard]] std::int64_t elements() const { return kernel[0] * kernel[1]; }
  [[nodiscard]] std::int64_t count(std::size_t d, std::int64_t size) const {
    return (size + 2 * padding[d] - dilation[d] * (kernel[d] - 1) - 1) / stride[d] + 1;
  }
};

class Unfold final : public OpFamily {
 private:
  Result<Rule> do_rule(const OpCall& call) const override {
    const TensorType &image = folds(call.node) ? call.results[0] : call.operands[0],
                     &columns = folds(call.node) ? call.operands[0] : call.results[0];
    const std::int64_t window = Windows(call.node).elements();
    if (image.rank() < 3 || image.rank() > 4 || columns.rank() + 1 != image.rank()) return bad_input("its operand is no image with channels");
    const auto whole = [](const char* name, std::int64_t size) { return size == 1 ? std::string(" 1") : std::string(" !") + name; };
    const std::size_t space = image.shape.size() - 2;
    const std::string batch = image.rank() == 4 ? "n " : "";
    const std::string wide = batch + "c" + whole("h", image.shape[space]) + whole("w", image.shape[space + 1]);
    const std::string narrow = batch + (window == 1 ? "c" : "(c !" + std::to_string(window) + ")") + whole("l", columns.shape.back());
    Result<Rule> rule = parse_rule(folds(call.node) ? narrow + " -> " + wide : wide + " -> " + narrow, call.operands, call.results);
    if (rule) rule->linear = {{0}};
    return rule;
  }

  Result<OpCost> do_cost(const OpCall& call, const Rule& rule) const override {
    OpCost cost;
    WorkTerm& term = cost.forward.emplace_back();
    term.flops = 1;
    for (const auto& dimension : (folds(call.node) ? rule.operands[0] : rule.results[0]).dimensions) {
      term.factors.insert(term.factors.end(), dimension.begin(), dimension.end());
    }
    return cost;
  }

  Result<std::vector<ValueId>> do_gradient(const GradientCall& call) const override {
    if (!call.wanted[0]) return std::vector<ValueId>{kNoId};
    const TensorType type = call.type(call.node.operands[0].value);
    Attributes attributes = call.node.attributes;
    attributes.erase("output_size");
    if (!folds(call.node)) attributes["output_size"] = std::vector<std::int64_t>(type.shape.end() - 2, type.shape.end());
    return std::vector<ValueId>{
        call.build.emit(folds(call.node) ? "aten.im2col" : "aten.col2im", {{"self", call.result_gradients[0]}}, attributes, type)};
  }

  Result<std::vector<Tensor>> do_evaluate(const OpCall& call, std::span<const Tensor* const> operands) const override {
    const bool back = folds(call.node);
    const TensorType &image = back ? call.results[0] : call.operands[0], &columns = back ? call.operands[0] : call.results[0];
    const Windows windows(call.node);
    const std::int64_t height = image.shape[image.shape.size() - 2], width = image.shape.back();
    const std::int64_t across = windows.count(1, width), places = windows.count(0, height) * across;
    if (columns.shape.back() != places || columns.elements() != image.elements() / (height * width) * windows.elements() * places) {
      return bad_input("the shapes of image and columns do not go together");
    }
    std::vector<Tensor> results;
    Tensor& result = results.emplace_back(call.zeros(0));
    for (std::int64_t i = 0; i < columns.elements(); ++i) {
      const std::int64_t place = i % places, tap = i / places % windows.elements(), plane = i / places / windows.elements();
      const std::int64_t y = place / across * windows.stride[0] - windows.padding[0] + tap / windows.kernel[1] * windows.dilation[0];
      const std::int64_t x = place % across * windows.stride[1] - windows.padding[1] + tap % windows.kernel[1] * windows.dilation[1];
      if (y < 0 || y >= height || x < 0 || x >= width) continue;
      const std::int64_t at = (plane * height + y) * width + x;
      if (back) result.set(at, result.get(at) + operands[0]->get(i));
      else result.set(i, operands[0]->get(at));
    }
    return results;
  }
};

}  // namespace

MESHWRIGHT_PLUGIN("ops", "unfold", "0.1.0", "Apache-2.0", "Windows of an image as columns", kOps, nullptr, 0,
                  (create_plugin<OpFamily, Unfold>), destroy_plugin<OpFamily>)

}  // namespace meshwright
