// Tokens' copies in buffers with so many rows for each rank that they go to (plugins/ops/experts/exchange.cpp).
#pragma once

#include "lookups.h"

namespace meshwright::cuda {

// All lie row by row. `slots`: of each copy its row in the buffer; `copies_of`: of each row the copy that it has, -1:
// none.
struct ExchangeArguments {
  static constexpr int64_t kMaxExperts = 1024, kMaxRanks = 256;
  uint8_t destinations[kMaxExperts] = {};  // by expert, among the ranks
  int64_t copies = 0, of_token = 1;        // in all, and of each token
  int64_t ranks = 0, capacity = 0, width = 0;
  int64_t *slots = nullptr, *copies_of = nullptr;
  View indices, rows, weights;  // weights without memory: each is 1
  View result, experts;
  int32_t* fault = nullptr;  // 2: more copies go to a rank than its buffer has rows
};

// One index a rank: its copies in their order.
MESHWRIGHT_ROW_KERNEL(exchange_slots, ExchangeArguments) {
  const ExchangeArguments& a = arguments;
  int64_t next = 0;
  for (int64_t first = 0; first < a.copies; first += kLanes) {
    const int64_t copy = first + lane;
    const bool goes = copy < a.copies && a.destinations[load<int64_t>(a.indices, copy)] == index;
    int before = 0;
    const int all = count_of_lanes(goes, lane, before);
    const int64_t place = next + before;
    if (goes) a.slots[copy] = place < a.capacity ? index * a.capacity + place : -1;
    if (goes && place < a.capacity) a.copies_of[index * a.capacity + place] = copy;
    next += all;
  }
  for (int64_t place = next + lane; place < a.capacity; place += kLanes) a.copies_of[index * a.capacity + place] = -1;
  if (next > a.capacity && lane == 0 && a.fault != nullptr) *a.fault = 2;
}

// One index a number of the buffer: a token's, for each of its copies. Beside the rows, the copies' experts.
MESHWRIGHT_KERNEL(exchange_dispatch, ExchangeArguments) {
  const ExchangeArguments& a = arguments;
  const int64_t slot = quotient(index, a.width), column = index - slot * a.width, copy = a.copies_of[slot];
  store(a.result, index, copy < 0 ? 0 : load(a.rows, quotient(copy, a.of_token) * a.width + column));
  if (column != 0) return;
  if (a.experts.data != nullptr) store(a.experts, slot, copy < 0 ? -1 : load(a.indices, copy));
}

// One index a row of the buffer: a number of its copy's.
MESHWRIGHT_KERNEL(exchange_numbers, ExchangeArguments) {
  const int64_t copy = arguments.copies_of[index];
  store(arguments.result, index, copy < 0 ? 0 : load(arguments.weights, copy));
}

// One index an element of the tokens: the sum of its copies, times their weights.
MESHWRIGHT_KERNEL(exchange_combine, ExchangeArguments) {
  const ExchangeArguments& a = arguments;
  const int64_t token = quotient(index, a.width), column = index - token * a.width;
  double sum = 0;
  for (int64_t copy = token * a.of_token; copy < (token + 1) * a.of_token; ++copy) {
    const int64_t slot = a.slots[copy];
    if (slot < 0) continue;
    const double weight = a.weights.data != nullptr ? load(a.weights, copy) : 1;
    sum += weight * load(a.rows, slot * a.width + column);
  }
  store(a.result, index, sum);
}

// One index a copy: the number of its row.
MESHWRIGHT_KERNEL(exchange_collect, ExchangeArguments) {
  const int64_t slot = arguments.slots[index];
  store(arguments.result, index, slot < 0 ? 0 : load(arguments.rows, slot));
}

}  // namespace meshwright::cuda
