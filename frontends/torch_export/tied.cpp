#include "tied.h"

namespace meshwright::torch_export {

TiedWeights::TiedWeights(std::unordered_map<std::string, WeightPlace> places,
                         const std::map<std::string, std::uint64_t>& payloads)
    : places_(std::move(places)), payloads_(payloads) {}

bool TiedWeights::has_bytes(const WeightPlace& place) const {
  const auto payload = payloads_.find(place.payload);
  return payload != payloads_.end() && payload->second > 0;
}

std::optional<std::string> TiedWeights::find(const std::string& unused, const std::vector<std::string>& used) const {
  const auto place = places_.find(unused);
  if (place == places_.end()) return std::nullopt;
  std::vector<std::string> alike;
  for (const std::string& name : used) {
    const auto other = places_.find(name);
    if (other != places_.end() && other->second == place->second) alike.push_back(name);
  }
  if (alike.empty()) return std::nullopt;
  if (has_bytes(place->second)) return alike.front();
  return alike.size() == 1 ? std::optional(alike.front()) : std::nullopt;
}

}  // namespace meshwright::torch_export
