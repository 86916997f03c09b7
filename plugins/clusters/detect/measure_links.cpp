#include "measure_links.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <set>

#include "as_started.h"
#include "hierarchy.h"

namespace meshwright {

namespace {

constexpr std::int64_t kSmallMessage = 8;                                       // bytes
constexpr std::int64_t kAllReduces[] = {1 << 10, 64 << 10, 1 << 20};            // bytes, and large messages'
constexpr std::int64_t kTries = 3;                                              // of a pair whose directions differ
constexpr double kLeastSeconds = 1e-9;                                          // what a clock can tell from nothing
constexpr double kMostCount = 1e5;

// One figure of a pair or a group: `measure(count)` gives mean seconds of so many.
class Point {
 public:
  Point(double part_seconds, std::int64_t rounds) : part_seconds_(part_seconds), rounds_(rounds) {}

  template <class Measure>
  Status add(Measure&& measure) {
    if (latest_ == 0) {
      const Result<double> once = measure(1);
      if (!once) return once.error();
      latest_ = std::max(*once, kLeastSeconds);
    }
    const Result<double> seconds = measure(static_cast<std::int64_t>(std::clamp(std::round(part_seconds_ / latest_), 1.0, kMostCount)));
    if (!seconds) return seconds.error();
    latest_ = std::max(*seconds, kLeastSeconds);
    seconds_.push_back(latest_);
    return Done{};
  }

  // All rounds at once.
  template <class Measure>
  Status add_all(Measure&& measure) {
    Status status = Done{};
    for (std::int64_t round = 0; status && round < rounds_; ++round) status = add(measure);
    return status;
  }

  [[nodiscard]] double seconds() const { return median(seconds_); }

 private:
  double part_seconds_;
  std::int64_t rounds_;
  double latest_ = 0;
  std::vector<double> seconds_;
};

struct PairPoints {
  int first, second;
  Point trip, there, back;
};

Result<std::vector<PairTime>> measure_pairs(Transport& transport, const MeasureSettings& settings) {
  const Point none(settings.point_seconds / static_cast<double>(settings.rounds), settings.rounds);
  std::vector<PairPoints> points;
  for (int a = 0; a < transport.ranks(); ++a) {
    for (int b = a + 1; b < transport.ranks(); ++b) points.push_back({a, b, none, none, none});
  }
  const std::int64_t bytes = settings.message_bytes;
  for (std::int64_t round = 0; round < kTries * settings.rounds; ++round) {
    for (PairPoints& pair : points) {
      if (round >= settings.rounds && are_alike(pair.there.seconds(), pair.back.seconds())) continue;
      const int a = pair.first, b = pair.second;
      Status status = pair.trip.add([&](std::int64_t count) { return transport.round_trip_seconds(a, b, kSmallMessage, count); });
      if (status) status = pair.there.add([&](std::int64_t count) { return transport.message_seconds(a, b, bytes, count); });
      if (status) status = pair.back.add([&](std::int64_t count) { return transport.message_seconds(b, a, bytes, count); });
      if (!status) return status.error();
    }
  }
  std::vector<PairTime> pairs;
  for (const PairPoints& pair : points) {
    const auto a = static_cast<std::size_t>(pair.first), b = static_cast<std::size_t>(pair.second);
    const double latency = pair.trip.seconds() / 2;
    pairs.push_back({a, b, latency, static_cast<double>(bytes) / pair.there.seconds()});
    pairs.push_back({b, a, latency, static_cast<double>(bytes) / pair.back.seconds()});
  }
  return pairs;
}

// Ascending, each group too.
std::set<std::vector<int>> groups_of(const std::vector<PairTime>& pairs, int ranks, bool as_started) {
  const auto devices = static_cast<std::size_t>(ranks);
  std::vector<std::vector<double>> latency(devices, std::vector<double>(devices, 0)), bandwidth = latency;
  for (const PairTime& pair : pairs) latency[pair.from][pair.to] = pair.latency_seconds, bandwidth[pair.from][pair.to] = pair.bytes_per_second;
  std::set<std::vector<int>> groups;
  const Result<LinkMatrix> links = make_link_matrix(latency, bandwidth, as_started ? Directions::slower : Directions::alike);
  Result<Hierarchy> hierarchy = links ? find_hierarchy(*links) : Result<Hierarchy>(links.error());
  if (as_started && links) hierarchy = hierarchy_as_started(*links, hierarchy, 0).hierarchy;
  std::vector<GroupLevel> levels = {{devices, false}};
  if (hierarchy) levels.insert(levels.end(), hierarchy->levels.begin(), hierarchy->levels.end());
  for (const GroupLevel& level : levels) {
    for (std::size_t first = 0; first < devices; first += level.group) {
      std::vector<int> group;
      for (std::size_t place = first; place < first + level.group; ++place) group.push_back(static_cast<int>(hierarchy ? hierarchy->order[place] : place));
      std::ranges::sort(group);
      groups.insert(std::move(group));
    }
  }
  return groups;
}

std::string shortest_text(double number) {
  std::array<char, 32> digits{};
  return {digits.data(), std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr};
}

}  // namespace

Result<MeasuredLinks> measure_links(Transport& transport, const MeasureSettings& settings) {
  const int ranks = transport.ranks();
  if (ranks < 2) {
    return bad_input("one rank alone has no links to measure: start one for each device, with MPI as in `mpirun -n 8 meshwright detect -o cluster.toml`, with NCCL or gloo as in " +
                     std::string("`torchrun --nproc-per-node 8 -m meshwright.detect -o cluster.toml`; or name recorded measurements with --from FILE (docs/configuration.md)"));
  }
  if (static_cast<std::size_t>(ranks) > kMostMeasured) {
    return bad_input("there are " + std::to_string(ranks) + " ranks, and links are measured among at most " + std::to_string(kMostMeasured));
  }
  Result<std::vector<PairTime>> pairs = measure_pairs(transport, settings);
  if (!pairs) return pairs.error();
  MeasuredLinks links = {std::move(*pairs), {}};
  std::set<std::int64_t> sizes(std::begin(kAllReduces), std::end(kAllReduces));
  sizes.insert(settings.message_bytes / 4 * 4);
  for (const std::vector<int>& group : groups_of(links.pairs, ranks, settings.as_started)) {
    for (const std::int64_t bytes : sizes) {
      Point point(settings.point_seconds / static_cast<double>(settings.rounds), settings.rounds);
      Status status = point.add_all([&](std::int64_t count) { return transport.all_reduce_seconds(group, bytes, count); });
      if (!status) return status.error();
      links.groups.push_back({{group.begin(), group.end()}, static_cast<double>(bytes), point.seconds()});
    }
  }
  return links;
}

std::string recorded_text(const MeasuredLinks& links) {
  std::string text = "a,b,latency_s,bandwidth_Bps\n";
  for (const PairTime& pair : links.pairs) {
    text += std::to_string(pair.from) + "," + std::to_string(pair.to) + "," + shortest_text(pair.latency_seconds) + "," + shortest_text(pair.bytes_per_second) + "\n";
  }
  text += "group,bytes,seconds\n";
  for (const GroupTime& time : links.groups) {
    std::string group;
    for (const std::size_t device : time.devices) group += (group.empty() ? "" : " ") + std::to_string(device);
    text += group + "," + shortest_text(time.bytes) + "," + shortest_text(time.seconds) + "\n";
  }
  return text;
}

}  // namespace meshwright
