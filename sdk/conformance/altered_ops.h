// Op families with one rule changed in memory: to see that a wrong rule is found, and whether a right one could claim
// more.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "meshwright/op.h"

namespace meshwright {

// Serves what `ops` serves; the rules of `op` go through `change`. `ops` must outlive it.
class AlteredOps final : public OpTable {
 public:
  AlteredOps(const OpTable& ops, std::string op, std::function<void(Rule&)> change);
  [[nodiscard]] const OpFamily* find(std::string_view op) const override;

 private:
  const OpTable& ops_;
  const std::string op_;
  std::unique_ptr<OpFamily> altered_;
};

}  // namespace meshwright
