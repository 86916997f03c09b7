// Attention whose products a library computes: of all queries that share keys at once, with the softmax between them by
// a kernel of this backend, in place. Scores are float32; probabilities, and their gradients, of the operands' type. So
// many batches are taken at a time that their scores stay in a GPU's cache.
#pragma once

#include <utility>
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
  // Batches of keys that are taken together, and what is multiplied for them.
  struct Chunk {
    std::int64_t first = 0, batches = 0;
    std::vector<Product> products;
  };

  // Cuts all batches into chunks, whose scores have room in scratch: so many floats for each query and key.
  void cut(std::int64_t floats);
  // Of the chunk that is planned: a part of what lies row by row.
  [[nodiscard]] Matrices of_queries(const View& view, std::int64_t columns) const {
    return part_of(view, arguments_.repeats * arguments_.l, columns);
  }
  [[nodiscard]] Matrices of_keys(const View& view, std::int64_t columns) const {
    return part_of(view, arguments_.s, columns);
  }
  [[nodiscard]] Matrices part_of(const View& view, std::int64_t rows, std::int64_t columns) const;
  // In scratch, a float for each query and key of a chunk; and what becomes of them in their place.
  [[nodiscard]] Matrices between(float* made) const;
  [[nodiscard]] Matrices weighing(const Matrices& scores) const;
  static Matrices in_rows(const View& view, std::int64_t rows, std::int64_t columns);
  static Matrices turned(const Matrices& matrices);
  float* take_scores();
  // Adds alpha·a·b to the products of the chunk. False: the library has none.
  Result<bool> plan(double alpha, const Matrices& a, const Matrices& b, const Matrices& result);
  // Room for the one that needs most, when all are planned.
  void take_workspace();
  // Writes the next product of a chunk.
  void multiply(const Chunk& chunk);
  // The kernel changes these in their place.
  void launch(const Chunk& chunk, KernelId kernel, const float* changed);

  OpWriter& writer_;
  AttentionArguments arguments_;
  std::vector<Range> reads_;
  std::vector<Chunk> chunks_;
  Chunk* planned_ = nullptr;
  std::size_t next_ = 0;  // of the chunk that is written
  std::byte* workspace_ = nullptr;
};

}  // namespace meshwright::cuda
