#include "files/placement_reader.h"

#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include "files/input_file.h"
#include "files/json_place.h"
#include "files/pipedream_profile.h"

namespace meshwright::host {

namespace {

constexpr double kMostCost = 1e30;
constexpr double kSameCost = 1e-6;
constexpr std::int64_t kLargestId = std::numeric_limits<std::int64_t>::max();
constexpr std::uintmax_t kMostFileBytes = std::uintmax_t{1} << 30;

double cost_at(const JsonPlace& place) { return place.number(0, kMostCost); }

// true, false, 0 or 1.
bool flag_at(const JsonPlace& place) {
  if (std::holds_alternative<bool>(place.value())) return place.boolean();
  return place.integer(0, 1) == 1;
}

// Nodes by the ids of the file.
class NodeIds {
 public:
  // The text of the node's id, which must be new.
  std::string add(const JsonPlace& node) {
    const std::int64_t id = node.at("id").integer(-kLargestId, kLargestId);
    const auto number = static_cast<std::uint32_t>(numbers_.size());
    if (!numbers_.emplace(id, number).second) node.fail("there is another node with id " + std::to_string(id));
    return std::to_string(id);
  }
  std::uint32_t find(const JsonPlace& place) const {
    const std::int64_t id = place.integer();
    const auto known = numbers_.find(id);
    if (known != numbers_.end()) return known->second;
    place.fail("there is no node with id " + std::to_string(id));
    return 0;
  }
  // By the id as a key of an object.
  [[nodiscard]] std::optional<std::uint32_t> find(const std::string& key) const {
    std::int64_t id = 0;
    const auto [end, failure] = std::from_chars(key.data(), key.data() + key.size(), id);
    if (failure != std::errc() || end != key.data() + key.size()) return std::nullopt;
    const auto known = numbers_.find(id);
    return known == numbers_.end() ? std::nullopt : std::optional(known->second);
  }

 private:
  std::map<std::int64_t, std::uint32_t> numbers_;
};

class LoadReader {
 public:
  LoadProblem read(const JsonPlace& file) {
    problem_.accelerators = static_cast<std::uint32_t>(file.at("maxFPGAs").integer(0, kMostPlacementDevices));
    problem_.hosts = static_cast<std::uint32_t>(file.at("maxCPUs").integer(0, kMostPlacementDevices));
    problem_.accelerator_bytes = cost_at(file.at("maxSizePerFPGA"));
    for (const JsonPlace& node : file.at("nodes").elements()) add_node(node);
    transfer_.resize(problem_.nodes.size());
    for (const JsonPlace& edge : file.at("edges").elements()) {
      if (edge.failed()) break;
      add_edge(edge);
    }
    return std::move(problem_);
  }

 private:
  void add_node(const JsonPlace& place) {
    LoadNode node;
    node.name = ids_.add(place);
    node.accelerator_seconds = cost_at(place.at("fpgaLatency"));
    node.host_seconds = cost_at(place.at("cpuLatency"));
    if (const auto size = place.find("size")) node.memory_bytes = cost_at(*size);
    node.accelerator = flag_at(place.at("supportedOnFpga"));
    node.backward = flag_at(place.at("isBackwardNode"));
    const auto color = place.find("colorClass");
    node.group = color && !color->is_null() ? group_of(color->integer()) : next_group_++;
    problem_.nodes.push_back(std::move(node));
  }

  std::uint32_t group_of(std::int64_t color) {
    const auto [known, is_new] = groups_.emplace(color, next_group_);
    if (is_new) ++next_group_;
    return known->second;
  }

  void add_edge(const JsonPlace& place) {
    const std::uint32_t from = ids_.find(place.at("sourceId"));
    const std::uint32_t to = ids_.find(place.at("destId"));
    const double cost = cost_at(place.at("cost"));
    if (place.failed()) return;
    if (problem_.nodes[from].backward && !problem_.nodes[to].backward) {
      return place.fail("it leads from a backward node to a forward one; only the other way is possible");
    }
    std::optional<double>& known = transfer_[from];
    if (known && std::abs(*known - cost) > kSameCost) {
      return place.fail("edges of node " + problem_.nodes[from].name + " have different costs; what a node makes is one value, with one cost");
    }
    if (!known) problem_.nodes[from].transfer_seconds = cost;
    known = known.value_or(cost);
    problem_.edges.push_back({from, to});
  }

