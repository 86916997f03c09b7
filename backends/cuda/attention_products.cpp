#include "attention_products.h"

#include <algorithm>
#include <utility>

#include "kernels/movement.h"
#include "product_writer.h"

namespace meshwright::cuda {

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

AttentionProducts::Matrices AttentionProducts::between(float*& made) {
  View view;
  view.data = writer_.scratch(static_cast<std::size_t>(arguments_.rows * arguments_.s) * sizeof(float));
  made = static_cast<float*>(view.data);
  return of_queries(view, arguments_.s);
}

AttentionProducts::Matrices AttentionProducts::weighing(const Matrices& scores) const {
  Matrices made = scores;
  made.view.element = arguments_.weighs;
  const auto in_a_float = static_cast<std::int64_t>(sizeof(float)) / bytes_of(arguments_.weighs);
  made.view.strides[0] *= in_a_float;
  made.view.strides[ProductArguments::kRow] *= in_a_float;
  return made;
}

Result<bool> AttentionProducts::plan(double alpha, const Matrices& a, const Matrices& b, const Matrices& result) {
  ProductArguments arguments;
  arguments.batch.rank = 1;
  arguments.batch.of[0] = arguments_.rows / arguments_.l / arguments_.repeats;
  arguments.m = a.rows;
  arguments.n = b.columns;
  arguments.k = a.columns;
  arguments.a = a.view;
  arguments.b = b.view;
  arguments.result = result.view;
  arguments.alpha = alpha;
  const Result<std::optional<LibraryProduct>> made = plan_product(writer_, arguments);
  if (!made) return made.error();
  if (*made) planned_.push_back((*made)->product);
  return made->has_value();
}

void AttentionProducts::take_workspace() {
  std::size_t most = 0;
  for (const Product& product : planned_) most = std::max(most, product.workspace_bytes);
  workspace_ = writer_.workspace(most);
}

void AttentionProducts::multiply() {
  Product& product = planned_[next_++];
  product.workspace = workspace_;
  writer_.multiply(product);
}

void AttentionProducts::launch(KernelId kernel, const float* changed) {
  const Range range{reinterpret_cast<const std::byte*>(changed),
                    static_cast<std::size_t>(arguments_.rows * arguments_.s) * sizeof(float)};
  reads_.push_back(range);
  writer_.launch(kernel, arguments_, arguments_.rows, reads_, {range});
}

Result<bool> AttentionProducts::write(const Seen& result) {
  if (!may_plan()) return false;
  arguments_.weighs = arguments_.query.element;
  const Result<View> made = view_for(result, {});
  if (!made) return made.error();
  const Matrices weights = between(arguments_.weights);
  Result<bool> planned = plan(arguments_.scale, of_queries(arguments_.query, arguments_.d),
                              turned(of_keys(arguments_.key, arguments_.d)), weights);
  if (planned && *planned)
    planned = plan(1, weighing(weights), of_keys(arguments_.value, arguments_.e), of_queries(*made, arguments_.e));
  if (!planned || !*planned) return planned;
  take_workspace();
  multiply();
  launch(KernelId::attention_softmax, arguments_.weights);
  multiply();
  return true;
}

// As the kernels in kernels/attention.h.
Result<bool> AttentionProducts::write_gradients(const Seen* const (&gradients)[3]) {
  if (!may_plan()) return false;
  arguments_.weighs = arguments_.query.element;
  View made[3];
  for (std::size_t i = 0; i < 3; ++i) {
    if (gradients[i] == nullptr) continue;
    const Result<View> view = view_for(*gradients[i], {});
    if (!view) return view.error();
    made[i] = *view;
  }
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
  take_workspace();
  multiply();
  launch(KernelId::attention_softmax, arguments_.weights);
  multiply();
  launch(KernelId::attention_softmax_gradient, arguments_.weight_slopes);
  while (next_ < planned_.size()) multiply();
  return true;
}

}  // namespace meshwright::cuda
