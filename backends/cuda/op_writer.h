// What writes the launches of one op: a function that is found by the op's name (find_op). It sees the call, where
// operands and results lie, and adds launches and
// products.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "meshwright/op.h"
#include "seen.h"
#include "view_finder.h"

namespace meshwright::cuda {

using Work = std::variant<Launch, Product, DnnCall>;
// Bytes of workspace for products of a shape; nothing: no library computes them.
using PlanProduct = std::function<Result<std::optional<std::size_t>>(const ProductShape&)>;
using PlanDnn = std::function<Result<std::optional<std::size_t>>(const DnnGraph&)>;
// Null: that library is not asked.
struct LibraryPlans {
  PlanProduct product;
  PlanDnn dnn;
};

// As products want it: at a multiple of 256 bytes of memory that `scratch` gives. Null for 0 bytes.
std::byte* workspace_in(const std::function<std::byte*(std::size_t)>& scratch, std::size_t bytes);

// What calls keep for their gradients, which would compute it again, beside tensors and as long as these are there.
class Keeper {
 public:
  virtual ~Keeper() = default;
  // Room beside an operand, as the call sees it, or, without a number, beside the first result. `what`: what it is, and
  // all else that it depends on. Null: there is none.
  virtual std::byte* keep(std::optional<std::size_t> operand, std::string what, std::size_t bytes) = 0;
  [[nodiscard]] virtual std::byte* kept(std::size_t operand, std::string_view what) const = 0;
  // Of the operand's numbers in this step, and of no others. Empty: they have none, since the call sees a copy.
  [[nodiscard]] virtual std::string identity(std::size_t operand) const = 0;
};

class OpWriter {
 public:
  // `scratch`: gives memory that is the instruction's own. `plans` outlives this.
  OpWriter(const OpCall& of, ViewFinder& finder, const LibraryPlans& plans, std::vector<Seen> reads,
           std::vector<Seen> makes, std::function<std::byte*(std::size_t)> scratch, std::vector<Work>& work)
      : call(of),
        views(finder),
        plan_product(plans.product),
        plan_dnn(plans.dnn),
        operands(std::move(reads)),
        results(std::move(makes)),
        scratch_(std::move(scratch)),
        work_(work) {}

  const OpCall& call;
  ViewFinder& views;
  const PlanProduct& plan_product;
  const PlanDnn& plan_dnn;
  // Of scores that attention has at a time, a number for each query and key: half of an H100's cache.
  std::int64_t scores_bytes = std::int64_t{32} << 20U;
  const std::vector<Seen> operands;  // as the call's
  // They lie row by row. Who writes one may let it lie otherwise in the same memory, without gaps: it is read so.
  std::vector<Seen> results;

  // Null: the call does not have it.
  [[nodiscard]] const Seen* operand(std::string_view name) const {
    const auto index = call.node.operand_index(name);
    return index ? &operands[*index] : nullptr;
  }

  Keeper* keeper = nullptr;  // null: nobody keeps anything
  // As of the keeper, of the operand of this name.
  [[nodiscard]] std::byte* keep(std::string_view name, std::string what, std::size_t bytes) const {
    const auto index = call.node.operand_index(name);
    return keeper != nullptr && index ? keeper->keep(*index, std::move(what), bytes) : nullptr;
  }
  [[nodiscard]] std::byte* keep_beside_result(std::string what, std::size_t bytes) const {
    return keeper != nullptr ? keeper->keep(std::nullopt, std::move(what), bytes) : nullptr;
  }
  [[nodiscard]] std::byte* kept(std::string_view name, std::string_view what) const {
    const auto index = call.node.operand_index(name);
    return keeper != nullptr && index ? keeper->kept(*index, what) : nullptr;
  }