  LoadProblem problem_;
  NodeIds ids_;
  std::map<std::int64_t, std::uint32_t> groups_;
  std::uint32_t next_group_ = 0;
  std::vector<std::optional<double>> transfer_;
};

class LayerReader {
 public:
  LayerProblem read(const JsonPlace& file) {
    problem_.devices = static_cast<std::uint32_t>(file.at("maxDevices").integer(1, kMostPlacementDevices));
    problem_.samples = static_cast<std::uint32_t>(file.at("mbsInBatch").integer(1, kMostPlacementDevices));
    problem_.device_bytes = cost_at(file.at("maxMemoryPerDevice"));
    problem_.bytes_per_second = cost_at(file.at("bandwidth"));
    const std::vector<JsonPlace> nodes = file.at("nodes").elements();
    for (const JsonPlace& node : nodes) problem_.nodes.push_back({ids_.add(node), {}});
    inputs_.resize(nodes.size());
    outputs_.resize(nodes.size());
    for (const JsonPlace& edge : file.at("edges").elements()) {
      if (edge.failed()) break;
      add_edge(edge);
    }
    for (std::uint32_t node = 0; node < nodes.size() && !file.failed(); ++node) add_degrees(nodes[node], node);
    return std::move(problem_);
  }

 private:
  void add_edge(const JsonPlace& place) {
    const std::uint32_t from = ids_.find(place.at("sourceId"));
    const std::uint32_t to = ids_.find(place.at("destId"));
    const double bytes = cost_at(place.at("communicationCost"));
    if (place.failed()) return;
    if (!seen_.emplace(from, to).second) return place.fail("there is another edge between these two nodes; add up their costs");
    problem_.edges.push_back({from, to, bytes});
    outputs_[from].push_back(to);
    inputs_[to].push_back(from);
  }

  void add_degrees(const JsonPlace& place, std::uint32_t node) {
    std::map<std::uint32_t, JsonPlace> degrees;
    for (const auto& [key, variants] : place.at("TMPCs").members()) {
      std::uint32_t degree = 0;
      const auto [end, failure] = std::from_chars(key.data(), key.data() + key.size(), degree);
      const bool whole = failure == std::errc() && end == key.data() + key.size() && degree >= 1;
      if (!whole || degree > kMostPlacementDevices) return variants.fail("the key must be a number of devices, from 1 to " + std::to_string(kMostPlacementDevices));
      if (!degrees.emplace(degree, variants).second) return variants.fail("there is another entry for so many devices");
    }
    for (const auto& [degree, variants] : degrees) {
      LayerDegree added{degree, {}};
      for (const JsonPlace& variant : variants.elements()) added.variants.push_back(variant_at(variant, node));
      problem_.nodes[node].degrees.push_back(std::move(added));
    }
  }

  LayerVariant variant_at(const JsonPlace& place, std::uint32_t node) const {
    LayerVariant variant;
    variant.name = place.at("id").text();
    variant.seconds = cost_at(place.at("timePerSample"));
    variant.parameter_bytes = cost_at(place.at("parameterSize"));
    variant.bytes_per_stage_in_flight = cost_at(place.at("memoryUsageA"));
    variant.fixed_bytes = cost_at(place.at("memoryUsageB"));
    variant.input_bytes = edge_bytes(place.at("syncTimeFw"), inputs_[node]);
    variant.output_bytes = edge_bytes(place.at("syncTimeBw"), outputs_[node]);
    return variant;
  }

  // One entry for each of `neighbours`, by its id, and no other.
  [[nodiscard]] std::vector<double> edge_bytes(const JsonPlace& place, const std::vector<std::uint32_t>& neighbours) const {
    std::map<std::uint32_t, double> bytes;
    for (const auto& [key, value] : place.members()) {
      const std::optional<std::uint32_t> other = ids_.find(key);
      if (!other) value.fail("there is no node with this id");
      if (other) bytes.emplace(*other, cost_at(value));
    }
    std::vector<double> result;
    for (const std::uint32_t neighbour : neighbours) {
      const auto known = bytes.find(neighbour);
      if (known == bytes.end()) place.fail("the entry for node " + problem_.nodes[neighbour].name + " is missing, to which there is an edge");
      result.push_back(known == bytes.end() ? 0 : known->second);
    }
    if (bytes.size() > neighbours.size()) place.fail("it has an entry for a node to which there is no edge");
    return result;
  }

