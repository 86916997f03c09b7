// Recurrent layers: a product for all steps of a layer of what it reads, and in each step one of its state and what the
// cell makes of both (kernels/recurrent.h).
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "kernels/pointwise.h"
#include "kernels/recurrent.h"
#include "op_writer.h"

namespace meshwright::cuda {

namespace {

class RecurrenceWriter {
 public:
  explicit RecurrenceWriter(OpWriter& writer) : writer_(writer) {}

  // The sizes, and where the states, the weights and what is saved lie. `saved`: null: an operand.
  Status begin(const Seen* saved) {
    static const std::map<std::string, Cell, std::less<>> kCells = {
        {"lstm", Cell::lstm}, {"gru", Cell::gru}, {"tanh", Cell::tanh}, {"relu", Cell::relu}};
    const Node& node = writer_.call.node;
    const auto cell = kCells.find(node.text("cell", ""));
    if (cell == kCells.end())
      return bad_input("cuda has no kernel for recurrent layers of the cell " + node.text("cell", ""));
    cell_ = cell->second;
    gates_ = cell_ == Cell::lstm ? 4 : cell_ == Cell::gru ? 3 : 1;
    kept_ = cell_ == Cell::lstm ? 7 : cell_ == Cell::gru ? 5 : 1;
    layers_ = node.integer("num_layers", 1);
    directions_ = node.boolean("bidirectional", false) ? 2 : 1;
    has_biases_ = node.boolean("has_biases", true);
    step_dim_ = node.boolean("batch_first", false) ? 1 : 0;
    if (Status status = in_rows("input", input_); !status) return status;
    if (Status status = in_rows("hx", states_); !status) return status;
    if (cell_ == Cell::lstm) {
      if (Status status = in_rows("cx", cells_); !status) return status;
    }
    steps_ = input_.type.shape[step_dim_];
    batch_ = input_.type.shape[1 - step_dim_];
    hidden_ = states_.type.shape[2];
    for (std::int64_t i = 0; i < layers_ * directions_ * params_of_stack(); ++i) {
      if (Status status = in_rows("params." + std::to_string(i), params_.emplace_back()); !status) return status;
    }
    if (saved == nullptr) return in_rows("saved", saved_);
    saved_ = *saved;
    return Done{};
  }

  Status write_forward() {
    for (std::int64_t layer = 0; layer < layers_; ++layer) {
      const Result<Seen> read = what_it_reads(layer);
      if (!read) return read.error();
      for (std::int64_t stack = layer * directions_; stack < (layer + 1) * directions_; ++stack) {
        if (Status status = forward(stack, *read); !status) return status;
      }
    }
    for (std::int64_t direction = 0; direction < directions_; ++direction) {
      const Seen part = columns(writer_.results[0], direction * hidden_, hidden_);
      if (Status status = writer_.copy(hidden_of((layers_ - 1) * directions_ + direction), part); !status)
        return status;
    }
    for (std::int64_t stack = 0; stack < layers_ * directions_; ++stack) {
      const std::int64_t last = step_of(stack, steps_ - 1);
      if (Status status = writer_.copy(at_step(hidden_of(stack), last), state_of(writer_.results[1], stack)); !status)
        return status;
      if (cell_ != Cell::lstm) continue;
      if (Status status = writer_.copy(at_step(kept_of(stack, kCell), last), state_of(writer_.results[2], stack));
          !status)
        return status;
    }
    return Done{};
  }

  Status write_backward() {
    std::optional<Seen> above;  // the gradient of what a layer gives
    if (Status status = given("grad_output", above); !status) return status;
    for (std::int64_t layer = layers_; layer-- > 0;) {
      const Result<Seen> read = what_it_reads(layer);
      if (!read) return read.error();
      const Seen below = layer == 0 ? writer_.results[0] : sequence(summed(), directions_ * hidden_);
      for (std::int64_t direction = 0; direction < directions_; ++direction) {
        std::optional<Seen> own;
        if (above) own = columns(*above, direction * hidden_, hidden_);
        if (Status status = backward(layer * directions_ + direction, *read, own, below, direction > 0); !status)
          return status;
      }
      above = below;
    }
    return Done{};
  }

 private:
  static constexpr std::int64_t kCell = 4;  // among what an LSTM keeps