  std::byte* scratch(std::size_t bytes) { return scratch_(bytes); }
  // A tensor there, row by row.
  Seen in_scratch(TensorType type) {
    std::byte* const memory = scratch(static_cast<std::size_t>(type.bytes()));
    return seen_at(memory, std::move(type));
  }
  Seen in_scratch(DType dtype, std::vector<std::int64_t> shape) {
    TensorType type{dtype, std::move(shape)};
    return in_scratch(std::move(type));
  }
  std::byte* workspace(std::size_t bytes) { return workspace_in(scratch_, bytes); }
  // The same elements row by row: itself, or a copy.
  Result<Seen> in_rows(const Seen& tensor);
  // Each of these operands that the call has, row by row as a view, and what is read for it.
  Status view_in_rows(std::span<const std::pair<const char*, View*>> named, std::vector<Range>& reads);
  // Elements of `from` go to those of `to`, which has the same shape.
  Status copy(const Seen& from, const Seen& to);
  static Result<Launch> launch_of_copy(const Seen& from, const Seen& to);

  // Where a kernel says that an index, or a label, is outside of what it names: added to what it reads and writes.
  // Null: nobody looks.
  std::int32_t* fault(std::vector<Range>& reads, std::vector<Range>& writes);
  std::int32_t* fault_word = nullptr;
  bool may_fault = false;  // it was asked for

  template <class Arguments>
  void launch(KernelId kernel, const Arguments& arguments, std::int64_t count, std::vector<Range> reads,
              std::vector<Range> writes) {
    if (count > 0) work_.emplace_back(launch_of(kernel, arguments, count, std::move(reads), std::move(writes)));
  }
  // A kernel along one dimension, whose size becomes the result's. `from`, row by row, becomes what it makes: in
  // doubles in scratch, or the result at last.
  template <class Arguments>
  Status launch_along(KernelId kernel, Arguments arguments, std::size_t dim, bool is_last, Seen& from) {
    std::vector<std::int64_t> shape = from.type.shape;
    for (std::size_t d = dim + 1; d < shape.size(); ++d) arguments.inner *= shape[d];
    shape[dim] = results[0].type.shape[dim];
    Seen made = is_last ? results[0] : in_scratch(DType::float64, std::move(shape));
    const Result<View> source = view_for(from, {}), target = view_for(made, {});
    if (!source) return source.error();
    if (!target) return target.error();
    arguments.from = *source;
    arguments.result = *target;
    launch(kernel, arguments, made.type.elements(), {from.range()}, {made.range()});
    from = std::move(made);
    return Done{};
  }
  void add(Launch launch) { work_.emplace_back(std::move(launch)); }
  void multiply(const Product& product) { work_.emplace_back(product); }
  void add(DnnCall call) { work_.emplace_back(std::move(call)); }

  // What has been written from a place on can be written again.
  [[nodiscard]] std::size_t written() const { return work_.size(); }
  [[nodiscard]] std::vector<Work> written_from(std::size_t first) const {
    return {work_.begin() + static_cast<std::ptrdiff_t>(first), work_.end()};
  }
  void add_again(const std::vector<Work>& work) { work_.insert(work_.end(), work.begin(), work.end()); }

