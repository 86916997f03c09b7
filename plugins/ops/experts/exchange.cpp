// t>e: tokens travel to their experts and back.
//
// A rank packs its rows by where their expert is, `capacity` for each other rank, so that buffers have a size that does
// not depend on the data. Buffers are global tensors like any other: [a dimension for each axis that cuts the tokens
// .., a dimension for each axis that exchanges .., capacity, width]. Before the all-to-all an exchanging axis shards
// the first one of its dimensions, which says where a row comes from; after it the second one, which says where it
// went. What the backward needs stays where the experts are, as the rank's own.
#include <algorithm>

#include "experts.h"

namespace meshwright {

namespace {

constexpr const char* kDispatch = "meshwright.experts_dispatch";
constexpr const char* kRows = "meshwright.experts_rows";
constexpr const char* kRowsBackward = "meshwright.experts_rows_backward";
constexpr const char* kCombine = "meshwright.experts_combine";
constexpr const char* kCollect = "meshwright.experts_collect";

class Exchanging {
 public:
  explicit Exchanging(const LocalCall& call)
      : call_(call),
        tokens_(*call.type(call.call.node.op == kExpertsBackward ? "grad_output" : "hidden")),
        gate_up_(*call.type("gate_up")),
        build_(call.build),
        attributes_(call.call.node.attributes) {
    for (std::size_t axis = 0; axis < call.mesh.rank(); ++axis) {
      if (!tokens_.layout[axis].is_shard()) continue;
      token_axes_.push_back(axis);
      if (shards_experts(axis)) exchanged_.push_back(axis);
    }
  }

  bool any() const { return !exchanged_.empty(); }

  void emit() {
    describe_destinations();
    ShardIndex::describe(gate_up_, 0, 1, call_.mesh, "experts", attributes_, starts_);
    if (call_.call.node.op == kExpertsBackward)
      backward();
    else
      forward();
  }

 private:
  bool shards_experts(std::size_t axis) const {
    return gate_up_.layout[axis].is_shard() && gate_up_.layout[axis].atom() < gate_up_.atoms.atoms_of_dimension[0];
  }

  // For each expert the position of its rank among those that rows are sent to, and how many rows each of them gets.
  void describe_destinations() {
    const std::int64_t experts = gate_up_.type.shape[0];
    const std::int64_t outermost = gate_up_.atoms.sizes[0];
    std::int64_t blocks = 1;
    for (std::size_t axis = 0; axis < call_.mesh.rank(); ++axis) {
      if (gate_up_.layout[axis] == Placement::shard(0)) blocks *= call_.mesh.axes[axis].size;
    }
    std::vector<std::int64_t> destinations;
    for (std::int64_t expert = 0; expert < experts; ++expert) {
      const std::int64_t block = expert / (experts / outermost) / (outermost / blocks);
      std::int64_t rest = blocks, destination = 0;
      for (std::size_t axis = 0; axis < call_.mesh.rank(); ++axis) {
        if (gate_up_.layout[axis] != Placement::shard(0)) continue;
        const std::int64_t size = call_.mesh.axes[axis].size;
        rest /= size;
        if (std::find(exchanged_.begin(), exchanged_.end(), axis) != exchanged_.end())
          destination = destination * size + block / rest % size;
      }
      destinations.push_back(destination);
    }
    for (const std::size_t axis : exchanged_) devices_ *= call_.mesh.axes[axis].size;
    capacity_ =
        exchange_of(call_.call).capacity(local_type(tokens_, call_.mesh).shape[0], experts / devices_, devices_);
    attributes_["destinations"] = destinations;
    // What a rank works on if all experts are equally busy.
    attributes_["balanced_rows"] = local_type(tokens_, call_.mesh).shape[0] * call_.call.operand("indices")->shape[1] * devices_ / blocks;
  }