  Status in_rows(const std::string& name, Seen& seen) {
    const Seen* operand = writer_.operand(name);
    if (operand == nullptr) return bad_input("a recurrent layer has an operand \"" + name + "\"");
    const Result<Seen> rows = writer_.in_rows(*operand);
    if (!rows) return rows.error();
    seen = *rows;
    return Done{};
  }
  // Nothing: the call does not have it.
  Status given(const std::string& name, std::optional<Seen>& seen) {
    return writer_.operand(name) == nullptr ? Status(Done{}) : in_rows(name, seen.emplace());
  }

  [[nodiscard]] std::int64_t params_of_stack() const { return has_biases_ ? 4 : 2; }
  [[nodiscard]] const Seen& param(std::int64_t stack, std::int64_t which) const {
    return params_[static_cast<std::size_t>(stack * params_of_stack() + which)];
  }
  [[nodiscard]] const Seen& gradient(std::int64_t stack, std::int64_t which) const {
    return writer_
        .results[writer_.results.size() - params_.size() + static_cast<std::size_t>(stack * params_of_stack() + which)];
  }
  // What products are summed in, and gradients on their way.
  [[nodiscard]] DType summed() const { return input_.type.dtype == DType::float64 ? DType::float64 : DType::float32; }

  Seen sequence(DType dtype, std::int64_t width) {
    return writer_.in_scratch(dtype, {input_.type.shape[0], input_.type.shape[1], width});
  }
  Seen of_batch(DType dtype, std::int64_t width) { return writer_.in_scratch(dtype, {batch_, width}); }

  // The step that a stack takes at this turn: the second direction begins at the end.
  [[nodiscard]] std::int64_t step_of(std::int64_t stack, std::int64_t turn) const {
    return stack % directions_ == 0 ? turn : steps_ - 1 - turn;
  }
  // Of a sequence so many columns of each row.
  static Seen columns(const Seen& all, std::int64_t first, std::int64_t width) {
    return part_of(all, {0, 0, first}, {all.type.shape[0], all.type.shape[1], width});
  }
  // All rows of a sequence, one after the other.
  static Seen rows_of(const Seen& all) {
    Seen rows = all;
    rows.type.shape = {all.type.shape[0] * all.type.shape[1], all.type.shape[2]};
    rows.strides.erase(rows.strides.begin());
    return rows;
  }
  [[nodiscard]] Seen at_step(const Seen& all, std::int64_t step) const {
    std::vector<std::int64_t> start(3, 0);
    start[step_dim_] = step;
    Seen rows = part_of(all, start, {batch_, all.type.shape[2]});
    rows.strides.erase(rows.strides.begin() + static_cast<std::ptrdiff_t>(step_dim_));
    return rows;
  }
  // All steps but the last or the first.
  [[nodiscard]] Seen steps_from(const Seen& all, std::int64_t first) const {
    std::vector<std::int64_t> start(3, 0), shape = all.type.shape;
    start[step_dim_] = first;
    --shape[step_dim_];
    return part_of(all, start, shape);
  }
  [[nodiscard]] Seen state_of(const Seen& states, std::int64_t stack) const {
    Seen rows = part_of(states, {stack, 0, 0}, {batch_, hidden_});
    rows.strides.erase(rows.strides.begin());
    return rows;
  }
  [[nodiscard]] Seen kept_of(std::int64_t stack, std::int64_t number) const {
    return columns(saved_, (stack * kept_ + number) * hidden_, hidden_);
  }
  [[nodiscard]] Seen hidden_of(std::int64_t stack) const { return kept_of(stack, kept_ - 1); }
  // A stack's h, or c, before this turn.
  [[nodiscard]] Seen before(std::int64_t stack, std::int64_t turn, const Seen& kept, const Seen& first) const {
    return turn == 0 ? state_of(first, stack) : at_step(kept, step_of(stack, turn - 1));
  }

  // The input, or what the directions of the layer below gave.
  Result<Seen> what_it_reads(std::int64_t layer) {
    if (layer == 0) return input_;
    if (directions_ == 1) return hidden_of(layer - 1);
    Seen read = sequence(saved_.type.dtype, directions_ * hidden_);
    for (std::int64_t direction = 0; direction < directions_; ++direction) {
      const Seen part = columns(read, direction * hidden_, hidden_);
      if (Status status = writer_.copy(hidden_of((layer - 1) * directions_ + direction), part); !status)
        return status.error();
    }
    return read;
  }

  static Seen turned(const Seen& matrix) {
    return transposed(matrix, {matrix.type.dtype, {matrix.type.shape[1], matrix.type.shape[0]}});
  }

