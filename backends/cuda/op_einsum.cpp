// Sums of products of tensors: products of matrices, one after the other.
#include <algorithm>
#include <iterator>
#include <map>
#include <string>

#include "equation.h"
#include "kernels/reductions.h"
#include "op_writer.h"

namespace meshwright::cuda {

namespace {

using Names = std::vector<std::string>;

bool has(const Names& names, const std::string& name) { return std::ranges::find(names, name) != names.end(); }

// Names by where they are: of both and of the result; of one and of the result; of both alone.
struct NameGroups {
  Names batches, rows, columns, summed;
};

// A tensor, and its dimensions' names.
struct NamedTensor {
  Seen seen;
  Names names;
};

// The first two tensors become one, until one is left.
class EinsumWriter {
 public:
  explicit EinsumWriter(OpWriter& writer) : writer_(writer) {}

  Status write() {
    if (Status status = begin(); !status) return status;
    const Seen& result = writer_.results[0];
    while (tensors_.size() > 2) {
      const Names made = needed_behind(2);
      const Seen between = in_scratch(made);
      if (Status status = join(made, between); !status) return status;
      tensors_.erase(tensors_.begin(), tensors_.begin() + 2);
      tensors_.insert(tensors_.begin(), NamedTensor{between, made});
    }
    return tensors_.size() == 2 ? join(result_, result) : sum(tensors_[0], result_, result);
  }

 private:
  // A dimension of size 1 that is larger elsewhere is none.
  Status begin() {
    std::vector<std::int64_t> ranks;
    for (const Seen& operand : writer_.operands) ranks.push_back(operand.type.rank());
    const Result<Equation> equation = equation_of(writer_.call.node, ranks);
    if (!equation) return equation.error();
    result_ = equation->result;
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      for (std::size_t d = 0; d < equation->operands[i].size(); ++d) {
        std::int64_t& size = sizes_.emplace(equation->operands[i][d], 1).first->second;
        if (const std::int64_t own = writer_.operands[i].type.shape[d]; own != 1) size = own;
      }
    }
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      const Seen& operand = writer_.operands[i];
      NamedTensor& tensor = tensors_.emplace_back(NamedTensor{{{operand.type.dtype, {}}, operand.data, {}}, {}});
      for (std::size_t d = 0; d < equation->operands[i].size(); ++d) {
        if (operand.type.shape[d] != sizes_.at(equation->operands[i][d])) continue;
        tensor.seen.type.shape.push_back(operand.type.shape[d]);
        tensor.seen.strides.push_back(operand.strides[d]);
        tensor.names.push_back(equation->operands[i][d]);
      }
    }
    return Done{};
  }

  // Names of the first so many tensors that the result has, or one of the tensors behind them.
  [[nodiscard]] Names needed_behind(std::size_t count) const {
    Names needed;
    const auto is_needed = [&](const std::string& name) {
      return has(result_, name) || std::any_of(tensors_.begin() + static_cast<std::ptrdiff_t>(count), tensors_.end(),
                                               [&](const NamedTensor& tensor) { return has(tensor.names, name); });
    };
    for (std::size_t i = 0; i < count; ++i) {
      for (const std::string& name : tensors_[i].names) {
        if (is_needed(name) && !has(needed, name)) needed.push_back(name);
      }
    }
    return needed;
  }

  // What is rounded again is float32 at least.
  Seen in_scratch(const Names& names) {
    const DType made = writer_.results[0].type.dtype;
    return writer_.in_scratch(is_floating(made) && made != DType::float64 ? DType::float32 : made, shape_of(names));
  }

  // Summed over the names that are not made.
  Status sum(const NamedTensor& tensor, const Names& made, const Seen& result) {
    Names summed;
    std::ranges::copy_if(tensor.names, std::back_inserter(summed),
                         [&](const std::string& name) { return !has(made, name); });
    const Seen kept = in_order(tensor, made), along = in_order(tensor, summed);
    if (summed.empty()) return writer_.copy(kept, result);
    const Walk over_kept = walk_over(kept.type.shape, {kept.strides}),
               over_summed = walk_over(along.type.shape, {along.strides});
    const Result<Sizes> kept_sizes = sizes_for(over_kept.sizes), summed_sizes = sizes_for(over_summed.sizes);
    const Result<View> from = view_for(kept, over_kept.strides[0]), to = view_for(result, {});
    if (!kept_sizes) return kept_sizes.error();
    if (!summed_sizes) return summed_sizes.error();
    if (!from) return from.error();
    if (!to) return to.error();
    ReduceArguments arguments;
    arguments.kept = *kept_sizes;
    arguments.reduced = *summed_sizes;
    arguments.count = extent(summed);
    arguments.truncates = !is_floating(result.type.dtype);
    arguments.from = *from;
    std::ranges::copy(over_summed.strides[0], arguments.reduced_strides);
    arguments.result = *to;
    reduce_rows(writer_, arguments, result.type.elements(), tensor.seen.range(), result.range());
    return Done{};
  }

