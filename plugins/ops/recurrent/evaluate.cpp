#include <cmath>
#include <string>

#include "numbers.h"
#include "recurrent.h"

namespace meshwright {

namespace {

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

// A matrix of a stack, row-major.
struct Matrix {
  const Numbers& numbers;
  std::int64_t columns;

  // y += this · x
  void multiply(const double* x, Numbers& y) const {
    for (std::size_t row = 0; row < y.size(); ++row) {
      const double* at = &numbers[row * to_size(columns)];
      for (std::int64_t i = 0; i < columns; ++i) y[row] += at[i] * x[i];
    }
  }

  // x += thisᵀ · y
  void multiply_transposed(const Numbers& y, double* x) const {
    for (std::size_t row = 0; row < y.size(); ++row) {
      const double* at = &numbers[row * to_size(columns)];
      for (std::int64_t i = 0; i < columns; ++i) x[i] += at[i] * y[row];
    }
  }
};

// gradient += y · xᵀ
void add_outer(const Numbers& y, const double* x, std::int64_t columns, Numbers& gradient) {
  for (std::size_t row = 0; row < y.size(); ++row) {
    for (std::int64_t i = 0; i < columns; ++i) gradient[row * to_size(columns) + to_size(i)] += y[row] * x[i];
  }
}

// The numbers of a call, and where those of a step and an example stand among them.
class Numbered {
 public:
  Numbered(const OpCall& call, const Recurrence& sizes, std::span<const Tensor* const> operands) : sizes_(sizes) {
    for (std::size_t i = 0; i < operands.size(); ++i) {
      const std::string& name = call.node.operands[i].name;
      Numbers numbers = numbers_of(*operands[i]);
      if (name == "input") input = std::move(numbers);
      else if (name == "hx") hidden = std::move(numbers);
      else if (name == "cx") cells = std::move(numbers);
      else if (name == "saved") saved = std::move(numbers);
      else if (name.starts_with("params.")) params.push_back(std::move(numbers));
    }
  }

  // Of a sequence of rows of this width, the row of a step and an example.
  [[nodiscard]] std::size_t row(std::int64_t step, std::int64_t example, std::int64_t width) const {
    return to_size((sizes_.batch_first ? example * sizes_.steps + step : step * sizes_.batch + example) * width);
  }

  // Of saved, what a stack leaves there.
  [[nodiscard]] std::size_t kept(std::int64_t stack, std::int64_t step, std::int64_t example) const {
    const std::int64_t each = sizes_.kept() * sizes_.hidden;
    return row(step, example, sizes_.stacks() * each) + to_size(stack * each);
  }

  [[nodiscard]] std::size_t state(std::int64_t stack, std::int64_t example) const {
    return to_size((stack * sizes_.batch + example) * sizes_.hidden);
  }

  // What a stack's h and, of an LSTM, c were before its n-th step, in its own order.
  [[nodiscard]] const double* hidden_before(std::int64_t stack, std::int64_t n, std::int64_t example) const {
    if (n == 0) return &hidden[state(stack, example)];
    return &saved[kept(stack, step_of(stack, n - 1), example) + to_size((sizes_.kept() - 1) * sizes_.hidden)];
  }
  [[nodiscard]] const double* cell_before(std::int64_t stack, std::int64_t n, std::int64_t example) const {
    if (sizes_.cell != Cell::lstm) return nullptr;
    return n == 0 ? &cells[state(stack, example)] : &saved[kept(stack, step_of(stack, n - 1), example) + to_size(4 * sizes_.hidden)];
  }

  // The n-th step that a stack takes: the second direction begins at the end.
  [[nodiscard]] std::int64_t step_of(std::int64_t stack, std::int64_t n) const {
    return stack % sizes_.directions == 0 ? n : sizes_.steps - 1 - n;
  }

  // What a layer reads in a step: the input, or what the directions of the layer below gave.
  [[nodiscard]] Numbers read(std::int64_t layer, std::int64_t step, std::int64_t example) const {
    const std::int64_t width = sizes_.width_of(layer);
    Numbers found;
    if (layer == 0) {
      const double* at = &input[row(step, example, width)];
      found.assign(at, at + width);
    }
    for (std::int64_t d = 0; layer > 0 && d < sizes_.directions; ++d) {
      const double* h = &saved[kept((layer - 1) * sizes_.directions + d, step, example) + to_size((sizes_.kept() - 1) * sizes_.hidden)];
      found.insert(found.end(), h, h + sizes_.hidden);
    }
    return found;
  }

