// Sums of products of two tensors, as one product of matrices.
#include <algorithm>
#include <map>
#include <string>

#include "equation.h"
#include "op_writer.h"

namespace meshwright::cuda {

namespace {

using Names = std::vector<std::string>;

bool has(const Names& names, const std::string& name) { return std::ranges::find(names, name) != names.end(); }

// Names by where they are: of both and of the result; of one and of the result; of both alone.
struct NameGroups {
  Names batches, rows, columns, summed;
};

class EinsumWriter {
 public:
  explicit EinsumWriter(OpWriter& writer) : writer_(writer) {}

  Status write() {
    const std::string refused = "cuda has no kernel for the equation " + writer_.call.node.text("equation", "");
    std::vector<std::int64_t> ranks;
    for (const Seen& operand : writer_.operands) ranks.push_back(operand.type.rank());
    const Result<Equation> equation = equation_of(writer_.call.node, ranks);
    if (!equation) return equation.error();
    if (ranks.size() != 2) return bad_input(refused + " of " + std::to_string(ranks.size()) + " tensors");
    const Names &left = equation->operands[0], &right = equation->operands[1], &made = equation->result;
    NameGroups groups;
    for (std::size_t i = 0; i < 2; ++i) {
      const Names &own = i == 0 ? left : right, &other = i == 0 ? right : left;
      for (std::size_t d = 0; d < own.size(); ++d) {
        const std::int64_t size = writer_.operands[i].type.shape[d];
        if (const auto [known, is_new] = sizes_.emplace(own[d], size); !is_new && known->second != size)
          return bad_input(refused + ", which broadcasts '" + own[d] + "'");
        const bool is_made = has(made, own[d]), is_both = has(other, own[d]);
        if (!is_made && !is_both) return bad_input(refused + ", which sums '" + own[d] + "' of one tensor alone");
        if (i == 1 && is_both) continue;
        (is_both ? is_made ? groups.batches : groups.summed : i == 0 ? groups.rows : groups.columns).push_back(own[d]);
      }
    }
    const Result<Seen> a = matrices(writer_.operands[0], left, groups.batches, groups.rows, groups.summed),
                       b = matrices(writer_.operands[1], right, groups.batches, groups.summed, groups.columns);
    if (!a) return a.error();
    if (!b) return b.error();
    Names order = groups.batches;
    order.insert(order.end(), groups.rows.begin(), groups.rows.end());
    order.insert(order.end(), groups.columns.begin(), groups.columns.end());
    const Seen& result = writer_.results[0];
    const TensorType type{result.type.dtype, {extent(groups.batches), extent(groups.rows), extent(groups.columns)}};
    if (order == made) return multiply(writer_, *a, *b, seen_at(result.data, type));
    const Seen between = seen_at(writer_.scratch(static_cast<std::size_t>(type.bytes())), type);
    if (Status status = multiply(writer_, *a, *b, between); !status) return status;
    return writer_.copy(seen_at(between.data, {type.dtype, shape_of(order)}), in_order(result, made, order));
  }

 private:
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

  // Its dimensions, in another order.
  [[nodiscard]] Seen in_order(const Seen& tensor, const Names& names, const Names& order) const {
    Seen made{{tensor.type.dtype, shape_of(order)}, tensor.data, {}};
    for (const std::string& name : order)
      made.strides.push_back(tensor.strides[static_cast<std::size_t>(std::ranges::find(names, name) - names.begin())]);
    return made;
  }

  // Batches of matrices: as it lies where strides will do, else copied.
  Result<Seen> matrices(const Seen& tensor, const Names& names, const Names& batches, const Names& rows,
                        const Names& columns) {
    Names order = batches;
    order.insert(order.end(), rows.begin(), rows.end());
    order.insert(order.end(), columns.begin(), columns.end());
    const Seen turned = in_order(tensor, names, order);
    const TensorType type{tensor.type.dtype, {extent(batches), extent(rows), extent(columns)}};
    if (std::optional<Seen> seen = reshaped(turned, type)) return *seen;
    const Result<Seen> copied = writer_.in_rows(turned);
    if (!copied) return copied;
    return seen_at(copied->data, type);
  }

  OpWriter& writer_;
  std::map<std::string, std::int64_t> sizes_;
};

Status write_einsum(OpWriter& writer) { return EinsumWriter(writer).write(); }

}  // namespace

WriteOp einsum_op(std::string_view op) { return op == "aten.einsum" ? write_einsum : nullptr; }

}  // namespace meshwright::cuda