  LayerProblem problem_;
  NodeIds ids_;
  std::vector<std::vector<std::uint32_t>> inputs_, outputs_;  // neighbours by node, in the order of edges
  std::set<std::pair<std::uint32_t, std::uint32_t>> seen_;
};

Result<PlacementProblem> parse_json_problem(std::string_view text) {
  const Result<Json> json = parse_json(text, "the JSON");
  if (!json) return json.error();
  std::optional<std::string> problem;
  const JsonPlace file(*json, problem);
  PlacementProblem result;
  if (json->find("maxFPGAs") != nullptr) {
    result = LoadReader().read(file);
  } else if (json->find("maxDevices") != nullptr) {
    result = LayerReader().read(file);
  } else {
    return bad_input("it is JSON with neither \"maxFPGAs\" (Tarnawski et al. 2020) nor \"maxDevices\" (Piper), so it is no placement problem that is known");
  }
  if (problem) return bad_input(*problem);
  return result;
}

Error useless(std::string_view option, std::string_view why) {
  return bad_input(std::string(option) + " has no use here, since " + std::string(why) + "; leave it out");
}

Status apply(const PlacementSettings& settings, LoadProblem& problem) {
  if (settings.bytes_per_second) return useless("--bandwidth", "the file has its transfers in seconds");
  problem.accelerators = settings.devices.value_or(problem.accelerators);
  if (settings.device_bytes) problem.accelerator_bytes = static_cast<double>(*settings.device_bytes);
  return Done{};
}

Status apply(const PlacementSettings& settings, LayerProblem& problem) {
  problem.devices = settings.devices.value_or(problem.devices);
  if (settings.device_bytes) problem.device_bytes = static_cast<double>(*settings.device_bytes);
  if (settings.bytes_per_second) problem.bytes_per_second = static_cast<double>(*settings.bytes_per_second);
  return Done{};
}

Status apply(const PlacementSettings& settings, ReplicaProblem& problem) {
  if (settings.device_bytes) return useless("--memory", "PipeDream's stages are not held against a memory");
  if (!settings.devices) return bad_input("a profile does not say how many devices there are; add --devices N");
  problem.devices = *settings.devices;
  problem.bytes_per_second = settings.bytes_per_second ? static_cast<double>(*settings.bytes_per_second) : kProfileBytesPerSecond;
  return Done{};
}

// No file has one: Alpa's and DAPPLE's problems are made of models.
Status apply(const PlacementSettings&, StepProblem&) { return bad_input("it is a problem of a step, which no format of a file has; take a model with [search] inter"); }

Status apply(const PlacementSettings&, MenuProblem&) { return bad_input("it is a problem of menus, which no format of a file has; take a model with [search] inter"); }

Result<PlacementProblem> parse_any(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos) return bad_input("the file is empty");
  if (text[first] == '{' || text[first] == '[') return parse_json_problem(text);
  Result<ReplicaProblem> profile = parse_pipedream_profile(text);
  if (!profile) return profile.error();
  return PlacementProblem(std::move(*profile));
}

}  // namespace

Result<PlacementProblem> parse_placement(std::string_view text, const std::string& name, const PlacementSettings& settings) {
  Result<PlacementProblem> problem = parse_any(text);
  if (!problem) return add_context(name, problem.error());
  const Status applied = std::visit([&](auto& one) { return apply(settings, one); }, *problem);
  if (!applied) return add_context(name, applied.error());
  if (Status status = validate(*problem); !status) return add_context(name, status.error());
  return problem;
}

Result<PlacementProblem> read_placement(const std::string& path, const PlacementSettings& settings) {
  if (Status status = check_regular(path); !status) return status.error();
  std::error_code failure;
  const std::uintmax_t size = std::filesystem::file_size(path, failure);
  std::ifstream file(path, std::ios::binary);
  if (failure || !file) return bad_input(path + ": can't be opened: " + (failure ? failure.message() : std::strerror(errno)));
  if (size > kMostFileBytes) return bad_input(path + ": it is larger than 1 GiB; a placement problem is not");
  std::string text(static_cast<std::size_t>(size), '\0');
  if (!file.read(text.data(), static_cast<std::streamsize>(size))) return bad_input(path + ": can't be read");
  return parse_placement(text, path, settings);
}

}  // namespace meshwright::host
