#include "recorded_links.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <map>
#include <optional>

#include "foreign_text.h"

namespace meshwright {

namespace {

constexpr std::size_t kMostShown = 40;  // bytes of a cell in a message
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r";
  const std::size_t first = text.find_first_not_of(kBlank);
  return first == std::string_view::npos ? std::string_view() : text.substr(first, text.find_last_not_of(kBlank) - first + 1);
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> cells;
  while (true) {
    const std::size_t end = text.find(separator);
    cells.push_back(trimmed(text.substr(0, end)));
    if (end == std::string_view::npos) return cells;
    text.remove_prefix(end + 1);
  }
}

std::string shown(std::string_view cell) { return "'" + message_line(cell, kMostShown) + "'"; }

template <class Number>
std::optional<Number> number(std::string_view cell) {
  Number value{};
  const auto [end, error] = std::from_chars(cell.data(), cell.data() + cell.size(), value);
  if (error != std::errc() || end != cell.data() + cell.size()) return std::nullopt;
  return value;
}

using Columns = std::vector<std::string_view>;
const Columns kPairColumns = {"a", "b", "latency_s", "bandwidth_Bps"}, kGroupColumns = {"group", "bytes", "seconds"};

// At which place of a row each of these columns is; none if the row does not name them.
std::optional<std::vector<std::size_t>> places(const Columns& columns, const std::vector<std::string_view>& cells) {
  if (cells.size() != columns.size()) return std::nullopt;
  std::vector<std::size_t> found;
  for (const std::string_view column : columns) {
    const auto cell = std::ranges::find(cells, column);
    if (cell == cells.end()) return std::nullopt;
    found.push_back(static_cast<std::size_t>(cell - cells.begin()));
  }
  return found;
}

class Reader {
 public:
  Reader(const std::string& where, Directions directions) : where_(where), directions_(directions) {}

  Status read(std::string_view text) {
    for (line_ = 1; !text.empty(); ++line_) {
      const std::size_t end = text.find('\n');
      const std::string_view line = trimmed(text.substr(0, end));
      text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
      if (line.empty() || line[0] == '#') continue;
      if (Status status = read_line(split(line, ',')); !status) return status;
    }
    return Done{};
  }

  Result<RecordedLinks> finish() {
    if (pairs_.empty()) return bad_input(where_ + ": no pair was measured; a line 'a,b,latency_s,bandwidth_Bps' begins the table of pairs");
    std::vector<std::vector<double>> latency(devices_, std::vector<double>(devices_, kNaN)), bandwidth = latency;
    for (const auto& [pair, measured] : pairs_) {
      latency[pair.first][pair.second] = median(measured.latency_seconds);
      bandwidth[pair.first][pair.second] = median(measured.bytes_per_second);
    }
    for (std::size_t a = 0; a < devices_; ++a) {
      for (std::size_t b = a + 1; b < devices_; ++b) {
        const bool there = pairs_.contains({a, b}), back = pairs_.contains({b, a});
        if (!there && !back) {
          return bad_input(where_ + ": devices " + std::to_string(a) + " and " + std::to_string(b) + " were not measured, but each pair of the " + std::to_string(devices_) + " devices must be there");
        }
        for (auto* matrix : {&latency, &bandwidth}) {
          if (!there) (*matrix)[a][b] = (*matrix)[b][a];
          if (!back) (*matrix)[b][a] = (*matrix)[a][b];
        }
      }
    }
    Result<LinkMatrix> links = make_link_matrix(latency, bandwidth, directions_);
    if (!links) return add_context(where_, links.error());
    for (const auto& [line, group] : groups_) {
      if (group.devices.back() >= devices_) return bad_input(at(line) + "no pair has device " + std::to_string(group.devices.back()));
    }
    RecordedLinks recorded = {std::move(*links)};
    for (auto& [line, group] : groups_) recorded.groups.push_back(std::move(group));
    return recorded;
  }

 private:
  struct Measured {
    std::vector<double> latency_seconds, bytes_per_second;
  };
  enum class Table { none, pairs, groups };

