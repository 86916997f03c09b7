// What pointwise ops compute, and their gradients. Private to the family.
#pragma once

#include <algorithm>
#include <array>
#include <concepts>
#include <functional>
#include <initializer_list>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "meshwright/op.h"
#include "term.h"

namespace meshwright {

inline bool is_one_of(std::string_view op, std::initializer_list<std::string_view> names) {
  return std::find(names.begin(), names.end(), op) != names.end();
}

// Some elements of all operands, by operand. A number in place of the second tensor stands behind them.
struct Block {
  static constexpr std::size_t kElements = 256, kOperands = 4;
  std::array<std::array<double, kElements>, kOperands> x{};
};

// A function of one element of each operand, computed block by block.
class Function {
 public:
  Function(std::nullptr_t) {}
  // `of_one`: x[0], x[1], ... as in a block.
  template <std::invocable<const double*> OfOne>
  Function(OfOne of_one)
      : of_block_([of_one](const Block& block, std::size_t count, double* results) {
          for (std::size_t i = 0; i < count; ++i) {
            const double x[Block::kOperands] = {block.x[0][i], block.x[1][i], block.x[2][i], block.x[3][i]};
            results[i] = of_one(x);
          }
        }) {}
  explicit operator bool() const { return static_cast<bool>(of_block_); }
  // The first `count` elements of the block.
  void operator()(const Block& block, std::size_t count, double* results) const { of_block_(block, count, results); }

 private:
  std::function<void(const Block&, std::size_t, double*)> of_block_;
};

// By the op's name without the overloads Tensor and Scalar; null where they do not serve it.
Function plain_function(std::string_view op);
Function function_with_attributes(const OpCall& call, std::string_view op);
Function activation(const OpCall& call, std::string_view op);

Result<std::vector<Tensor>> pointwise_evaluate(const OpCall& call, std::span<const Tensor* const> operands);
Result<std::vector<ValueId>> pointwise_gradient(const GradientCall& call);

// What the formulas of gradients are written in: the gradient that comes in, the operands and the result.
class Formula {
 public:
  explicit Formula(const GradientCall& call) : call_(call) {}
  [[nodiscard]] Term gradient() const { return {call_.build, call_.result_gradients[0]}; }
  [[nodiscard]] Term operand(std::size_t i) const { return {call_.build, call_.node.operands[i].value}; }
  [[nodiscard]] Term operand(std::string_view name) const { return {call_.build, call_.operand(name)}; }
  [[nodiscard]] bool has(std::string_view name) const { return call_.operand(name) != kNoId; }
  [[nodiscard]] Term result() const { return {call_.build, call_.node.results[0]}; }
  [[nodiscard]] const Node& node() const { return call_.node; }
  // A backward op, which takes the gradient and one value of the forward.
  [[nodiscard]] Term backward(const char* op, const char* name, Term saved, Attributes attributes = {}) const {
    return {call_.build, call_.build.emit(op, {{"grad_output", gradient().id()}, {name, saved.id()}}, std::move(attributes), gradient().type())};
  }

 private:
  const GradientCall& call_;
};

// The gradient of operand i, before it is summed to the operand's shape; nothing where they do not serve the op.
std::optional<Term> elementary_gradient(const Formula& f, std::size_t i);  // of functions of one number
std::optional<Term> joint_gradient(const Formula& f, std::size_t i);       // of functions of several
std::optional<Term> activation_gradient(const Formula& f);

}  // namespace meshwright