  [[nodiscard]] std::size_t param(std::int64_t stack, std::int64_t which) const { return to_size(stack * sizes_.params_of_stack() + which); }
  [[nodiscard]] Matrix of_input(std::int64_t stack) const { return {params[param(stack, 0)], sizes_.width_of(stack / sizes_.directions)}; }
  [[nodiscard]] Matrix of_hidden(std::int64_t stack) const { return {params[param(stack, 1)], sizes_.hidden}; }
  // Zeros where there are no biases.
  [[nodiscard]] Numbers bias(std::int64_t stack, std::int64_t which) const {
    return sizes_.biases ? params[param(stack, 2 + which)] : Numbers(to_size(sizes_.gates() * sizes_.hidden), 0.0);
  }

  Numbers input, hidden, cells, saved;
  std::vector<Numbers> params;

 private:
  const Recurrence& sizes_;
};

// One step of one stack for one example: what it keeps, of the gates' parts that come from the input and from h.
void step_forward(const Recurrence& sizes, const Numbers& x, const Numbers& h, const double* h_before, const double* c_before, double* kept) {
  const std::size_t n = to_size(sizes.hidden);
  for (std::size_t j = 0; j < n; ++j) {
    if (sizes.cell == Cell::lstm) {
      const double i = sigmoid(x[j] + h[j]), f = sigmoid(x[n + j] + h[n + j]), g = std::tanh(x[2 * n + j] + h[2 * n + j]),
                   o = sigmoid(x[3 * n + j] + h[3 * n + j]), c = f * c_before[j] + i * g;
      const double made[] = {i, f, g, o, c, std::tanh(c), o * std::tanh(c)};
      for (std::size_t k = 0; k < std::size(made); ++k) kept[k * n + j] = made[k];
    } else if (sizes.cell == Cell::gru) {
      const double r = sigmoid(x[j] + h[j]), z = sigmoid(x[n + j] + h[n + j]), candidate = std::tanh(x[2 * n + j] + r * h[2 * n + j]);
      const double made[] = {r, z, candidate, h[2 * n + j], candidate + z * (h_before[j] - candidate)};
      for (std::size_t k = 0; k < std::size(made); ++k) kept[k * n + j] = made[k];
    } else {
      const double sum = x[j] + h[j];
      kept[j] = sizes.cell == Cell::tanh ? std::tanh(sum) : std::max(sum, 0.0);
    }
  }
}

// The gradients of one step: of the gates' parts x and h; `dh` and `dc` become those of the step before, but for what
// comes through h's part.
void step_backward(const Recurrence& sizes, const double* kept, const double* h_before, const double* c_before, double* dh, double* dc,
                   Numbers& x, Numbers& h) {
  const std::size_t n = to_size(sizes.hidden);
  for (std::size_t j = 0; j < n; ++j) {
    if (sizes.cell == Cell::lstm) {
      const double i = kept[j], f = kept[n + j], g = kept[2 * n + j], o = kept[3 * n + j], squashed = kept[5 * n + j];
      const double of_cell = dc[j] + dh[j] * o * (1 - squashed * squashed);
      x[j] = of_cell * g * i * (1 - i);
      x[n + j] = of_cell * c_before[j] * f * (1 - f);
      x[2 * n + j] = of_cell * i * (1 - g * g);
      x[3 * n + j] = dh[j] * squashed * o * (1 - o);
      dc[j] = of_cell * f;
      dh[j] = 0;
    } else if (sizes.cell == Cell::gru) {
      const double r = kept[j], z = kept[n + j], candidate = kept[2 * n + j], part = kept[3 * n + j];
      const double of_candidate = dh[j] * (1 - z) * (1 - candidate * candidate);
      x[j] = of_candidate * part * r * (1 - r);
      x[n + j] = dh[j] * (h_before[j] - candidate) * z * (1 - z);
      x[2 * n + j] = of_candidate;
      dh[j] *= z;
    } else {
      x[j] = sizes.cell == Cell::tanh ? dh[j] * (1 - kept[j] * kept[j]) : kept[j] > 0 ? dh[j] : 0;
      dh[j] = 0;
    }
  }
  h = x;
  for (std::size_t j = 0; sizes.cell == Cell::gru && j < n; ++j) h[2 * n + j] *= kept[j];
}

}  // namespace

Result<std::vector<Tensor>> evaluate_recurrence(const OpCall& call, const Recurrence& sizes, std::span<const Tensor* const> operands) {
  Numbered numbers(call, sizes, operands);
  numbers.saved = zeros(call.results.back());
  const std::size_t last = to_size((sizes.kept() - 1) * sizes.hidden), n = to_size(sizes.hidden);
  std::vector<Numbers> made;
  for (const TensorType& type : call.results) made.push_back(zeros(type));
  for (std::int64_t stack = 0; stack < sizes.stacks(); ++stack) {
    const std::int64_t layer = stack / sizes.directions;
    for (std::int64_t turn = 0; turn < sizes.steps; ++turn) {
      const std::int64_t step = numbers.step_of(stack, turn);
      for (std::int64_t example = 0; example < sizes.batch; ++example) {
        const double *h_before = numbers.hidden_before(stack, turn, example), *c_before = numbers.cell_before(stack, turn, example);
        Numbers x = numbers.bias(stack, 0), h = numbers.bias(stack, 1);
        numbers.of_input(stack).multiply(numbers.read(layer, step, example).data(), x);
        numbers.of_hidden(stack).multiply(h_before, h);
        double* kept = &numbers.saved[numbers.kept(stack, step, example)];
        step_forward(sizes, x, h, h_before, c_before, kept);
        if (layer + 1 == sizes.layers) {
          const std::size_t at = numbers.row(step, example, sizes.directions * sizes.hidden) + to_size(stack % sizes.directions) * n;
          std::copy_n(kept + last, n, &made[0][at]);
        }
        if (turn + 1 < sizes.steps) continue;
        std::copy_n(kept + last, n, &made[1][numbers.state(stack, example)]);
        if (sizes.cell == Cell::lstm) std::copy_n(kept + 4 * n, n, &made[2][numbers.state(stack, example)]);
      }
    }
  }
  made.back() = std::move(numbers.saved);
  std::vector<Tensor> results;
  for (std::size_t i = 0; i < made.size(); ++i) results.push_back(written(call.result(i), made[i]));
  return results;
}

Result<std::vector<Tensor>> evaluate_recurrence_backward(const OpCall& call, const Recurrence& sizes,
                                                         std::span<const Tensor* const> operands) {
  const Numbered numbers(call, sizes, operands);
  const auto given = [&](const char* name, std::int64_t elements) {
    const auto index = call.node.operand_index(name);
    return index ? numbers_of(*operands[*index]) : Numbers(to_size(elements), 0.0);
  };
  const std::int64_t rows = sizes.steps * sizes.batch, states = sizes.stacks() * sizes.batch * sizes.hidden;
  const std::size_t n = to_size(sizes.hidden), params = to_size(sizes.stacks() * sizes.params_of_stack());
  Numbers above = given("grad_output", rows * sizes.directions * sizes.hidden);  // the gradient of what a layer gives
  Numbers dh = given("grad_h", states), dc = given("grad_c", states);            // become those of hx
  std::vector<Numbers> made;
  for (const TensorType& type : call.results) made.push_back(zeros(type));
  const auto gradient = [&](std::size_t param) -> Numbers& { return made[made.size() - params + param]; };
  for (std::int64_t layer = sizes.layers - 1; layer >= 0; --layer) {
    const std::int64_t width = sizes.width_of(layer);
    Numbers below(to_size(rows * width), 0.0);
    for (std::int64_t stack = layer * sizes.directions; stack < (layer + 1) * sizes.directions; ++stack) {
      for (std::int64_t turn = sizes.steps - 1; turn >= 0; --turn) {
        const std::int64_t step = numbers.step_of(stack, turn);
        for (std::int64_t example = 0; example < sizes.batch; ++example) {
          double *of_h = &dh[numbers.state(stack, example)], *of_c = &dc[numbers.state(stack, example)];
          const double* arrived =
              &above[numbers.row(step, example, sizes.directions * sizes.hidden) + to_size(stack % sizes.directions) * n];
          for (std::size_t j = 0; j < n; ++j) of_h[j] += arrived[j];
          const double* h_before = numbers.hidden_before(stack, turn, example);
          Numbers x(to_size(sizes.gates()) * n, 0.0), h;
          step_backward(sizes, &numbers.saved[numbers.kept(stack, step, example)], h_before, numbers.cell_before(stack, turn, example), of_h,
                        of_c, x, h);
          numbers.of_input(stack).multiply_transposed(x, &below[numbers.row(step, example, width)]);
          numbers.of_hidden(stack).multiply_transposed(h, of_h);
          add_outer(x, numbers.read(layer, step, example).data(), width, gradient(numbers.param(stack, 0)));
          add_outer(h, h_before, sizes.hidden, gradient(numbers.param(stack, 1)));
          for (std::size_t j = 0; sizes.biases && j < x.size(); ++j) {
            gradient(numbers.param(stack, 2))[j] += x[j];
            gradient(numbers.param(stack, 3))[j] += h[j];
          }
        }
      }
    }
    above = std::move(below);
  }
  made[0] = std::move(above);
  made[1] = std::move(dh);
  if (sizes.cell == Cell::lstm) made[2] = std::move(dc);
  std::vector<Tensor> results;
  for (std::size_t i = 0; i < made.size(); ++i) results.push_back(written(call.result(i), made[i]));
  return results;
}

}  // namespace meshwright