  // The first two tensors as one product of matrices, whose names are `made` then.
  Status join(const Names& made, const Seen& result) {
    for (std::size_t i = 0; i < 2; ++i) {  // what one of them has alone, and nobody needs, is summed before
      Names kept;
      const auto is_kept = [&](const std::string& name) { return has(made, name) || has(tensors_[1 - i].names, name); };
      std::ranges::copy_if(tensors_[i].names, std::back_inserter(kept), is_kept);
      if (kept == tensors_[i].names) continue;
      const Seen between = in_scratch(kept);
      if (Status status = sum(tensors_[i], kept, between); !status) return status;
      tensors_[i] = {between, kept};
    }
    const NamedTensor &left = tensors_[0], &right = tensors_[1];
    NameGroups groups;
    for (const std::string& name : left.names) {
      const bool is_both = has(right.names, name);
      (is_both ? has(made, name) ? groups.batches : groups.summed : groups.rows).push_back(name);
    }
    std::ranges::copy_if(right.names, std::back_inserter(groups.columns),
                         [&](const std::string& name) { return !has(left.names, name); });
    const Result<Seen> a = matrices(left, groups.batches, groups.rows, groups.summed),
                       b = matrices(right, groups.batches, groups.summed, groups.columns);
    if (!a) return a.error();
    if (!b) return b.error();
    Names order = groups.batches;
    order.insert(order.end(), groups.rows.begin(), groups.rows.end());
    order.insert(order.end(), groups.columns.begin(), groups.columns.end());
    const TensorType type{result.type.dtype, {extent(groups.batches), extent(groups.rows), extent(groups.columns)}};
    if (order == made) return multiply(writer_, *a, *b, seen_at(result.data, type));
    const Seen between = writer_.in_scratch(type);
    if (Status status = multiply(writer_, *a, *b, between); !status) return status;
    return writer_.copy(seen_at(between.data, {type.dtype, shape_of(order)}), in_order({result, made}, order));
  }

  [[nodiscard]] std::vector<std::int64_t> shape_of(const Names& names) const {
    std::vector<std::int64_t> shape;
    for (const std::string& name : names) shape.push_back(sizes_.at(name));
    return shape;
  }
  [[nodiscard]] std::int64_t extent(const Names& names) const {
    std::int64_t extent = 1;
    for (const std::string& name : names) extent *= sizes_.at(name);
    return extent;
  }

  // Those of its dimensions, in this order.
  [[nodiscard]] Seen in_order(const NamedTensor& tensor, const Names& order) const {
    Seen made{{tensor.seen.type.dtype, shape_of(order)}, tensor.seen.data, {}};
    for (const std::string& name : order)
      made.strides.push_back(
          tensor.seen.strides[static_cast<std::size_t>(std::ranges::find(tensor.names, name) - tensor.names.begin())]);
    return made;
  }

  // Batches of matrices: as it lies where strides will do, else copied.
  Result<Seen> matrices(const NamedTensor& tensor, const Names& batches, const Names& rows, const Names& columns) {
    Names order = batches;
    order.insert(order.end(), rows.begin(), rows.end());
    order.insert(order.end(), columns.begin(), columns.end());
    const Seen turned = in_order(tensor, order);
    const TensorType type{turned.type.dtype, {extent(batches), extent(rows), extent(columns)}};
    if (std::optional<Seen> seen = reshaped(turned, type)) return *seen;
    const Result<Seen> copied = writer_.in_rows(turned);
    if (!copied) return copied;
    return seen_at(copied->data, type);
  }

  OpWriter& writer_;
  std::map<std::string, std::int64_t> sizes_;
  std::vector<NamedTensor> tensors_;
  Names result_;
};

Status write_einsum(OpWriter& writer) { return EinsumWriter(writer).write(); }

}  // namespace

WriteOp einsum_op(std::string_view op) { return op == "aten.einsum" ? write_einsum : nullptr; }

}  // namespace meshwright::cuda
