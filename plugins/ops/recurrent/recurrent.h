// Recurrent layers as torch.nn has them: LSTM (Hochreiter and Schmidhuber 1997; gates i, f, g, o), GRU (Cho et al. 2014; gates
// r, z, n) and Elman's, one after the other, in one direction or both. Private to the family. The call of all layers is one op:
//
//   meshwright.recurrent(input, hx, cx?, params.0, ...) -> output, h_n, c_n?, saved
//   meshwright.recurrent_backward(grad_output?, grad_h?, grad_c?, saved, input, hx, cx?, params.0, ...) -> the gradients of
//     input, hx, cx?, params.0, ...
//
// with the attributes of aten.lstm.input, and `cell`. Shapes: input t b i, or b t i with batch_first; hx and cx l b h, where l
// counts layers and directions; output t b (directions h); params of each layer and direction: g·h i, g·h h, and with
// has_biases g·h, g·h. saved is t b (l·kept·h): what a step leaves for its backward, as PyTorch's own cells do.
#pragma once

#include <span>
#include <vector>

#include "meshwright/op.h"

namespace meshwright {

inline constexpr const char* kRecurrent = "meshwright.recurrent";
inline constexpr const char* kRecurrentBackward = "meshwright.recurrent_backward";

enum class Cell : std::uint8_t { lstm, gru, tanh, relu };

// The sizes of a call, of the whole or of one rank's part of the batch.
struct Recurrence {
  Cell cell = Cell::lstm;
  std::int64_t layers = 1, directions = 1, steps = 1, batch = 1, width = 1, hidden = 1;
  bool biases = true, batch_first = false;

  [[nodiscard]] std::int64_t gates() const { return cell == Cell::lstm ? 4 : cell == Cell::gru ? 3 : 1; }
  // Numbers that a step leaves for each of `hidden`: of an LSTM i, f, g, o, c, tanh(c), h; of a GRU r, z, n, the hidden
  // state's part of n, h; of Elman's h.
  [[nodiscard]] std::int64_t kept() const { return cell == Cell::lstm ? 7 : cell == Cell::gru ? 5 : 1; }
  [[nodiscard]] std::int64_t states() const { return cell == Cell::lstm ? 2 : 1; }
  [[nodiscard]] std::int64_t stacks() const { return layers * directions; }
  [[nodiscard]] std::int64_t params_of_stack() const { return biases ? 4 : 2; }
  [[nodiscard]] std::int64_t width_of(std::int64_t layer) const { return layer == 0 ? width : directions * hidden; }
};

// Errors: bad_input where operands or sizes are not those of such a call.
Result<Recurrence> recurrence_of(const OpCall& call);

// aten.lstm.input and its like, as one op of this family. Refused: dropout between layers, projections.
FoundComposites find_recurrences(const Graph& graph);

Result<std::vector<Tensor>> evaluate_recurrence(const OpCall& call, const Recurrence& sizes, std::span<const Tensor* const> operands);
Result<std::vector<Tensor>> evaluate_recurrence_backward(const OpCall& call, const Recurrence& sizes, std::span<const Tensor* const> operands);

}  // namespace meshwright