  // A buffer of rows of `width` elements, 0: of one element without a dimension.
  ShardedType buffer(DType dtype, std::int64_t width) const {
    ShardedType made{{dtype, {}}, {}, Layout(call_.mesh.rank())};
    const auto add = [&](std::int64_t size) {
      made.type.shape.push_back(size);
      made.atoms.sizes.push_back(size);
      made.atoms.atoms_of_dimension.push_back(1);
      made.atoms.paddable.push_back(false);
    };
    for (const std::size_t axis : token_axes_) {
      made.layout.place(axis, Placement::shard(made.atoms.sizes.size()));
      add(call_.mesh.axes[axis].size);
    }
    for (const std::size_t axis : exchanged_) add(call_.mesh.axes[axis].size);
    add(capacity_);
    if (width > 0) add(width);
    return made;
  }

  // Rows, as ranks have them after the all-to-all.
  ShardedType arrived(ShardedType buffer) const {
    for (std::size_t i = 0; i < exchanged_.size(); ++i)
      buffer.layout.place(exchanged_[i], Placement::shard(token_axes_.size() + i));
    return buffer;
  }

  // Axes that shard experts or their inner dimension, but do not exchange, leave sums to be made.
  ShardedType summed(ShardedType buffer) const {
    for (std::size_t axis = 0; axis < call_.mesh.rank(); ++axis) {
      const bool shares_work = gate_up_.layout[axis].is_shard() && !tokens_.layout[axis].is_shard();
      if (shares_work) buffer.layout.place(axis, Placement::partial_sum());
    }
    return buffer;
  }

  ProgramValueId there(ProgramValueId rows, ProgramValueId own = kNoId) const {
    for (std::size_t i = 0; i < exchanged_.size(); ++i) {
      const bool last = i + 1 == exchanged_.size();
      rows = build_.exchange(rows, exchanged_[i], token_axes_.size() + i, last ? own : kNoId);
    }
    return rows;
  }

  ProgramValueId back(ProgramValueId rows) const {
    for (std::size_t i = exchanged_.size(); i-- > 0;) {
      const auto from = std::find(token_axes_.begin(), token_axes_.end(), exchanged_[i]) - token_axes_.begin();
      rows = build_.exchange(rows, exchanged_[i], static_cast<std::size_t>(from));
    }
    return rows;
  }

  bool in_first() const { return call_.call.node.boolean("in_first", false); }
  std::int64_t width() const { return gate_up_.type.shape[in_first() ? 1 : 2]; }

  void add_bias(std::vector<Operand>& operands) const {
    if (call_.call.node.operand_index("gate_up_bias")) operands.push_back({"gate_up_bias", call_.operand("gate_up_bias")});
  }

  void forward() {
    const DType dtype = tokens_.type.dtype;
    const std::vector<ProgramValueId>& results = call_.call.node.results;
    const std::int64_t inner = local_type(*call_.type("down"), call_.mesh).shape[in_first() ? 1 : 2];
    const ProgramValueId rows = build_.make(buffer(dtype, width()));
    const ProgramValueId experts = build_.make(buffer(DType::int64, 0));
    build_.emit(kDispatch, {{"rows", call_.operand("hidden")}, {"indices", call_.operand("indices")}}, attributes_, {},
                {rows, experts});
    // Each rank's part of the inner dimension is its own, however it is cut.
    build_.retype(results[2], arrived(buffer(dtype, 2 * inner)));
    build_.retype(results[3], arrived(buffer(dtype, inner)));
    build_.retype(results[4], arrived(buffer(dtype, inner)));
    build_.retype(results[5], summed(arrived(buffer(dtype, call_.results[0].type.shape[1]))));
    std::vector<Operand> operands = {{"rows", there(rows, results[1])},
                                     {"experts", there(experts)},
                                     {"gate_up", call_.operand("gate_up")},
                                     {"down", call_.operand("down")}};
    add_bias(operands);
    build_.emit(kRows, operands, attributes_, starts_, {results[2], results[3], results[4], results[5]});
    build_.emit(kCombine,
                {{"rows", back(results[5])}, {"indices", call_.operand("indices")}, {"weights", call_.operand("weights")}},
                attributes_, {}, {results[0]});
  }

