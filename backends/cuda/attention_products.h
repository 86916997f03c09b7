// Attention whose products a library computes: of all queries that share keys at once, with the softmax between them by
// a kernel of this backend, in place. Scores are float32; probabilities, and their gradients, of the operands' type.
#pragma once

#include <vector>

#include "kernels/attention.h"
#include "kernels/products.h"
#include "op_writer.h"

namespace meshwright::cuda {

class AttentionProducts {
 public:
  // Operands lie row by row; `reads`: where.
  AttentionProducts(OpWriter& writer, const AttentionArguments& arguments, std::vector<Range> reads)
      : writer_(writer), arguments_(arguments), reads_(std::move(reads)) {}

  // False: a library computes not all of it, and nothing is written. Errors: the driver's.
  Result<bool> write(const Seen& result);
  // Of query, key and value; null: not asked for.
  Result<bool> write_gradients(const Seen* const (&gradients)[3]);

 private:
  // A matrix for each batch of keys, row by row.
  struct Matrices {
    View view;
    std::int64_t rows = 0, columns = 0;
  };

  [[nodiscard]] Matrices of_queries(const View& view, std::int64_t columns) const {
    return in_rows(view, arguments_.repeats * arguments_.l, columns);
  }
  [[nodiscard]] Matrices of_keys(const View& view, std::int64_t columns) const {
    return in_rows(view, arguments_.s, columns);
  }
  // In scratch, a float for each query and key; and what becomes of them in their place.
  Matrices between(float*& made);
  [[nodiscard]] Matrices weighing(const Matrices& scores) const;
  // Whether a library may know how: what it multiplies is of one type.
  [[nodiscard]] bool may_plan() const { return writer_.plan_product && is_single(arguments_.query.element); }
  static Matrices in_rows(const View& view, std::int64_t rows, std::int64_t columns);
  static Matrices turned(const Matrices& matrices);
  // Adds alpha·a·b to the products that are planned. False: the library has none.
  Result<bool> plan(double alpha, const Matrices& a, const Matrices& b, const Matrices& result);
  // Room for the one that needs most, when all are planned.
  void take_workspace();
  // Writes the next product that was planned.
  void multiply();
  // The kernel changes these in their place.
  void launch(KernelId kernel, const float* changed);

  OpWriter& writer_;
  AttentionArguments arguments_;
  std::vector<Range> reads_;
  std::vector<Product> planned_;
  std::size_t next_ = 0;
  std::byte* workspace_ = nullptr;
};

}  // namespace meshwright::cuda
