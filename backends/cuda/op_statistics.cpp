// Variances, norms, logarithms of sums of exponentials, and products of lines of numbers.
#include <algorithm>
#include <string>
#include <utility>

#include "dimensions.h"
#include "kernels/pointwise.h"
#include "kernels/statistics.h"
#include "op_writer.h"

namespace meshwright::cuda {

namespace {

constexpr std::string_view kProductGradient = "meshwright.prod_backward";

Statistic statistic_of(const std::string& op) {
  if (op.starts_with("aten.var")) return Statistic::variance;
  if (op.starts_with("aten.std")) return Statistic::deviation;
  if (op == "aten.logsumexp") return Statistic::log_sum_exp;
  return op.starts_with("aten.prod") || op == kProductGradient ? Statistic::product : Statistic::norm;
}

// As the family reads it (plugins/ops/statistics).
double correction_of_variance(const Node& node) {
  if (node.attributes.contains("unbiased")) return node.boolean("unbiased", true) ? 1 : 0;
  return node.number("correction", 1);
}

struct Lines {
  StatisticArguments arguments;
  std::vector<bool> reduced;
};

// Over the dimensions that the node names, or these.
Result<Lines> lines_of(const OpWriter& writer, const Seen& from, std::vector<bool> reduced_dimensions = {}) {
  const Node& node = writer.call.node;
  Lines lines;
  StatisticArguments& a = lines.arguments;
  lines.reduced = std::move(reduced_dimensions);
  if (lines.reduced.empty()) lines.reduced = named_or_all_dimensions(list_of(node, "dim"), from.type.rank());
  std::vector<std::int64_t> kept, strides, reduced;
  for (std::size_t d = 0; d < lines.reduced.size(); ++d) {
    if (!lines.reduced[d]) {
      kept.push_back(from.type.shape[d]);
      strides.push_back(from.strides[d]);
      continue;
    }
    a.reduced_strides[reduced.size()] = from.strides[d];
    reduced.push_back(from.type.shape[d]);
    a.count *= from.type.shape[d];
  }
  const Result<Sizes> kept_sizes = sizes_for(kept), reduced_sizes = sizes_for(reduced);
  const Result<View> source = view_for(from, strides);
  if (!kept_sizes) return kept_sizes.error();
  if (!reduced_sizes) return reduced_sizes.error();
  if (!source) return source.error();
  a.kind = statistic_of(node.op);
  a.kept = *kept_sizes;
  a.reduced = *reduced_sizes;
  a.from = *source;
  a.order = node.number("ord", 2);
  if (a.kind <= Statistic::deviation) a.correction = correction_of_variance(node);
  return lines;
}

Status write_statistic(OpWriter& writer) {
  const Seen &from = writer.operands[0], &result = writer.results[0];
  Result<Lines> lines = lines_of(writer, from);
  if (!lines) return lines.error();
  StatisticArguments& a = lines->arguments;
  if (a.count == 0) return bad_input("cuda has no kernel for " + writer.call.node.op + " of nothing");
  const Result<View> made = view_for(result, {});
  if (!made) return made.error();
  a.result = *made;
  std::vector<Range> writes{result.range()};
  if (writer.results.size() > 1) {
    const Result<View> mean = view_for(writer.results[1], {});
    if (!mean) return mean.error();
    a.mean = *mean;
    writes.push_back(writer.results[1].range());
  }
  writer.launch(KernelId::statistic, a, result.type.elements(), {from.range()}, std::move(writes));
  return Done{};
}

Status write_product_gradient(OpWriter& writer) {
  const Seen &self = writer.operands[1], &result = writer.results[0];
  const Result<Seen> gradient = writer.in_rows(writer.operands[0]);
  Result<Lines> lines = lines_of(writer, self);
  if (!gradient) return gradient.error();
  if (!lines) return lines.error();
  const Result<View> coming = view_for(*gradient, {}), made = view_for(result, {});
  if (!coming) return coming.error();
  if (!made) return made.error();
  ProductGradientArguments arguments{lines->arguments};
  arguments.of.gradient = *coming;
  arguments.of.result = *made;
  std::int64_t* kept = arguments.kept_strides;
  std::int64_t* reduced = arguments.reduced_strides;
  for (std::size_t d = 0; d < lines->reduced.size(); ++d) *(lines->reduced[d] ? reduced : kept)++ = result.strides[d];
  writer.launch(KernelId::product_gradient, arguments, gradient->type.elements(), {gradient->range(), self.range()},
                {result.range()});
  return Done{};
}

// A length for each position of one dimension, times a direction over its norm.
Status write_weight_norm(OpWriter& writer) {
  const Seen &direction = writer.operands[0], &length = writer.operands[1];
  const std::int64_t rank = direction.type.rank(), dim = writer.call.node.integer("dim", 0);
  if (dim < 0 || dim >= rank) return bad_input("cuda has no kernel for one length of a whole weight");
  std::vector<bool> reduced(direction.strides.size(), true);
  reduced[static_cast<std::size_t>(dim)] = false;
  Result<Lines> lines = lines_of(writer, direction, std::move(reduced));
  if (!lines) return lines.error();
  const TensorType type{DType::float64, length.type.shape};
  const auto in_scratch = [&] { return writer.in_scratch(type); };
  const Seen norms = in_scratch(), factors = in_scratch();
  const Result<View> made = view_for(norms, {});
  if (!made) return made.error();
  lines->arguments.result = *made;
  writer.launch(KernelId::statistic, lines->arguments, type.elements(), {direction.range()}, {norms.range()});
  if (Status status = combine(writer, Function::divide, length, norms, factors); !status) return status;
  return combine(writer, Function::multiply, direction, factors, writer.results[0]);
}

}  // namespace

WriteOp statistic_op(std::string_view op) {
  if (op == "aten._weight_norm") return write_weight_norm;
  if (op == kProductGradient) return write_product_gradient;
  const bool is_one = op.starts_with("aten.var") || op.starts_with("aten.std") || op == "aten.logsumexp" ||
                      op == "aten.linalg_vector_norm" || op == "aten.linalg_norm" || op == "aten.prod" ||
                      op == "aten.prod.dim_int";
  return is_one ? write_statistic : nullptr;
}

}  // namespace meshwright::cuda
