#include "files/iopddl_reader.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <optional>
#include <unordered_map>

#include "files/input_file.h"
#include "files/json.h"

namespace meshwright::host {

namespace {

// [[1, 2], [3], ...]
struct Rows {
  std::vector<std::int64_t> values;
  std::vector<std::size_t> ends;
  bool seen = false;

  [[nodiscard]] std::size_t size() const { return ends.size(); }
  [[nodiscard]] std::span<const std::int64_t> operator[](std::size_t row) const {
    const std::size_t begin = row == 0 ? 0 : ends[row - 1];
    return std::span(values).subspan(begin, ends[row] - begin);
  }
};

enum List : std::uint8_t { kIntervals, kNodeCosts, kUsages, kEdgeNodes, kEdgeCosts, kLists };
constexpr std::array<std::string_view, kLists> kPaths = {"problem.nodes.intervals", "problem.nodes.costs",
                                                         "problem.nodes.usages", "problem.edges.nodes",
                                                         "problem.edges.costs"};
constexpr std::string_view kLimitPath = "problem.usage_limit";

// Collects the lists, and skips what it does not know.
class Collector final : public JsonEvents {
 public:
  std::array<Rows, kLists> lists;
  std::optional<std::int64_t> limit;
  std::string problem;

  bool number(std::int64_t value) override {
    if (list_ != nullptr && arrays_ == 2) {
      list_->values.push_back(value);
      return true;
    }
    if (list_ != nullptr) return fail("a number where a list of numbers is wanted");
    if (arrays_ == 0 && path() == kLimitPath) limit = value;
    return true;
  }
  bool other(std::string_view what) override {
    if (list_ != nullptr || (arrays_ == 0 && path() == kLimitPath)) {
      return fail(std::string(what) + " where whole numbers are wanted");
    }
    return true;
  }
  bool start_object() override {
    if (list_ != nullptr) return fail("an object where whole numbers are wanted");
    keys_.emplace_back();
    outer_arrays_.push_back(arrays_);
    arrays_ = 0;
    return true;
  }
  bool key(std::string_view key) override {
    keys_.back() = key;
    return true;
  }
  bool end_object() override {
    keys_.pop_back();
    arrays_ = outer_arrays_.back();
    outer_arrays_.pop_back();
    return true;
  }
  bool start_array() override {
    ++arrays_;
    if (arrays_ == 1) {
      const auto known = std::find(kPaths.begin(), kPaths.end(), path());
      if (known == kPaths.end()) return true;
      list_ = &lists[static_cast<std::size_t>(known - kPaths.begin())];
      if (list_->seen) return fail("it is there twice");
      list_->seen = true;
    }
    if (list_ != nullptr && arrays_ > 2) return fail("lists are nested three deep; two are wanted");
    return true;
  }
  bool end_array() override {
    if (list_ != nullptr && arrays_ == 2) list_->ends.push_back(list_->values.size());
    if (--arrays_ == 0) list_ = nullptr;
    return true;
  }

 private:
  // Empty inside of an array.
  [[nodiscard]] std::string path() const {
    std::string result;
    for (std::size_t i = 0; i < keys_.size(); ++i) {
      if (outer_arrays_[i] > 0) return "";
      result += (i > 0 ? "." : "") + keys_[i];
    }
    return result;
  }
  bool fail(const std::string& what) {
    problem = path() + (list_ != nullptr ? "[" + std::to_string(list_->size()) + "]" : "") + ": " + what;
    return false;
  }

  std::vector<std::string> keys_;
  std::vector<int> outer_arrays_;
  int arrays_ = 0;  // that are open in the innermost object
  Rows* list_ = nullptr;
};

std::string at(List list, std::size_t row) { return std::string(kPaths[list]) + "[" + std::to_string(row) + "]: "; }

class Builder {
 public:
  explicit Builder(const Collector& read) : read_(read) {}

  Result<IopddlProblem> build() {
    if (Status status = check_lists(); !status) return status.error();
    if (Status status = add_nodes(); !status) return status.error();
    if (Status status = add_edges(); !status) return status.error();
    if (*read_.limit < 0) return bad_input("problem.usage_limit: it is negative");
    result_.usage_limit = *read_.limit;
    if (Status status = validate(result_.space); !status) return status.error();
    return std::move(result_);
  }

 private:
  Status check_lists() const {
    for (std::size_t list = 0; list < kLists; ++list) {
      if (!read_.lists[list].seen) return bad_input(std::string(kPaths[list]) + " is missing: a list of lists of numbers");
    }
    if (!read_.limit) return bad_input("problem.usage_limit is missing: a number");
    if (Status status = same_size(kNodeCosts, kIntervals); !status) return status;
    if (Status status = same_size(kNodeCosts, kUsages); !status) return status;
    return same_size(kEdgeNodes, kEdgeCosts);
  }

  Status same_size(List a, List b) const {
    const std::size_t of_a = read_.lists[a].size();
    const std::size_t of_b = read_.lists[b].size();
    if (of_a == of_b) return Done{};
    return bad_input(std::string(kPaths[a]) + " has " + std::to_string(of_a) + " entries and " + std::string(kPaths[b]) +
                     " has " + std::to_string(of_b) + "; they must have as many");
  }

