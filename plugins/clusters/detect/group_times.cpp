#include "group_times.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

namespace meshwright {

namespace {

constexpr double kRounded = 1.0001;

using Curve = std::map<double, std::vector<double>>;  // by bytes, what bus bandwidths were measured

// The medians; time never falls with bytes, whatever the noise, and however a file's figures are rounded.
BusBandwidth curve_of(std::size_t devices, const Curve& measured) {
  BusBandwidth curve;
  curve.devices = static_cast<std::int64_t>(devices);
  for (const auto& [bytes, rates] : measured) {
    double rate = median(rates);
    if (!curve.bytes.empty()) rate = std::min(rate, bytes / (kRounded * curve.bytes.back() / curve.bytes_per_second.back()));
    curve.bytes.push_back(bytes);
    curve.bytes_per_second.push_back(rate);
  }
  return curve;
}

// How many links a collective used that was so many times as fast as one link, of at most one for each device of an inner group.
std::int64_t links_used(double times, std::size_t inner) {
  if (times < kApart) return 1;
  std::size_t best = 1;
  for (std::size_t links = 1; links <= inner; ++links) {
    if (inner % links == 0 && std::abs(std::log(static_cast<double>(links) / times)) < std::abs(std::log(static_cast<double>(best) / times))) best = links;
  }
  return static_cast<std::int64_t>(best);
}

// The level that joins these places, if they are whole groups of the one inside.
std::optional<std::size_t> level_of(const std::vector<std::size_t>& places, const Hierarchy& hierarchy) {
  std::size_t inner = 1;
  for (std::size_t level = 0; level < hierarchy.levels.size(); ++level) {
    const std::size_t group = hierarchy.levels[level].group;
    if (places.front() / group == places.back() / group) {
      for (std::size_t i = 0; i < places.size(); i += inner) {
        if (places[i] % inner != 0 || i + inner > places.size() || places[i + inner - 1] != places[i] + inner - 1) return std::nullopt;
      }
      return level;
    }
    inner = group;
  }
  return std::nullopt;
}

}  // namespace

std::size_t add_group_times(const std::vector<GroupTime>& times, const Hierarchy& hierarchy, std::vector<LinkLevel>& levels) {
  std::vector<std::size_t> place_of(hierarchy.order.size());
  for (std::size_t place = 0; place < place_of.size(); ++place) place_of[hierarchy.order[place]] = place;
  std::map<std::size_t, std::map<std::size_t, Curve>> curves;  // by level, and by the group's devices
  std::size_t unused = 0;
  for (const GroupTime& time : times) {
    std::vector<std::size_t> places;
    for (const std::size_t device : time.devices) places.push_back(place_of[device]);
    std::ranges::sort(places);
    const auto level = level_of(places, hierarchy);
    const auto devices = static_cast<double>(places.size());
    if (level) curves[*level][places.size()][time.bytes].push_back(time.bytes / time.seconds * 2 * (devices - 1) / devices);
    else ++unused;
  }
  for (const auto& [index, by_size] : curves) {
    LinkLevel& level = levels[index];
    for (const auto& [devices, measured] : by_size) level.measured.push_back(curve_of(devices, measured));
    const std::size_t inner = index == 0 ? 1 : hierarchy.levels[index - 1].group;
    if (inner == 1 || level.measured.back().devices != level.group) continue;
    const std::int64_t links = links_used(level.measured.back().bytes_per_second.back() / level.bytes_per_second, inner);
    level.ganged = links > 1;
    level.sharers = static_cast<std::int64_t>(inner) / links;
  }
  return unused;
}

}  // namespace meshwright