  // A kernel's arguments, and what it reads and writes.
  struct Step {
    RecurrentArguments arguments;
    std::vector<Range> reads, writes;
  };
  // Rows that the kernel sees: at the stride of their first dimension.
  static Status see(const Seen& rows, View& view, std::vector<Range>& ranges) {
    const std::int64_t stride = rows.strides.size() > 1 ? rows.strides[0] : 0;
    const Result<View> made = view_for(rows, {{stride}});
    if (!made) return made.error();
    view = *made;
    ranges.push_back(rows.range());
    return Done{};
  }
  [[nodiscard]] Result<Step> step_at(std::int64_t stack, std::int64_t turn, bool is_back) const {
    Step step;
    step.arguments.cell = cell_;
    step.arguments.hidden = hidden_;
    const Seen kept = at_step(columns(saved_, stack * kept_ * hidden_, kept_ * hidden_), step_of(stack, turn));
    if (Status status = see(kept, step.arguments.kept, is_back ? step.reads : step.writes); !status)
      return status.error();
    if (Status status = see(before(stack, turn, hidden_of(stack), states_), step.arguments.h_before, step.reads);
        !status)
      return status.error();
    if (cell_ != Cell::lstm) return step;
    if (Status status = see(before(stack, turn, kept_of(stack, kCell), cells_), step.arguments.c_before, step.reads);
        !status)
      return status.error();
    return step;
  }

  Status forward(std::int64_t stack, const Seen& read) {
    const Seen from_input = sequence(summed(), gates_ * hidden_), from_state = of_batch(summed(), gates_ * hidden_),
               h = of_batch(saved_.type.dtype, hidden_);
    if (Status status = multiply(writer_, rows_of(read), turned(param(stack, 0)), rows_of(from_input)); !status)
      return status;
    if (Status status = writer_.copy(state_of(states_, stack), h); !status) return status;
    std::vector<Work> product;
    for (std::int64_t turn = 0; turn < steps_; ++turn) {
      if (Status status = multiply_again(product, h, turned(param(stack, 1)), from_state); !status) return status;
      Result<Step> step = step_at(stack, turn, false);
      if (!step) return step.error();
      RecurrentArguments& a = step->arguments;
      const Seen input = at_step(from_input, step_of(stack, turn));
      if (Status status = see(input, a.from_input, step->reads); !status) return status;
      if (Status status = see(from_state, a.from_state, step->reads); !status) return status;
      if (Status status = see(h, a.h, step->writes); !status) return status;
      if (has_biases_) {
        if (Status status = see(param(stack, 2), a.input_bias, step->reads); !status) return status;
        if (Status status = see(param(stack, 3), a.state_bias, step->reads); !status) return status;
      }
      launch(KernelId::recurrent_step, std::move(*step));
    }
    return Done{};
  }

  // The same product in each turn: its plan, and its workspace, are one.
  Status multiply_again(std::vector<Work>& product, const Seen& a, const Seen& b, const Seen& result) {
    if (!product.empty()) {
      writer_.add_again(product);
      return Done{};
    }
    const std::size_t first = writer_.written();
    if (Status status = multiply(writer_, a, b, result); !status) return status;
    product = writer_.written_from(first);
    return Done{};
  }

  void launch(KernelId kernel, Step step) {
    writer_.launch(kernel, step.arguments, batch_ * hidden_, std::move(step.reads), std::move(step.writes));
  }

