// Tied weights: torch.export merges all uses onto one parameter and leaves the other names as unused inputs, which
// must not count as memory. This finds, for each unused parameter, the used one that it is.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "exported_program.h"

namespace meshwright::torch_export {

class TiedWeights {
 public:
  // `payloads` are the sizes of the files in data/weights/ by name. A model on the meta device has empty payloads,
  // and all its weights then share one.
  TiedWeights(std::unordered_map<std::string, WeightPlace> places,
              const std::map<std::string, std::uint64_t>& payloads);

  // The one of `used` that lies in the same place as `unused`. Where there are no bytes, a place says nothing: then
  // the only one of the same shape and dtype, if there is just one.
  [[nodiscard]] std::optional<std::string> find(const std::string& unused, const std::vector<std::string>& used) const;

 private:
  [[nodiscard]] bool has_bytes(const WeightPlace& place) const;

  std::unordered_map<std::string, WeightPlace> places_;
  const std::map<std::string, std::uint64_t>& payloads_;
};

}  // namespace meshwright::torch_export
