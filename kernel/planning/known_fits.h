// What the simulation of plans has said, so that none is simulated again only to be refused again: several searches come across the same plans.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "meshwright/strategy.h"

namespace meshwright {

class KnownFits {
 public:
  // A choice of a problem, or of a copy of it, where these blocks and ops run again, within a budget.
  struct Key {
    std::weak_ptr<const EdgePrices> problem;  // which one it is, also once it is gone
    std::vector<std::string> again;
    std::int64_t budget = 0;
    std::vector<std::uint32_t> choice;

    bool operator<(const Key& other) const {
      if (problem.owner_before(other.problem) || other.problem.owner_before(problem)) return problem.owner_before(other.problem);
      return std::tie(again, budget, choice) < std::tie(other.again, other.budget, other.choice);
    }
  };
  static Key key_of(const ProblemInput& input, const Problem& problem, const std::vector<std::uint32_t>& choice, std::int64_t budget) {
    return {problem.edge_prices, input.recomputed, budget, choice};
  }

  // Whether it is known that this one does not fit, or has no step that is shorter than that.
  [[nodiscard]] bool is_refused(const Key& key, double than_seconds) const {
    const auto known = refused_.find(key);
    return known != refused_.end() && than_seconds <= known->second;
  }
  // It is, for all steps up to that.
  void refuse(const Key& key, double up_to_seconds) {
    if (key.problem.expired()) return;  // nothing says which problem it is
    double& known = refused_.try_emplace(key, up_to_seconds).first->second;
    known = std::max(known, up_to_seconds);
  }

 private:
  std::map<Key, double> refused_;
};

}  // namespace meshwright
