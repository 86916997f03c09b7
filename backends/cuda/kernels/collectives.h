// What collectives do among ranks whose memory one GPU reaches (loopback_driver.h).
#pragma once

#include "kernel.h"

namespace meshwright::cuda {

constexpr int kMaxLoopbackRanks = 64;

enum class Gathering : int32_t { all_reduce, reduce_scatter, all_gather };

struct GatheringArguments {
  Gathering kind = Gathering::all_reduce;
  Element element = Element::float32;
  bool maximum = false;
  int32_t ranks = 0;
  int64_t count = 0;  // as of the driver's function
  const void* from[kMaxLoopbackRanks] = {};
  void* to[kMaxLoopbackRanks] = {};
};

// Of all ranks, in their order.
MESHWRIGHT_DEVICE double combined(const GatheringArguments& arguments, int64_t at) {
  double all = load(arguments.from[0], arguments.element, at);
  for (int r = 1; r < arguments.ranks; ++r) {
    const double other = load(arguments.from[r], arguments.element, at);
    all = !arguments.maximum ? all + other : all < other ? other : all;
  }
  return all;
}

// Over the elements of what is made. A result may lie where NCCL lets it lie in what it comes from: an element of each
// rank is read before the same one is written.
MESHWRIGHT_KERNEL(gathering, GatheringArguments) {
  const int64_t rank = index / arguments.count, at = index % arguments.count;
  if (arguments.kind == Gathering::reduce_scatter) {
    store(arguments.to[rank], arguments.element, at, combined(arguments, index));
    return;
  }
  const double number = arguments.kind == Gathering::all_reduce ? combined(arguments, index)
                                                                : load(arguments.from[rank], arguments.element, at);
  for (int r = 0; r < arguments.ranks; ++r) store(arguments.to[r], arguments.element, index, number);
}

}  // namespace meshwright::cuda