  void backward() {
    const DType dtype = tokens_.type.dtype;
    const std::vector<ProgramValueId>& results = call_.call.node.results;
    const ProgramValueId gradients = build_.make(buffer(dtype, tokens_.type.shape[1]));
    const ProgramValueId experts = build_.make(buffer(DType::int64, 0));
    const ProgramValueId weights = build_.make(buffer(dtype, 0));
    build_.emit(kDispatch,
                {{"rows", call_.operand("grad_output")},
                 {"indices", call_.operand("indices")},
                 {"weights", call_.operand("weights")}},
                attributes_, {}, {gradients, experts, weights});
    const ProgramValueId row_gradients = build_.make(gradient_type(arrived(buffer(dtype, width()))));
    const ProgramValueId weight_gradients = build_.make(gradient_type(arrived(buffer(dtype, 0))));
    std::vector<Operand> operands = {{"experts", there(experts)},
                                     {"weights", there(weights)},
                                     {"gradients", there(gradients)},
                                     {"gate_up", call_.operand("gate_up")},
                                     {"down", call_.operand("down")}};
    for (const char* own : {"rows", "inner", "gate", "product", "outputs"}) operands.push_back({own, call_.operand(own)});
    add_bias(operands);
    std::vector<ProgramValueId> made = {row_gradients, weight_gradients};
    made.insert(made.end(), results.begin() + 2, results.end());
    build_.emit(kRowsBackward, operands, attributes_, starts_, made);
    build_.emit(kCombine, {{"rows", back(row_gradients)}, {"indices", call_.operand("indices")}}, attributes_, {},
                {results[0]});
    build_.emit(kCollect, {{"rows", back(weight_gradients)}, {"indices", call_.operand("indices")}}, attributes_, {},
                {results[1]});
  }

  // A partial gradient gives partial gradients.
  ShardedType gradient_type(const ShardedType& buffer) const {
    ShardedType made = summed(buffer);
    const Layout& gradient = call_.type("grad_output")->layout;
    for (std::size_t axis = 0; axis < call_.mesh.rank(); ++axis) {
      if (gradient[axis].is_partial()) made.layout.place(axis, Placement::partial_sum());
    }
    return made;
  }

