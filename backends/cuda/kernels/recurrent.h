// A step of a recurrent layer, but for its products: what an LSTM (Hochreiter and Schmidhuber 1997; gates i, f, g, o),
// a GRU (Cho et al. 2014; gates r, z, n) or Elman's cell makes of its gates' sums, and the gradients of these.
#pragma once

#include "functions.h"
#include "kernel.h"

namespace meshwright::cuda {

enum class Cell : int32_t { lstm, gru, tanh, relu };

// Each view has a row for each example, at strides[0], in which `hidden` numbers follow each other for each gate, or
// for each thing that is kept: of an LSTM i, f, g, o, c, tanh(c), h; of a GRU r, z, n, the state's part of n, h; of
// Elman's h. Biases have one row for all.
struct RecurrentArguments {
  Cell cell = Cell::lstm;
  int64_t hidden = 0;
  View h_before, c_before, kept;
  View from_input, from_state;     // the gates' sums
  View input_bias, state_bias;     // without memory: there are none
  View h;                          // what the next step reads
  View above, direct, through;     // the gradients of h: of what is above; past the next step's gates; through them
  View of_cell;                    // the gradient of c
  View of_input, of_state, gates;  // the gradients of both sums; that of the state's once more, for its product
};

template <class Real>
MESHWRIGHT_DEVICE Real number_of(const View& view, int64_t example, int64_t at) {
  return view.data == nullptr ? Real(0) : load<Real>(view, example * view.strides[0] + at);
}
template <class Real>
MESHWRIGHT_DEVICE void set_number(const View& view, int64_t example, int64_t at, Real number) {
  if (view.data != nullptr) store(view, example * view.strides[0] + at, number);
}

template <class Real>
MESHWRIGHT_DEVICE void take_step(const RecurrentArguments& a, int64_t index) {
  const int64_t example = quotient(index, a.hidden), j = index - example * a.hidden;
  const auto input = [&](int gate) {
    const int64_t at = gate * a.hidden + j;
    return number_of<Real>(a.from_input, example, at) + number_of<Real>(a.input_bias, 0, at);
  };
  const auto state = [&](int gate) {
    const int64_t at = gate * a.hidden + j;
    return number_of<Real>(a.from_state, example, at) + number_of<Real>(a.state_bias, 0, at);
  };
  const auto keep = [&](int number, Real made) { set_number(a.kept, example, number * a.hidden + j, made); };
  Real h = 0;
  if (a.cell == Cell::lstm) {
    const Real i = sigmoid_of(input(0) + state(0)), f = sigmoid_of(input(1) + state(1)), g = tanh(input(2) + state(2)),
               o = sigmoid_of(input(3) + state(3)), c = f * number_of<Real>(a.c_before, example, j) + i * g,
               squashed = tanh(c);
    h = o * squashed;
    keep(0, i);
    keep(1, f);
    keep(2, g);
    keep(3, o);
    keep(4, c);
    keep(5, squashed);
    keep(6, h);
  } else if (a.cell == Cell::gru) {
    const Real r = sigmoid_of(input(0) + state(0)), z = sigmoid_of(input(1) + state(1)), part = state(2),
               candidate = tanh(input(2) + r * part);
    h = candidate + z * (number_of<Real>(a.h_before, example, j) - candidate);
    keep(0, r);
    keep(1, z);
    keep(2, candidate);
    keep(3, part);
    keep(4, h);
  } else {
    const Real sum = input(0) + state(0);
    h = a.cell == Cell::tanh ? tanh(sum) : sum < 0 ? Real(0) : sum;
    keep(0, h);
  }
  set_number(a.h, example, j, h);
}

// One index a number of the state.
MESHWRIGHT_KERNEL(recurrent_step, RecurrentArguments) {
  if (is_single(arguments.kept.element))
    take_step<float>(arguments, index);
  else
    take_step<double>(arguments, index);
}

template <class Real>
MESHWRIGHT_DEVICE void take_step_back(const RecurrentArguments& a, int64_t index) {
  const int64_t example = quotient(index, a.hidden), j = index - example * a.hidden;
  const auto kept = [&](int number) { return number_of<Real>(a.kept, example, number * a.hidden + j); };
  const auto give = [&](int gate, Real of_input, Real of_state) {
    const int64_t at = gate * a.hidden + j;
    set_number(a.of_input, example, at, of_input);
    set_number(a.of_state, example, at, of_state);
    set_number(a.gates, example, at, of_state);
  };
  const Real of_h = number_of<Real>(a.above, example, j) + number_of<Real>(a.direct, example, j) +
                    number_of<Real>(a.through, example, j);
  Real direct = 0;
  if (a.cell == Cell::lstm) {
    const Real i = kept(0), f = kept(1), g = kept(2), o = kept(3), squashed = kept(5),
               of_cell = number_of<Real>(a.of_cell, example, j) + of_h * o * (1 - squashed * squashed);
    const Real gates[] = {of_cell * g * i * (1 - i), of_cell * number_of<Real>(a.c_before, example, j) * f * (1 - f),
                          of_cell * i * (1 - g * g), of_h * squashed * o * (1 - o)};
    MESHWRIGHT_UNROLL
    for (int gate = 0; gate < 4; ++gate) give(gate, gates[gate], gates[gate]);
    set_number(a.of_cell, example, j, of_cell * f);
  } else if (a.cell == Cell::gru) {
    const Real r = kept(0), z = kept(1), candidate = kept(2), part = kept(3),
               of_candidate = of_h * (1 - z) * (1 - candidate * candidate), of_r = of_candidate * part * r * (1 - r),
               of_z = of_h * (number_of<Real>(a.h_before, example, j) - candidate) * z * (1 - z);
    give(0, of_r, of_r);
    give(1, of_z, of_z);
    give(2, of_candidate, of_candidate * r);
    direct = of_h * z;
  } else {
    const Real h = kept(0), made = a.cell == Cell::tanh ? of_h * (1 - h * h) : h > 0 ? of_h : Real(0);
    give(0, made, made);
  }
  set_number(a.direct, example, j, direct);
}

// Likewise.
MESHWRIGHT_KERNEL(recurrent_step_back, RecurrentArguments) {
  if (is_single(arguments.kept.element))
    take_step_back<float>(arguments, index);
  else
    take_step_back<double>(arguments, index);
}

}  // namespace meshwright::cuda