  // `above`: nothing: it has no gradient. `below` is what the layer read; `adds`: another direction has written it.
  Status backward(std::int64_t stack, const Seen& read, const std::optional<Seen>& above, const Seen& below,
                  bool adds) {
    const Seen direct = of_batch(summed(), hidden_), through = of_batch(summed(), hidden_),
               of_cell = of_batch(summed(), hidden_), gates = of_batch(param(stack, 1).type.dtype, gates_ * hidden_),
               of_input = sequence(param(stack, 0).type.dtype, gates_ * hidden_),
               of_state = cell_ == Cell::gru ? sequence(param(stack, 1).type.dtype, gates_ * hidden_) : of_input;
    if (Status status = take_gradient("grad_h", stack, direct); !status) return status;
    if (cell_ == Cell::lstm) {
      if (Status status = take_gradient("grad_c", stack, of_cell); !status) return status;
    }
    std::vector<Work> product;
    for (std::int64_t turn = steps_; turn-- > 0;) {
      Result<Step> step = step_at(stack, turn, true);
      if (!step) return step.error();
      RecurrentArguments& a = step->arguments;
      const std::int64_t at = step_of(stack, turn);
      std::vector<std::pair<Seen, View*>> reads{{direct, &a.direct}},
          writes{{direct, &a.direct}, {gates, &a.gates}, {at_step(of_input, at), &a.of_input}};
      if (above) reads.emplace_back(at_step(*above, at), &a.above);
      if (turn + 1 < steps_) reads.emplace_back(through, &a.through);
      if (cell_ == Cell::lstm) {
        reads.emplace_back(of_cell, &a.of_cell);
        writes.emplace_back(of_cell, &a.of_cell);
      }
      if (cell_ == Cell::gru) writes.emplace_back(at_step(of_state, at), &a.of_state);
      for (const auto& [seen, view] : reads) {
        if (Status status = see(seen, *view, step->reads); !status) return status;
      }
      for (const auto& [seen, view] : writes) {
        if (Status status = see(seen, *view, step->writes); !status) return status;
      }
      launch(KernelId::recurrent_step_back, std::move(*step));
      if (Status status = multiply_again(product, gates, param(stack, 1), through); !status) return status;
    }
    if (Status status = combine(writer_, Function::add, direct, through, state_of(writer_.results[1], stack)); !status)
      return status;
    if (cell_ == Cell::lstm) {
      if (Status status = writer_.copy(of_cell, state_of(writer_.results[2], stack)); !status) return status;
    }
    if (Status status = give_below(stack, of_input, below, adds); !status) return status;
    return give_params(stack, read, of_input, of_state);
  }

  // The gradient of the states behind the last step, or zeros.
  Status take_gradient(const std::string& name, std::int64_t stack, const Seen& to) {
    std::optional<Seen> states;
    if (Status status = given(name, states); !status) return status;
    return states ? writer_.copy(state_of(*states, stack), to) : fill_with(writer_, 0, to);
  }

  Status give_below(std::int64_t stack, const Seen& of_input, const Seen& below, bool adds) {
    const Seen made = adds ? sequence(summed(), below.type.shape[2]) : below;
    if (Status status = multiply(writer_, rows_of(of_input), param(stack, 0), rows_of(made)); !status) return status;
    return adds ? combine_into(writer_, Function::add, made, below) : Done{};
  }

  Status give_params(std::int64_t stack, const Seen& read, const Seen& of_input, const Seen& of_state) {
    // What the stack's h was before each step.
    const Seen was = sequence(saved_.type.dtype, hidden_);
    const bool is_first = stack % directions_ == 0;
    if (Status status = writer_.copy(state_of(states_, stack), at_step(was, step_of(stack, 0))); !status) return status;
    if (Status status = writer_.copy(steps_from(hidden_of(stack), is_first ? 0 : 1), steps_from(was, is_first ? 1 : 0));
        !status)
      return status;
    if (Status status = multiply(writer_, turned(rows_of(of_input)), rows_of(read), gradient(stack, 0)); !status)
      return status;
    if (Status status = multiply(writer_, turned(rows_of(of_state)), rows_of(was), gradient(stack, 1)); !status)
      return status;
    if (!has_biases_) return Done{};
    if (Status status = sum_chunks(writer_, rows_of(of_input), 1, gradient(stack, 2)); !status) return status;
    return sum_chunks(writer_, rows_of(of_state), 1, gradient(stack, 3));
  }

  OpWriter& writer_;
  Cell cell_ = Cell::lstm;
  std::int64_t layers_ = 1, directions_ = 1, gates_ = 1, kept_ = 1, steps_ = 1, batch_ = 1, hidden_ = 1;
  std::size_t step_dim_ = 0;  // of a sequence
  bool has_biases_ = true;
  Seen input_, states_, cells_, saved_;
  std::vector<Seen> params_;
};

Status write_recurrence(OpWriter& writer) {
  RecurrenceWriter recurrence(writer);
  if (Status status = recurrence.begin(&writer.results.back()); !status) return status;
  return recurrence.write_forward();
}

Status write_recurrence_backward(OpWriter& writer) {
  RecurrenceWriter recurrence(writer);
  if (Status status = recurrence.begin(nullptr); !status) return status;
  return recurrence.write_backward();
}

}  // namespace

WriteOp recurrent_op(std::string_view op) {
  if (op == "meshwright.recurrent") return write_recurrence;
  return op == "meshwright.recurrent_backward" ? write_recurrence_backward : nullptr;
}

}  // namespace meshwright::cuda
