// Distances of pairs of rows, and cosines between vectors.
#include <algorithm>
#include <utility>
#include <vector>

#include "kernels/distances.h"
#include "op_writer.h"

namespace meshwright::cuda {

namespace {

constexpr std::string_view kDistanceGradient = "aten._cdist_backward", kPairGradient = "aten._pdist_backward";
constexpr std::int64_t kShortRow = 32;  // coordinates that one thread sums

// Of two tensors of rows, or of all pairs of one's.
Status write_distances(OpWriter& writer) {
  const Node& node = writer.call.node;
  const Seen& result = writer.results[0];
  const bool backward = node.op == kDistanceGradient || node.op == kPairGradient;
  DistanceArguments a;
  a.pairs = node.op.starts_with("aten._pdist");
  a.p = node.number("p", 2);
  const Seen *first = writer.operand(a.pairs ? "self" : "x1"), *second = a.pairs ? first : writer.operand("x2");
  const std::size_t rank = first->type.shape.size();
  if (rank < 2 || second->type.shape.size() != rank ||
      !std::equal(first->type.shape.begin(), first->type.shape.end() - 2, second->type.shape.begin()))
    return bad_input("cuda has no kernel for " + node.op + " of batches that are broadcast");
  a.m = first->type.shape[rank - 2];
  a.n = second->type.shape[rank - 2];
  a.extent = first->type.shape[rank - 1];
  std::vector<Range> reads;
  const std::pair<const char*, View*> named[] = {{a.pairs ? "self" : "x1", &a.first},
                                                 {"x2", &a.second},
                                                 {"grad_output", &a.gradient},
                                                 {a.pairs ? "pdist" : "cdist", &a.distances}};
  if (Status status = writer.view_in_rows(named, reads); !status) return status;
  if (a.pairs) a.second = a.first;
  const Result<View> made = view_for(result, {});
  if (!made) return made.error();
  a.result = *made;
  const KernelId kernel = backward                ? KernelId::distance_gradient
                          : a.extent <= kShortRow ? KernelId::distance
                                                  : KernelId::distance_of_long;
  writer.launch(kernel, a, result.type.elements(), std::move(reads), {result.range()});
  return Done{};
}

Status write_cosines(OpWriter& writer) {
  const Node& node = writer.call.node;
  const Seen &first = writer.operands[0], &second = writer.operands[1], &result = writer.results[0];
  std::vector<std::int64_t> joint = joint_shape(writer.operands);
  const std::size_t dim = dimension_of(node, static_cast<std::int64_t>(joint.size()), 1);
  std::vector<std::int64_t> first_strides = broadcast_strides(first, joint),
                            second_strides = broadcast_strides(second, joint);
  CosineArguments a;
  a.extent = joint[dim];
  a.first_stride = first_strides[dim];
  a.second_stride = second_strides[dim];
  a.least = node.number("eps", 1e-8);
  for (std::vector<std::int64_t>* each : {&joint, &first_strides, &second_strides})
    each->erase(each->begin() + static_cast<std::ptrdiff_t>(dim));
  const Result<Sizes> kept = sizes_for(joint);
  const Result<View> x = view_for(first, first_strides), y = view_for(second, second_strides),
                     made = view_for(result, {});
  if (!kept) return kept.error();
  if (!x) return x.error();
  if (!y) return y.error();
  if (!made) return made.error();
  a.kept = *kept;
  a.first = *x;
  a.second = *y;
  a.result = *made;
  writer.launch(KernelId::cosine, a, result.type.elements(), {first.range(), second.range()}, {result.range()});
  return Done{};
}

}  // namespace

WriteOp distance_op(std::string_view op) {
  if (op == "aten.cosine_similarity") return write_cosines;
  const bool is_one = op == "aten.cdist" || op == "aten._cdist_forward" || op == "aten._pdist_forward" ||
                      op == kDistanceGradient || op == kPairGradient;
  return is_one ? write_distances : nullptr;
}

}  // namespace meshwright::cuda
