// Positions are sorted by the row of a table that they name, and each row's are summed.
#include "kernels/runs.h"

#include <utility>

#include "kernels/selections.h"
#include "op_writer.h"

namespace meshwright::cuda {

Seen row_starts(OpWriter& writer, std::int64_t positions) { return writer.in_scratch(DType::int64, {positions}); }

Status put_rows(OpWriter& writer, RunArguments runs, const Seen& starts, std::vector<Range> values,
                const Range& table) {
  runs.positions = starts.type.elements();
  const Seen sorted = row_starts(writer, runs.positions), order = row_starts(writer, runs.positions);
  const Result<View> from = view_for(starts, {}), rows = view_for(sorted, {}), positions = view_for(order, {});
  if (!from) return from.error();
  if (!rows) return rows.error();
  if (!positions) return positions.error();
  SelectArguments select;
  select.along.rank = 1;
  select.along.of[0] = select.count = select.kept = runs.positions;
  select.along_strides[0] = select.value_stride = select.position_stride = 1;
  select.smallest = true;
  select.from = *from;
  select.values = *rows;
  select.positions = *positions;
  if (Status status = write_order(writer, select, 1, starts.range(), {sorted.range(), order.range()}); !status)
    return status;
  const bool is_in_float = is_single(runs.values.element) && is_single(runs.table.element);
  const std::int64_t pieces = pieces_of(runs);
  const Seen parts =
      writer.in_scratch(is_in_float ? DType::float32 : DType::float64, {pieces > 1 ? 2 * pieces * runs.columns : 0});
  const Result<View> part_view = view_for(parts, {});
  if (!part_view) return part_view.error();
  runs.parts = *part_view;
  runs.starts = reinterpret_cast<std::int64_t*>(sorted.data);
  runs.order = reinterpret_cast<std::int64_t*>(order.data);
  values.insert(values.end(), {sorted.range(), order.range(), table});
  writer.launch(KernelId::sum_runs, runs, pieces * runs.columns, std::move(values), {parts.range(), table});
  writer.launch(KernelId::join_runs, runs, (pieces - 1) * runs.columns, {sorted.range(), parts.range(), table},
                {table});
  return Done{};
}

}  // namespace meshwright::cuda