 private:
  const std::function<std::byte*(std::size_t)> scratch_;
  std::vector<Work>& work_;
};

// A call of cuDNN's, without tensors or a place for its workspace. Nothing: there is no graph, or no library has a plan
// for it. Errors: the driver's.
Result<std::optional<DnnCall>> planned_call(const OpWriter& writer, std::optional<DnnGraph> graph);

using WriteOp = Status (*)(OpWriter&);

// Null: there is no kernel for the op.
WriteOp find_op(std::string_view op);

// The same by file: op_pointwise.cpp, op_movement.cpp, op_products.cpp and so on.
WriteOp pointwise_op(std::string_view op);
WriteOp movement_op(std::string_view op);
WriteOp product_op(std::string_view op);
WriteOp reduction_op(std::string_view op);
WriteOp norm_op(std::string_view op);
WriteOp lookup_op(std::string_view op);
WriteOp loss_op(std::string_view op);
WriteOp likelihood_op(std::string_view op);
WriteOp elementwise_loss_op(std::string_view op);
WriteOp attention_op(std::string_view op);
WriteOp convolution_op(std::string_view op);
WriteOp batch_norm_op(std::string_view op);
WriteOp pooling_op(std::string_view op);
WriteOp dropout_op(std::string_view op);
WriteOp softmax_op(std::string_view op);
WriteOp group_norm_op(std::string_view op);
WriteOp selection_op(std::string_view op);
WriteOp put_op(std::string_view op);
WriteOp expert_op(std::string_view op);
WriteOp expert_exchange_op(std::string_view op);
WriteOp statistic_op(std::string_view op);
WriteOp border_op(std::string_view op);
WriteOp einsum_op(std::string_view op);
WriteOp draw_op(std::string_view op);
WriteOp recurrent_op(std::string_view op);
WriteOp resampling_op(std::string_view op);
WriteOp rearrangement_op(std::string_view op);
WriteOp bag_op(std::string_view op);
WriteOp distance_op(std::string_view op);
WriteOp sampling_op(std::string_view op);

enum class Function : std::int32_t;

// That an op along one dimension names, of a tensor of this rank; `otherwise`: where it names none.
inline std::size_t dimension_of(const Node& node, std::int64_t rank, std::int64_t otherwise = 0,
                                const char* name = "dim") {
  const std::int64_t named = node.integer(name, otherwise);
  return static_cast<std::size_t>(named < 0 ? named + rank : named);
}

// Of an operand "indices.2" the dimension of the table that it names: 2.
std::size_t named_dimension(std::string_view operand);

// Which positions of NAME this rank holds, as the node's attributes say; of `size`. Errors: bad_input for more atoms
// than kernels see.
struct Shard;
Result<Shard> shard_of(const Node& node, const std::string& name, std::int64_t size);

// result = a function of two numbers of each element of `a` and of `b`, which have its shape.
Status combine(OpWriter& writer, Function function, const Seen& a, const Seen& b, const Seen& result);
// The part of a tensor that has this shape and begins at so many elements along each dimension.
Seen part_of(const Seen& whole, const std::vector<std::int64_t>& start, const std::vector<std::int64_t>& shape);
// result = a·b, of matrices with batches in front; by a library where one takes it.
Status multiply(OpWriter& writer, const Seen& a, const Seen& b, const Seen& result);
// result = a function of an element of each of these, which broadcast, and of the number.
Status apply(OpWriter& writer, Function function, double number, const std::vector<const Seen*>& operands,
             const Seen& result);
Status fill_with(OpWriter& writer, double number, const Seen& result);
// In scratch, as kernels of columns make it: a row of numbers for each chunk of rows, float32 or, of a more precise
// `type`, float64. Its sums over chunks, divided, are the result, which has an element for each column.
Seen chunk_sums(OpWriter& writer, DType type, std::int64_t rows, std::int64_t columns);
Status sum_chunks(OpWriter& writer, const Seen& chunks, double divisor, const Seen& result);

// Each row of what is reduced becomes an element of the result; `from` and `result`: where these lie. A row is a
// warp's, or, if rows are few and long, blocks have chunks of it, of which sums or maxima lie in scratch.
struct ReduceArguments;
void reduce_rows(OpWriter& writer, const ReduceArguments& arguments, std::int64_t rows, const Range& from,
                 const Range& result);

// Lines of numbers become their order (kernels/selections.h); `from` and `results`: where these lie.
struct SelectArguments;
Status write_order(OpWriter& writer, const SelectArguments& arguments, std::int64_t lines, const Range& from,
                   const std::vector<Range>& results);
// What a table's rows get of positions that name them (kernels/runs.h). `starts`: in scratch, for each position where
// its row begins in the table, or -1. Rows that nobody names stay as they are. `values`: where these lie, and what runs
// read to find them; `table`: where it lies.
struct RunArguments;
Seen row_starts(OpWriter& writer, std::int64_t positions);
Status put_rows(OpWriter& writer, RunArguments runs, const Seen& starts, std::vector<Range> values, const Range& table);

// One element after the other, combined by a function of two numbers: a sum in place. They have one shape.
Status combine_into(OpWriter& writer, Function function, const Seen& addend, const Seen& sum);

}  // namespace meshwright::cuda
