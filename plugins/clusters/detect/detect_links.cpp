#include "detect_links.h"

#include <algorithm>
#include <cstdint>
#include <sstream>
#include <string>

#include "as_started.h"
#include "group_times.h"
#include "hierarchy.h"

namespace meshwright {

namespace {

constexpr double kNetwork = 4;  // how many times slower the links between servers are, if nobody says where servers end

struct Pair {
  std::size_t a = 0, b = 0;
  double latency_seconds = 0, bytes_per_second = 0;
};

// Pairs that a level joins and no inner one does. `partners`: of devices at one place of their inner groups, or all others.
std::vector<Pair> pairs_of(const LinkMatrix& links, const Hierarchy& hierarchy, std::size_t level, bool partners) {
  const std::size_t group = hierarchy.levels[level].group, inner = level == 0 ? 1 : hierarchy.levels[level - 1].group;
  std::vector<Pair> pairs;
  for (std::size_t p = 0; p < links.devices; ++p) {
    for (std::size_t q = p + 1; q < p / group * group + group; ++q) {
      if (p / inner == q / inner || (hierarchy.levels[level].aligned && partners != (p % inner == q % inner))) continue;
      const auto [a, b] = std::minmax(hierarchy.order[p], hierarchy.order[q]);
      pairs.push_back({a, b, links.latency(a, b), links.bandwidth(a, b)});
    }
  }
  return pairs;
}

std::string rate_text(double bytes_per_second) {
  std::ostringstream text;
  text.precision(3);
  text << bytes_per_second / 1e9 << " GB/s";
  return text.str();
}

enum class Count : std::uint8_t {
  usual,           // the slowest kind of links that is no exception
  usual_or_least,  // the same, or the slowest link where there are no kinds
  slowest,         // the slowest kind, or the slowest link
};

// `thresholds` descend.
Result<double> bandwidth_of(const std::vector<Pair>& pairs, const std::vector<double>& thresholds, Count count) {
  std::vector<double> kind;
  std::size_t slower = 0;
  for (std::size_t i = thresholds.size(); i-- > 0;) {
    kind.clear();
    for (const Pair& pair : pairs) {
      if (pair.bytes_per_second > thresholds[i] && (i == 0 || pair.bytes_per_second <= thresholds[i - 1])) kind.push_back(pair.bytes_per_second);
    }
    slower += kind.size();
    if (3 * slower > pairs.size() || (count == Count::slowest && slower > 0)) break;
  }
  const double middle = median(kind);
  const auto near = std::ranges::count_if(kind, [&](double value) { return value * kApart >= middle && value <= middle * kApart; });
  if (3 * static_cast<std::size_t>(near) >= 2 * kind.size()) return middle;
  const auto [least, most] = std::ranges::minmax(kind);
  if (count != Count::usual) return least;
  return bad_input("bandwidths of " + std::to_string(kind.size()) + " pairs lie between " + rate_text(least) + " and " + rate_text(most) +
                   " without being of one kind or of several; measure with larger messages, while nothing else uses the links");
}

double latency_of(const std::vector<Pair>& pairs, double bandwidth) {
  std::vector<double> values;
  for (const Pair& pair : pairs) {
    if (pair.bytes_per_second * kApart >= bandwidth) values.push_back(pair.latency_seconds);
  }
  return median(values);
}

// Ordered by the devices.
void add_slow_links(std::vector<Pair> pairs, const LinkLevel& level, std::vector<SlowLink>& found) {
  std::ranges::sort(pairs, {}, [](const Pair& pair) { return std::pair(pair.a, pair.b); });
  const auto late = [&](const Pair& pair) { return pair.latency_seconds > level.latency_seconds * kApart; };
  const bool few_late = 3 * std::ranges::count_if(pairs, late) <= static_cast<std::ptrdiff_t>(pairs.size());
  for (const Pair& pair : pairs) {
    const auto first = static_cast<std::int64_t>(pair.a), second = static_cast<std::int64_t>(pair.b);
    if (pair.bytes_per_second * kApart < level.bytes_per_second) found.push_back({first, second, level.name, false, level.bytes_per_second, pair.bytes_per_second});
    if (few_late && late(pair)) found.push_back({first, second, level.name, true, level.latency_seconds, pair.latency_seconds});
  }
}

Status divide_into_nodes(DetectedLinks& links, std::int64_t devices, std::int64_t devices_per_node) {
  const std::size_t count = links.levels.size();
  links.devices_per_node = devices_per_node;
  if (devices_per_node == 0) {
    const bool network = count > 1 && links.levels[count - 1].bytes_per_second * kNetwork <= links.levels[count - 2].bytes_per_second;
    links.devices_per_node = network ? links.levels[count - 2].group : devices;
    if (network) {
      links.notes.push_back("Groups of " + std::to_string(links.devices_per_node) + " devices are taken for servers, since links between them are less than a quarter as fast as inside: if they are not, " +
                            "set devices_per_node in [cluster.detect]");
    }
  }
  std::string sizes;
  bool is_level = false;
  for (const LinkLevel& level : links.levels) {
    sizes += (sizes.empty() ? "" : ", ") + std::to_string(level.group);
    is_level |= level.group == links.devices_per_node;
  }
  if (!is_level && links.devices_per_node != 1) {
    return bad_input("devices_per_node in [cluster.detect] is " + std::to_string(devices_per_node) + ", but links join groups of " + sizes + " devices");
  }
  links.nodes = devices / links.devices_per_node;
  return Done{};
}

}  // namespace

Result<DetectedLinks> detect_links(const RecordedLinks& recorded, std::int64_t devices_per_node, bool as_started) {
  const LinkMatrix& matrix = recorded.pairs;
  Result<Hierarchy> hierarchy = find_hierarchy(matrix);
  DetectedLinks links;
  Count count = Count::usual;
  if (as_started) {
    StartedHierarchy started = hierarchy_as_started(matrix, hierarchy, static_cast<std::size_t>(devices_per_node));
    if (!started.note.empty()) links.notes.push_back(std::move(started.note));
    count = started.as_found ? Count::usual_or_least : Count::slowest;
    hierarchy = std::move(started.hierarchy);
  }
  if (!hierarchy) return hierarchy.error();
  if (matrix.uneven > 0) links.notes.push_back("Directions of " + std::to_string(matrix.uneven) + " pairs differ by more than noise: the slower one counts");
  const std::vector<double> thresholds = find_thresholds(matrix);
  for (std::size_t i = 0; i < hierarchy->levels.size(); ++i) {
    const GroupLevel& found = hierarchy->levels[i];
    const std::vector<Pair> pairs = pairs_of(matrix, *hierarchy, i, true);
    const Result<double> bandwidth = bandwidth_of(pairs, thresholds, count);
    if (!bandwidth) return bandwidth.error();
    LinkLevel level;
    level.name = "links_" + std::to_string(found.group);
    level.group = static_cast<std::int64_t>(found.group);
    level.bytes_per_second = *bandwidth;
    level.latency_seconds = latency_of(pairs, *bandwidth);
    level.ganged = found.aligned;  // partners' links are each pair's own
    add_slow_links(pairs, level, links.slow_links);
    if (found.aligned) {
      const std::vector<Pair> others = pairs_of(matrix, *hierarchy, i, false);
      const Result<double> slower = bandwidth_of(others, thresholds, count);
      if (!slower) return slower.error();
      LinkLevel away = level;
      away.bytes_per_second = *slower;
      away.latency_seconds = latency_of(others, *slower);
      add_slow_links(others, away, links.slow_links);
      links.notes.push_back("In " + level.name + " a device reaches those at its own place of the other groups at " + rate_text(level.bytes_per_second) + ", all others at " + rate_text(*slower) +
                            ": axes of a mesh join the former, and a cluster's file can't say the latter");
    }
    links.levels.push_back(std::move(level));
  }
  for (const std::size_t device : hierarchy->order) links.order.push_back(static_cast<std::int64_t>(device));
  if (Status status = divide_into_nodes(links, static_cast<std::int64_t>(matrix.devices), devices_per_node); !status) return status.error();
  const std::size_t unused = add_group_times(recorded.groups, *hierarchy, links.levels);
  std::string unknown;
  for (std::size_t i = 1; i < links.levels.size(); ++i) {
    const LinkLevel& level = links.levels[i];
    const bool whole = !level.measured.empty() && level.measured.back().devices == level.group;
    if (!whole && !hierarchy->levels[i].aligned) unknown += (unknown.empty() ? "" : ", ") + level.name;
  }
  if (!unknown.empty()) {
    links.notes.push_back("Whether devices share links of " + unknown + ", pairs don't say: each is taken to have its own, of which a collective uses one; record all-reduces of all devices of a group, or set " +
                          "shared_by and ganged in the file");
  }
  if (unused > 0) {
    links.notes.push_back(std::to_string(unused) + " of the groups' times are not used: their groups are not whole groups of a level");
  }
  return links;
}

}  // namespace meshwright