  const LocalCall& call_;
  const ShardedType &tokens_, &gate_up_;
  LocalBuilder& build_;
  Attributes attributes_;
  RankAttributes starts_;
  std::vector<std::size_t> token_axes_, exchanged_;  // the latter are among the former
  std::int64_t devices_ = 1, capacity_ = 0;
};

// Where the row of a token's copy is in a buffer: `visit(copy, slot)` for each copy, in order. False: one rank is sent
// more rows than there is room for.
template <class Visit>
bool for_each_slot(const Node& node, const Tensor& indices, std::int64_t slots, Visit visit) {
  const std::vector<std::int64_t> destinations = node.integers("destinations");
  const std::int64_t devices = *std::max_element(destinations.begin(), destinations.end()) + 1;
  const std::int64_t capacity = slots / devices;
  std::vector<std::int64_t> used(static_cast<std::size_t>(devices), 0);
  for (std::int64_t copy = 0; copy < indices.elements(); ++copy) {
    const std::int64_t destination = destinations[static_cast<std::size_t>(indices.get(copy))];
    std::int64_t& next = used[static_cast<std::size_t>(destination)];
    if (next == capacity) return false;
    visit(copy, destination * capacity + next++);
  }
  return true;
}

void copy_row(const Tensor& from, std::int64_t from_row, Tensor& to, std::int64_t to_row, std::int64_t width) {
  for (std::int64_t c = 0; c < width; ++c) to.set(to_row * width + c, from.get(from_row * width + c));
}

}  // namespace

bool emit_exchange(const LocalCall& call) {
  Exchanging exchanging(call);
  if (!exchanging.any()) return false;
  exchanging.emit();
  return true;
}

// Products of the rows that come if all experts are equally busy, and as much longer as the busiest rank takes.
OpCost exchange_step_cost(const OpCall& call) {
  OpCost cost;
  const double products = call.node.op == kRows ? 3 : call.node.op == kRowsBackward ? 6 : 0;
  if (products == 0) return cost;
  cost.matrix = true;
  const bool in_first = call.node.boolean("in_first", false);
  const TensorType &gate_up = *call.operand("gate_up"), &down = *call.operand("down");
  const double one = static_cast<double>(gate_up.shape[in_first ? 1 : 2]) * static_cast<double>(down.shape[in_first ? 1 : 2]);
  const double rows = static_cast<double>(call.node.integer("balanced_rows", 0)) * call.node.number("imbalance", 1);
  cost.forward.push_back({2 * products * rows * one, {}});
  return cost;
}

bool is_exchange_step(const std::string& op) {
  return op == kDispatch || op == kRows || op == kRowsBackward || op == kCombine || op == kCollect;
}

Result<std::vector<Tensor>> evaluate_exchange_step(const OpCall& call, std::span<const Tensor* const> operands) {
  const std::string& op = call.node.op;
  std::vector<Tensor> results;
  for (std::size_t i = 0; i < call.results.size(); ++i) results.push_back(call.zeros(i));
  if (op == kRows) {
    const ExpertRowValues made = expert_rows({call, *operands[0], *operands[1], *operands[2], *operands[3], operands.size() > 4 ? operands[4] : nullptr});
    return listed(written(call.result(0), made.inner), written(call.result(1), made.gate), written(call.result(2), made.product),
                  written(call.result(3), made.outputs));
  }
  if (op == kRowsBackward) {
    const ExpertRowGradients sums =
        expert_row_gradients({call, *operands[5], *operands[0], *operands[3], *operands[4], operands.size() > 10 ? operands[10] : nullptr},
                             {*operands[6], *operands[7], *operands[8], *operands[9]}, *operands[1], *operands[2]);
    const Numbers* const made[] = {&sums.rows, &sums.row_weights, &sums.gate_up, &sums.down, &sums.gate_up_bias};
    for (std::size_t i = 0; i < results.size(); ++i) results[i] = written(call.result(i), *made[i]);
    return results;
  }
  const Tensor &rows = *operands[0], &indices = *operands[1];
  const std::int64_t copies = indices.shape()[1];
  bool fits = true;
  if (op == kDispatch) {
    const std::int64_t width = rows.shape()[1], slots = results[0].elements() / width;
    if (results.size() > 1) std::fill(results[1].as<std::int64_t>().begin(), results[1].as<std::int64_t>().end(), -1);
    fits = for_each_slot(call.node, indices, slots, [&](std::int64_t copy, std::int64_t slot) {
      copy_row(rows, copy / copies, results[0], slot, width);
      if (results.size() > 1) results[1].set(slot, indices.get(copy));
      if (results.size() > 2) results[2].set(slot, operands[2]->get(copy));
    });
  } else if (op == kCombine) {
    const std::int64_t width = results[0].shape()[1];
    fits = for_each_slot(call.node, indices, rows.elements() / width, [&](std::int64_t copy, std::int64_t slot) {
      const double weight = operands.size() > 2 ? operands[2]->get(copy) : 1;
      for (std::int64_t c = 0; c < width; ++c) {
        const std::int64_t at = copy / copies * width + c;
        results[0].set(at, results[0].get(at) + weight * rows.get(slot * width + c));
      }
    });
  } else {
    fits = for_each_slot(call.node, indices, rows.elements(),
                         [&](std::int64_t copy, std::int64_t slot) { results[0].set(copy, rows.get(slot)); });
  }
  if (fits) return results;
  return bad_input(
      "more tokens chose the experts of one rank than its buffer has room for; raise \"capacity_factor\" in "
      "[ops.experts], or "
      "set it to 0, and plan again");
}

}  // namespace meshwright