  [[nodiscard]] std::string at(std::size_t line) const { return where_ + ":" + std::to_string(line) + ": "; }

  Status read_line(const std::vector<std::string_view>& cells) {
    for (const auto& [table, columns] : {std::pair(Table::pairs, &kPairColumns), std::pair(Table::groups, &kGroupColumns)}) {
      if (auto found = places(*columns, cells)) {
        table_ = table;
        places_ = std::move(*found);
        return Done{};
      }
    }
    if (table_ == Table::none) return bad_input(at(line_) + "the first line must name the columns: a,b,latency_s,bandwidth_Bps of pairs, or group,bytes,seconds of groups");
    if (cells.size() != places_.size()) return bad_input(at(line_) + std::to_string(cells.size()) + " cells, but " + std::to_string(places_.size()) + " columns");
    return table_ == Table::pairs ? read_pair(cells) : read_group(cells);
  }

  Result<std::size_t> device(std::string_view cell) const {
    const auto index = number<std::size_t>(cell);
    if (index && *index < kMostMeasured) return *index;
    return bad_input(at(line_) + shown(cell) + " is no device: they are numbered from 0, and at most " + std::to_string(kMostMeasured) + " are supported");
  }

  // More than 0 and finite, or 0 where that is allowed.
  Result<double> figure(std::string_view cell, const char* column, bool or_zero) const {
    const auto value = number<double>(cell);
    if (value && std::isfinite(*value) && (*value > 0 || (or_zero && *value == 0))) return *value;
    return bad_input(at(line_) + column + " is " + shown(cell) + ", but must be a number that is " + (or_zero ? "not negative" : "more than 0"));
  }

  Status read_pair(const std::vector<std::string_view>& cells) {
    const Result<std::size_t> a = device(cells[places_[0]]), b = device(cells[places_[1]]);
    if (!a) return a.error();
    if (!b) return b.error();
    if (*a == *b) return bad_input(at(line_) + "device " + std::to_string(*a) + " with itself is no pair");
    const Result<double> latency = figure(cells[places_[2]], "latency_s", true), bandwidth = figure(cells[places_[3]], "bandwidth_Bps", true);
    if (!latency) return latency.error();
    if (!bandwidth) return bandwidth.error();
    Measured& measured = pairs_[{*a, *b}];
    measured.latency_seconds.push_back(*latency);
    measured.bytes_per_second.push_back(*bandwidth);
    devices_ = std::max({devices_, *a + 1, *b + 1});
    return Done{};
  }

  Status read_group(const std::vector<std::string_view>& cells) {
    GroupTime group;
    for (const std::string_view cell : split(cells[places_[0]], ' ')) {
      if (cell.empty()) continue;
      const Result<std::size_t> index = device(cell);
      if (!index) return index.error();
      group.devices.push_back(*index);
    }
    std::ranges::sort(group.devices);
    if (std::ranges::adjacent_find(group.devices) != group.devices.end()) return bad_input(at(line_) + "the group has a device twice");
    if (group.devices.size() < 2) return bad_input(at(line_) + "a group has at least 2 devices, with blanks between them");
    const Result<double> bytes = figure(cells[places_[1]], "bytes", false), seconds = figure(cells[places_[2]], "seconds", false);
    if (!bytes) return bytes.error();
    if (!seconds) return seconds.error();
    group.bytes = *bytes;
    group.seconds = *seconds;
    groups_.emplace_back(line_, std::move(group));
    return Done{};
  }

  const std::string& where_;
  Directions directions_;
  std::size_t line_ = 0;
  Table table_ = Table::none;
  std::vector<std::size_t> places_;
  std::size_t devices_ = 0;
  std::map<std::pair<std::size_t, std::size_t>, Measured> pairs_;
  std::vector<std::pair<std::size_t, GroupTime>> groups_;
};

}  // namespace

Result<RecordedLinks> read_recorded_links(std::string_view text, const std::string& where, Directions directions) {
  Reader reader(where, directions);
  if (Status status = reader.read(text); !status) return status.error();
  return reader.finish();
}

}  // namespace meshwright
