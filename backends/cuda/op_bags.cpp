// Bags of embeddings.
#include <utility>
#include <vector>

#include "kernels/bags.h"
#include "kernels/runs.h"
#include "op_writer.h"

namespace meshwright::cuda {

namespace {

constexpr std::string_view kBagGradient = "meshwright.embedding_bag_backward";

struct Bags {
  BagArguments arguments;
  std::vector<Range> reads;  // indices, offsets, weights, and what is the op's own
};

Result<Bags> begin_bags(OpWriter& writer, const TensorType& table, const char* other, View& other_view) {
  const Node& node = writer.call.node;
  Bags bags;
  BagArguments& a = bags.arguments;
  a.mode = static_cast<BagMode>(node.integer("mode", 0));
  a.indices_count = writer.operand("indices")->type.elements();
  a.bags = writer.operand("offsets")->type.elements() - (node.boolean("include_last_offset", false) ? 1 : 0);
  a.rows = table.shape[0];
  a.columns = table.shape.back();
  a.padding = node.integer("padding_idx", -1);
  const std::pair<const char*, View*> named[] = {{"indices", &a.indices},
                                                 {"offsets", &a.offsets},
                                                 {"per_sample_weights", &a.weights},
                                                 {"max_indices", &a.winners},
                                                 {other, &other_view}};
  if (Status status = writer.view_in_rows(named, bags.reads); !status) return status.error();
  return bags;
}

// Of the indices that count, by bag.
Seen launch_counts(OpWriter& writer, Bags& bags) {
  const Seen counts = writer.in_scratch(DType::int64, {bags.arguments.bags});
  bags.arguments.counts = reinterpret_cast<std::int64_t*>(counts.data);
  std::vector<Range> reads = bags.reads, writes{counts.range()};
  bags.arguments.fault = writer.fault(reads, writes);
  writer.launch(KernelId::bag_counts, bags.arguments, bags.arguments.bags, std::move(reads), std::move(writes));
  bags.reads.push_back(counts.range());
  return counts;
}

// The results behind the first: each index' bag, the bags' sizes, and the same again, of a maximum its rows, of a sum
// zeros.
Status write_bags(OpWriter& writer) {
  const std::vector<Seen>& results = writer.results;
  View table;
  Result<Bags> bags = begin_bags(writer, writer.operands[0].type, "weight", table);
  if (!bags) return bags.error();
  BagArguments& a = bags->arguments;
  const Result<View> made = view_for(results[0], {}), numbers = view_for(results[1], {}),
                     winners = view_for(results[3], {});
  if (!made) return made.error();
  if (!numbers) return numbers.error();
  if (!winners) return winners.error();
  a.table = table;
  a.result = *made;
  a.bag_numbers = *numbers;
  const Seen counts = launch_counts(writer, *bags);
  std::vector<Range> writes{results[0].range()};
  if (a.mode == BagMode::maximum) {
    a.winners = *winners;
    writes.push_back(results[3].range());
  }
  writer.launch(KernelId::bag_reduce, a, results[0].type.elements(), bags->reads, std::move(writes));
  writer.launch(KernelId::bag_number, a, results[1].type.elements(), bags->reads, {results[1].range()});
  for (const std::size_t i : {2U, 3U}) {
    if (i == 3 && a.mode == BagMode::maximum) continue;
    Seen sizes = counts;
    sizes.type.shape = results[i].type.shape;
    const Status status = a.mode == BagMode::sum ? fill_with(writer, 0, results[i]) : writer.copy(sizes, results[i]);
    if (!status) return status;
  }
  return Done{};
}

Status write_bag_gradient(OpWriter& writer) {
  const Seen& table = writer.results[0];
  RunArguments runs;
  Result<Bags> bags = begin_bags(writer, table.type, "grad_output", runs.values);
  if (!bags) return bags.error();
  BagArguments& a = bags->arguments;
  const Result<View> made = view_for(table, {});
  if (!made) return made.error();
  runs.table = *made;
  const Range values = bags->reads.back();
  if (Status status = fill_with(writer, 0, table); !status) return status;
  if (a.mode != BagMode::sum) launch_counts(writer, *bags);
  const bool is_maximum = a.mode == BagMode::maximum;
  const Seen starts = row_starts(writer, is_maximum ? a.bags * a.columns : a.indices_count);
  const std::int64_t positions = starts.type.elements();
  a.starts = reinterpret_cast<std::int64_t*>(starts.data);
  runs.position_sizes.rank = runs.column_sizes.rank = 1;
  runs.position_sizes.of[0] = positions;
  runs.columns = runs.column_sizes.of[0] = is_maximum ? 1 : a.columns;
  runs.values.strides[0] = runs.columns;
  runs.value_strides[0] = runs.table_strides[0] = 1;
  std::vector<Range> reads = bags->reads, writes{starts.range()};
  if (is_maximum) {
    a.fault = writer.fault(reads, writes);
    writer.launch(KernelId::bag_winner, a, positions, std::move(reads), std::move(writes));
    return put_rows(writer, runs, starts, {values}, table.range());
  }
  const Seen of = writer.in_scratch(DType::int64, {positions}), shares = writer.in_scratch(DType::float64, {positions});
  runs.rows = a.of = reinterpret_cast<std::int64_t*>(of.data);
  runs.shares = a.shares = reinterpret_cast<double*>(shares.data);
  writes.push_back(of.range());
  writes.push_back(shares.range());
  writer.launch(KernelId::bag_share, a, positions, std::move(reads), std::move(writes));
  return put_rows(writer, runs, starts, {values, of.range(), shares.range()}, table.range());
}

}  // namespace

WriteOp bag_op(std::string_view op) {
  if (op == "aten._embedding_bag" || op == "aten.embedding_bag.padding_idx") return write_bags;
  return op == kBagGradient ? write_bag_gradient : nullptr;
}

}  // namespace meshwright::cuda