  Status add_nodes() {
    constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
    for (std::size_t id = 0; id < read_.lists[kNodeCosts].size(); ++id) {
      const auto costs = read_.lists[kNodeCosts][id];
      const auto usages = read_.lists[kUsages][id];
      const auto interval = read_.lists[kIntervals][id];
      if (costs.empty()) return bad_input(at(kNodeCosts, id) + "a node needs at least one cost");
      if (usages.size() != costs.size()) {
        return bad_input(at(kUsages, id) + std::to_string(usages.size()) + " usages for " +
                         std::to_string(costs.size()) + " costs; they must be as many");
      }
      if (interval.size() != 2) return bad_input(at(kIntervals, id) + "an interval is two numbers");
      if (interval[0] < 0 || interval[1] > kMost) {
        return bad_input(at(kIntervals, id) + "times must be from 0 to " + std::to_string(kMost));
      }
      if (std::any_of(costs.begin(), costs.end(), [](auto cost) { return cost < 0; })) {
        return bad_input(at(kNodeCosts, id) + "a cost is negative");
      }
      if (std::any_of(usages.begin(), usages.end(), [](auto usage) { return usage < 0; })) {
        return bad_input(at(kUsages, id) + "a usage is negative");
      }
      result_.space.nodes.push_back({std::to_string(id), {costs.begin(), costs.end()}});
      if (interval[0] >= interval[1]) continue;
      result_.space.memory.push_back({static_cast<std::uint32_t>(id), static_cast<std::int32_t>(interval[0]),
                                      static_cast<std::int32_t>(interval[1]), {usages.begin(), usages.end()}});
    }
    return Done{};
  }

  Status add_edges() {
    std::vector<SpaceNode>& nodes = result_.space.nodes;
    for (std::size_t id = 0; id < read_.lists[kEdgeNodes].size(); ++id) {
      const auto ends = read_.lists[kEdgeNodes][id];
      const auto costs = read_.lists[kEdgeCosts][id];
      if (ends.size() != 2) return bad_input(at(kEdgeNodes, id) + "an edge joins two nodes");
      for (const std::int64_t end : ends) {
        if (end >= 0 && end < static_cast<std::int64_t>(nodes.size())) continue;
        return bad_input(at(kEdgeNodes, id) + "there is no node " + std::to_string(end) + "; nodes are 0 to " +
                         std::to_string(static_cast<std::int64_t>(nodes.size()) - 1));
      }
      const auto from = static_cast<std::uint32_t>(ends[0]);
      const auto to = static_cast<std::uint32_t>(ends[1]);
      const std::size_t rows = nodes[from].costs.size();
      const std::size_t columns = nodes[to].costs.size();
      if (costs.size() != rows * columns) {
        return bad_input(at(kEdgeCosts, id) + std::to_string(costs.size()) + " costs for " + std::to_string(rows) +
                         " rows and " + std::to_string(columns) + " columns; it must be their product");
      }
      if (std::any_of(costs.begin(), costs.end(), [](auto cost) { return cost < 0; })) {
        return bad_input(at(kEdgeCosts, id) + "a cost is negative");
      }
      if (from == to) {
        for (std::size_t s = 0; s < rows; ++s) {
          Ticks& cost = nodes[from].costs[s];
          cost = std::min(kForbidden, cost) + std::min(kForbidden, costs[s * columns + s]);
        }
      } else {
        result_.space.edges.push_back({from, to, intern(rows, columns, costs)});
      }
    }
    return Done{};
  }

  std::uint32_t intern(std::size_t rows, std::size_t columns, std::span<const std::int64_t> costs) {
    std::uint64_t hash = (static_cast<std::uint64_t>(rows) << 32) ^ columns;
    for (const std::int64_t cost : costs) hash = (hash ^ static_cast<std::uint64_t>(cost)) * 0xff51afd7ed558ccdULL ^ (hash >> 29);
    std::vector<CostTable>& tables = result_.space.tables;
    const auto [begin, end] = by_hash_.equal_range(hash);
    for (auto known = begin; known != end; ++known) {
      const CostTable& table = tables[known->second];
      if (table.rows == rows && table.columns == columns && std::equal(costs.begin(), costs.end(), table.costs.begin())) {
        return known->second;
      }
    }
    const auto id = static_cast<std::uint32_t>(tables.size());
    by_hash_.emplace(hash, id);
    tables.push_back({static_cast<std::uint32_t>(rows), static_cast<std::uint32_t>(columns), {costs.begin(), costs.end()}});
    return id;
  }

  const Collector& read_;
  IopddlProblem result_;
  std::unordered_multimap<std::uint64_t, std::uint32_t> by_hash_;
};

}  // namespace

Result<IopddlProblem> parse_iopddl(std::string_view text, const std::string& name) {
  Collector read;
  if (Status status = scan_json(text, name, read); !status) return status.error();
  if (!read.problem.empty()) return bad_input(name + ": " + read.problem);
  Result<IopddlProblem> result = Builder(read).build();
  if (!result) return add_context(name, result.error());
  return result;
}

Result<IopddlProblem> read_iopddl(const std::string& path) {
  if (Status status = check_regular(path); !status) return status.error();
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) return bad_input(path + ": can't be opened: " + std::strerror(errno));
  const std::streamoff size = file.tellg();
  if (size < 0 || std::filesystem::is_directory(path)) return bad_input(path + ": is not a file");
  std::string text(static_cast<std::size_t>(size), '\0');
  file.seekg(0);
  if (!file.read(text.data(), size)) return bad_input(path + ": can't be read: " + std::strerror(errno));
  if (text.starts_with("\x1f\x8b")) return bad_input(path + ": it is compressed; unpack it with gunzip first");
  return parse_iopddl(text, path);
}

}  // namespace meshwright::host
