// What the ranks of a transport find of the links between them (MAP §4.2).
//
// Pairs are measured one after the other. Two at the same time may share a card, a port, a switch or a processor, and which two do depends on who is
// measured with whom, while a pair's figures are to be its own link's; what sharing does, all-reduces say. That takes time for n(n-1)/2 pairs.
// All pairs are measured once before any is measured again, and medians count: what else a machine does for a moment then hits each pair once. Pairs
// whose directions differ by more than noise are measured again.
// Groups are those that the pairs' links form, all of each level, and all ranks together.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "meshwright/transport.h"
#include "recorded_links.h"

namespace meshwright {

struct MeasureSettings {
  double point_seconds = 0.02;            // how long each figure of a pair or group is measured, in all rounds together
  std::int64_t message_bytes = 8 << 20;   // of large messages, from kLeastMessage to kMostMessage
  std::int64_t rounds = 5;                // of which the median counts
  bool as_started = false;                // groups are of ranks that follow each other
};

inline constexpr std::int64_t kLeastMessage = 64 << 10, kMostMessage = 1 << 30;

// From one rank to another.
struct PairTime {
  std::size_t from = 0, to = 0;
  double latency_seconds = 0;    // half of a round trip
  double bytes_per_second = 0;   // of large messages, all in this direction
};

struct MeasuredLinks {
  std::vector<PairTime> pairs;    // both directions of each
  std::vector<GroupTime> groups;
};

// All ranks call it and get the same. Errors: those of the transport; bad_input for one rank alone, and for more than kMostMeasured.
Result<MeasuredLinks> measure_links(Transport& transport, const MeasureSettings& settings);

// As read_recorded_links reads it back, to the last bit.
std::string recorded_text(const MeasuredLinks& links);

}  // namespace meshwright
