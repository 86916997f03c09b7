#include "view_finder.h"

#include <array>
#include <utility>

#include "meshwright/tensor.h"

namespace meshwright::cuda {

namespace {

// Calls visit(where it stands) for each element of a shape, row by row.
template <class Visit>
void for_each_place(const std::vector<std::int64_t>& shape, const std::vector<std::int64_t>& strides, Visit visit) {
  std::vector<std::int64_t> index(shape.size(), 0);
  std::int64_t at = 0;
  for (;;) {
    visit(at);
    std::size_t d = shape.size();
    while (d > 0) {
      --d;
      at += strides[d];
      if (++index[d] < shape[d]) break;
      at -= strides[d] * shape[d];
      index[d] = 0;
      if (d == 0) return;
    }
    if (shape.empty()) return;
  }
}

// From how far apart the first elements along each dimension are. Nothing, unless all elements agree.
std::optional<std::vector<std::int64_t>> strides_through(std::span<const std::int64_t> places,
                                                         const std::vector<std::int64_t>& shape) {
  const std::vector<std::int64_t> own = strides_of(shape);
  std::vector<std::int64_t> strides(shape.size(), 0);
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] > 1) strides[d] = places[static_cast<std::size_t>(own[d])] - places[0];
    if (strides[d] < 0) return std::nullopt;
  }
  bool agree = true;
  std::size_t next = 0;
  for_each_place(shape, strides, [&](std::int64_t at) { agree = agree && places[next++] == places[0] + at; });
  return agree ? std::optional(std::move(strides)) : std::nullopt;
}

}  // namespace

Result<std::optional<ViewFinder::Answer>> ViewFinder::ask(const Seen& operand, const OpCall& call,
                                                          std::size_t result) const {
  const OpFamily* family = ops_.find(call.node.op);
  if (family == nullptr) return bad_input("no op family serves " + call.node.op);
  Tensor places(TensorType{DType::int64, operand.type.shape});
  std::size_t next = 0;
  const std::span<std::int64_t> numbers = places.as<std::int64_t>();
  if (!numbers.empty())
    for_each_place(operand.type.shape, operand.strides, [&](std::int64_t at) { numbers[next++] = at; });
  OpCall on_places{call.node, call.operands, call.results};
  for (TensorType& type : on_places.operands) type.dtype = DType::int64;
  for (TensorType& type : on_places.results) type.dtype = DType::int64;
  const Result<std::vector<Tensor>> seen = family->evaluate(on_places, std::array<const Tensor*, 1>{&places});
  if (!seen) return seen.error();
  const std::span<const std::int64_t> found = (*seen)[result].as<std::int64_t>();
  const std::vector<std::int64_t>& shape = call.results[result].shape;
  if (found.empty()) return std::optional(Answer{0, strides_of(shape)});
  std::optional<std::vector<std::int64_t>> strides = strides_through(found, shape);
  if (!strides) return std::optional<Answer>();
  return std::optional(Answer{found[0], std::move(*strides)});
}

Result<std::optional<Seen>> ViewFinder::find(const Seen& operand, const OpCall& call, std::size_t result) {
  Question question(call.node.op, call.node.attributes, operand.type.shape, operand.strides, call.results[result].shape,
                    result);
  auto known = answers_.find(question);
  if (known == answers_.end()) {
    Result<std::optional<Answer>> answer = ask(operand, call, result);
    if (!answer) return answer.error();
    known = answers_.emplace(std::move(question), std::move(*answer)).first;
  }
  if (!known->second) return std::optional<Seen>();
  const auto first = static_cast<std::size_t>(known->second->first) * operand.element_bytes();
  return std::optional(
      Seen{{operand.type.dtype, call.results[result].shape}, operand.data + first, known->second->strides});
}

}  // namespace meshwright::cuda
