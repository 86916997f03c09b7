// Random numbers by counter (Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3"): element i of a stream is
// a function of the stream and i alone, so that a sharded mask is the serial one.
#pragma once

#include <cstdint>
#include <string>

#include "meshwright/graph.h"
#include "split_mix.h"

namespace meshwright {

class RandomStream {
 public:
  // The stream of a call: that of the forward's node, which its backward names in the attribute "random_stream"; the
  // attribute "seed" tells runs apart.
  explicit RandomStream(const Node& node) {
    for (const char c : node.text("random_stream", node.name)) key_ = (key_ ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
    key_ = split_mix(key_ + static_cast<std::uint64_t>(node.integer("seed", 0)));
  }

  [[nodiscard]] std::uint64_t key() const { return key_; }  // for those who draw elsewhere

  // In [0, 1).
  [[nodiscard]] double uniform(std::int64_t element) const {
    return unit_of(split_mix(key_ + static_cast<std::uint64_t>(element) * kSplitMixStep));
  }

 private:
  std::uint64_t key_ = 0xcbf29ce484222325ULL;
};

}  // namespace meshwright
