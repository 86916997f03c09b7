#include "files/pipedream_profile.h"

#include <array>
#include <charconv>
#include <map>
#include <optional>
#include <string>
#include <utility>

namespace meshwright::host {

namespace {

constexpr std::string_view kBetween = " -- ";
constexpr double kMostProfileNumber = 1e30;
constexpr std::array<std::string_view, 4> kProfileKeys = {"forward_compute_time", "backward_compute_time",
                                                          "activation_size", "parameter_size"};

struct ProfileNode {
  ReplicaNode node;
  bool input = false;  // by its description
  bool item = false;
  bool dropped = false;
};

std::string_view trimmed(std::string_view text) {
  const auto blank = [](char c) { return c == ' ' || c == '\t' || c == '\r'; };
  while (!text.empty() && blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && blank(text.back())) text.remove_suffix(1);
  return text;
}

std::optional<double> number_of(std::string_view text) {
  text = trimmed(text);
  double value = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failure != std::errc() || end != text.data() + text.size()) return std::nullopt;
  if (!(value >= 0 && value <= kMostProfileNumber)) return std::nullopt;
  return value;
}

// A number, or the sum of "[1.0; 2.0]".
std::optional<double> sum_of(std::string_view text) {
  text = trimmed(text);
  if (!text.starts_with('[')) return number_of(text);
  if (!text.ends_with(']')) return std::nullopt;
  text = text.substr(1, text.size() - 2);
  double sum = 0;
  for (;;) {
    const std::size_t end = text.find(';');
    const std::optional<double> value = number_of(text.substr(0, end));
    if (!value) return std::nullopt;
    sum += *value;
    if (end == std::string_view::npos) return sum;
    text.remove_prefix(end + 1);
  }
}

class ProfileParser {
 public:
  Result<ReplicaProblem> parse(std::string_view text) {
    for (; !text.empty(); ++line_) {
      const std::size_t end = text.find('\n');
      const std::string_view line = text.substr(0, end);
      text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
      if (trimmed(line).empty()) continue;
      if (Status status = line.starts_with('\t') ? add_edge(line) : add_node(line); !status) return status.error();
    }
    return build();
  }

 private:
  Error fail(const std::string& what) const { return bad_input("line " + std::to_string(line_) + ": " + what); }

  Status add_node(std::string_view line) {
    const std::size_t first = line.find(kBetween);
    const std::size_t second = first == std::string_view::npos ? first : line.find(kBetween, first + kBetween.size());
    if (second == std::string_view::npos) {
      return fail("a node is written as \"ID -- DESCRIPTION -- forward_compute_time=..., ...\", and an edge begins with a tab");
    }
    const std::string id(trimmed(line.substr(0, first)));
    const std::string_view description = trimmed(line.substr(first + kBetween.size(), second - first - kBetween.size()));
    std::string_view values = line.substr(second + kBetween.size());
    values = values.substr(0, values.find(kBetween));
    std::array<double, kProfileKeys.size()> found{};
    for (std::size_t i = 0; i < kProfileKeys.size(); ++i) {
      const std::size_t end = values.find(',');
      const std::string_view entry = trimmed(values.substr(0, end));
      values.remove_prefix(end == std::string_view::npos ? values.size() : end + 1);
      const std::size_t equals = entry.find('=');
      if (equals == std::string_view::npos || trimmed(entry.substr(0, equals)) != kProfileKeys[i]) {
        return fail("expected " + std::string(kProfileKeys[i]) + "=NUMBER in its place behind the description");
      }
      const std::optional<double> value = sum_of(entry.substr(equals + 1));
      if (!value) return fail(std::string(kProfileKeys[i]) + " must be a number from 0 to 1e30, or a list of them, [1.0; 2.0]");
      found[i] = *value;
    }
    if (!trimmed(values).empty()) return fail("there is more behind " + std::string(kProfileKeys.back()));
    if (!ids_.emplace(id, nodes_.size()).second) return fail("the node " + id + " is there twice; each needs an id of its own");
    constexpr double kMilliseconds = 1e-3;
    nodes_.push_back({{id, (found[0] + found[1]) * kMilliseconds, found[2], found[3]},
                      description.starts_with("Input"), description.starts_with("__getitem__"), false});
    return Done{};
  }

  Status add_edge(std::string_view line) {
    const std::size_t between = line.find(kBetween);
    if (between == std::string_view::npos) return fail("an edge is written as a tab and \"ID -- ID\"");
    std::array<std::uint32_t, 2> ends{};
    const std::array<std::string_view, 2> names = {trimmed(line.substr(0, between)), trimmed(line.substr(between + kBetween.size()))};
    for (std::size_t i = 0; i < 2; ++i) {
      const auto known = ids_.find(std::string(names[i]));
      if (known == ids_.end()) return fail("there is no node " + std::string(names[i]) + "; edges stand behind all nodes");
      ends[i] = static_cast<std::uint32_t>(known->second);
    }
    edges_.push_back({ends[0], ends[1]});
    return Done{};
  }

  // What is fed in costs nothing wherever it is; what is taken out of a tuple and not read is no work.
  void drop_unplaced() {
    std::vector<bool> reads(nodes_.size(), false), read(nodes_.size(), false);
    for (const PlacementEdge& edge : edges_) reads[edge.to] = true;
    for (std::size_t i = 0; i < nodes_.size(); ++i) nodes_[i].dropped = nodes_[i].input && !reads[i];
    for (const PlacementEdge& edge : edges_) {
      if (!nodes_[edge.from].dropped) read[edge.from] = true;
    }
    for (std::size_t i = 0; i < nodes_.size(); ++i) nodes_[i].dropped |= nodes_[i].item && !read[i];
  }

  Result<ReplicaProblem> build() {
    drop_unplaced();
    ReplicaProblem problem;
    std::vector<std::uint32_t> number(nodes_.size(), 0);
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      number[i] = static_cast<std::uint32_t>(problem.nodes.size());
      if (!nodes_[i].dropped) problem.nodes.push_back(nodes_[i].node);
    }
    if (problem.nodes.empty()) return bad_input("it has no nodes but inputs, so there is nothing to place");
    for (const PlacementEdge& edge : edges_) {
      if (!nodes_[edge.from].dropped && !nodes_[edge.to].dropped) problem.edges.push_back({number[edge.from], number[edge.to]});
    }
    return problem;
  }

  std::size_t line_ = 1;
  std::vector<ProfileNode> nodes_;
  std::map<std::string, std::size_t> ids_;
  std::vector<PlacementEdge> edges_;
};

}  // namespace

Result<ReplicaProblem> parse_pipedream_profile(std::string_view text) { return ProfileParser().parse(text); }

}  // namespace meshwright::host
