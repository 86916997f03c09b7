// What the stages of a MenuProblem take at least, whose nodes choose entries of a menu: C(L, E) = min C(L − 1, E − O(L, S)) + c(L, S) + R(L, S', S) (the paper's equation 1), with labels in place of a memory E in parts.
// A label is a choice of entries of the first nodes: no other one that ends with the same entry is better in seconds, bytes and passing bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "meshwright/placement.h"

namespace meshwright {

class MenuTable {
 public:
  // Of stages that begin with node `first` and have so many microbatches in flight. Problem and menu outlive it.
  MenuTable(const MenuProblem& problem, const Menu& menu, std::uint32_t first, double in_flight);

  // Seconds of the stage [first, end), with what crosses behind it; infinite where nothing fits.
  [[nodiscard]] double seconds(std::uint32_t end) const { return seconds_[end - first_ - 1]; }
  // The entries of its nodes. Only where something fits.
  [[nodiscard]] std::vector<std::uint32_t> entries(std::uint32_t end) const;
  // False: there were more labels than are kept.
  [[nodiscard]] bool exact() const { return exact_; }

 private:
  struct Label {
    double seconds = 0, bytes = 0, passing = 0;
    std::uint32_t entry = 0;
    std::uint32_t before = 0;  // of the node before
  };

  [[nodiscard]] Label with(std::uint32_t node, std::uint32_t entry, Label before) const;
  void add(std::vector<Label>& labels, const Label& label) const;
  void grow(std::uint32_t node);
  void keep_best(std::vector<Label>& labels);

  const MenuProblem& problem_;
  const Menu& menu_;
  std::uint32_t first_;
  double in_flight_;
  double device_bytes_;
  std::vector<std::vector<Label>> labels_;  // by node from `first` on
  std::vector<double> seconds_;             // by node from `first` on: of the stage that ends with it
  bool exact_ = true;
};

}  // namespace meshwright
