#include "attention_products.h"

#include <algorithm>
#include <utility>

#include "kernels/movement.h"
#include "product_writer.h"

namespace meshwright::cuda {

void AttentionProducts::cut(std::int64_t floats) {
  arguments_.weighs = arguments_.query.element;
  const std::int64_t queries = arguments_.repeats * arguments_.l, all = arguments_.rows / queries,
                     bytes = queries * arguments_.s * floats * static_cast<std::int64_t>(sizeof(float)),
                     most = std::clamp<std::int64_t>(writer_.scores_bytes / bytes, 1, all);
  for (std::int64_t first = 0; first < all; first += most) chunks_.push_back({first, std::min(most, all - first), {}});
}

AttentionProducts::Matrices AttentionProducts::in_rows(const View& view, std::int64_t rows, std::int64_t columns) {
  Matrices made{view, rows, columns};
  made.view.strides[0] = rows * columns;
  made.view.strides[ProductArguments::kRow] = columns;
  made.view.strides[ProductArguments::kColumn] = 1;
  return made;
}

AttentionProducts::Matrices AttentionProducts::turned(const Matrices& matrices) {
  Matrices made{matrices.view, matrices.columns, matrices.rows};
  std::swap(made.view.strides[ProductArguments::kRow], made.view.strides[ProductArguments::kColumn]);
  return made;
}

AttentionProducts::Matrices AttentionProducts::part_of(const View& view, std::int64_t rows,
                                                       std::int64_t columns) const {
  Matrices made = in_rows(view, rows, columns);
  made.view.data = static_cast<std::byte*>(view.data) + planned_->first * rows * columns * bytes_of(made.view.element);
  return made;
}

AttentionProducts::Matrices AttentionProducts::between(float* made) const {
  View view;
  view.data = made;
  return in_rows(view, arguments_.repeats * arguments_.l, arguments_.s);
}

AttentionProducts::Matrices AttentionProducts::weighing(const Matrices& scores) const {
  Matrices made = scores;
  made.view.element = arguments_.weighs;
  const auto in_a_float = static_cast<std::int64_t>(sizeof(float)) / bytes_of(arguments_.weighs);
  made.view.strides[0] *= in_a_float;
  made.view.strides[ProductArguments::kRow] *= in_a_float;
  return made;
}

// The first chunk is the largest.
float* AttentionProducts::take_scores() {
  const std::int64_t queries = chunks_.front().batches * arguments_.repeats * arguments_.l;
  return reinterpret_cast<float*>(writer_.scratch(static_cast<std::size_t>(queries * arguments_.s) * sizeof(float)));
}

Result<bool> AttentionProducts::plan(double alpha, const Matrices& a, const Matrices& b, const Matrices& result) {
  ProductArguments arguments;
  arguments.batch.rank = 1;
  arguments.batch.of[0] = planned_->batches;
  arguments.m = a.rows;
  arguments.n = b.columns;
  arguments.k = a.columns;
  arguments.a = a.view;
  arguments.b = b.view;
  arguments.result = result.view;
  arguments.alpha = alpha;
  const Result<std::optional<LibraryProduct>> made = plan_product(writer_, arguments);
  if (!made) return made.error();
  if (*made) planned_->products.push_back((*made)->product);
  return made->has_value();
}

void AttentionProducts::take_workspace() {
  std::size_t most = 0;
  for (const Chunk& chunk : chunks_) {
    for (const Product& product : chunk.products) most = std::max(most, product.workspace_bytes);
  }
  workspace_ = writer_.workspace(most);
}

void AttentionProducts::multiply(const Chunk& chunk) {
  Product product = chunk.products[next_++];
  product.workspace = workspace_;
  writer_.multiply(product);
}

void AttentionProducts::launch(const Chunk& chunk, KernelId kernel, const float* changed) {
  const std::int64_t queries = arguments_.repeats * arguments_.l;
  arguments_.first = chunk.first * queries;
  const auto range = [&](const float* scores) {
    return Range{reinterpret_cast<const std::byte*>(scores),
                 static_cast<std::size_t>(chunk.batches * queries * arguments_.s) * sizeof(float)};
  };
  std::vector<Range> reads = reads_, writes{range(changed)};
  if (kernel == KernelId::attention_softmax_gradient && arguments_.dropout != 0)
    writes.push_back(range(arguments_.weights));
  for (const float* scores : {arguments_.weights, arguments_.weight_slopes}) {
    if (scores != nullptr && (scores == changed || kernel == KernelId::attention_softmax_gradient))
      reads.push_back(range(scores));
  }
  writer_.launch(kernel, arguments_, chunk.batches * queries, std::move(reads), std::move(writes));
}

Result<bool> AttentionProducts::write(const Seen& result) {
  if (!writer_.plan_product || !is_single(arguments_.query.element)) return false;
  const Result<View> made = view_for(result, {});
  if (!made) return made.error();
  cut(1);
  arguments_.drops = arguments_.dropout != 0;
  arguments_.weights = take_scores();
  for (Chunk& chunk : chunks_) {
    planned_ = &chunk;
    const Matrices weights = between(arguments_.weights);
    Result<bool> planned = plan(arguments_.scale, of_queries(arguments_.query, arguments_.d),
                                turned(of_keys(arguments_.key, arguments_.d)), weights);
    if (planned && *planned)
      planned = plan(1, weighing(weights), of_keys(arguments_.value, arguments_.e), of_queries(*made, arguments_.e));
    if (!planned || !*planned) return planned;
  }
  take_workspace();
  for (const Chunk& chunk : chunks_) {
    next_ = 0;
    multiply(chunk);
    launch(chunk, KernelId::attention_softmax, arguments_.weights);
    multiply(chunk);
  }
  return true;
}

// As the kernels in kernels/attention.h.
Result<bool> AttentionProducts::write_gradients(const Seen* const (&gradients)[3]) {
  if (!writer_.plan_product || !is_single(arguments_.query.element)) return false;
  View made[3];
  for (std::size_t i = 0; i < 3; ++i) {
    if (gradients[i] == nullptr) continue;
    const Result<View> view = view_for(*gradients[i], {});
    if (!view) return view.error();
    made[i] = *view;
  }
  cut(2);
  arguments_.weights = take_scores();
  arguments_.weight_slopes = take_scores();
  for (Chunk& chunk : chunks_) {
    planned_ = &chunk;
    const Matrices weights = between(arguments_.weights), slopes = between(arguments_.weight_slopes),
                   query = of_queries(arguments_.query, arguments_.d), key = of_keys(arguments_.key, arguments_.d),
                   value = of_keys(arguments_.value, arguments_.e),
                   gradient = of_queries(arguments_.gradient, arguments_.e);
    Result<bool> planned = plan(arguments_.scale, query, turned(key), weights);
    if (planned && *planned) planned = plan(1, gradient, turned(value), slopes);
    if (planned && *planned && gradients[0] != nullptr)
      planned = plan(arguments_.scale, weighing(slopes), key, of_queries(made[0], arguments_.d));
    if (planned && *planned && gradients[1] != nullptr)
      planned = plan(arguments_.scale, turned(weighing(slopes)), query, of_keys(made[1], arguments_.d));
    if (planned && *planned && gradients[2] != nullptr)
      planned = plan(1, turned(weighing(weights)), gradient, of_keys(made[2], arguments_.e));
    if (!planned || !*planned) return planned;
  }
  take_workspace();
  for (const Chunk& chunk : chunks_) {
    next_ = 0;
    multiply(chunk);
    launch(chunk, KernelId::attention_softmax, arguments_.weights);
    multiply(chunk);
    launch(chunk, KernelId::attention_softmax_gradient, arguments_.weight_slopes);
    while (next_ < chunk.products.size()) multiply(chunk);
  }
  return true;
}

}  // namespace meshwright::cuda
