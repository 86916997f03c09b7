// What the stages of a MenuProblem take at least, whose nodes choose entries of a menu: C(L, E) = min C(L − 1, E − O(L, S)) + c(L, S) + R(L, S', S) (the paper's equation 1), with labels in place of a memory E in parts.
// A label is a choice of entries of the first nodes: no other one that ends with the same entry is better in seconds, bytes and passing bytes. Where the fastest entries of a stage fit they are the best, and no other
// labels are looked at.
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

  using Labels = std::vector<std::vector<Label>>;  // by node from `first` on

  [[nodiscard]] Label with(std::uint32_t node, std::uint32_t entry, Label before) const;
  [[nodiscard]] bool fits(const Label& label) const { return label.bytes + label.passing <= device_bytes_; }
  void grow(std::uint32_t node, bool by_seconds, Labels& labels);
  void keep_best(std::vector<Label>& labels);
  // The stage's fastest one that fits, by seconds alone if that one does; null: none.
  [[nodiscard]] const Label* best(std::size_t at, const Labels*& of) const;

  const MenuProblem& problem_;
  const Menu& menu_;
  std::uint32_t first_;
  double in_flight_;
  double device_bytes_;
  Labels fastest_;  // by seconds alone, whether they fit or not
  Labels fitting_;  // empty where the fastest ones of all stages fit
  std::vector<double> seconds_;  // by node from `first` on: of the stage that ends with it
  bool exact_ = true;
};

}  // namespace meshwright
