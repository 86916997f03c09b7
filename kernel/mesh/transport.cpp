#include "meshwright/transport.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "tensor/guarded.h"

namespace meshwright {

namespace {

Status check(const std::vector<int>& ranks, int all, std::int64_t bytes, std::int64_t count) {
  const bool exist = std::ranges::all_of(ranks, [&](int rank) { return rank >= 0 && rank < all; });
  if (!exist || ranks.size() < 2) return internal_error("a message needs two ranks that exist, of " + std::to_string(all));
  if (bytes < 1 || count < 1) return internal_error("a message needs at least one byte, and must be sent at least once");
  return Done{};
}

template <class Function>
Result<double> seconds_of(const Status& valid, Function&& function) {
  if (!valid) return valid.error();
  return guarded([] { return std::string("the transport"); }, [&]() -> Result<double> {
    const double seconds = function();
    if (std::isfinite(seconds) && seconds >= 0) return seconds;
    return plugin_failed("the transport says that a message took no number of seconds: " + std::to_string(seconds));
  });
}

}  // namespace

Transport::~Transport() = default;

Result<double> Transport::round_trip_seconds(int first, int second, std::int64_t bytes, std::int64_t count) {
  const Status valid = first != second ? check({first, second}, ranks(), bytes, count) : internal_error("a rank does not send to itself");
  return seconds_of(valid, [&] { return do_round_trip_seconds(first, second, bytes, count); });
}

Result<double> Transport::message_seconds(int from, int to, std::int64_t bytes, std::int64_t count) {
  const Status valid = from != to ? check({from, to}, ranks(), bytes, count) : internal_error("a rank does not send to itself");
  return seconds_of(valid, [&] { return do_message_seconds(from, to, bytes, count); });
}

Result<double> Transport::all_reduce_seconds(const std::vector<int>& group, std::int64_t bytes, std::int64_t count) {
  Status valid = check(group, ranks(), bytes, count);
  if (valid && bytes % 4 != 0) valid = internal_error("an all-reduce of float32 has a multiple of 4 bytes");
  if (valid && std::ranges::adjacent_find(group, std::greater_equal<>()) != group.end()) valid = internal_error("a group's ranks must ascend");
  return seconds_of(valid, [&] { return do_all_reduce_seconds(group, bytes, count); });
}

}  // namespace meshwright
